"""Figures of notebook 11: log-probs that fall, and recorded runs by β."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from helpers.kit.figures import draw_seeds, label_axes, new_figure
from helpers.kit.palette import GREEN, ORANGE


def gains_figure(x: Sequence, panels: dict[str, dict[str, Sequence[Sequence[float]]]]) -> Figure:
    """Nats gained over the reference along training: title → {"chosen": seeds, "rejected": seeds}."""
    figure, grid = new_figure(1, len(panels), min(4.6 * len(panels), 10.4), 3.0)
    for axes, (title, sides) in zip(grid[0], panels.items(), strict=True):
        for name, colour, line in (("chosen", GREEN, "-"), ("rejected", ORANGE, "--")):
            draw_seeds(axes, x, sides[name], colour, name, line)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend(loc="lower left")
        label_axes(axes, title, "gradient steps", "log π − log π_ref, nats", grid="y")
    limits = [limit for axes in grid[0] for limit in axes.get_ylim()]
    for axes in grid[0]:
        axes.set_ylim(min(limits), max(limits))
    return figure
