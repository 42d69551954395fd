"""Where wrong numbers stand: in which rows, at which tokens, when all the others are right."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.kit.patterns import ATOL, RTOL

ALIKE = "Is something of one row used for all?"
ENDS = "Look at what happens at its ends."
ROWS: dict[str, tuple[Callable, str]] = {  # which rows, of a mask [B, T], and what to look for
    "every row but the first": (lambda m: torch.arange(len(m)) > 0, ALIKE),
    "every row but the last": (lambda m: torch.arange(len(m)) < len(m) - 1, ALIKE),
    "the first row": (lambda m: torch.arange(len(m)) == 0, ""),
    "the last row": (lambda m: torch.arange(len(m)) == len(m) - 1, ""),
    "rows with padding": (lambda m: ~m.all(1), "What does the padding change?"),
    "rows without padding": (lambda m: m.all(1), ENDS),
    "rows of one counted token": (lambda m: m.sum(1) == 1, ENDS),
    "rows of more than one counted token": (lambda m: m.sum(1) > 1, ""),
}
TOKENS: dict[str, tuple[Callable, str]] = {  # which counted tokens
    "the first counted token of a row": (lambda m: m.long().cumsum(1) == 1, ENDS),
    "all but the first counted token of a row": (lambda m: m.long().cumsum(1) > 1, ""),
    "all but the last counted token of a row": (
        lambda m: m.long().cumsum(1) < m.long().sum(1, True), "",
    ),
}  # fmt: skip


def place_of(pairs: list, masks: list) -> tuple[str, str] | None:
    """Name and message of a place where all wrong numbers stand, the same in each test case; or None.

    `pairs` are answers and right results of one shape, `masks` the counted positions, or None for all.
    """
    cases = [_wrong_at(*case) for case in zip(pairs, masks, strict=True)]
    if not cases or any(case is None for case in cases):
        return None
    by_row = [(wrong.any(1), mask) for wrong, mask in cases]
    return _first(TOKENS, cases) or _first(ROWS, by_row)


def _wrong_at(pair: tuple[Tensor, Tensor], mask: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Where an answer [B, T] is wrong, and what counts."""
    got, want = pair
    if got.shape != want.shape or want.dim() != 2 or want.dtype == torch.bool:
        return None
    mask = torch.ones(want.shape, dtype=torch.bool) if mask is None else mask
    close = torch.isclose(got.double(), want.double(), RTOL, ATOL, equal_nan=True)
    return ~close, mask


def _first(places: dict, cases: list[tuple[Tensor, Tensor]]) -> tuple[str, str] | None:
    """The first place that holds all wrong entries, and no right one that could be wrong there."""
    for words, (where, look) in places.items():
        both = False  # whether a case has right entries beside wrong ones
        for wrong, mask in cases:
            place = where(mask) if wrong.dim() == 1 else where(mask) & mask
            if not torch.equal(wrong, place):
                break
            both = both or bool(wrong.any() and not wrong.all())
        else:
            if both:
                return f"wrong in {words}", f"All is right but {words}. {look}".strip()
    return None
