"""Figures of notebook 06: a trainer's curves over the band of the course's own runs."""

from matplotlib.figure import Figure
from torch import Tensor

from helpers.kit.figures import label_axes, new_figure
from helpers.kit.palette import BLUE, GREY, ORANGE, SKY, YELLOW

LINES = ((BLUE, "-"), (ORANGE, "--"), (YELLOW, "-."), (SKY, ":"))  # colour and dashes of each run
PANELS = (
    ("score", "Score, means of 5", "standard deviations"),
    ("kl", "KL from the reference, means of 5", "nats per response"),
)


def band_figure(
    band: dict[str, tuple[Tensor, Tensor]], runs: dict[str, dict[str, Tensor]]
) -> Figure:
    """Smoothed score and KL of some runs over the band: edges [N] and curves [N], by name."""
    figure, grid = new_figure(1, 2, 9.6, 3.0)
    for axes, (name, title, unit) in zip(grid[0], PANELS, strict=True):
        low, high = (edge.tolist() for edge in band[name])
        x = range(1, len(low) + 1)
        axes.fill_between(x, low, high, color=GREY, alpha=0.25, linewidth=0, label="band")
        for (colour, dashes), (label, run) in zip(LINES, runs.items(), strict=False):
            axes.plot(x, run[name].tolist(), dashes, color=colour, label=label, linewidth=1.8)
        label_axes(axes, title, "iteration", unit, grid="y")
        axes.set_xticks([1, *range(5, len(low) + 1, 5)])
        # a run that goes far away must not make the band a line
        top = max(high) + 0.6 * (max(high) - min(low))
        axes.set_ylim(min(low) - 0.15 * (max(high) - min(low)), top)
    grid[0, 0].legend(loc="lower right")
    return figure
