"""What docs/from_trl_ppo.md says of TRL 1.12 and of our settings; what is said where there is no such TRL."""

import contextlib
import copy
import io
import re
import sys
from dataclasses import replace
from functools import cache
from importlib import metadata

import pytest
import torch
from conftest import tiny_models
from strategies import flat

from benchmarks import trl_ppo
from benchmarks.trl_ppo import CriticForTRL, RewardForTRL, trl_config, trl_is_here
from benchmarks.trl_trainers import train_with_trl
from helpers import steps
from helpers.config import RLHFConfig
from helpers.models import fingerprint
from helpers.rollouts import RolloutBatch, Tokens, forward_logprobs, response_mask
from helpers.sampling import Responses, decode
from helpers.state import load_models, start_run
from helpers.tools.files import ROOT, read_json

PAGE = (ROOT / "docs/from_trl_ppo.md").read_text("utf-8")
ROWS = re.findall(r"\| `(\w+)` \| (\S+) \| `(\w+)` \| (\S+) \|", PAGE)
PROMPTS = ["i saw this film", "we stayed at this hotel last week and", "the soup", "the room was"]
with_trl = pytest.mark.skipif(not trl_is_here(), reason="trl 1.12.0 is an optional extra")


@pytest.mark.parametrize(("theirs", "their_default", "ours", "default"), ROWS)
def test_the_table_has_our_defaults(theirs, their_default, ours, default):
    assert str(getattr(RLHFConfig(), ours)) == default


@with_trl
@pytest.mark.parametrize(("theirs", "their_default", "ours", "default"), ROWS)
def test_the_table_has_trl_s_defaults(theirs, their_default, ours, default, tmp_path):
    from trl.experimental.ppo import PPOConfig

    assert str(getattr(PPOConfig(str(tmp_path), use_cpu=True, bf16=False), theirs)) == their_default


def page_config(**changes) -> RLHFConfig:
    """The page's settings for TRL's defaults; one update."""
    (example,) = re.findall(r"```python\n([^`]*trl_defaults = [^`]*)```", PAGE)
    space = {}
    exec(example, space)
    return replace(space["trl_defaults"], iterations=1, device="cpu", **changes)


def distinct(texts: list[str]) -> torch.Tensor:
    """Tenths of a point for each different word."""
    return torch.tensor([len(set(text.split())) / 10 for text in texts])


@cache
def shipped():
    return load_models(RLHFConfig(device="cpu"))


def trl_update(folder, **changes) -> tuple:
    """One update by PPOTrainer with its defaults: its models, its log, the tokens it sampled."""
    from trl.experimental.ppo import PPOConfig, ppo_trainer

    small = {"total_episodes": 8, "num_sample_generations": 0, "save_strategy": "no"}
    here = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none"}
    args = PPOConfig(str(folder), **small, **here, **changes)
    models, sampled = shipped(), []
    actor, critic = copy.deepcopy(models.actor), copy.deepcopy(models.critic)
    heads = RewardForTRL(distinct, models.tokenizer), CriticForTRL(critic)
    networks = actor, copy.deepcopy(models.reference), *heads
    ids = models.tokenizer(2 * PROMPTS)["input_ids"]
    trainer = trl_ppo.ppo_trainer(args, models.tokenizer, ids, *networks)
    generate = ppo_trainer.batch_generation

    def kept(model, queries, *rest):
        found = generate(model, queries, *rest)
        sampled.append((queries.clone(), found[0][:, queries.shape[1] :].clone()))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo_trainer, "batch_generation", kept)
        trainer.train()
    return actor, critic, trainer.state.log_history[0], sampled[0]


def our_update(config: RLHFConfig, queries, responses, whole: bool) -> tuple:
    """One update of ours on these responses: models, metrics, mask. `whole`: EOS ends no response."""
    models = replace(copy.deepcopy(shipped()), reward=distinct)
    ends = response_mask(responses, models.tokenizer.eos_token_id)
    mask = torch.ones_like(ends) if whole else ends
    tokens = Tokens(queries, queries != models.tokenizer.pad_token_id, responses, mask)
    state = start_run(config, models, prompts=PROMPTS)
    with torch.no_grad():
        old = forward_logprobs(models.actor, *tokens, temperature=config.temperature)
    sampled = Responses(*tokens, old, decode(models.tokenizer, *tokens))
    scores, ref = steps.score_responses(state, sampled), steps.reference_logprobs(state, sampled)
    rewards = steps.total_rewards(state, sampled, scores, ref)
    values, *targets = steps.estimate_advantages(state, sampled, rewards)
    rollout = RolloutBatch(*tokens, old, ref, values, rewards, *targets, scores)
    metrics = steps.update(state, rollout)
    return models.actor, models.critic, metrics | {"score": float(scores.mean())}, mask


