"""Whitening: advantages of zero mean and unit variance, counted over real tokens only."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.validate import require_finite, require_mask, require_tensor

Add = Callable[[Tensor], Tensor]  # how to add up; over several processes it is their `add`
EPSILON = 1e-8  # added to the variance, so that equal advantages whiten to 0 and not to NaN


def _check(name: str, x: Tensor, mask: Tensor) -> None:
    require_tensor(name, x)
    require_mask("mask", mask, x.shape)
    require_finite(name, x, mask)


def masked_mean(x: Tensor, mask: Tensor, add: Add = torch.sum) -> Tensor:
    """Mean over the counted positions, a scalar. ValueError: shapes, empty mask, non-finite x."""
    _check("x", x, mask)
    return add(torch.where(mask, x, 0.0)) / add(mask)


def masked_var(x: Tensor, mask: Tensor, unbiased: bool = True, add: Add = torch.sum) -> Tensor:
    """Variance over the counted positions, a scalar; over n − 1 if `unbiased`, over n if not.

    One counted position has variance 0. `add` sums, over all processes where there are several.
    ValueError: shapes, empty mask, non-finite x.
    """
    centred = torch.where(mask, x - masked_mean(x, mask, add), 0.0)
    count = add(mask)
    divisor = (count - 1).clamp(min=1) if unbiased else count
    return add(centred.square()) / divisor


def whiten_advantages(
    advantages: Tensor,
    mask: Tensor | None = None,
    shift_mean: bool = True,
    add: Add = torch.sum,
) -> Tensor:
    """(A − mean)/√(var + 1e-8) over the whole batch's counted tokens; masked ones come back 0.

    `shift_mean=False` puts the mean back after scaling: unit variance, mean as it was (the use for
    rewards, where the mean means something). `add` sums over the batch: a process that holds a part
    of it passes one that sums over all parts. Any shape. ValueError: shapes, an empty mask,
    non-finite advantages.
    """
    require_tensor("advantages", advantages)
    mask = torch.ones_like(advantages, dtype=torch.bool) if mask is None else mask
    _check("advantages", advantages, mask)
    mean, var = masked_mean(advantages, mask, add), masked_var(advantages, mask, add=add)
    whitened = (advantages - mean) * torch.rsqrt(var + EPSILON)
    whitened = whitened if shift_mean else whitened + mean
    return torch.where(mask, whitened, 0.0)
