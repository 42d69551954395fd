"""Advantages without a critic, from several responses to one prompt: RLOO and GRPO."""

import torch
from torch import Tensor

from helpers.tools.validate import require, require_count, require_scores

GRPO_EPSILON = 1e-4  # added to the group's standard deviation, as TRL does


def _groups(rewards: Tensor, group_size: int) -> Tensor:
    """One row per prompt with its K rewards: [B] → [B / K, K]."""
    require_scores("rewards", rewards)
    require_count("group_size", group_size, low=2)
    whole = len(rewards) > 0 and len(rewards) % group_size == 0
    require(whole, "rewards", f"{len(rewards)} numbers", f"a multiple of group_size {group_size}")
    return rewards.view(-1, group_size)


def rloo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """Each reward minus the mean of the K − 1 others of its group: [B] → [B] (Ahmadian et al. 2024, eq. 8).

    `rewards` has one number per response (score − β·KL); the `group_size` responses to a prompt are
    next to each other. The others do not depend on this response, so their mean is an unbiased
    baseline. ValueError: shapes, a group of one, non-finite rewards.
    """
    grouped = _groups(rewards, group_size)
    others = grouped.sum(dim=1, keepdim=True) - grouped
    return (grouped - others / (group_size - 1)).flatten()


def grpo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """(r − mean)/(std + 1e-4) within each group: [B] → [B] (Shao et al. 2024, section 4.1.2).

    The std is the unbiased one, as in TRL: a group with nearly equal rewards is scaled up to the size
    of the others. ValueError as in `rloo_advantages`.
    """
    grouped = _groups(rewards, group_size)
    mean, std = grouped.mean(dim=1, keepdim=True), grouped.std(dim=1, keepdim=True)
    return ((grouped - mean) / (std + GRPO_EPSILON)).flatten()


def per_token(advantages: Tensor, mask: Tensor) -> Tensor:
    """Copy each response's advantage to all its counted tokens: [B], [B, T] → [B, T]."""
    return torch.where(mask, advantages.unsqueeze(1), 0.0)
