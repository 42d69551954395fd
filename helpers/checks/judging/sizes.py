"""Further test inputs that show what a few rows do not: one row, one token, forty rows, large numbers."""

import torch
from torch import Tensor

ONE_ROW = (
    "wrong for one row",
    "Right for several rows, wrong for one alone: squeeze() without an axis, or a statistic over the rows?",
)
ONE_TOKEN = (
    "wrong for one token",
    "Right for longer rows, wrong for one row of one token: squeeze() without an axis, a slice that is"
    " empty, or a divisor of at least 2?",
)
FORTY_ROWS = (
    "wrong for forty rows",
    "Right for a few rows, wrong for forty: is there a limit to how many are taken?",
)


def sizes(given: tuple, token: bool = True, row: bool = True) -> list[tuple]:
    """Cases for `also_on` made from a probe: its first row, that row's first token, forty rows.

    Every tensor of the probe must have one entry a row.
    """

    def each(change) -> tuple:
        return tuple(change(x) if isinstance(x, Tensor) else x for x in given)

    one = [(*ONE_TOKEN, each(lambda x: x[:1, :1] if x.dim() > 1 else x[:1]))] if token else []
    alone = [(*ONE_ROW, each(lambda x: x[:1]))] if row else []
    return [*alone, *one, (*FORTY_ROWS, each(lambda x: torch.cat([x] * 40)[:40]))]


def far_out(what: str, given: tuple) -> tuple:
    """A case for `also_on` of large numbers; `what` says which of them are large."""
    says = f"Right for small numbers, wrong where {what}: is there a clamp or a clip that does not belong"
    return (
        "wrong for large numbers",
        f"{says} there, or an exp that leaves what a float32 holds?",
        given,
    )
