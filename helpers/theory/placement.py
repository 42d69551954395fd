"""KL in the reward or in the loss: the best policy of each, exactly, in a world that can be listed.

Answers are all sequences of T tokens over V words. With KL in the reward a token pays for the KL
that it leads to later; with KL in the loss it pays for its own position only:

    reward:  π(a|s) ∝ π_ref(a|s)·exp(Q(s,a)/β),  Q(s,a) = r, or β·log Σ π_ref·exp(Q/β) one token on
    loss:    π(a|s) ∝ π_ref(a|s)·exp(Q(s,a)/β),  Q(s,a) = E_π[r | s,a]

The first is the Gibbs policy of the whole sequence. The second is where the gradient of
E[r] − β·Σ_t KL(π(·|s_t)‖π_ref(·|s_t)) is 0 when prefixes s_t are taken as they were drawn. Both are
found by walking back from the last token. Rewards in score units, KL in nats per response.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.theory.optimum import kl_divergence
from helpers.tools.validate import require, require_choice, require_positive

PLACEMENTS = ("reward", "loss")
Policy = list[Tensor]  # one tensor per position t: [V^t, V] next-token probabilities by prefix


@dataclass(frozen=True)
class SequenceWorld:
    """A reference over sequences of T tokens and the reward of every sequence."""

    reference: Policy
    rewards: Tensor  # (V^T,) in the order of the prefixes: the last token varies fastest

    def sequence_probs(self, policy: Policy) -> Tensor:
        """Probability of every whole sequence: [V^T]."""
        probs = torch.ones(1, dtype=self.rewards.dtype)
        for step in policy:
            probs = (probs.unsqueeze(1) * step).flatten()  # (V^(t+1),)
        return probs


def random_world(seed: int, vocabulary: int = 4, length: int = 4) -> SequenceWorld:
    """Next-token logits and rewards drawn from N(0, 1); rewards with mean 0, variance 1 under π_ref."""
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    reference = [torch.randn(vocabulary**t, vocabulary, **draw).softmax(-1) for t in range(length)]
    world = SequenceWorld(reference, torch.randn(vocabulary**length, **draw))
    probs = world.sequence_probs(reference)
    mean = probs @ world.rewards
    std = (probs @ (world.rewards - mean).square()).sqrt()
    return SequenceWorld(reference, (world.rewards - mean) / std)


def best_policy(world: SequenceWorld, kl_coef: float, placement: str = "reward") -> Policy:
    """The policy that training with this placement of the KL converges to, position by position.

    "reward" is π* of the sequence (`gibbs_policy`). ValueError: β ≤ 0, an unknown placement.
    """
    require_positive("kl_coef", kl_coef)
    require_choice("placement", placement, PLACEMENTS)
    value, policy = world.rewards, []
    for reference in reversed(world.reference):
        tilted = reference.log() + value.view_as(reference) / kl_coef  # (V^t, V)
        step = tilted.softmax(dim=-1)
        if placement == "reward":
            value = kl_coef * tilted.logsumexp(dim=-1)  # (V^t,) KL still to come included
        else:
            value = (step * value.view_as(step)).sum(dim=-1)  # (V^t,) the reward alone
        policy.insert(0, step)
    return policy


def reward_and_kl(world: SequenceWorld, policy: Policy) -> tuple[float, float]:
    """E_π[r] and KL(π‖π_ref) of a policy, by adding up all sequences."""
    probs = world.sequence_probs(policy)
    kl = kl_divergence(probs, world.sequence_probs(world.reference))
    return float(probs @ world.rewards), float(kl)


def frontier(world: SequenceWorld, betas: list[float], placement: str) -> list[tuple[float, float]]:
    """(E[r], KL) of the best policy at each β."""
    return [reward_and_kl(world, best_policy(world, beta, placement)) for beta in betas]


def reward_at_kl(world: SequenceWorld, kl: float, placement: str) -> float:
    """E[r] where the frontier of this placement reaches `kl` nats, by halving an interval of log β.

    ValueError: a KL of 0 or less, or one that no β reaches (the best answer has a finite one).
    """
    require_positive("kl", kl)
    low, high = -12.0, 8.0  # log β: KL falls as β grows
    (_, most), (_, least) = frontier(world, [math.exp(low), math.exp(high)], placement)
    require(least < kl < most, "kl", kl, f"between {least:.3g} and {most:.3g}")
    for _ in range(60):
        middle = (low + high) / 2
        ((score, there),) = frontier(world, [math.exp(middle)], placement)
        low, high = (middle, high) if there > kl else (low, middle)
    return score
