"""PPO's losses by hand, its update through tiny real models, and padding that changes nothing."""

import copy
import dataclasses
import inspect
import math

import pytest
import torch
from hypothesis import given
from strategies import (
    EOS,
    GARBAGE,
    PROMPTS,
    RESPONSES,
    TOKEN_FIELDS,
    World,
    close,
    flat,
    garbage_outside,
    left_pad,
    one_thread,  # noqa: F401
    padded_batches,
    ppo_config,
    prefix_mask,
    quick,
    right_pad,
    rollout_of,
    tiny_policy,
    tiny_value_network,
    tiny_world,
    updated,
)
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import ppo
from helpers.ppo import entropy_from_logits, micro_batches, policy_loss, ppo_update_step, value_loss
from helpers.rollouts import RolloutBatch, forward_logprobs, response_mask

ONE = torch.ones(1, 1, dtype=torch.bool)


def all_garbage_outside(tensors, mask, fillers):
    return [garbage_outside(x, mask, filler) for x, filler in zip(tensors, fillers, strict=True)]


def loss_and_gradient(ratio, advantage, cliprange=0.2):
    logprob = torch.tensor([[math.log(ratio)]], requires_grad=True)
    loss, _ = policy_loss(
        logprob, torch.zeros(1, 1), torch.tensor([[float(advantage)]]), ONE, cliprange
    )
    loss.backward()
    return loss.item(), logprob.grad.item()


# --- the clipped policy loss ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "ratio, advantage, expected_loss, learns",
    [
        (1.5, +1, -1.2, False),  # already pushed up enough: stop
        (0.5, +1, -0.5, True),  # a good token got less likely: pull it back
        (0.5, -1, +0.8, False),  # already pushed down enough: stop
        (1.5, -1, +1.5, True),  # a bad token got more likely: pull it back, however far it is
        (1.1, +1, -1.1, True),
        (0.9, -1, +0.9, True),
        (1.0, +1, -1.0, True),
    ],
)
def test_the_clip_stops_learning_only_on_the_side_it_should(
    ratio, advantage, expected_loss, learns
):
    loss, gradient = loss_and_gradient(ratio, advantage)
    assert loss == pytest.approx(expected_loss, abs=1e-6)
    assert gradient == pytest.approx(-advantage * ratio if learns else 0.0, abs=1e-6)


def test_guard_a_bad_token_that_got_likelier_is_never_forgiven():
    """max instead of min would clip exactly here, and the bad token would stay likely."""
    loss, gradient = loss_and_gradient(ratio=3.0, advantage=-2.0)
    assert loss == pytest.approx(6.0, rel=1e-5) and gradient == pytest.approx(6.0, rel=1e-5)


@quick
@given(padded_batches())
def test_the_loss_is_never_below_the_unclipped_one(batch):
    logprobs, advantages, mask = batch
    loss, _ = policy_loss(logprobs, torch.zeros_like(logprobs), advantages, mask)
    unclipped = -(logprobs.exp() * advantages)[mask].mean()
    assert loss >= unclipped - 1e-9


@quick
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


def test_all_ratios_clipped_means_no_gradient():
    logprobs = torch.tensor([[0.5, 1.0], [-0.5, -1.0]], requires_grad=True)
    advantages = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    loss, stats = policy_loss(
        logprobs, torch.zeros(2, 2), advantages, torch.ones(2, 2, dtype=torch.bool)
    )
    loss.backward()
    assert torch.all(logprobs.grad == 0) and float(stats["clip_fraction"]) == 1


def test_statistics_by_hand():
    logprobs = torch.tensor([[0.0, math.log(2.0), 0.1, 50.0]])
    mask = prefix_mask([3], 4)
    _, stats = policy_loss(logprobs, torch.zeros(1, 4), torch.ones(1, 4), mask)
    assert stats["ratio"].shape == (1, 4) and not stats["ratio"].requires_grad
    close(stats["ratio"][mask], torch.tensor([1.0, 2.0, math.exp(0.1)]))
    assert float(stats["clip_fraction"]) == pytest.approx(1 / 3)
    assert float(stats["approx_kl"]) == pytest.approx((math.log(2) ** 2 + 0.01) / 6, rel=1e-5)


