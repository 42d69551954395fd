"""Gradient checkpointing: the same gradients from fewer kept tensors."""

from dataclasses import replace

import pytest
from conftest import SMALL, tiny_lora, tiny_models, trained
from strategies import small_lm

from helpers.config import DirectConfig, RLHFConfig
from helpers.direct import train_direct
from helpers.loop import train_rlhf_loop
from helpers.models import gradient_checkpointing, make_critic, make_reference
from helpers.scale.memory import saved_bytes
from helpers.state import start_run
from helpers.world.small_models import make_policy

CONFIG = RLHFConfig(device="cpu", iterations=2, learning_rate=1e-2, **SMALL)


def models_of(kind: str):
    models = tiny_models()
    if kind == "llama":
        actor = small_lm(vocab_size=len(models.tokenizer), num_attention_heads=4)
        others = {"critic": make_critic(actor), "reference": make_reference(actor)}
        models = replace(models, actor=actor, **others)
    return tiny_lora() if kind == "lora" else models


DIRECT = DirectConfig(device="cpu", online=True, iterations=2, **SMALL)


@pytest.mark.parametrize(
    "kind, config, train",
    [
        ("gpt2", CONFIG, train_rlhf_loop),
        ("llama", CONFIG, train_rlhf_loop),
        ("lora", CONFIG, train_rlhf_loop),
        ("gpt2", DIRECT, train_direct),
    ],
)
def test_the_run_is_the_same_bit_for_bit(kind, config, train):
    ends = []
    for on in (False, True):
        config = replace(config, gradient_checkpointing=on)
        state = start_run(config, models_of(kind), prompts=["we saw this film", "the soup"])
        start = trained(state.models)
        list(train(state=state))
        assert not state.models.actor.training
        ends.append(trained(state.models))
        assert ends[-1] != start
    assert ends[0] == ends[1]


def test_fewer_tensors_are_kept():
    model = make_policy(tiny_models().tokenizer, layers=6, width=64).eval()
    whole = saved_bytes(model, 8, 24)
    with gradient_checkpointing(model):
        assert saved_bytes(model, 8, 24) < 0.5 * whole
    switched = [getattr(part, "gradient_checkpointing", False) for part in model.modules()]
    assert not model.training and not any(switched)
