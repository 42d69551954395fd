"""The recorded runs of DPO and IPO: complete, measured as they say, made again by one command."""

import pytest
import torch
from conftest import moved

from helpers import direct
from helpers.config import DirectConfig
from helpers.data import load_pairs
from helpers.kit import own
from helpers.lessons.without_a_reward_model import study
from helpers.lessons.without_a_reward_model.own_run import milestone
from helpers.pairs import encode_pairs
from helpers.state import start_run


def test_every_run_begins_at_the_reference_and_is_measured_to_its_end():
    for run in study.load_direct().runs:
        first, last = run.history[0], run.history[-1]
        assert first["iteration"] == 0 and last["iteration"] == run.config.iterations
        assert max(abs(first[name]) for name in ("kl", "chosen", "rejected")) < 1e-4
        assert len(run.final["texts"]) == len(run.final["prompts"])


def test_each_seed_has_pairs_of_its_own():
    texts = [{row["prompt"] + row["chosen"] for row in study.few_pairs(seed)} for seed in (0, 1)]
    assert [len(study.few_pairs(seed)) for seed in (0, 1)] == [study.FEW, study.FEW]
    assert len(texts[0] & texts[1]) < study.FEW // 10  # a text may be sampled twice


@pytest.mark.slow
def test_a_row_holds_what_its_docstring_says():
    """A policy moved by hand: nats gained on held-out pairs, by the definition."""
    (job,) = study.DirectOptions(only=["offline_0.3"], seeds=[0], iterations=1).plan()
    state = start_run(job.config)
    moved(state.models.actor)
    row = study.measure_direct(state)
    held = encode_pairs(
        state.models.tokenizer, load_pairs("data/pairs_test.jsonl", study.HELD_OUT), 24
    )
    with torch.no_grad():
        now, ref = (
            direct.sequence_logprobs(model, *held.tokens())
            for model in (state.models.actor, state.models.reference)
        )
    chosen, rejected = (now - ref).chunk(2)
    assert row["chosen"] == pytest.approx(float(chosen.mean()), abs=1e-3)
    assert row["rejected"] == pytest.approx(float(rejected.mean()), abs=1e-3)
    assert row["accuracy"] == pytest.approx(float((chosen > rejected).float().mean()), abs=0.011)
    assert row["kl"] > 0.05


@pytest.mark.slow
def test_a_run_is_measured_from_its_beginning_to_its_end(tmp_path):
    (job,) = study.DirectOptions(only=["ipo_0.1"], seeds=[0], iterations=2).plan()
    run = study.train(job, tmp_path)
    assert run.column("iteration") == [0, 2] and run.config.loss == "ipo"
    assert run.column("kl")[0] != run.column("kl")[1]


@pytest.mark.slow
def test_the_milestone_trains_on_the_learners_functions(monkeypatch, capsys):
    """A right one gives the course's losses; a wrong one is seen. (It has no reference.)"""
    sizes = dict(batch_size=4, minibatch_size=4, response_length=8, normalize_scores=False)
    config = DirectConfig(iterations=3, learning_rate=1e-3, device="cpu", **sizes)

    def implicit_reward(logprobs, ref_logprobs, kl_coef):
        return kl_coef * (logprobs - ref_logprobs)

    def dpo_loss(chosen, rejected, ref_chosen, ref_rejected, kl_coef):
        return torch.nn.functional.softplus(kl_coef * (rejected - chosen)).mean()

    for mine, parted in ((implicit_reward, 0), (dpo_loss, 3)):
        monkeypatch.setattr(own, "RIGHT", {mine.__name__: mine})
        milestone(config, load_pairs("data/pairs_train.jsonl", 12))
        said = capsys.readouterr().out
        assert f"training: {mine.__name__}\n" in said and said.count("They part here") == parted
