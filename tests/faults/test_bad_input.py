"""What enters is checked once, by name: rollouts, tokens of a forward, settings."""

import dataclasses
import math

import pytest
import torch
from strategies import (
    EOS,
    PAD,
    flat,
    garbage_outside,
    left_pad,
    ppo_config,
    prefix_mask,
    tiny_policy,
    tiny_value_network,
    tiny_world,
    updated,
)

from helpers.config import RLHFConfig
from helpers.rollouts import PER_TOKEN, forward_logprobs, forward_values
from helpers.sampling import generate


def refuses(name, function, *args, **kwargs):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        function(*args, **kwargs)


@pytest.mark.parametrize(
    "field", [*PER_TOKEN, "response_tensors", "response_mask", "query_mask", "scores", "skipped"]
)
def test_a_rollout_batch_refuses_a_field_of_another_shape_and_a_mask_of_numbers(field):
    """One row for all of them, [B] beside [B, T] or one token for all would broadcast without a word."""
    rollout = tiny_world().rollout
    tensor = getattr(rollout, field)
    others = [tensor[:-1], tensor[:1], torch.cat([tensor, tensor], -1), tensor[..., :1], tensor[0]]
    if tensor.dtype == torch.bool:
        others += [tensor.float(), tensor.long()]
    for wrong in others:
        fits = wrong.dim() and len(wrong) == len(rollout)
        name = field if fits else r"response_\w+|query_\w+|" + field
        refuses(f"({name})", dataclasses.replace, rollout, **{field: wrong})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["scores", *PER_TOKEN])
def test_nothing_trains_on_a_number_that_is_not_finite_where_it_counts(field, bad):
    rollout = tiny_world().rollout
    tensor = getattr(rollout, field).clone()
    tensor.view(-1)[0] = bad
    refuses(field, dataclasses.replace, rollout, **{field: tensor})
    if field in PER_TOKEN:
        padded = garbage_outside(getattr(rollout, field), rollout.response_mask, bad)
        dataclasses.replace(rollout, **{field: padded})


def test_an_update_needs_a_counted_token():
    world = tiny_world()
    before = flat(world.policy)
    empty = torch.zeros_like(world.rollout.response_mask)
    rollout = dataclasses.replace(world.rollout, response_mask=empty)
    refuses("response_mask", updated, world, rollout)
    assert torch.equal(flat(world.policy), before)


QUERIES, QUERY_MASK = left_pad([[2], [3, 4]])
RESPONSES, RESPONSE_MASK = torch.tensor([[5, EOS, PAD], [6, 7, 8]]), prefix_mask([2, 3], 3)


@pytest.mark.parametrize(
    "forward, network", [(forward_logprobs, tiny_policy), (forward_values, tiny_value_network)]
)
@pytest.mark.parametrize(
    "name, place, wrong",
    [
        ("query_mask", 1, QUERY_MASK[:, :1]),
        ("query_mask", 1, QUERY_MASK.float()),
        ("response_(tensors|mask)", 2, RESPONSES[:1]),  # either may be the odd one out
        ("response_mask", 3, RESPONSE_MASK[:, :2]),
        ("response_mask", 3, RESPONSE_MASK.float()),
    ],
)
def test_a_forward_names_the_tensor_that_does_not_fit(forward, network, name, place, wrong):
    inputs = [QUERIES, QUERY_MASK, RESPONSES, RESPONSE_MASK]
    inputs[place] = wrong
    refuses(name, forward, network(), *inputs)


@pytest.mark.parametrize("wrong", [QUERY_MASK[:, :1], QUERY_MASK.float(), torch.zeros_like(QUERY_MASK)],
                         ids=["narrow", "float", "empty"])  # fmt: skip
def test_sampling_refuses_a_bad_query_mask(wrong):
    refuses("query_mask", generate, tiny_policy(), QUERIES, wrong, 3, EOS, PAD)


@pytest.mark.parametrize(
    "field, bad",
    [
        ("kl_coef", -0.1), ("gamma", -0.1), ("gamma", 1.1), ("lam", -0.1), ("lam", 1.1), ("cliprange", 0.0),
        ("cliprange", -0.2), ("cliprange_value", 0.0), ("cliprange_high", -1.0), ("num_ppo_epochs", 0),
        ("temperature", 0.0), ("temperature", -1.0), ("minibatch_size", 0), ("response_length", 0),
        ("learning_rate", -1e-3), ("critic_learning_rate", -1e-3), ("max_grad_norm", -1.0), ("vf_coef", -0.1),
        ("kl_placement", "both"), ("kl_loss", "k1"), ("kl_loss", "k4"), ("ratio_level", "word"),
        ("method", "a2c"), ("skip_equal_groups", 1), ("seed", 2**70), ("seed", -1), ("actor", None),
        *((name, math.nan) for name in ("entropy_coef", "adam_eps", "gamma", "learning_rate", "kl_coef")),
    ],
)  # fmt: skip
def test_the_config_refuses_a_value_outside_its_range(field, bad):
    with pytest.raises(ValueError, match=rf"^{field}: got"):
        ppo_config(**{field: bad})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "rloo"}, "responses_per_prompt: got 1, wants at least 2 with rloo"),
        ({"responses_per_prompt": 3}, "batch_size: got 64, wants a multiple of"),
        ({"loss_aggregation": "response"}, "loss_aggregation: got 'response' with ppo"),
        ({"kl_loss": "k1"}, "kl_loss: got 'k1' without the ratio"),
        ({"kl_coef": 0.0, "kl_target": 1.0}, "kl_coef: got 0.0, wants a finite number above 0"),
        ({"kl_target": 1.0, "kl_horizon": 10.0}, "kl_horizon: got 10.0, wants more than 0.2"),
    ],
)
def test_settings_that_do_not_go_together_are_one_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        RLHFConfig(**settings)
