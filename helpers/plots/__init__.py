"""Every figure of the course. Each function returns a matplotlib `Figure`; none of them computes."""

from helpers.plots.base import new_figure, token_bars, training_curves
from helpers.plots.loop import loop_figure
from helpers.plots.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE

__all__ = [
    "ACCENT",
    "GOLD",
    "KL",
    "POLICY",
    "REFERENCE",
    "REWARD",
    "VALUE",
    "loop_figure",
    "new_figure",
    "token_bars",
    "training_curves",
]
