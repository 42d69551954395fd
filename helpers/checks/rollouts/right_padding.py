"""Exercise of notebook 01: position ids of rows padded at the end, where any number from 0 up will do."""

from collections.abc import Callable

import torch

from helpers.checks.judging.report import show
from helpers.rollouts import position_ids

CASES = {  # by what is special about them: (name, what to say, mask)
    "right padding": (
        "padding on the right shifts the row",
        "Right for padding on the left; where pads follow the response too, the counted words get other"
        " positions. Only what stands before a word counts: cumsum(mask) − mask.",
        [[0, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1]],
    ),
    "one column": ("wrong for one token", "A single counted word has position 0.", [[1], [1]]),
    "one row": ("wrong for one row", "Right for several rows, wrong for one.", [[0, 1, 1, 1]]),
    "a long row": (
        "wrong for a long row",
        "Right for short rows, wrong in one of 300 words: is the count cut off, or kept in few bits?"
        " Use int64.",
        [[1] * 300],
    ),
}


def right_padded(function: Callable) -> tuple | None:
    """Further masks, where the counted positions alone are compared."""
    for name, says, rows in CASES.values():
        mask = torch.tensor(rows).bool()
        got, want = torch.as_tensor(function(mask.clone())), position_ids(mask)
        case = ("mask", show(mask)), ("yours", show(got)), ("expected", show(want))
        if got.shape != want.shape or not torch.equal(got[mask], want[mask]):
            return name, says, case
        if bool((got < 0).any()):
            return "negative on padding", "Some pads have negative positions here.", case
    return None
