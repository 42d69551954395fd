"""Two rewards, added before or after they are normalised: where training ends, exactly, on one set of texts.

The answers are those of a large group, equally likely under π_ref. Advantages A with a KL penalty β in the
loss leave a policy alone where A(y) − β·log(π(y)/π_ref(y)) is the same for all y: π ∝ π_ref·exp(A/β). A is
linear in the two rewards, so each end is the best policy for some weights: a point of the front.
"""

import torch
from torch import Tensor

from helpers.theory.optimum import gibbs_policy, kl_divergence
from helpers.tools.validate import require, require_positive, require_shape


def tilted(rewards: Tensor, weights: Tensor, kl: float) -> Tensor:
    """The policy that maximises the weighted sum of rewards at this KL: [2, N], [2] → [N], float64.

    π ∝ exp(λ·Σᵢ wᵢ·rᵢ), the λ found by bisection. ValueError: shapes; a KL that no such policy has.
    """
    require_shape("rewards", rewards, (2, rewards.shape[-1]))
    require_positive("kl", kl)
    total = weights.double() @ rewards.double()
    total = (total - total.max()) / total.std()
    most = -float((total == 0).double().mean().log())
    require(kl < most, "kl", kl, f"less than {most:.2f} nats, of the best")
    uniform = torch.full_like(total, 1 / len(total))

    def at(scale: float) -> Tensor:
        return gibbs_policy(uniform, total, 1 / scale)

    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if kl_divergence(at(middle), uniform) < kl else (low, middle)
    return at(high)


def sum_then_normalise(rewards: Tensor, kl: float) -> Tensor:
    """Where A = normalised (r₁ + r₂) ends at this KL: [2, N] → [N]. One std divides both rewards."""
    return tilted(rewards, torch.ones(2), kl)


def normalise_then_sum(rewards: Tensor, kl: float) -> Tensor:
    """Where A = normalised r₁ + normalised r₂ ends (GDPO, Liu et al. 2026): [2, N] → [N].

    Each std is the policy's own, so the weights are found by repeated substitution.
    """
    weights = torch.ones(2)
    for _ in range(50):
        policy = tilted(rewards, weights, kl)
        mean = (rewards.double() @ policy)[:, None]
        std = ((rewards - mean).square() @ policy).sqrt()
        weights = 1 / std
    return policy
