"""Losses without a critic and DPO beside TRL's current release: the same numbers on the same tensors."""

import copy
import re
from dataclasses import replace

import pytest
import torch
from conftest import moved, tiny_models, watched

from benchmarks.trl_trainers import direct_settings, rloo_settings
from helpers.config import DirectConfig, RLHFConfig
from helpers.ppo import minibatch_loss
from helpers.scale.trl_groups import (
    give_positions,
    grpo_is_here,
    grpo_settings,
    make_group_trainer,
    train_with_groups,
    trl_version,
)
from helpers.state import load_models, start_run
from helpers.tools.files import ROOT, read_json

PROMPTS = ["we saw this film", "the soup was very"]  # of one length: TRL gives no position ids
GROUP = {"method": "grpo", "responses_per_prompt": 4, "batch_size": 8, "minibatch_size": 8}
IN_LOSS = {"kl_placement": "loss", "kl_loss": "k3"}
CONFIG = RLHFConfig(
    device="cpu", response_length=6, kl_coef=0.2, normalize_scores=False, iterations=1,
    loss_aggregation="response", learning_rate=1e-3, **GROUP, **IN_LOSS,
)  # fmt: skip
RLOO = replace(CONFIG, method="rloo", kl_placement="reward", loss_aggregation="fixed")
DIRECT = DirectConfig(iterations=1, batch_size=8, minibatch_size=8)
needs_trl = pytest.mark.skipif(not grpo_is_here(), reason="trl is an optional extra")


def test_our_configs_are_said_in_trl_s_words():
    config = replace(CONFIG, minibatch_size=4, num_ppo_epochs=2, iterations=3, cliprange_high=0.28)
    said = grpo_settings(config, "out")
    assert (said["num_generations"], said["generation_batch_size"]) == (4, 8)
    assert (said["max_steps"], said["logging_steps"], said["num_iterations"]) == (12, 4, 2)
    assert (said["loss_type"], said["beta"], said["epsilon_high"]) == ("grpo", 0.2, 0.28)
    cells = read_json(ROOT / "notebooks" / "13_scaling_out.ipynb")["cells"]
    (table,) = ("".join(c["source"]) for c in cells if "| GRPOConfig |" in "".join(c["source"]))
    for ours in re.findall(r"^\| `(\w+)`", table, re.M):
        assert hasattr(config, ours), ours
    said = rloo_settings(replace(RLOO, minibatch_size=4), "out")
    assert (said["beta"], said["num_generations"], said["num_iterations"]) == (0.2, 4, 4)
    assert "loss_type" not in said and direct_settings(DIRECT, "out")["max_steps"] == 1


@pytest.mark.parametrize(
    ("settings", "config", "changes", "says"),
    [
        (grpo_settings, CONFIG, {"method": "rloo"}, "method: got 'rloo', wants 'grpo'"),
        (grpo_settings, CONFIG, {"kl_placement": "reward"}, "kl_placement, kl_loss: got 'reward'"),
        (grpo_settings, CONFIG, {"minibatch_size": 3}, "minibatch_size: got 3, wants a divisor"),
        (grpo_settings, CONFIG, {"entropy_coef": 0.1}, "entropy_coef: got 0.1"),
        (rloo_settings, RLOO, {"kl_placement": "loss"}, "kl_placement: got 'loss', wants 'reward'"),
        (direct_settings, DIRECT, {"online": True}, "online: got True, wants False"),
        (direct_settings, DIRECT, {"loss": "ipo"}, "loss: got 'ipo', wants 'dpo'"),
        (direct_settings, DIRECT, {"minibatch_size": 3}, "minibatch_size: got 3, wants a divisor"),
    ],
)
def test_what_trl_does_not_have_is_named(settings, config, changes, says):
    with pytest.raises(ValueError, match=says):
        settings(replace(config, **changes), "out")


def test_positions_are_counted_from_the_mask_until_they_are_taken_back():
    models = tiny_models()
    model, tokenizer = models.actor.eval(), models.tokenizer
    ids = tokenizer("we saw this film", return_tensors="pt")["input_ids"]
    padded = torch.cat([torch.full((1, 3), tokenizer.pad_token_id), ids], dim=1)
    mask = torch.tensor([[0] * 3 + [1] * ids.shape[1]])
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
        without = model(input_ids=padded, attention_mask=mask).logits[:, 3:]
        take_back = give_positions(model)
        counted = model(input_ids=padded, attention_mask=mask).logits[:, 3:]
        take_back()
        again = model(input_ids=padded, attention_mask=mask).logits[:, 3:]
    torch.testing.assert_close(counted, wanted, atol=1e-5, rtol=1e-4)
    assert float((without - wanted).abs().max()) > 1e-3
    assert torch.equal(again, without)


