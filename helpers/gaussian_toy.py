"""The smallest policy there is: it says one number, drawn from N(m, σ²), and learns m alone.

Reference N(0, σ²), reward −scale·(y − peak)². It is trained as a language model is: samples,
KL-shaped rewards, a baseline, a policy gradient step, all with the course's own functions. Where it
should arrive is known exactly: `optimum.gaussian_optimum`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.kl import shape_rewards
from helpers.ppo import policy_loss
from helpers.validate import require_count, require_number, require_positive

SIGMA = 0.5  # width of policy and reference alike, in the units of y; never trained
LEARNING_RATE = 0.02  # of plain gradient descent on m
BATCH, STEPS = 256, 120  # samples a step, steps


@dataclass(frozen=True)
class GaussianRun:
    """One training run: m before each step and after the last, J estimated on each step's samples."""

    kl_coef: float
    means: list[float]  # steps + 1 of them, in the units of y
    values: list[float]  # mean of r − β·(log π − log π_ref), reward units; one a step


def peak_reward(y: Tensor, peak: float = 1.0, scale: float = 1.0) -> Tensor:
    """−scale·(y − peak)²: largest, 0, at the peak; any shape."""
    require_positive("scale", scale)
    return -scale * (y - peak).square()


def normal_logprob(y: Tensor, mean: Tensor | float, sigma: float = SIGMA) -> Tensor:
    """log of the density of N(mean, σ²) at y, nats; shapes broadcast. ValueError: σ ≤ 0."""
    require_positive("sigma", sigma)
    z = (y - mean) / sigma
    return -0.5 * z.square() - math.log(sigma * math.sqrt(2 * math.pi))


def gaussian_loss(
    mean: Tensor, y: Tensor, scores: Tensor, kl_coef: float, sigma: float = SIGMA
) -> tuple[Tensor, Tensor]:
    """Policy loss of a batch of numbers, each a response of one token: y [B], scores [B].

    Returns the loss, whose gradient on `mean` is minus the policy gradient of J (Williams 1992, with
    the batch's mean as baseline), and the KL-shaped rewards [B, 1]. ValueError: shapes, β < 0.
    """
    y = y.unsqueeze(1)  # (B, 1)
    logprobs, ref_logprobs = normal_logprob(y, mean, sigma), normal_logprob(y, 0.0, sigma)
    mask = torch.ones_like(y, dtype=torch.bool)
    rewards = shape_rewards(scores, logprobs, ref_logprobs, mask, kl_coef)  # (B, 1)
    advantages = rewards - rewards.mean()
    loss, _ = policy_loss(logprobs, logprobs.detach(), advantages, mask)  # ratio 1: no clip
    return loss, rewards


def train_gaussian(
    kl_coef: float,
    reward: Callable[[Tensor], Tensor] = peak_reward,
    steps: int = STEPS,
    seed: int = 0,
    sigma: float = SIGMA,
    learning_rate: float = LEARNING_RATE,
) -> GaussianRun:
    """Gradient steps on m, from the reference's 0; each on 256 fresh samples.

    Plain gradient descent: stable while learning_rate·(2·scale + β/σ²) < 2. ValueError: β < 0, σ or
    learning rate ≤ 0, steps < 1, a reward that is not finite.
    """
    require_number("kl_coef", kl_coef, low=0.0, wants="a finite number of at least 0")
    require_count("steps", steps)
    require_positive("learning_rate", learning_rate)
    generator = torch.Generator().manual_seed(seed)
    mean = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([mean], lr=learning_rate)
    means, values = [0.0], []
    for _ in range(steps):
        noise = torch.randn(BATCH, generator=generator)
        y = (mean + sigma * noise).detach()
        loss, rewards = gaussian_loss(mean, y, reward(y), kl_coef, sigma)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        means.append(mean.item())
        values.append(rewards.mean().item())
    return GaussianRun(kl_coef, means, values)


def train_gaussians(kl_coefs: Sequence[float], **settings) -> list[GaussianRun]:
    """`train_gaussian` at each β, same random numbers in all: differences are β's doing."""
    return [train_gaussian(kl_coef, **settings) for kl_coef in kl_coefs]
