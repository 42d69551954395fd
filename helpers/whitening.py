"""Whitening: advantages with mean 0 and variance 1 over the counted tokens."""

import torch
from torch import Tensor

from helpers.tools.parallel import gather

EPSILON = 1e-8  # added to the variance, so that equal advantages become 0, not NaN


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over counted positions, a scalar."""
    return torch.where(mask, x, 0.0).sum() / mask.sum()


def masked_var(x: Tensor, mask: Tensor, unbiased: bool = True) -> Tensor:
    """Variance over counted positions, a scalar, with divisor n − 1 if `unbiased`, else n.

    One counted position has variance 0.
    """
    centred = torch.where(mask, x - masked_mean(x, mask), 0.0)
    count = mask.sum()
    divisor = (count - 1).clamp(min=1) if unbiased else count
    return centred.square().sum() / divisor


def whiten_advantages(
    advantages: Tensor, mask: Tensor | None = None, shift_mean: bool = True
) -> Tensor:
    """(A − mean)/√(var + 1e-8), with mean and variance of the batch's counted tokens; 0 where masked.

    `shift_mean=False` keeps the mean and only scales to variance 1 (for rewards, whose mean matters).
    With several processes, the statistics are those of all processes together. Any shape.
    """
    mask = torch.ones_like(advantages, dtype=torch.bool) if mask is None else mask
    everyone, counted = gather(advantages), gather(mask)
    mean, var = masked_mean(everyone, counted), masked_var(everyone, counted)
    whitened = (advantages - mean) * torch.rsqrt(var + EPSILON)
    return torch.where(mask, whitened if shift_mean else whitened + mean, 0.0)
