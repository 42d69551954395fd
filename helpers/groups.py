"""Advantages without a critic, from several responses to one prompt: RLOO and GRPO."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from helpers.config import RLHFConfig
from helpers.tools.validate import require
from helpers.whitening import masked_mean

GRPO_EPSILON = 1e-4  # added to the group's standard deviation, as TRL does


def rloo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """Each reward minus the mean of the K − 1 others of its group: [B] → [B] (Ahmadian et al. 2024, eq. 8).

    `rewards` has one number per response (score − β·KL); the `group_size` responses to a prompt are
    next to each other. The others do not depend on this response, so their mean is an unbiased
    baseline.
    """
    grouped = rewards.view(-1, group_size)  # (B / K, K): a row per prompt
    others = grouped.sum(dim=1, keepdim=True) - grouped
    return (grouped - others / (group_size - 1)).flatten()


def grpo_advantages(rewards: Tensor, group_size: int, scale_by_std: bool = True) -> Tensor:
    """(r − mean)/(std + 1e-4) within each group: [B] → [B] (Shao et al. 2024, section 4.1.2).

    The std is the unbiased one, as in TRL: a group with nearly equal rewards is scaled up to the size
    of the others. Without it, r − mean: Dr. GRPO (Liu et al. 2025), RLOO's times (K − 1)/K.
    """
    grouped = rewards.view(-1, group_size)
    centred = grouped - grouped.mean(dim=1, keepdim=True)
    if scale_by_std:
        centred = centred / (grouped.std(dim=1, keepdim=True) + GRPO_EPSILON)
    return centred.flatten()


def equal_groups(scores: Tensor, group_size: int) -> Tensor:
    """Whether all scores of a response's group are the same: [B] → [B] bool. They teach nothing."""
    grouped = scores.view(-1, group_size)
    return (grouped == grouped[:, :1]).all(dim=1).repeat_interleave(group_size)


def skipped_rows(scores: Tensor, config: RLHFConfig) -> Tensor:
    """Responses that `skip_equal_groups` leaves out of whitening and loss: [B] → [B] bool.

    Scores, not rewards: with −β·KL in them, rewards always differ, and the std would blow that up.
    """
    if not config.skip_equal_groups or config.method not in ("rloo", "grpo"):
        return torch.zeros_like(scores, dtype=torch.bool)
    return equal_groups(scores, config.responses_per_prompt)


def per_token(advantages: Tensor, mask: Tensor) -> Tensor:
    """Copy each response's advantage to all its counted tokens: [B], [B, T] → [B, T]."""
    return torch.where(mask, advantages.unsqueeze(1), 0.0)


def group_advantages(rewards: Tensor, mask: Tensor, config: RLHFConfig) -> Tensor:
    """RLOO's or GRPO's advantages of per-token rewards, by the config: [B, T], [B, T] → [B, T].

    A response's reward is the sum over its tokens: the score, minus β·KL where that is in the reward.
    """
    size, totals = config.responses_per_prompt, torch.where(mask, rewards, 0.0).sum(dim=1)
    if config.method == "rloo":
        advantages = rloo_advantages(totals, size)
    else:
        advantages = grpo_advantages(totals, size, config.scale_by_std)
    return per_token(advantages.masked_fill(equal_groups(totals, size), 0.0), mask)


# --- the loss: how its mean is taken, and the ratio of whole responses ------------------------------


def mean_of_means(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over responses of their mean over counted tokens, a scalar: [B, T], [B, T] (GRPO).

    A token of a long response counts less than one of a short response.
    """
    return (torch.where(mask, x, 0.0).sum(dim=1) / mask.sum(dim=1)).mean()


def mean_over_length(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """Sum over counted tokens / (B · length), a scalar: the same weight for every token (Dr. GRPO)."""
    return torch.where(mask, x, 0.0).sum() / (len(x) * length)


def loss_mean(config: RLHFConfig) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean that `loss_aggregation` names, as a function of [B, T] and mask."""
    if config.loss_aggregation == "fixed":
        return partial(mean_over_length, length=config.response_length)
    return {"token": masked_mean, "response": mean_of_means}[config.loss_aggregation]


def loss_options(config: RLHFConfig) -> dict:
    """What a policy loss is told beyond PPO's ε; nothing where the settings are PPO's own."""
    options = {} if config.cliprange_high is None else {"cliprange_high": config.cliprange_high}
    return options if config.loss_aggregation == "token" else options | {"mean": loss_mean(config)}


def sequence_log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Mean of log π/π_old over a response's counted tokens, at each of them: [B, T] (GSPO, eq. 7).

    Its exponential is the ratio of whole responses, to the power 1/length (Zheng et al. 2025).
    """
    log_ratio = torch.where(mask, logprobs - old_logprobs, 0.0)
    return per_token(log_ratio.sum(dim=1) / mask.sum(dim=1), mask)


# --- answers that are right or wrong ----------------------------------------------------------------


def pass_at_k(correct: Tensor, k: int) -> Tensor:
    """Probability that one of k answers to a prompt is right: [B, n] booleans → [B], float64.

    1 − C(n − c, k)/C(n, k), c of n being right: unbiased, where 1 − (1 − c/n)^k is too low for k > 1
    (Chen et al. 2021, eq. 1). ValueError: k not in 1 … n.
    """
    n = correct.shape[1]
    require(1 <= k <= n, "k", k, f"from 1 to the {n} answers to a prompt")
    drawn = torch.arange(k, device=correct.device)
    wrong = (~correct).sum(dim=1, keepdim=True)
    return 1 - ((wrong - drawn).clamp(min=0).double() / (n - drawn)).prod(dim=1)  # (B, k) → (B,)
