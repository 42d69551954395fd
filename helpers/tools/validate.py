"""Checks of arguments. Each raises ValueError with one sentence: the argument, what it got, what it wants."""

import math

import torch
from torch import Tensor


def require(condition: bool, name: str, got: object, wants: str) -> None:
    """Raise `ValueError` unless `condition` holds."""
    if not condition:
        raise ValueError(f"{name}: got {got}, wants {wants}.")


def require_number(
    name: str, value: float, low: float = -math.inf, high: float = math.inf, wants: str = ""
) -> None:
    """A finite real number in [low, high]."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = isinstance(value, float) or (is_number and abs(value) < 2**63)  # or torch cannot take it
    ok = is_number and fits and math.isfinite(value) and low <= value <= high
    require(ok, name, repr(value), wants or f"a finite number in [{low}, {high}]")


def require_positive(name: str, value: float) -> None:
    """A finite real number above 0."""
    require_number(name, value, low=math.ulp(0.0), wants="a finite number above 0")


def require_count(name: str, value: int, low: int = 1) -> None:
    """An integer of at least `low`, and small enough for torch (its seeds and ids have 64 bits)."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    ok = is_int and low <= value < 2**60
    require(ok, name, repr(value), f"an integer of at least {low} and below 2**60")


def require_choice(name: str, value: str, choices: tuple) -> None:
    """One of `choices`."""
    require(value in choices, name, repr(value), "one of " + ", ".join(map(repr, choices)))


def require_tensor(name: str, value: object, dims: int | None = None) -> None:
    """A tensor, with `dims` axes when that is given."""
    require(isinstance(value, Tensor), name, type(value).__name__, "a torch.Tensor")
    ok = dims is None or value.dim() == dims
    require(ok, name, f"shape {tuple(value.shape)}", f"a tensor with {dims} axes")


def require_shape(name: str, value: Tensor, shape: tuple, like: str = "") -> None:
    """A tensor of exactly this shape; `like` names the argument that fixed it."""
    require_tensor(name, value)
    wants = f"shape {tuple(shape)}" + (f", as {like} has" if like else "")
    require(tuple(value.shape) == tuple(shape), name, f"shape {tuple(value.shape)}", wants)


def require_mask(name: str, mask: Tensor, shape: tuple, every_row: bool = False) -> None:
    """A boolean mask of this shape that counts something (in every row, if `every_row`)."""
    require_shape(name, mask, shape)
    require(mask.dtype == torch.bool, name, f"dtype {mask.dtype}", "a boolean mask, True = counts")
    require(bool(mask.any()), name, "no True at all", "at least one counted position")
    if every_row:
        empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
        require(not empty, name, f"no True in row {empty[:1]}", "a counted position in every row")


def require_ids(name: str, value: Tensor, rows: int) -> None:
    """Token ids: integers from 0 to `rows` − 1. (A GPU would not survive looking up any other.)"""
    whole = value.dtype in (torch.int64, torch.int32)
    require(whole, name, f"dtype {value.dtype}", "integer token ids")
    if value.numel() > 0:
        low, high = (int(end) for end in value.aminmax())
        ok = low >= 0 and high < rows
        require(ok, name, f"ids from {low} to {high}", f"ids from 0 to {rows - 1}")


def require_finite(name: str, value: Tensor, mask: Tensor | None = None) -> None:
    """Finite numbers wherever the mask counts; what stands elsewhere does not matter."""
    require(value.is_floating_point(), name, f"dtype {value.dtype}", "floating-point numbers")
    bad = ~torch.isfinite(value.detach())
    bad = bad if mask is None else bad & mask
    require(not bool(bad.any()), name, f"{int(bad.sum())} NaN or infinite", "finite numbers")
