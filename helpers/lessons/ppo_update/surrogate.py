"""How wrong the gradient from old samples is, exactly, in a world that can be listed.

PPO's ratio weighs the token that was drawn, not the words before it, which the old policy drew too, nor
those after it, on which its advantage rests:

    surrogate:  Σ_t E_{s_t∼π_old} Σ_a π(a|s_t)·A_old(s_t, a)      (Schulman et al. 2015, eq. 3)
    objective:  E_π[r]

At π = π_old both have the same gradient. Further away they part: the surrogate is right to first order.
Rewards in score units, distances in nats per token.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from helpers.tools.validate import require, require_positive

Policy = list[Tensor]  # one tensor per position t: [V^t, V] next-token probabilities by prefix


@dataclass(frozen=True)
class SequenceWorld:
    """A reference over sequences of T tokens and the reward of every sequence."""

    reference: Policy
    rewards: Tensor  # (V^T,) in the order of the prefixes: the last token varies fastest


def random_world(seed: int, vocabulary: int = 4, length: int = 4) -> SequenceWorld:
    """Next-token logits and rewards drawn from N(0, 1); rewards with mean 0, variance 1 under π_ref."""
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    reference = [torch.randn(vocabulary**t, vocabulary, **draw).softmax(-1) for t in range(length)]
    rewards, probs = torch.randn(vocabulary**length, **draw), prefix_probs(reference)[-1]
    mean = probs @ rewards
    std = (probs @ (rewards - mean).square()).sqrt()
    return SequenceWorld(reference, (rewards - mean) / std)


def advantages(world: SequenceWorld, policy: Policy) -> list[Tensor]:
    """Exact advantages Q − V of every token in every prefix under a policy: one [V^t, V] a position."""
    value, found = world.rewards, []
    for step in reversed(policy):
        action_values = value.view_as(step)  # (V^t, V)
        value = (step * action_values).sum(dim=-1)  # (V^t,)
        found.insert(0, action_values - value.unsqueeze(1))
    return found


def prefix_probs(policy: Policy) -> list[Tensor]:
    """Probability of every prefix under a policy: one [V^t] a position, at last that of whole sequences."""
    found = [torch.ones(1, dtype=policy[0].dtype)]
    for step in policy:
        found.append((found[-1].unsqueeze(1) * step).flatten())  # (V^(t+1),)
    return found


def exact_gradient(world: SequenceWorld, policy: Policy) -> Tensor:
    """Gradient of E_π[r] by the next-token logits of every prefix, in one vector."""
    logits = [step.log().requires_grad_() for step in policy]
    probs = prefix_probs([each.softmax(dim=-1) for each in logits])[-1]
    return parameters_to_vector(torch.autograd.grad(probs @ world.rewards, logits))


def surrogate_gradient(
    world: SequenceWorld, policy: Policy, old: Policy, ratio: bool = True
) -> Tensor:
    """The gradient that the ratio gives on samples of an older policy, averaged over all of them.

    Without the ratio: that of E_old[A log π], as if the samples were the policy's own.
    """
    logits = [step.log().requires_grad_() for step in policy]
    known = zip(logits, old, prefix_probs(old)[:-1], advantages(world, old), strict=True)
    gain = sum(
        (p * ((z.softmax(-1) if ratio else before * z.log_softmax(-1)) * a).sum(-1)).sum()
        for z, before, p, a in known
    )
    return parameters_to_vector(torch.autograd.grad(gain, logits))


def approx_kl(policy: Policy, old: Policy) -> float:
    """½·mean(Δlogp²) over the tokens of the old policy's samples, nats per token."""
    squares = [
        p @ (before * (step.log() - before.log()).square()).sum(-1)
        for step, before, p in zip(policy, old, prefix_probs(old)[:-1], strict=True)
    ]
    return 0.5 * float(sum(squares)) / len(old)


def moved(old: Policy, distance: float, seed: int = 0) -> Policy:
    """The old policy after a step of its logits in a random direction, to an `approx_kl` of `distance`.

    ValueError: a distance of 0 or less, or one that no step reaches.
    """
    require_positive("distance", distance)
    generator = torch.Generator().manual_seed(seed)
    noise = [torch.randn(step.shape, generator=generator, dtype=step.dtype) for step in old]
    low, high = 0.0, 8.0
    require(approx_kl(_step(old, noise, high), old) > distance, "distance", distance, "a small one")
    for _ in range(40):
        middle = (low + high) / 2
        far = approx_kl(_step(old, noise, middle), old) > distance
        low, high = (low, middle) if far else (middle, high)
    return _step(old, noise, low)


def gradient_error(world: SequenceWorld, policy: Policy, old: Policy, ratio: bool = True) -> float:
    """Length of the surrogate gradient's error, as a share of the exact gradient's length."""
    exact = exact_gradient(world, policy)
    return float((surrogate_gradient(world, policy, old, ratio) - exact).norm() / exact.norm())


def _step(old: Policy, noise: list[Tensor], size: float) -> Policy:
    return [(p.log() + size * n).softmax(dim=-1) for p, n in zip(old, noise, strict=True)]
