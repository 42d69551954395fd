"""KL(π‖π_ref): estimators, the KL penalty in the rewards, and adaptive β."""

import torch
from torch import Tensor

from helpers.tools.validate import require_choice


def kl_estimate(logprobs: Tensor, ref_logprobs: Tensor, estimator: str = "k1") -> Tensor:
    """Per-token estimate of KL(π‖π_ref) in nats, from tokens sampled by π (Schulman 2020).

    `k1` = log π − log π_ref: unbiased, may be negative. `k2` = k1²/2: biased, low variance.
    `k3` = π_ref/π − 1 + k1: unbiased and never negative. Any shape. ValueError: another estimator.
    """
    require_choice("estimator", estimator, ("k1", "k2", "k3"))
    log_ratio = logprobs - ref_logprobs
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return 0.5 * log_ratio.square()
    return torch.expm1(-log_ratio) + log_ratio


def full_kl(logits: Tensor, ref_logits: Tensor) -> Tensor:
    """Exact KL(π‖π_ref) of each next-token distribution, in nats: [..., V], [..., V] → [...]."""
    logprobs = logits.float().log_softmax(dim=-1)
    ref_logprobs = ref_logits.float().log_softmax(dim=-1)
    # 0·log 0 is 0: a token of probability 0 adds nothing
    log_ratio = (logprobs - ref_logprobs).masked_fill(logprobs.isneginf(), 0.0)
    return (logprobs.exp() * log_ratio).sum(dim=-1)


def last_counted(mask: Tensor) -> Tensor:
    """Index of the last True of each row, −1 if there is none: [B, T] → [B]."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, steps, -1).amax(dim=1)


def shape_rewards(
    scores: Tensor, logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, kl_coef: float
) -> Tensor:
    """Per-token rewards: −β·k1 at every counted token, plus the score at the last counted one.

    `scores` [B] (one per response), the rest [B, T] → [B, T]; 0 where masked. The KL is part of the
    reward, not of the loss: no gradient flows through it (Ziegler et al. 2019, eq. 2; Ouyang et al.
    2022, eq. 2).
    """
    kl = kl_estimate(logprobs.detach(), ref_logprobs.detach(), "k1")
    rewards = torch.where(mask, -kl_coef * kl, 0.0)  # (B, T)
    last = last_counted(mask).unsqueeze(1)  # (B, 1)
    return rewards.scatter_add(1, last, scores.detach().to(rewards.dtype).unsqueeze(1))


class AdaptiveKLController:
    """Adapts β so that the KL per response approaches `target` (Ziegler et al. 2019, section 2.2)."""

    def __init__(self, kl_coef: float, target: float, horizon: float):
        """Initial β, target in nats per response, horizon in responses."""
        self.kl_coef, self.target, self.horizon = kl_coef, target, horizon

    def update(self, observed_kl: float, num_samples: int) -> float:
        """β ← β·(1 + clip(KL/target − 1, ±0.2)·n/horizon), after n responses; returns the new β."""
        error = min(max(observed_kl / self.target - 1.0, -0.2), 0.2)
        self.kl_coef *= 1.0 + error * num_samples / self.horizon
        return self.kl_coef
