"""Two rewards: both ways end on the front; only one of them asks for units."""

import pytest
import torch

from helpers.groups import grpo_advantages
from helpers.lessons.without_a_critic import two_rewards
from helpers.lessons.without_a_critic.two_rewards import (
    normalise_then_sum,
    sum_then_normalise,
    tilted,
)
from helpers.theory.optimum import kl_divergence

REWARDS = torch.randn(2, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("kl", [0.1, 1.0])
def test_no_policy_of_this_kl_has_a_higher_weighted_sum(kl):
    weights = torch.tensor([0.3, 2.0])
    best = tilted(REWARDS, weights, kl)
    assert float(kl_divergence(best, torch.full_like(best, 1 / 40))) == pytest.approx(kl, abs=1e-9)
    others = torch.stack([tilted(torch.randn(2, 40), weights, kl) for _ in range(50)])
    weighted = weights.double() @ REWARDS
    assert (others @ weighted).max() < best @ weighted


def test_units_move_the_sum_and_not_the_normalised_ones():
    scaled = REWARDS * torch.tensor([[1.0], [10.0]])
    assert torch.allclose(normalise_then_sum(scaled, 1.0), normalise_then_sum(REWARDS, 1.0))
    moved = sum_then_normalise(scaled, 1.0) - sum_then_normalise(REWARDS, 1.0)
    assert moved.abs().max() > 0.01


@pytest.mark.parametrize("way", ["sum_then_normalise", "normalise_then_sum"])
def test_at_the_end_groups_advantages_and_the_penalty_push_no_answer(way):
    """With a large group drawn from the end, A − β·log(π/π_ref) is the same for all answers."""
    policy = getattr(two_rewards, way)(REWARDS, 0.5)
    drawn = torch.multinomial(policy, 400_000, True, generator=torch.Generator().manual_seed(1))
    seen = REWARDS[:, drawn]
    parts = [seen.sum(0)] if way == "sum_then_normalise" else list(seen)
    advantages = sum(grpo_advantages(part, len(drawn)) for part in parts)
    by_answer = torch.zeros(40, dtype=torch.float64).scatter_(0, drawn, advantages)
    pull = policy.log() - policy.log().mean()
    kl_coef = float((by_answer * pull).sum() / pull.square().sum())
    left = by_answer - by_answer.mean() - kl_coef * pull
    assert float(left.abs().max()) < 0.02 * float(by_answer.abs().max())