@pytest.fixture(scope="module")
def scene():
    """A rollout of tiny models, the policy some way from who wrote it and from the reference."""
    models = tiny_models(reward=lambda texts: [float(text.count("e")) for text in texts])
    moved(models.reference, 0.03, seed=0), moved(models.actor, 0.03, seed=1)
    still = replace(CONFIG, learning_rate=0.0, seed=2)  # the rollout alone; a response ends
    _, seen = watched(start_run(still, models, prompts=PROMPTS))
    moved(models.actor, 0.02, seed=2)
    return models, seen["rollout"]


def gradient(model, loss) -> torch.Tensor:
    grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in grads if g is not None])


VARIANTS = {
    "grpo": {},
    "no KL": {"kl_coef": 0.0},
    "KL times the ratio": {"kl_ratio": True},
    "token mean": {"loss_aggregation": "token"},
    "fixed length": {"loss_aggregation": "fixed"},
    "clip-higher": {"cliprange_high": 0.4, "cliprange": 0.01},
    "sequence ratio": {"ratio_level": "sequence", "kl_coef": 0.0},
}


@pytest.fixture(scope="module")
def trainer(scene, tmp_path_factory):
    """TRL's trainer on a copy of the models; without a KL, for which it would load a reference by name."""
    models = copy.deepcopy(scene[0])
    config = replace(CONFIG, kl_coef=0.0)
    made = make_group_trainer(config, models, PROMPTS, str(tmp_path_factory.mktemp("trl")))
    return made, models.actor.eval()


def take(trainer, config: RLHFConfig) -> None:
    """Give the trainer the settings that its loss reads."""
    said = grpo_settings(config, "")
    trainer.beta, trainer.loss_type = said["beta"], said["loss_type"]
    trainer.epsilon_low, trainer.epsilon_high = said["epsilon"], said["epsilon_high"]
    trainer.importance_sampling_level = said["importance_sampling_level"]
    trainer.args.use_bias_correction_kl = said["use_bias_correction_kl"]


@needs_trl
@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_gradient_are_those_of_grpo_trainer(scene, trainer, name):
    models, rollout = scene
    trl, actor = trainer
    config = replace(CONFIG, **VARIANTS[name])
    ours, _ = minibatch_loss(models.actor, None, rollout, config)
    take(trl, config)
    mask = rollout.response_mask
    advantages = rollout.advantages.sum(dim=1) / mask.sum(dim=1)  # equal along a response
    inputs = {
        "prompt_ids": rollout.query_tensors,
        "prompt_mask": rollout.query_mask.long(),
        "completion_ids": rollout.response_tensors,
        "completion_mask": mask.long(),
        "advantages": advantages,
        "old_per_token_logps": rollout.logprobs,
        "ref_per_token_logps": rollout.ref_logprobs,
        "num_items_in_batch": mask.sum(),
    }
    loss = trl._compute_loss(actor, inputs)
    assert float(loss.detach()) == pytest.approx(float(ours.detach()), abs=1e-5)
    mine, other = gradient(models.actor, ours), gradient(actor, loss)
    torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-3)
    assert float(mine.norm()) > 1e-3


@needs_trl
@pytest.mark.slow
def test_grpo_trainer_learns_on_our_models_and_reward():
    """Lesson 13's run: the score rises within eight rollouts."""
    config = RLHFConfig(
        device="cpu", method="grpo", responses_per_prompt=4, loss_aggregation="response",
        kl_coef=0.0, iterations=8, num_ppo_epochs=1, minibatch_size=64, seed=0,
    )  # fmt: skip
    models = load_models(config)
    state = start_run(config, models)
    records = train_with_groups(config, models, state.prompts)
    assert len(records) == 8
    first, last = (sum(r["score"] for r in part) / 3 for part in (records[:3], records[-3:]))
    assert last > first + 0.15
    assert not models.actor.training
    if trl_version() == "1.16.0":  # whose rollouts the lesson quotes
        lesson = (ROOT / "notebooks/13_scaling_out.ipynb").read_text("utf-8")
        quoted = map(float, re.findall(r'"iteration \d  score (\S+)  entropy', lesson))
        assert [r["score"] for r in records] == pytest.approx(list(quoted), abs=0.05)