def test_at_the_sampling_policy_the_gradient_is_the_policy_gradient():
    """E_y[grad loss_y] = -grad sum_y pi(y) A(y), over the whole vocabulary."""
    logits = torch.tensor([0.3, -1.0, 0.8, 0.0], dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    probs = logits.softmax(-1)
    (expected,) = torch.autograd.grad(-(probs * advantages).sum(), logits, retain_graph=True)
    logprobs = logits.log_softmax(-1)
    losses = [
        policy_loss(
            logprobs[y].view(1, 1), logprobs[y].detach().view(1, 1), advantages[y].view(1, 1), ONE
        )[0]
        for y in range(4)
    ]
    (actual,) = torch.autograd.grad(
        sum(p * loss for p, loss in zip(probs.detach(), losses, strict=True)), logits
    )
    close(actual, expected)


@quick
@given(padded_batches(tensors=3))
def test_policy_loss_ignores_garbage_in_the_padding(batch):
    *tensors, mask = batch
    results = []
    for logprobs, old, advantages in (
        tensors,
        all_garbage_outside(tensors, mask, (1e6, -1e6, 1e6)),
    ):
        logprobs = logprobs.clone().requires_grad_()
        loss, stats = policy_loss(logprobs, old, advantages, mask)
        loss.backward()
        results.append(
            (loss.detach(), logprobs.grad, *(torch.as_tensor(stats[k]) for k in sorted(stats)))
        )
    for clean, dirty in zip(*results, strict=True):
        close(dirty, clean)
    assert torch.all(results[1][1][~mask] == 0)


def test_guard_the_stop_token_is_trained_and_the_pads_after_it_are_not():
    tokens = torch.tensor([[7, EOS, 0, 0], [EOS, 0, 0, 0]])
    logprobs = torch.full((2, 4), -1.0, requires_grad=True)
    loss, _ = policy_loss(
        logprobs, torch.full((2, 4), -1.0), torch.ones(2, 4), response_mask(tokens, EOS)
    )
    loss.backward()
    assert torch.all(logprobs.grad[tokens == EOS] < 0)
    assert torch.all(logprobs.grad[tokens == 0] == 0)


# --- the clipped value loss -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, old, target, expected, gradient",
    [
        (1.0, 0.0, 2.0, 1.8**2 / 2, 0.0),  # moved further than the clip allows: judged at 0.2
        (
            -1.0,
            0.0,
            2.0,
            9 / 2,
            -3.0,
        ),  # moved the wrong way: the larger square is the unclipped one
        (0.1, 0.0, 2.0, 1.9**2 / 2, -1.9),  # inside the clip
        (2.0, 2.0, 2.0, 0.0, 0.0),
    ],
)
def test_value_loss_by_hand(value, old, target, expected, gradient):
    values = torch.tensor([[value]], requires_grad=True)
    loss, _ = value_loss(
        values, torch.tensor([[old]]), torch.tensor([[target]]), ONE, cliprange_value=0.2
    )
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert values.grad.item() == pytest.approx(gradient, abs=1e-5)


@quick
@given(padded_batches())
def test_at_the_old_values_the_loss_is_half_the_mean_squared_error(batch):
    values, returns, mask = batch
    loss, _ = value_loss(values, values.clone(), returns, mask)
    close(loss, 0.5 * ((values - returns)[mask] ** 2).mean())


@quick
@given(padded_batches(tensors=3))
def test_value_loss_ignores_garbage_in_the_padding(batch):
    *tensors, mask = batch
    results = []
    for values, old, returns in (tensors, all_garbage_outside(tensors, mask, (1e6, -1e6, 3e6))):
        values = values.clone().requires_grad_()
        loss, _ = value_loss(values, old, returns, mask)
        loss.backward()
        results.append((loss.detach(), values.grad))
    for clean, dirty in zip(*results, strict=True):
        close(dirty, clean)


# --- entropy --------------------------------------------------------------------------------------


def test_entropy_is_the_mean_surprise_in_nats():
    logits = 3 * torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    entropy = entropy_from_logits(logits)
    assert entropy.shape == (2, 3)
    for row in range(2):
        for t in range(3):
            probs = logits[row, t].softmax(-1).tolist()
            assert entropy[row, t].item() == pytest.approx(
                -sum(p * math.log(p) for p in probs), rel=1e-4
            )


