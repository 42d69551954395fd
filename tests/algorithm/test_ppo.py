"""PPO's losses by hand, its update through tiny real models, and padding that changes nothing."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from strategies import (
    EOS,
    GARBAGE,
    World,
    close,
    flat,
    garbage_outside,
    largest_made,
    left_pad,
    padded_batches,
    ppo_config,
    prefix_mask,
    rollout_of,
    tiny_policy,
    tiny_value_network,
    tiny_world,
    trained,
    updated,
)

from helpers import ppo
from helpers.ppo import entropy_from_logits, policy_loss, ppo_update_step, value_loss
from helpers.rollouts import PER_TOKEN, forward_values

ONE = torch.ones(1, 1, dtype=torch.bool)


# --- the clipped policy loss ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "ratio, advantage, expected, learns",
    [
        (1.5, +1, -1.2, False),  # already pushed up enough: stop
        (0.5, +1, -0.5, True),  # a good token got less likely: pull it back
        (0.5, -1, +0.8, False),  # already pushed down enough: stop
        (1.5, -1, +1.5, True),  # a bad token got more likely: pull it back, however far it is
        (1.1, +1, -1.1, True),
    ],
)
def test_the_clip_stops_learning_only_on_the_side_it_should(ratio, advantage, expected, learns):
    logprob = torch.tensor([[math.log(ratio)]], requires_grad=True)
    loss, _ = policy_loss(logprob, torch.zeros(1, 1), torch.tensor([[float(advantage)]]), ONE)
    loss.backward()
    assert loss.item() == pytest.approx(expected, abs=1e-5)
    assert logprob.grad.item() == pytest.approx(-advantage * ratio if learns else 0.0, abs=1e-5)


@given(padded_batches())
def test_at_ratio_one_the_gradient_is_minus_the_advantage_over_the_tokens(batch):
    logprobs, advantages, mask = batch
    logprobs.requires_grad_()
    loss, stats = policy_loss(logprobs, logprobs.detach().clone(), advantages, mask)
    loss.backward()
    close(loss.detach(), -advantages[mask].mean())
    close(logprobs.grad, -(advantages / mask.sum()).masked_fill(~mask, 0))
    close(stats["ratio"][mask], torch.ones(int(mask.sum())))
    assert float(stats["clip_fraction"]) == 0 and float(stats["approx_kl"]) == 0


def test_statistics_by_hand():
    """Of two ratios of 2 the clip stops the good token's; the bad one's still pulls back."""
    far = math.log(2.0)
    logprobs, advantages = torch.tensor([[0.0, far, far, 0.1, 50.0]]), torch.ones(1, 5)
    advantages[0, 2], mask = -1.0, prefix_mask([4], 5)
    _, stats = policy_loss(logprobs, torch.zeros(1, 5), advantages, mask)
    assert stats["ratio"].shape == (1, 5) and not stats["ratio"].requires_grad
    close(stats["ratio"][mask], torch.tensor([1.0, 2.0, 2.0, math.exp(0.1)]))
    assert float(stats["clip_fraction"]) == pytest.approx(1 / 4)
    assert float(stats["approx_kl"]) == pytest.approx((2 * far**2 + 0.01) / 8, rel=1e-5)


# --- the clipped value loss -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, old, target, expected, gradient",
    [
        (1.0, 0.0, 2.0, 1.8**2 / 2, 0.0),  # moved further than the clip allows: judged at 0.2
        (-1.0, 0.0, 2.0, 9 / 2, -3.0),  # moved the wrong way: the unclipped square is larger
        (0.1, 0.0, 2.0, 1.9**2 / 2, -1.9),  # inside the clip
    ],
)
def test_value_loss_by_hand(value, old, target, expected, gradient):
    values = torch.tensor([[value]], requires_grad=True)
    given = values, torch.tensor([[old]]), torch.tensor([[target]]), ONE
    loss, _ = value_loss(*given, cliprange_value=0.2)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert values.grad.item() == pytest.approx(gradient, abs=1e-5)


@given(padded_batches())
def test_at_the_old_values_the_loss_is_half_the_mean_squared_error(batch):
    values, returns, mask = batch
    loss, _ = value_loss(values, values.clone(), returns, mask)
    close(loss, 0.5 * ((values - returns)[mask] ** 2).mean())


# --- entropy --------------------------------------------------------------------------------------


def test_entropy_is_the_mean_surprise_in_nats_and_a_forbidden_token_adds_none():
    logits = 3 * torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    probs = logits.softmax(-1)
    close(entropy_from_logits(logits), -(probs * probs.log()).sum(-1), rtol=1e-4)
    close(entropy_from_logits(torch.full((1, 8), 3.0)), torch.tensor([math.log(8)]))
    close(entropy_from_logits(torch.tensor([[1e4, 0.0, 0.0]])), torch.zeros(1))
    logits = torch.tensor([[1.0, -math.inf, 0.0, -math.inf]], requires_grad=True)
    entropy = entropy_from_logits(logits)
    close(entropy.detach(), entropy_from_logits(torch.tensor([[1.0, 0.0]])))
    entropy.sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_entropy_makes_no_tensor_as_large_as_the_logits(monkeypatch):
    """[b, T, V] float32 of a large vocabulary are gigabytes, and each step of the formula makes one."""
    logits = torch.randn(4, 6, 100, generator=torch.Generator().manual_seed(0))
    whole = entropy_from_logits(logits)
    monkeypatch.setattr(ppo, "ENTROPY_LOGITS", 700)
    parts, largest = largest_made(logits, lambda: entropy_from_logits(logits))
    assert torch.equal(parts, whole) and 600 <= largest <= 700
    monkeypatch.setattr(ppo, "ENTROPY_LOGITS", 1)  # a row at least
    assert torch.equal(entropy_from_logits(logits[0, 0]), whole[0, 0])


# --- one update: what it reports ------------------------------------------------------------------

METRICS = {
    "policy_loss", "value_loss", "kl", "entropy", "clip_fraction", "approx_kl", "grad_norm",
    "explained_variance", "first_ratio_error",
}  # fmt: skip


def test_the_first_ratio_error_is_measured():
    """A placeholder new_logprob = old_logprob would report 0 here."""
    world = tiny_world()
    shifted = dataclasses.replace(world.rollout, logprobs=world.rollout.logprobs + 0.1)
    metrics, *_ = updated(world, shifted)
    assert metrics["first_ratio_error"] == pytest.approx(1 - math.exp(-0.1), abs=1e-4)


def test_kl_is_per_response_against_the_reference():
    world = tiny_world()
    rollout = world.rollout
    k1 = torch.where(rollout.response_mask, rollout.logprobs - rollout.ref_logprobs, 0)
    metrics, *_ = updated(world, minibatch_size=4)
    assert METRICS <= set(metrics)
    assert all(isinstance(value, float) and math.isfinite(value) for value in metrics.values())
    assert metrics["kl"] == pytest.approx(k1.sum(1).mean().item(), rel=1e-4)


def test_a_critic_that_is_right_explains_all_the_variance():
    world = tiny_world()
    rollout = dataclasses.replace(world.rollout, returns=world.rollout.values)
    metrics, *_ = updated(world, rollout, optimizer="sgd", learning_rate=0.0)
    assert metrics["explained_variance"] == pytest.approx(1, abs=1e-5)
    assert metrics["value_loss"] == pytest.approx(0, abs=1e-8)


# --- one update: what it does ---------------------------------------------------------------------


@pytest.mark.parametrize("size, epochs, steps", [(64, 4, 4), (2, 3, 9), (4, 2, 4)])
def test_one_optimizer_step_a_minibatch_an_epoch(size, epochs, steps):
    world, count = tiny_world(), []
    optimizer = torch.optim.Adam(world.parameters(), lr=1e-3, eps=1e-5)
    optimizer.register_step_post_hook(lambda *_: count.append(1))
    config = ppo_config(minibatch_size=size, num_ppo_epochs=epochs)
    ppo_update_step(world.policy, world.value_network, world.rollout, optimizer, config)
    assert len(count) == steps


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kl_placement": "loss"},
        {"method": "rloo", "kl_placement": "loss"},
        {"method": "rloo", "kl_placement": "loss", "loss_aggregation": "response"},
        {"method": "rloo", "kl_placement": "loss", "loss_aggregation": "fixed"},
    ],
    ids=str,
)
def test_micro_batches_add_up_to_the_very_same_update(size, options):
    world, critic = tiny_world(), "method" not in options
    options = {"optimizer": "sgd", "entropy_coef": 0.01, "critic": critic} | options
    whole, *wanted = updated(world, micro_batch_size=64, **options)
    parts, *weights = updated(world, micro_batch_size=size, **options)
    for mine, theirs in zip(weights, wanted, strict=True):
        assert mine is theirs is None or close(mine, theirs, 1e-6, 1e-5) is None
    for name in whole:
        assert parts[name] == pytest.approx(whole[name], rel=1e-3, abs=1e-5), name


def test_guard_the_critic_learns_returns_and_neither_rewards_nor_advantages():
    world = tiny_world()
    mask = world.rollout.response_mask.float()
    for sign in (1.0, -1.0):
        against = {"rewards": -sign * 5 * mask, "advantages": -sign * mask}
        rollout = dataclasses.replace(world.rollout, returns=sign * 5 * mask, **against)
        _, _, critic = trained(world, rollout, optimizer="sgd", num_ppo_epochs=1)
        with torch.no_grad():
            change = forward_values(critic, *rollout.tokens()) - rollout.values
        assert sign * change[rollout.response_mask].mean() > 0


@pytest.mark.parametrize(
    "options, moves",
    [({"cliprange": 1e-9}, 0), ({"cliprange_value": 1e-9}, 1), ({"vf_coef": 0.0}, 1)],
    ids=str,
)
def test_an_option_of_one_network_changes_that_network_alone(options, moves):
    """Without the common gradient clipping; a loss clipped at once stops after the first step."""
    world, free = tiny_world(), {"optimizer": "sgd", "max_grad_norm": 1e6, "num_ppo_epochs": 2}
    plain, other = updated(world, **free)[1:], updated(world, **free, **options)[1:]
    close(other[1 - moves], plain[1 - moves])
    assert (other[moves] - plain[moves]).abs().max() > 1e-5


def test_the_larger_epsilon_above_is_one_only_where_it_is_given():
    def policy(**clip):
        return updated(tiny_world(), **clip)[1]

    close(policy(), policy(cliprange_high=0.2))
    assert not torch.equal(policy(cliprange=0.01, cliprange_high=0.5), policy(cliprange=0.01))


def test_stale_gradients_are_cleared_first():
    world = tiny_world()
    clean = updated(world)
    for parameter in world.parameters():
        parameter.grad = torch.full_like(parameter, 1e3)
    stale = updated(world)
    close(stale[1], clean[1])
    close(stale[2], clean[2])


def test_gradient_clipping_bounds_the_step_of_actor_and_critic():
    world = tiny_world()
    before = flat(world.reference)
    settings = {"learning_rate": 1.0, "max_grad_norm": 1e-2, "num_ppo_epochs": 1, "vf_coef": 1.0}
    _, policy, value_network = updated(world, optimizer="sgd", **settings)
    assert 1e-4 < (policy - flat(world.policy)).norm() <= 1.01e-2
    assert 1e-4 < (value_network - flat(world.value_network)).norm() <= 1.01e-2
    assert torch.equal(flat(world.reference), before)


def test_an_entropy_bonus_flattens_the_policy():
    world = tiny_world()
    rollout = dataclasses.replace(world.rollout, advantages=0 * world.rollout.advantages)
    config = {"whiten_advantages": False, "entropy_coef": 1.0, "num_ppo_epochs": 10}
    metrics, *_ = updated(world, rollout, **config)
    still, *_ = updated(world, rollout, optimizer="sgd", learning_rate=0.0, **config)
    assert metrics["entropy"] > still["entropy"]


# --- padding through real models ------------------------------------------------------------------


def dirty(rollout):
    """The same rollout with other numbers in all padding."""
    mask, query_mask = rollout.response_mask, rollout.query_mask
    floats = {name: garbage_outside(getattr(rollout, name), mask) for name in PER_TOKEN}
    return dataclasses.replace(
        rollout,
        query_tensors=torch.where(query_mask, rollout.query_tensors, 9),
        response_tensors=torch.where(mask, rollout.response_tensors, EOS),
        **floats | {"ref_logprobs": garbage_outside(rollout.ref_logprobs, mask, -GARBAGE)},
    )


def wider(rollout, left=3, right=2):
    def pad(x, sides, filler=0):
        return torch.nn.functional.pad(x, sides, value=filler)

    return dataclasses.replace(
        rollout,
        query_tensors=pad(rollout.query_tensors, (left, 0)),
        query_mask=pad(rollout.query_mask, (left, 0), False),
        response_tensors=pad(rollout.response_tensors, (0, right)),
        response_mask=pad(rollout.response_mask, (0, right), False),
        **{name: pad(getattr(rollout, name), (0, right)) for name in PER_TOKEN},
    )


@pytest.mark.parametrize(
    "options",
    [
        {"minibatch_size": 4, "entropy_coef": 0.1, "learning_rate": 0.05, "max_grad_norm": 10.0},
        {"whiten_advantages": False, "entropy_coef": 0.1, "learning_rate": 0.05},
        {"optimizer": "adam", "whiten_rewards": True, "minibatch_size": 4},
        {"kl_placement": "loss", "kl_loss": "k2", "kl_coef": 0.5, "minibatch_size": 4},
        {"kl_placement": "loss", "kl_loss": "k3", "kl_ratio": True, "num_ppo_epochs": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "disguise, tolerance",
    [
        pytest.param(dirty, 1e-6, id="garbage"),
        pytest.param(lambda rollout: dirty(wider(rollout)), 1e-5, id="wider, with garbage"),
    ],
)
def test_padding_changes_no_metric_and_no_weight(disguise, tolerance, options):
    world, options = tiny_world(), {"optimizer": "sgd"} | options
    clean, other = updated(world, **options), updated(world, disguise(world.rollout), **options)
    assert other[0] == pytest.approx(clean[0], rel=10 * tolerance, abs=tolerance)
    close(other[1], clean[1], atol=tolerance)
    close(other[2], clean[2], atol=tolerance)


# --- the KL penalty, in one place or the other ----------------------------------------------------


def one_token_world(token):
    """A vocabulary of five, one prompt, one response token: everything can be enumerated."""
    policy, reference = tiny_policy(0, vocab=5), tiny_policy(5, vocab=5)
    value_network = tiny_value_network(vocab=5)
    networks = policy, reference, value_network
    response = torch.tensor([[token]]), ONE
    return World(*networks, rollout_of(*networks, *left_pad([[2, 3]]), *response, torch.zeros(1)))


def next_logprobs(model):
    return model(torch.tensor([[2, 3]])).logits[0, -1].log_softmax(-1)


@pytest.mark.parametrize("placement", ["reward", "loss"])
def test_in_expectation_the_penalty_descends_beta_times_the_exact_kl(placement):
    kl_coef, learning_rate = 0.7, 1e-2
    world = one_token_world(0)
    logprobs, ref_logprobs = next_logprobs(world.policy), next_logprobs(world.reference).detach()
    kl = (logprobs.exp() * (logprobs - ref_logprobs)).sum()
    assert kl > 0.1
    kl.backward()
    expected = kl_coef * torch.cat([p.grad.flatten() for p in world.policy.parameters()])

    k1 = (logprobs - ref_logprobs).detach()
    options = {"kl_placement": placement, "kl_loss": "k2", "kl_coef": kl_coef}
    options |= {"optimizer": "sgd", "learning_rate": learning_rate}
    options |= {"num_ppo_epochs": 1, "max_grad_norm": 1e6}
    actual = torch.zeros_like(expected)
    for token, probability in enumerate(logprobs.exp().tolist()):
        one = one_token_world(token)
        advantage = -kl_coef * k1[token].view(1, 1) if placement == "reward" else torch.zeros(1, 1)
        rollout = dataclasses.replace(one.rollout, advantages=advantage)
        _, after, _ = updated(one, rollout, **options)
        actual += probability * (flat(one.policy) - after) / learning_rate
    close(actual, expected, atol=2e-4 * float(expected.abs().max()) + 2e-5, rtol=1e-3)
