"""The Gaussian toy: the response is one number y ~ N(m, σ²), and m is the only parameter.

Reference N(0, σ²), reward −(y − 1)². It is trained like a language model, with the same
functions: samples, KL-shaped rewards, a baseline, a policy gradient step. Its optimum is known
exactly: m* = 2/(2 + β/σ²).
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.kl import shape_rewards
from helpers.ppo import policy_loss
from helpers.tools.validate import require_finite

SIGMA = 0.5  # standard deviation of policy and reference, in units of y; not trained
LEARNING_RATE = 0.02  # of plain gradient descent on m
BATCH, STEPS = 256, 120  # samples per step, number of steps


class GaussianRun(NamedTuple):
    """One training run: m before each step and after the last."""

    kl_coef: float
    means: list[float]  # steps + 1 values, in units of y


def peak_reward(y: Tensor) -> Tensor:
    """−(y − 1)², of any shape; its maximum, 0, is at 1."""
    return -(y - 1).square()


def gaussian_objective(mean: float | Tensor, kl_coef: float, sigma=SIGMA) -> float | Tensor:
    """J(m) = E[r] − β·KL: E[r] = −((m − 1)² + σ²), KL = m²/(2σ²). A parabola in m, of any shape."""
    return -((mean - 1.0) ** 2 + sigma**2) - kl_coef * mean**2 / (2 * sigma**2)


def normal_logprob(y: Tensor, mean: Tensor | float) -> Tensor:
    """Log-density of N(mean, σ²) at y, nats; shapes broadcast."""
    z = (y - mean) / SIGMA
    return -0.5 * z.square() - math.log(SIGMA * math.sqrt(2 * math.pi))


def train_gaussian(
    kl_coef: float, reward: Callable[[Tensor], Tensor] = peak_reward, steps: int = STEPS
) -> GaussianRun:
    """Train m by gradient descent from the reference's 0, on 256 fresh samples per step.

    The policy gradient of Williams 1992, with the batch mean as baseline. Stable while
    LEARNING_RATE·(2 + β/σ²) < 2. ValueError: a non-finite reward.
    """
    generator = torch.Generator().manual_seed(0)
    mean = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([mean], lr=LEARNING_RATE)
    means, mask = [0.0], torch.ones(BATCH, 1, dtype=torch.bool)  # responses of one token
    for _ in range(steps):
        noise = torch.randn(BATCH, generator=generator)
        y = (mean + SIGMA * noise).detach()
        scores = reward(y)  # (B,)
        require_finite("scores", scores)
        logprobs, ref_logprobs = (normal_logprob(y[:, None], m) for m in (mean, 0.0))  # (B, 1)
        rewards = shape_rewards(scores, logprobs, ref_logprobs, mask, kl_coef)  # (B, 1)
        advantages = rewards - rewards.mean()
        loss, _ = policy_loss(logprobs, logprobs.detach(), advantages, mask)  # ratio 1: no clipping
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        means.append(mean.item())
    return GaussianRun(kl_coef, means)


def train_gaussians(kl_coefs: Sequence[float], **settings) -> list[GaussianRun]:
    """`train_gaussian` at each β, with the same random numbers: only β differs."""
    return [train_gaussian(kl_coef, **settings) for kl_coef in kl_coefs]
