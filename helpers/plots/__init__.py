"""Every figure of the course. Each function returns a matplotlib `Figure`; none of them computes."""

from helpers.plots.base import (
    ACCENT,
    GOLD,
    KL,
    POLICY,
    REFERENCE,
    REWARD,
    VALUE,
    draw_curve,
    new_figure,
    token_bars,
    training_curves,
)
from helpers.plots.loop import loop_figure

__all__ = [
    "ACCENT",
    "GOLD",
    "KL",
    "POLICY",
    "REFERENCE",
    "REWARD",
    "VALUE",
    "draw_curve",
    "loop_figure",
    "new_figure",
    "token_bars",
    "training_curves",
]
