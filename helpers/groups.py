"""After PPO: several responses to one prompt judge each other, and the critic goes (RLOO, GRPO)."""

import torch
from torch import Tensor

from helpers.validate import require, require_count, require_finite, require_tensor

GRPO_EPSILON = 1e-4  # added to the group's standard deviation, as TRL does


def _groups(rewards: Tensor, group_size: int) -> Tensor:
    """[B] → [B / K, K]: the K responses to one prompt stand together."""
    require_tensor("rewards", rewards, dims=1)
    require_count("group_size", group_size, low=2)
    whole = len(rewards) > 0 and len(rewards) % group_size == 0
    require(whole, "rewards", f"{len(rewards)} of them", f"a multiple of group_size {group_size}")
    require_finite("rewards", rewards)
    return rewards.view(-1, group_size)


def rloo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """Each reward less the mean of its K − 1 siblings: [B] → [B] (Ahmadian et al. 2024, eq. 8).

    `rewards` holds one number a response (score − β·KL), the `group_size` responses to a prompt
    one after the other. The siblings know nothing of this response, so their mean is a baseline
    without bias. ValueError: shapes, a group of one, non-finite rewards.
    """
    grouped = _groups(rewards, group_size)
    others = grouped.sum(dim=1, keepdim=True) - grouped
    return (grouped - others / (group_size - 1)).flatten()


def grpo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """(r − mean)/(std + 1e-4) within each group: [B] → [B] (Shao et al. 2024, section 4.1.2).

    The unbiased std, as TRL takes it: a group whose rewards are nearly equal is blown up to the
    size of the others. ValueError as in `rloo_advantages`.
    """
    grouped = _groups(rewards, group_size)
    mean, std = grouped.mean(dim=1, keepdim=True), grouped.std(dim=1, keepdim=True)
    return ((grouped - mean) / (std + GRPO_EPSILON)).flatten()


def per_token(advantages: Tensor, mask: Tensor) -> Tensor:
    """One advantage a response, on each of its counted tokens: [B], [B, T] → [B, T]."""
    return torch.where(mask, advantages.unsqueeze(1), 0.0)