def test_entropy_of_uniform_is_log_v_and_of_certainty_zero():
    close(entropy_from_logits(torch.full((1, 8), 3.0)), torch.tensor([math.log(8)]))
    close(entropy_from_logits(torch.tensor([[1e4, 0.0, 0.0]])), torch.zeros(1))


class Made(TorchDispatchMode):
    """The largest tensor that was made, in numbers; views of what was given are not."""

    def __init__(self, given: torch.Tensor):
        super().__init__()
        self.given, self.largest = given.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() != self.given:
            self.largest = max(self.largest, result.numel())
        return result


def test_entropy_makes_no_tensor_as_large_as_the_logits(monkeypatch):
    """[b, T, V] float32 of a large vocabulary are gigabytes, and each step of the formula makes one."""
    logits = torch.randn(4, 6, 100, generator=torch.Generator().manual_seed(0))
    whole = entropy_from_logits(logits)
    monkeypatch.setattr(ppo, "ENTROPY_LOGITS", 700)
    with Made(logits) as made:
        parts = entropy_from_logits(logits)
    assert torch.equal(parts, whole) and 600 <= made.largest <= 700
    monkeypatch.setattr(ppo, "ENTROPY_LOGITS", 1)  # a row at least
    assert torch.equal(entropy_from_logits(logits[0, 0]), whole[0, 0])


def test_forbidden_tokens_add_no_entropy_and_no_nan_gradient():
    logits = torch.tensor([[1.0, -math.inf, 0.0, -math.inf]], requires_grad=True)
    entropy = entropy_from_logits(logits)
    close(entropy.detach(), entropy_from_logits(torch.tensor([[1.0, 0.0]])))
    entropy.sum().backward()
    assert torch.isfinite(logits.grad).all()


# --- one update: what it reports ------------------------------------------------------------------

METRICS = {
    "policy_loss", "value_loss", "kl", "entropy", "clip_fraction", "approx_kl", "grad_norm",
    "explained_variance", "first_ratio_error",
}  # fmt: skip


@pytest.mark.parametrize("minibatch_size", [2, 4, 64])
def test_metrics_are_finite_floats_by_their_names(minibatch_size):
    metrics, *_ = updated(tiny_world(), minibatch_size=minibatch_size)
    assert METRICS <= set(metrics)
    assert all(isinstance(value, float) and math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_first_ratio_is_one(temperature):
    world = tiny_world()
    queries = left_pad(PROMPTS)
    responses = right_pad(RESPONSES)
    with torch.no_grad():
        logprobs = forward_logprobs(world.policy, *queries, *responses, temperature=temperature)
    rollout = dataclasses.replace(world.rollout, logprobs=logprobs)
    metrics, *_ = updated(world, rollout, temperature=temperature, minibatch_size=2)
    assert metrics["first_ratio_error"] <= 1e-4


def test_the_first_ratio_error_is_measured():
    """A placeholder new_logprob = old_logprob would report 0 here."""
    world = tiny_world()
    shifted = dataclasses.replace(world.rollout, logprobs=world.rollout.logprobs + 0.1)
    metrics, *_ = updated(world, shifted)
    assert metrics["first_ratio_error"] == pytest.approx(1 - math.exp(-0.1), abs=1e-4)


def test_kl_is_per_response_against_the_reference():
    world = tiny_world()
    k1 = (world.rollout.logprobs - world.rollout.ref_logprobs).masked_fill(
        ~world.rollout.response_mask, 0
    )
    metrics, *_ = updated(world, minibatch_size=4)
    assert metrics["kl"] == pytest.approx(k1.sum(1).mean().item(), rel=1e-4)


def test_without_a_learning_rate_nothing_moves():
    world = tiny_world()
    metrics, policy, value_network = updated(world, optimizer="sgd", learning_rate=0.0)
    assert torch.equal(policy, flat(world.policy)) and torch.equal(
        value_network, flat(world.value_network)
    )
    assert metrics["approx_kl"] == pytest.approx(0, abs=1e-8) and metrics["clip_fraction"] == 0


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
@pytest.mark.parametrize("placement", ["reward", "loss"])
def test_micro_batches_add_up_to_the_very_same_update(size, placement):
    world = tiny_world()
    options = {"optimizer": "sgd", "kl_placement": placement, "entropy_coef": 0.01}
    whole, policy, critic = updated(world, micro_batch_size=64, **options)
    parts, *weights = updated(world, micro_batch_size=size, **options)
    for mine, wanted in zip(weights, (policy, critic), strict=True):
        close(mine, wanted, atol=1e-6, rtol=1e-5)
    for name in METRICS:
        assert parts[name] == pytest.approx(whole[name], rel=1e-3, abs=1e-5)


def test_micro_batches_share_out_the_counted_tokens_and_drop_padding():
    rollout = tiny_world().rollout
    parts = list(micro_batches(rollout, 2))
    counted = [int(part.response_mask.sum()) for part, _, _ in parts]
    assert sum(counted) == int(rollout.response_mask.sum())
    assert [float(share) for _, _, share in parts] == pytest.approx(
        [count / sum(counted) for count in counted]
    )
    assert all(weight == share for _, weight, share in parts)
    assert all(bool(part.response_mask.any(dim=0)[-1]) for part, _, _ in parts)
    assert min(part.response_mask.shape[1] for part, _, _ in parts) < rollout.response_mask.shape[1]
    by_rows = [float(weight) for _, weight, _ in micro_batches(rollout, 2, by_tokens=False)]
    assert by_rows == pytest.approx([len(part) / len(rollout) for part, _, _ in parts])


def test_the_same_generator_gives_the_same_update():
    world = tiny_world()
    first, again, other = (updated(world, minibatch_size=2, seed=seed) for seed in (1, 1, 2))
    assert first[0] == again[0] and torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])