def apart(mine, theirs, start) -> float:
    """Distance of two networks' weights, as a share of what the update moved."""
    return float((flat(mine) - flat(theirs)).norm() / (flat(theirs) - flat(start)).norm())


@with_trl
def test_with_the_page_s_settings_one_update_is_that_of_trl_s_defaults(tmp_path):
    actor, critic, log, sampled = trl_update(tmp_path)
    mine, my_critic, metrics, _ = our_update(page_config(), *sampled, whole=True)
    names = {"score": "objective/scores", "policy_loss": "loss/policy_avg", "kl": "objective/kl"}
    names |= {"value_loss": "loss/value_avg", "entropy": "policy/entropy_avg"}
    names |= {"approx_kl": "policy/approxkl_avg"}
    for ours, theirs in names.items():  # TRL's entropy, logsumexp − Σp·logit, is rounded by 3e-6
        near = pytest.approx(log[theirs], abs=1e-5 if ours in ("kl", "entropy") else 2e-6)
        assert metrics[ours] == near
    assert apart(mine, actor, shipped().actor) < 0.01
    assert apart(my_critic, critic, shipped().critic) < 0.01
    assert (sampled[1] == shipped().tokenizer.eos_token_id).sum() > 100  # rows go on past their EOS


@with_trl
@pytest.mark.parametrize("lam", [1.0, 0.95])
def test_of_responses_that_stop_the_score_s_place_and_the_padding_differ(lam, tmp_path):
    shared = {"response_length": 24, "lam": lam}
    actor, critic, log, sampled = trl_update(tmp_path, stop_token="eos", **shared)
    config = page_config(**shared)
    mine, my_critic, metrics, mask = our_update(config, *sampled, whole=False)
    assert mask.float().mean() < 0.8
    assert (apart(mine, actor, shipped().actor) < 0.01) is (lam == 1.0)
    assert apart(my_critic, critic, shipped().critic) > 0.2
    if lam == 1.0:  # TRL's means count the padding
        share = log["policy/approxkl_avg"] / metrics["approx_kl"]
        assert share == pytest.approx(float(mask.float().mean()), rel=0.01)


TINY = {"iterations": 2, "batch_size": 8, "response_length": 6, "minibatch_size": 4}


@with_trl
def test_trl_s_trainer_trains_our_models_in_place_and_leaves_the_reference():
    models = tiny_models()
    before = {n: fingerprint(getattr(models, n)) for n in ("actor", "reference")}
    config = RLHFConfig(**TINY, normalize_scores=False, device="cpu")
    log = train_with_trl(config, models, 2 * PROMPTS)
    first, _ = (row["objective/kl"] for row in log if "objective/kl" in row)  # one an iteration
    assert abs(first) < 1e-4
    moved = {n: fingerprint(getattr(models, n)) != before[n] for n in before}
    assert moved == {"actor": True, "reference": False}


@with_trl
def test_settings_that_trl_lacks_are_refused(tmp_path):
    for changes, says in (
        ({"kl_placement": "loss"}, "kl_placement: got loss, wants reward for TRL"),
        ({"critic_learning_rate": 1e-4}, "critic_learning_rate: got 0.0001"),
        ({"minibatch_size": 3}, "minibatch_size: got 3"),
    ):
        with pytest.raises(ValueError, match=says):
            trl_config(RLHFConfig(**TINY | changes), str(tmp_path))


# --- another version of trl, or none --------------------------------------------------------------


@pytest.fixture(params=["none", "1.11.0", "1.16.0"])
def version(request, monkeypatch):
    """This version of trl is installed; its import fails, since nothing may import it."""
    found = metadata.version

    def told(name):
        if name == "trl" and request.param == "none":
            raise metadata.PackageNotFoundError(name)
        return request.param if name == "trl" else found(name)

    monkeypatch.setattr(metadata, "version", told)
    monkeypatch.setitem(sys.modules, "trl", None)
    return request.param


def test_the_trainer_says_that_it_wants_another_trl(version, tmp_path):
    with pytest.raises(ValueError, match=f"trl: got {version}, wants"):
        trl_ppo.make_trainer(RLHFConfig(), None, [], str(tmp_path))


def test_lesson_13_runs_on_and_says_which_version_it_found(version):
    """Its cells that ask whether trl is there, run as they stand: no import of trl, one sentence each."""
    cells = read_json(ROOT / "notebooks/13_scaling_out.ipynb")["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    asking = [source for source in code if "has_grpo" in source]
    assert len(asking) == 2 and asking[0].count("has_grpo =") == 1
    space: dict = {"RLHFConfig": RLHFConfig, "models": None, "state": None}
    exec(asking[0], space)
    space["has_grpo"] = False  # whatever is installed here
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(asking[1], space)
    assert f"trl or datasets is not here (trl: {version})" in told.getvalue()
    assert not re.search(r"^\s*(?:import|from) trl", "\n".join(code), re.M)
