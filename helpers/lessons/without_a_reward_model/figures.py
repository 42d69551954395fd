"""Figures of notebook 11: log-probs that fall."""

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

from helpers.kit.figures import draw_seeds, label_axes, new_figure
from helpers.kit.palette import GREEN, ORANGE

SIZES = "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"
large_type = rc_context(dict.fromkeys(SIZES, 11))


@large_type
def gains_figure(x: Sequence, panels: dict[str, dict[str, Sequence[Sequence[float]]]]) -> Figure:
    """Nats gained over the reference along training, two panels: title → {"chosen": seeds, "rejected": …}."""
    figure, grid = new_figure(1, len(panels), 9.2, 3.2)
    grid[0, -1].sharey(grid[0, 0])
    for axes, (title, sides) in zip(grid[0], panels.items(), strict=True):
        for name, colour, line in (("chosen", GREEN, "-"), ("rejected", ORANGE, "--")):
            draw_seeds(axes, x, sides[name], colour, name, line)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend(loc="lower left")
        label_axes(axes, title, "gradient steps", "log π − log π_ref, nats", grid="y")
    return figure