def test_good_tokens_become_likelier_and_bad_ones_rarer():
    world = tiny_world()
    mask = world.rollout.response_mask
    good = torch.tensor([True, False, True, False, True, False])[:, None] & mask
    advantages = torch.where(good, 1.0, -1.0).masked_fill(~mask, 0)
    policy = copy.deepcopy(world.policy)
    rollout = dataclasses.replace(world.rollout, advantages=advantages)
    optimizer = torch.optim.SGD([*policy.parameters(), *world.value_network.parameters()], lr=0.02)
    ppo_update_step(
        policy, world.value_network, rollout, optimizer, ppo_config(whiten_advantages=False)
    )
    with torch.no_grad():
        change = (
            forward_logprobs(policy, *left_pad(PROMPTS), *right_pad(RESPONSES))
            - world.rollout.logprobs
        )
    assert (change * advantages)[mask].mean() > 0
    assert change[good].mean() > 0 > change[mask & ~good].mean()


def test_guard_a_rewarded_stop_token_becomes_likelier():
    world = tiny_world()
    stops = (world.rollout.response_tensors == EOS) & world.rollout.response_mask
    rollout = dataclasses.replace(world.rollout, advantages=stops.float())
    policy = copy.deepcopy(world.policy)
    optimizer = torch.optim.SGD([*policy.parameters(), *world.value_network.parameters()], lr=0.02)
    ppo_update_step(
        policy, world.value_network, rollout, optimizer, ppo_config(whiten_advantages=False)
    )
    with torch.no_grad():
        after = forward_logprobs(policy, *left_pad(PROMPTS), *right_pad(RESPONSES))
    assert (after - world.rollout.logprobs)[stops].mean() > 0


def test_guard_the_critic_learns_returns_and_neither_rewards_nor_advantages():
    world = tiny_world()
    mask = world.rollout.response_mask.float()
    values = world.rollout.values
    for sign in (1.0, -1.0):
        rollout = dataclasses.replace(
            world.rollout,
            returns=sign * 5 * mask,
            rewards=-sign * 5 * mask,
            advantages=-sign * mask,
        )
        trained = copy.deepcopy(world.value_network)
        optimizer = torch.optim.SGD([*world.policy.parameters(), *trained.parameters()], lr=0.01)
        ppo_update_step(world.policy, trained, rollout, optimizer, ppo_config(num_ppo_epochs=1))
        from helpers.rollouts import forward_values

        with torch.no_grad():
            after = forward_values(trained, *left_pad(PROMPTS), *right_pad(RESPONSES))
        assert sign * (after - values)[world.rollout.response_mask].mean() > 0


