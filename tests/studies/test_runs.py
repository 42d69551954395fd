"""Recorded runs: watching changes nothing, and what is kept is what happened."""

from dataclasses import replace

import pytest
import torch
from conftest import length_reward, strip, tiny_models
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.rollouts import forward_logprobs
from helpers.sampling import plain_tokens
from helpers.state import start_run
from helpers.steps import iterate
from helpers.studies.measure import measure
from helpers.studies.runs import (
    RECORD,
    TENSORS,
    WATCHED_PROMPTS,
    Run,
    load_run,
    record_run,
    snapshot_schedule,
    take_snapshot,
    write_run,
)
from helpers.tools.files import FileProblem
from helpers.world.small_models import make_tokenizer


def begin(config: RLHFConfig, prompts: list[str]):
    return start_run(config, tiny_models(), prompts=prompts)


@pytest.fixture(scope="module")
def recorded(config, prompts) -> Run:
    """Four iterations, watched."""
    return list(record_run(begin(config, prompts)))[-1]


@pytest.mark.parametrize("iterations", [1, 2, 15, 100])
def test_the_schedule_begins_with_0_and_ends_with_the_last(iterations):
    schedule = snapshot_schedule(iterations)
    assert schedule[0] == 0 and schedule[-1] == iterations
    assert schedule == sorted(set(schedule)) and len(schedule) <= 16


def test_watching_a_run_does_not_change_it(recorded, config, prompts):
    plain = list(train_rlhf_loop(state=begin(config, prompts)))
    assert strip(recorded.history) == strip(plain)
    assert [shot.iteration for shot in recorded.snapshots] == snapshot_schedule(4)


def test_before_training_no_token_has_moved(recorded):
    samples = recorded.snapshots[0].samples.values()
    moved = [abs(d) for rows in samples for sample in rows for d in sample.drift]
    assert moved and max(moved) < 1e-5


def test_a_snapshot_holds_what_the_actor_thinks(config, prompts):
    state = begin(config, prompts)
    iterate(state)
    shot = take_snapshot(state)
    models, prompt = state.models, WATCHED_PROMPTS[0]
    sample = shot.samples[prompt][0]
    query = torch.tensor([models.tokenizer(prompt)["input_ids"]])
    ids = torch.tensor([models.tokenizer.convert_tokens_to_ids(sample.tokens)])
    masks = torch.ones_like(query, dtype=torch.bool), torch.ones_like(ids, dtype=torch.bool)
    for policy, kept in ((models.actor, sample.logprobs), (models.reference, sample.ref_logprobs)):
        found = forward_logprobs(policy, query, masks[0], ids, masks[1])[0]
        torch.testing.assert_close(found, torch.tensor(kept), atol=1e-5, rtol=1e-5)
    first = shot.next_logprobs[prompt][ids[0, 0]]
    torch.testing.assert_close(first, torch.tensor(sample.logprobs[0]), atol=1e-5, rtol=1e-5)
    (score,) = state.normalize(length_reward([sample.text]))
    assert sample.score == pytest.approx(float(score), rel=1e-4)


def test_a_run_comes_back_from_its_folder(recorded, tmp_path):
    responses = {"score": torch.randn(3, 2), "kl": torch.rand(3, 2)}
    measured = {"final": {"value": 0.25}, "label": "four iterations", "responses": responses}
    run = replace(recorded, **measured)
    write_run(run, tmp_path / "run")
    back = load_run(tmp_path / "run")
    assert back.column("iteration") == [1, 2, 3, 4]
    assert (back.config, back.final, back.label) == (run.config, run.final, run.label)
    assert back.column("score") == pytest.approx(run.column("score"), rel=1e-4)
    assert back.at(3).iteration == run.at(3).iteration
    sample, other = (r.snapshots[-1].samples[WATCHED_PROMPTS[1]][2] for r in (run, back))
    assert other.tokens == sample.tokens and other.drift == pytest.approx(sample.drift, abs=1e-3)
    one, other = (r.snapshots[2].next_logprobs[WATCHED_PROMPTS[3]] for r in (back, run))
    torch.testing.assert_close(one, other, atol=1e-2, rtol=1e-2)
    assert torch.equal(back.responses["kl"], run.responses["kl"])


@pytest.mark.parametrize("file", [RECORD, TENSORS])
@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_broken_run_is_refused_in_one_sentence(recorded, tmp_path, file, harm):
    write_run(recorded, tmp_path / "run")
    path = tmp_path / "run" / file
    path.write_bytes(path.read_bytes()[:200]) if harm == "cut" else path.unlink()
    with pytest.raises(FileProblem, match="run"):
        load_run(tmp_path / "run")


def test_measure_is_the_mean_over_prompts_of_score_less_beta_kl(config, prompts):
    state = begin(config, prompts)
    iterate(state)
    facts, responses = measure(state, state.models.actor, per_prompt=6)
    assert responses["score"].shape == responses["kl"].shape == (len(prompts), 6)
    each = responses["score"] - config.kl_coef * responses["kl"]
    assert facts["value"] == pytest.approx(float(each.mean()), abs=1e-5)
    assert facts["responses"] == 24 and facts["value_stderr"] > 0


def test_subword_tokens_are_shown_as_text():
    tokenizer = make_tokenizer(["film", "soup"])
    assert plain_tokens(tokenizer, [4, 5]) == ["film", "soup"]
    ids = {"Ġfilm": 0, "▁film": 1, "Ċ": 2, "film": 3}
    inner = Tokenizer(WordLevel(ids, unk_token="film"))
    shown = plain_tokens(PreTrainedTokenizerFast(tokenizer_object=inner), [0, 1, 2, 3])
    assert shown == [" film", " film", "⏎", "film"]
