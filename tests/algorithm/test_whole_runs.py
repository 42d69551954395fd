"""Whole runs of every kind: resumed bit for bit, in half precision, and learning a reward."""

import math
from dataclasses import replace

import pytest
import torch
from conftest import PAIRS, strip, tiny_models, trained
from strategies import METHODS

from helpers.checkpoints import load_checkpoint, saved_config
from helpers.config import DirectConfig, RLHFConfig
from helpers.direct import train_direct
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint

SMALL = {"batch_size": 8, "response_length": 6, "minibatch_size": 4, "device": "cpu"}
SMALL |= {"iterations": 4, "checkpoint_every": 1, "normalizer_samples": 16}
ONLINE = {"online": True, "learning_rate": 3e-3, "kl_coef": 0.5}
KINDS = {name: RLHFConfig(**SMALL | changes) for name, changes in METHODS.items()} | {
    "ppo": RLHFConfig(**SMALL),
    "ppo, adaptive β": RLHFConfig(**SMALL | {"kl_target": 2.0}),
    "ppo, KL in the loss": RLHFConfig(**SMALL | {"kl_placement": "loss"}),
    "dpo": DirectConfig(**SMALL | {"learning_rate": 3e-3, "kl_coef": 0.5}),
    "ipo": DirectConfig(**SMALL | {"learning_rate": 3e-3, "kl_coef": 0.5, "loss": "ipo"}),
    "dpo online": DirectConfig(**SMALL | ONLINE),
}
# rows, whose column reaches the reward
PROMPTS = [{"prompt": p, "first": p[0]} for p in ("we saw this film", "the soup", "i read")]


def early_words(completions, first) -> list[int]:
    """A reward: words from the first half of the alphabet; the prompts' column is given with them."""
    assert all(letter in "wti" for letter in first)
    return [sum(word < "m" for word in text.split()) for text in completions]


def run(config, models=None, **more):
    """The iterator of a run, new or with the `state` of an older one."""
    if "state" not in more:
        models = models or tiny_models(reward=early_words)
        more |= {"config": config, "models": models, "prompts": PROMPTS}
    if isinstance(config, RLHFConfig):
        return train_rlhf_loop(**more)
    return train_direct(**more, pairs=None if config.online else PAIRS[:12])


QUICK = ("ppo", "grpo", "dpo online")  # in `make check`


@pytest.mark.parametrize(
    "kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]
)
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, kind):
    """Also the data set's order within a pass, an adaptive β, the prompts' columns."""
    config, whole = KINDS[kind], tiny_models(reward=early_words)
    expected = list(run(config, whole))
    half = run(config, save_dir=tmp_path)
    next(half), next(half)
    half.close()
    assert saved_config(tmp_path) == replace(config, **rates(config))
    state = load_checkpoint(tmp_path, config, tiny_models(reward=early_words))
    assert state.iteration == 2
    list(run(config, state=state))
    assert strip(state.history) == strip(expected)
    assert fingerprint(state.models.actor) == fingerprint(whole.actor)
    if kind.startswith("ppo"):
        assert trained(state.models) == trained(whole)
    else:
        assert state.models.critic is None and "value_loss" not in expected[0]
    assert all(record.get("first_ratio_error", 0.0) < 1e-4 for record in expected)


def rates(config) -> dict:
    """The learning rates that the course's own model gets where none is given."""
    names = ("learning_rate", "critic_learning_rate")
    return {name: 1e-3 for name in names if getattr(config, name, 0.0) is None}


@pytest.mark.parametrize("kind", ["ppo", "grpo", "dpo", "dpo online"])
@pytest.mark.parametrize("autocast", [True, False])
def test_in_half_precision_it_trains_too_and_reports_the_gap(kind, autocast):
    models, config = tiny_models(reward=early_words), replace(KINDS[kind], iterations=2)
    if autocast:
        config = replace(config, mixed_precision="bf16")
    else:
        models.actor.to(torch.bfloat16), models.reference.to(torch.bfloat16)
    history = list(run(config, models))
    assert all(0.0 < record["logprob_gap"] < 0.5 for record in history)
    assert all(record.get("first_ratio_error", 0.0) < 0.05 for record in history)
    assert all(math.isfinite(value) for record in history for value in record.values())


LEARN = [kind for kind in KINDS if kind not in ("dpo", "ipo")]
NIGHT = [pytest.param(kind, marks=pytest.mark.nightly) for kind in LEARN[1::2]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*LEARN[::2], *NIGHT])
def test_it_learns_a_reward_function(kind):
    size = {"iterations": 25, "batch_size": 32, "minibatch_size": 16, "checkpoint_every": 100}
    config = replace(KINDS[kind], learning_rate=1e-2, **size)
    if isinstance(config, RLHFConfig):
        config = replace(config, kl_coef=0.01, cliprange=0.2, cliprange_high=None, kl_target=None)
    else:
        config = replace(config, kl_coef=0.1)
    history = list(run(config))
    assert history[-1]["score"] > history[0]["score"] + 0.5  # reference standard deviations
