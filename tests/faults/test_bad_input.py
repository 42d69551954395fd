"""Every public function refuses wrong input with a ValueError that names the argument."""

import dataclasses
import math

import pytest
import torch
from strategies import (
    EOS,
    PAD,
    TOKEN_FIELDS,
    left_pad,
    one_thread,  # noqa: F401
    ppo_config,
    prefix_mask,
    tiny_policy,
    tiny_value_network,
    tiny_world,
)

from helpers.config import PPOConfig
from helpers.gae import compute_gae
from helpers.kl import AdaptiveKLController, kl_estimate, shape_rewards
from helpers.ppo import policy_loss, ppo_update_step, value_loss
from helpers.reward_model import bradley_terry_loss
from helpers.rollouts import (
    forward_logprobs,
    forward_values,
    gather_logprobs,
    position_ids,
    response_mask,
)
from helpers.sampling import generate
from helpers.theory.optimum import gibbs_policy
from helpers.whitening import masked_mean, masked_var, whiten_advantages

X, WIDE, MASK = torch.zeros(2, 3), torch.zeros(2, 4), prefix_mask([3, 2], 3)
SCORES = torch.zeros(2)
FLOAT_MASK, EMPTY_MASK, WIDE_MASK = MASK.float(), torch.zeros_like(MASK), prefix_mask([3, 2], 4)
NON_FINITE = [math.nan, math.inf, -math.inf]


def refuses(name, function, *args, **kwargs):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        function(*args, **kwargs)


# --- tensors that share one shape -----------------------------------------------------------------

MASKED = {
    "compute_gae": lambda mask: compute_gae(X, X, 1.0, 0.95, mask),
    "masked_mean": lambda mask: masked_mean(X, mask),
    "masked_var": lambda mask: masked_var(X, mask),
    "whiten_advantages": lambda mask: whiten_advantages(X, mask),
    "shape_rewards": lambda mask: shape_rewards(SCORES, X, X, mask, 0.1),
    "policy_loss": lambda mask: policy_loss(X, X, X, mask),
    "value_loss": lambda mask: value_loss(X, X, X, mask),
}


@pytest.mark.parametrize("mask", [FLOAT_MASK, MASK.long(), EMPTY_MASK, WIDE_MASK, MASK[0]],
                         ids=["float", "integer", "empty", "too-wide", "one-row"])  # fmt: skip
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_must_be_boolean_of_the_right_shape_and_count_something(name, mask):
    refuses("mask", MASKED[name], mask)


@pytest.mark.parametrize("name", MASKED)
def test_a_good_mask_is_accepted(name):
    MASKED[name](MASK)


def test_a_score_needs_a_counted_token_in_its_row():
    refuses("mask", shape_rewards, SCORES, X, X, prefix_mask([3, 0], 3), 0.1)