def test_guard_whitening_advantages_does_not_touch_the_critics_targets():
    """Returns computed from whitened advantages would train another critic."""
    world = tiny_world()
    options = {"optimizer": "sgd", "max_grad_norm": 1e6, "num_ppo_epochs": 1}
    plain = updated(world, whiten_advantages=False, **options)
    whitened = updated(world, whiten_advantages=True, **options)
    close(whitened[2], plain[2])
    assert whitened[0]["value_loss"] == pytest.approx(plain[0]["value_loss"], rel=1e-5)


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
    _, policy, value_network = updated(
        world, optimizer="sgd", learning_rate=1.0, max_grad_norm=1e-2, num_ppo_epochs=1, vf_coef=1.0
    )
    assert 1e-4 < (policy - flat(world.policy)).norm() <= 1.01e-2
    assert 1e-4 < (value_network - flat(world.value_network)).norm() <= 1.01e-2


def test_an_entropy_bonus_flattens_the_policy():
    world = tiny_world()
    rollout = dataclasses.replace(
        world.rollout, advantages=torch.zeros_like(world.rollout.advantages)
    )
    config = {
        "whiten_advantages": False,
        "entropy_coef": 1.0,
        "num_ppo_epochs": 10,
        "learning_rate": 1e-2,
    }
    metrics, *_ = updated(world, rollout, **config)
    still, *_ = updated(world, rollout, optimizer="sgd", **config | {"learning_rate": 0.0})
    assert metrics["entropy"] > still["entropy"]


def test_the_reference_is_left_alone():
    world = tiny_world()
    before = flat(world.reference)
    _, policy, _ = updated(world)
    assert torch.equal(flat(world.reference), before)
    assert not torch.equal(policy, flat(world.policy))


# --- padding through real models ------------------------------------------------------------------


def dirty(rollout):
    """The same rollout with other numbers in all padding."""
    mask, query_mask = rollout.response_mask, rollout.query_mask
    floats = {name: garbage_outside(getattr(rollout, name), mask) for name in TOKEN_FIELDS}
    return dataclasses.replace(
        rollout,
        query_tensors=torch.where(query_mask, rollout.query_tensors, 9),
        response_tensors=torch.where(mask, rollout.response_tensors, EOS),
        **floats | {"ref_logprobs": garbage_outside(rollout.ref_logprobs, mask, -GARBAGE)},
    )


def wider(rollout, left=5, right=0):
    def pad(x, sides, filler=0):
        return torch.nn.functional.pad(x, sides, value=filler)

    return dataclasses.replace(
        rollout,
        query_tensors=pad(rollout.query_tensors, (left, 0)),
        query_mask=pad(rollout.query_mask, (left, 0), False),
        response_tensors=pad(rollout.response_tensors, (0, right)),
        response_mask=pad(rollout.response_mask, (0, right), False),
        **{name: pad(getattr(rollout, name), (0, right)) for name in TOKEN_FIELDS},
    )


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("minibatch_size", [4, 64])
@pytest.mark.parametrize(
    "disguise, tolerance",
    [
        (dirty, 1e-6),
        (wider, 1e-5),
        (lambda r: wider(r, 0, 4), 1e-5),
        (lambda r: dirty(wider(r, 3, 2)), 1e-5),
    ],
    ids=["garbage", "wider-prompts", "wider-responses", "both"],
)
def test_padding_changes_no_metric_and_no_weight(disguise, tolerance, minibatch_size, whiten):
    world = tiny_world()
    options = {
        "minibatch_size": minibatch_size, "whiten_advantages": whiten, "optimizer": "sgd",
        "entropy_coef": 0.1, "learning_rate": 0.05, "max_grad_norm": 10.0,
    }  # fmt: skip
    clean, other = updated(world, **options), updated(world, disguise(world.rollout), **options)
    for name in clean[0]:
        assert other[0][name] == pytest.approx(clean[0][name], rel=10 * tolerance, abs=tolerance), (
            name
        )
    close(other[1], clean[1], atol=tolerance)
    close(other[2], clean[2], atol=tolerance)


def test_padding_changes_nothing_under_adam_with_rewards_whitened_too():
    world = tiny_world()
    clean = updated(world, whiten_rewards=True, minibatch_size=4)
    other = updated(world, dirty(world.rollout), whiten_rewards=True, minibatch_size=4)
    for mine, theirs in zip(clean[1:], other[1:], strict=True):
        close(theirs, mine)


