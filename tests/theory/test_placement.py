"""Both placements of the KL against definitions: Gibbs on whole sequences, and gradients of 0."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.theory.optimum import gibbs_policy, gibbs_value
from helpers.theory.placement import (
    PLACEMENTS,
    best_policy,
    frontier,
    random_world,
    reward_and_kl,
    reward_at_kl,
)

SEEDS = st.integers(0, 10_000)
BETAS = st.floats(0.05, 5.0)


def gradients(world, policy, kl_coef: float, placement: str) -> list[torch.Tensor]:
    """Gradient of what each placement maximises, by logits of every prefix, over all sequences."""
    logits = [step.log().requires_grad_() for step in policy]
    steps = [each.log_softmax(dim=-1) for each in logits]
    total = torch.zeros(1, dtype=torch.float64)  # log π of each prefix
    paid = torch.zeros((), dtype=torch.float64)
    for step, reference in zip(steps, world.reference, strict=True):
        weight = total.exp() if placement == "reward" else total.exp().detach()
        per_prefix = (step.exp() * (step - reference.log())).sum(dim=-1)
        paid = paid + (weight * per_prefix).sum()
        total = (total.unsqueeze(1) + step).flatten()
    objective = total.exp() @ world.rewards - kl_coef * paid
    return torch.autograd.grad(objective, logits)


@given(SEEDS, BETAS)
def test_kl_in_the_reward_is_the_gibbs_policy_of_the_whole_sequence(seed, beta):
    world = random_world(seed, vocabulary=3, length=3)
    policy = best_policy(world, beta, "reward")
    reference = world.sequence_probs(world.reference)
    expected = gibbs_policy(reference, world.rewards, beta)
    torch.testing.assert_close(world.sequence_probs(policy), expected)
    score, kl = reward_and_kl(world, policy)
    value = gibbs_value(reference, world.rewards, beta)
    assert score - beta * kl == pytest.approx(float(value), abs=1e-9)


@pytest.mark.parametrize("placement", PLACEMENTS)
@given(seed=SEEDS, beta=BETAS)
def test_the_gradient_of_each_placement_is_0_at_its_policy(placement, seed, beta):
    world = random_world(seed, vocabulary=3, length=3)
    policy = best_policy(world, beta, placement)
    found = gradients(world, policy, beta, placement)
    assert max(float(each.abs().max()) for each in found) < 1e-9


def test_the_gradient_of_one_placement_is_not_0_at_the_other_s_policy():
    world = random_world(0)
    for here, there in (PLACEMENTS, PLACEMENTS[::-1]):
        found = gradients(world, best_policy(world, 0.5, here), 0.5, there)
        assert max(float(each.abs().max()) for each in found) > 1e-3


@given(SEEDS, BETAS)
def test_with_one_token_there_is_nothing_later_and_both_are_the_same(seed, beta):
    world = random_world(seed, vocabulary=5, length=1)
    policies = [best_policy(world, beta, placement)[0] for placement in PLACEMENTS]
    torch.testing.assert_close(*policies)


@given(SEEDS, BETAS)
@example(848, 0.25)  # further from the reference than the best answer is
def test_at_the_same_kl_the_reward_placement_is_never_below(seed, beta):
    world = random_world(seed, vocabulary=3, length=3)
    score, kl = reward_and_kl(world, best_policy(world, beta, "loss"))
    highest, furthest = reward_and_kl(world, best_policy(world, 1e-5, "reward"))
    best = highest if kl >= furthest else reward_at_kl(world, kl, "reward")
    assert score <= best + 1e-6


@given(SEEDS)
def test_rewards_are_centred_and_scaled_under_the_reference(seed):
    world = random_world(seed)
    probs = world.sequence_probs(world.reference)
    assert float(probs.sum()) == pytest.approx(1.0)
    assert float(probs @ world.rewards) == pytest.approx(0.0, abs=1e-9)
    assert float(probs @ world.rewards.square()) == pytest.approx(1.0)


def test_the_frontier_passes_through_the_point_found_by_kl():
    world = random_world(1)
    (point,) = frontier(world, [0.4], "loss")
    assert reward_at_kl(world, point[1], "loss") == pytest.approx(point[0], abs=1e-6)