@pytest.mark.parametrize(
    "name, call",
    [
        ("values", lambda: compute_gae(X, WIDE)),
        ("old_logprobs", lambda: policy_loss(X, WIDE, X, MASK)),
        ("advantages", lambda: policy_loss(X, X, WIDE, MASK)),
        ("old_values", lambda: value_loss(X, WIDE, X, MASK)),
        ("returns", lambda: value_loss(X, X, WIDE, MASK)),
        ("ref_logprobs", lambda: kl_estimate(X, WIDE)),
        ("ref_logprobs", lambda: shape_rewards(SCORES, X, WIDE, MASK, 0.1)),
        ("scores", lambda: shape_rewards(torch.zeros(3), X, X, MASK, 0.1)),
        ("scores", lambda: shape_rewards(X, X, X, MASK, 0.1)),
        ("tokens", lambda: gather_logprobs(torch.zeros(2, 3, 5), torch.zeros(2, 4, dtype=torch.long))),
        ("rejected", lambda: bradley_terry_loss(torch.zeros(3), torch.zeros(4))),
        ("rewards", lambda: gibbs_policy(torch.full((3,), 1 / 3), torch.zeros(4), 1.0)),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_named(name, call):
    refuses(name, call)


@pytest.mark.parametrize(
    "call",
    [
        lambda: compute_gae(WIDE, X, mask=MASK),
        lambda: policy_loss(WIDE, X, X, MASK),
        lambda: value_loss(WIDE, X, X, MASK),
        lambda: kl_estimate(WIDE, X),
        lambda: shape_rewards(SCORES, WIDE, X, MASK, 0.1),
        lambda: bradley_terry_loss(torch.zeros(4), torch.zeros(3)),
        lambda: compute_gae(X[:1], X, mask=MASK),  # these would broadcast without a word
        lambda: compute_gae(X, X[:1], mask=MASK),
        lambda: policy_loss(X, X[:1], X, MASK),
        lambda: policy_loss(X, X, X[:, :1], MASK),
        lambda: value_loss(X, X, X[:, :1], MASK),
        lambda: kl_estimate(X, X[:1]),
        lambda: shape_rewards(torch.zeros(1), X, X, MASK, 0.1),
        lambda: shape_rewards(SCORES, X, X[:1], MASK, 0.1),
        lambda: bradley_terry_loss(torch.zeros(3), torch.zeros(1)),
    ],
)
def test_shapes_that_do_not_fit_are_refused_even_if_they_broadcast(call):
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize(
    "name, call",
    [
        ("rewards", lambda: compute_gae(torch.zeros(3), torch.zeros(3))),
        ("logits", lambda: gather_logprobs(torch.zeros(3, 5), torch.zeros(3, dtype=torch.long))),
        ("response_tensors", lambda: response_mask(torch.tensor([3, EOS]), EOS)),
        ("mask", lambda: position_ids(torch.ones(3, dtype=torch.bool))),
        ("mask", lambda: position_ids(torch.ones(1, 3))),
    ],
)  # fmt: skip
def test_a_missing_batch_axis_or_a_float_mask_is_named(name, call):
    refuses(name, call)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", NON_FINITE)
def test_scores_must_be_finite(bad):
    scores = torch.tensor([0.0, bad])
    refuses("scores", shape_rewards, scores, X, X, MASK, 0.1)
    refuses("chosen", bradley_terry_loss, scores, torch.zeros(2))
    refuses("rejected", bradley_terry_loss, torch.zeros(2), scores)
    refuses("rewards", gibbs_policy, torch.full((2,), 0.5), scores, 1.0)


@pytest.mark.parametrize("bad", NON_FINITE)
@pytest.mark.parametrize("field", ["scores", "advantages", "returns"])
def test_nothing_trains_on_nan(field, bad):
    world = tiny_world()
    tensor = getattr(world.rollout, field).clone()
    tensor.view(-1)[0] = bad
    optimizer = torch.optim.Adam(world.parameters(), lr=1e-3)
    before = [parameter.clone() for parameter in world.parameters()]
    with pytest.raises(ValueError):  # on building the batch or on training with it
        rollout = dataclasses.replace(world.rollout, **{field: tensor})
        ppo_update_step(world.policy, world.value_network, rollout, optimizer, ppo_config())
    assert all(torch.equal(a, b) for a, b in zip(before, world.parameters(), strict=True))


@pytest.mark.parametrize("bad", [-0.1, math.nan])
def test_beta_is_never_negative(bad):
    refuses("kl_coef", shape_rewards, SCORES, X, X, MASK, bad)
    refuses("kl_coef", AdaptiveKLController, kl_coef=bad, target=6.0, horizon=100)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_the_exact_optimum_needs_a_positive_beta(bad):
    refuses("kl_coef", gibbs_policy, torch.full((2,), 0.5), torch.zeros(2), bad)


def test_an_unknown_estimator_is_refused():
    refuses("estimator", kl_estimate, X, X, "k4")


# --- batches and models ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", [*TOKEN_FIELDS, "response_tensors", "response_mask", "query_mask", "scores", "skipped"]
)
def test_a_rollout_batch_refuses_a_field_of_another_shape(field):
    rollout = tiny_world().rollout
    tensor = getattr(rollout, field)
    for wrong in (tensor[:-1], torch.cat([tensor, tensor], -1)):
        with pytest.raises(
            ValueError,
            match=field if wrong.shape[0] == len(rollout) else "response_|query_|" + field,
        ):
            dataclasses.replace(rollout, **{field: wrong})


@pytest.mark.parametrize("field", ["response_mask", "query_mask", "skipped"])
def test_a_rollout_batch_refuses_a_mask_that_is_not_boolean(field):
    rollout = tiny_world().rollout
    for cast in (torch.Tensor.float, torch.Tensor.long):
        refuses(field, dataclasses.replace, rollout, **{field: cast(getattr(rollout, field))})


def test_an_update_needs_a_counted_token():
    world = tiny_world()
    optimizer = torch.optim.Adam(world.parameters(), lr=1e-3)
    with pytest.raises(ValueError, match="mask"):
        empty = torch.zeros_like(world.rollout.response_mask)
        rollout = dataclasses.replace(world.rollout, response_mask=empty)
        ppo_update_step(world.policy, world.value_network, rollout, optimizer, ppo_config())


def test_the_full_kl_needs_the_reference():
    world = tiny_world()
    optimizer = torch.optim.Adam(world.parameters(), lr=1e-3)
    config = ppo_config(kl_placement="loss", kl_loss="full")
    refuses(
        "reference",
        ppo_update_step,
        world.policy,
        world.value_network,
        world.rollout,
        optimizer,
        config,
    )


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
    with pytest.raises(ValueError, match=name):
        forward(network(), *inputs)


@pytest.mark.parametrize("wrong", [QUERY_MASK[:, :1], QUERY_MASK.float(), torch.zeros_like(QUERY_MASK)],
                         ids=["narrow", "float", "empty"])  # fmt: skip
def test_sampling_refuses_a_bad_query_mask(wrong):
    refuses("query_mask", generate, tiny_policy(), QUERIES, wrong, 3, EOS, PAD)


@pytest.mark.parametrize(
    "option, bad", [("response_length", 0), ("temperature", 0.0), ("temperature", -1.0)]
)
def test_sampling_refuses_no_length_and_no_temperature(option, bad):
    options = {"response_length": 3, "eos_token_id": EOS, "pad_token_id": PAD, option: bad}
    refuses(option, generate, tiny_policy(), QUERIES, QUERY_MASK, **options)


# --- the configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, bad",
    [
        ("kl_coef", -0.1), ("gamma", -0.1), ("gamma", 1.1), ("lam", -0.1), ("lam", 1.1), ("cliprange", 0.0),
        ("cliprange", -0.2), ("cliprange_value", 0.0), ("num_ppo_epochs", 0), ("temperature", 0.0),
        ("temperature", -1.0), ("minibatch_size", 0), ("learning_rate", -1e-3),
        ("critic_learning_rate", -1e-3),
        ("max_grad_norm", -1.0), ("vf_coef", -0.1), ("kl_placement", "both"), ("kl_loss", "k1"),
        ("kl_loss", "k4"),
    ],
)  # fmt: skip
def test_the_config_refuses_a_value_outside_its_range(field, bad):
    refuses(field, ppo_config, **{field: bad})