@pytest.mark.parametrize("kl_loss", ["k2", "full"])
def test_padding_changes_nothing_with_the_kl_in_the_loss(kl_loss):
    world = tiny_world()
    options = {
        "kl_placement": "loss",
        "kl_loss": kl_loss,
        "kl_coef": 0.5,
        "minibatch_size": 4,
        "optimizer": "sgd",
    }
    clean = updated_against_reference(world, world.rollout, **options)
    other = updated_against_reference(world, dirty(wider(world.rollout, 3, 2)), **options)
    close(other[1], clean[1], atol=1e-5)


# --- the KL penalty, in one place or the other ----------------------------------------------------


def updated_against_reference(world, rollout, **options):
    """One update, with the reference if the config needs it."""
    extra = {
        name: world.reference
        for name in inspect.signature(ppo_update_step).parameters
        if name.startswith("ref")
    }
    learning_rate = options.pop("learning_rate", 0.05)
    options.pop("optimizer", None)
    policy, value_network = copy.deepcopy(world.policy), copy.deepcopy(world.value_network)
    optimizer = torch.optim.SGD(
        [*policy.parameters(), *value_network.parameters()], lr=learning_rate
    )
    metrics = ppo_update_step(
        policy, value_network, rollout, optimizer, ppo_config(**options),
        generator=torch.Generator().manual_seed(3), **extra,
    )  # fmt: skip
    return metrics, flat(policy), flat(value_network)


def test_with_the_kl_in_the_reward_the_update_adds_no_second_one():
    world = tiny_world()
    small, large = (
        updated(world, kl_placement="reward", kl_coef=kl_coef) for kl_coef in (0.0, 10.0)
    )
    assert torch.equal(small[1], large[1])


def one_token_world(token):
    """A vocabulary of five, one prompt, one response token: everything can be enumerated."""
    policy, reference = tiny_policy(0, vocab=5), tiny_policy(5, vocab=5)
    value_network = tiny_value_network(1, vocab=5)
    rollout = rollout_of(
        policy,
        reference,
        value_network,
        *left_pad([[2, 3]]),
        torch.tensor([[token]]),
        ONE,
        torch.zeros(1),
    )
    return World(policy, reference, value_network, rollout)


def next_logprobs(model):
    return model(torch.tensor([[2, 3]])).logits[0, -1].log_softmax(-1)


@pytest.mark.parametrize("placement, kl_loss", [("reward", "k2"), ("loss", "k2"), ("loss", "full")])
def test_in_expectation_the_penalty_descends_beta_times_the_exact_kl(placement, kl_loss):
    kl_coef, learning_rate = 0.7, 1e-2
    world = one_token_world(0)
    logprobs, ref_logprobs = next_logprobs(world.policy), next_logprobs(world.reference).detach()
    kl = (logprobs.exp() * (logprobs - ref_logprobs)).sum()
    assert kl > 0.1
    kl.backward()
    expected = kl_coef * torch.cat([p.grad.flatten() for p in world.policy.parameters()])

    k1 = (logprobs - ref_logprobs).detach()
    actual = torch.zeros_like(expected)
    for token, probability in enumerate(logprobs.exp().tolist()):
        one = one_token_world(token)
        advantage = -kl_coef * k1[token].view(1, 1) if placement == "reward" else torch.zeros(1, 1)
        _, after, _ = updated_against_reference(
            one, dataclasses.replace(one.rollout, advantages=advantage), learning_rate=learning_rate,
            kl_placement=placement, kl_loss=kl_loss, kl_coef=kl_coef, num_ppo_epochs=1,
            whiten_advantages=False, max_grad_norm=1e6,
        )  # fmt: skip
        actual += probability * (flat(one.policy) - after) / learning_rate
    close(actual, expected, atol=2e-4 * float(expected.abs().max()) + 2e-5, rtol=1e-3)


def test_rollouts_of_a_policy_equal_to_its_reference_have_no_kl():
    world = tiny_world()
    same = rollout_of(
        world.policy, copy.deepcopy(world.policy), world.value_network,
        *left_pad(PROMPTS), *right_pad(RESPONSES), torch.zeros(6),
    )  # fmt: skip
    assert isinstance(same, RolloutBatch)
    metrics, *_ = updated(world, same)
    assert abs(metrics["kl"]) <= 1e-4
