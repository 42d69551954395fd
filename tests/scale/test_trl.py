"""TRL 1.12.0's losses and its trainer beside ours; `test_from_trl.py` compares a whole update.

Skipped where trl is not installed: `pip install trl==1.12.0`, then `pytest tests/scale/test_trl.py`.
"""

import copy

import pytest
import torch
from conftest import tiny_models
from strategies import close, prefix_mask, seeded
from trl_lines import trl_losses

from benchmarks.trl_ppo import train_with_trl, trl_config, trl_is_here
from helpers.config import RLHFConfig
from helpers.ppo import policy_loss, value_loss

pytestmark = pytest.mark.skipif(not trl_is_here(), reason="trl 1.12.0 is an optional extra")

PROMPTS = ["we saw this film", "the soup", "my brother and i stayed at this hotel last", "i read"]
PROMPTS = [*PROMPTS, "the room", "we ate", "this book", "i heard"]


def test_losses_and_gradients_equal_trl_s_on_the_same_mask():
    generator, mask = seeded(1), prefix_mask((6, 2, 4, 1), 6)
    x = [torch.randn(4, 6, generator=generator) for _ in range(6)]
    found = []
    for losses in ("ours", "trl"):
        logprobs, values = x[0].clone().requires_grad_(), x[1].clone().requires_grad_()
        if losses == "ours":
            policy, _ = policy_loss(logprobs, x[0] + 0.3 * x[2], x[3], mask, 0.2)
            value, _ = value_loss(values, x[1] + 0.3 * x[4], x[5], mask, 0.2)
        else:
            given = (logprobs, x[0] + 0.3 * x[2], x[3], values, x[1] + 0.3 * x[4], x[5])
            policy, value = trl_losses(*given, mask, RLHFConfig())
        (policy + value).backward()
        found.append([policy.detach(), value.detach(), logprobs.grad, values.grad])
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs, 1e-6, 1e-6)
        assert theirs.abs().max() > 1e-3


TINY = {"iterations": 2, "batch_size": 8, "response_length": 6, "minibatch_size": 4}


def test_trl_s_trainer_trains_our_models_in_place_and_leaves_the_reference(tmp_path):
    models = tiny_models()
    before = {n: copy.deepcopy(getattr(models, n).state_dict()) for n in ("actor", "reference")}
    config = RLHFConfig(**TINY, normalize_scores=False, device="cpu")
    records = train_with_trl(config, models, PROMPTS)
    assert [record["iteration"] for record in records] == [1, 2]
    assert abs(records[0]["kl"]) < 1e-4
    moved = {n: not same(getattr(models, n).state_dict(), before[n]) for n in before}
    assert moved == {"actor": True, "reference": False}


def same(one: dict, other: dict) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_settings_that_trl_lacks_are_refused(tmp_path):
    for changes, says in (
        ({"kl_placement": "loss"}, "kl_placement: got loss, wants reward for TRL"),
        ({"critic_learning_rate": 1e-4}, "critic_learning_rate: got 0.0001"),
        ({"minibatch_size": 3}, "minibatch_size: got 3"),
    ):
        with pytest.raises(ValueError, match=says):
            trl_config(RLHFConfig(**TINY | changes), str(tmp_path))