@pytest.mark.parametrize(
    "field",
    ["kl_coef", "gamma", "lam", "cliprange", "cliprange_value", "vf_coef", "entropy_coef", "learning_rate",
     "critic_learning_rate", "adam_eps", "max_grad_norm", "temperature"],
)  # fmt: skip
def test_the_config_refuses_nan(field):
    refuses(field, ppo_config, **{field: math.nan})


def test_the_config_starts_from_the_standard_values_and_stays_as_it_is():
    config = PPOConfig(learning_rate=1e-3, critic_learning_rate=1e-3)
    expected = {
        "kl_coef": 0.1, "kl_placement": "reward", "kl_loss": "k2", "gamma": 1.0, "lam": 0.95,
        "cliprange": 0.2, "cliprange_value": 0.2, "vf_coef": 0.1, "entropy_coef": 0.0, "num_ppo_epochs": 4,
        "minibatch_size": 64, "adam_eps": 1e-5, "max_grad_norm": 1.0, "whiten_advantages": True,
        "whiten_rewards": False,
        "temperature": 1.0,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.gamma = 0.5


@pytest.mark.parametrize(
    "field, edge", [("gamma", 0.0), ("gamma", 1.0), ("lam", 0.0), ("lam", 1.0), ("kl_coef", 0.0)]
)
def test_the_config_accepts_the_edges(field, edge):
    assert getattr(ppo_config(**{field: edge}), field) == edge
