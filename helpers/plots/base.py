"""What all figures share: palette, blank figures, curves, token bars. Nothing here computes."""

import io
import threading
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image  # comes with matplotlib

# Okabe and Ito's palette: told apart by colour-blind readers, and by lightness in grey print
POLICY, REFERENCE, REWARD, KL = "#0072B2", "#7F7F7F", "#009E73", "#D55E00"
VALUE, GOLD, ACCENT = "#CC79A7", "#E69F00", "#56B4E9"

# key of a record, panel title, axis label, colour
PANELS = (
    ("score", "Proxy score", "reference std", REWARD),
    ("gold", "Gold score (never trained on)", "points", GOLD),
    ("kl", "KL from the reference", "nats per response", KL),
    ("entropy", "Entropy of the policy", "nats per token", POLICY),
    ("clip_fraction", "Clipped tokens", "share", ACCENT),
    ("explained_variance", "Critic: explained variance", "share", VALUE),
)


# a live trainer draws in a thread of its own while a slider draws in the kernel's: one at a time
DRAWING = threading.RLock()


class Picture(Figure):
    """A figure that notebooks show as a PNG by itself, without pyplot (whose list would keep it)."""

    def _repr_png_(self) -> bytes:
        drawn, small = io.BytesIO(), io.BytesIO()
        with DRAWING:
            self.savefig(drawn, format="png", dpi=self.dpi)
        # 64 colours are enough for lines and letters, and a third of the bytes in a saved notebook
        Image.open(drawn).convert("RGB").quantize(64).save(small, format="png")
        return small.getvalue()


def new_figure(rows: int = 1, columns: int = 1, width: float = 9.0, height: float = 3.0):
    """A figure outside pyplot's list, so that none leaks: (Figure, array of Axes)."""
    figure = Picture(figsize=(width, height), layout="constrained", dpi=80)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def label_axes(axes: Axes, title: str = "", x: str = "", y: str = "", size: float = 8) -> None:
    """Title on the left, quiet labels, small ticks."""
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=size)
    axes.set_ylabel(y, fontsize=size)
    axes.tick_params(labelsize=8)


def draw_curve(axes: Axes, x: Sequence, y: Sequence, title: str, label: str, colour: str) -> None:
    """One curve with a quiet grid."""
    axes.plot(x, y, color=colour, linewidth=1.8)
    label_axes(axes, title, "iteration", label)
    axes.grid(alpha=0.25)


def training_curves(history: list[dict], total: int | None = None) -> Figure:
    """Six panels of a run's records; those a run does not have are left out."""
    panels = [panel for panel in PANELS if history and panel[0] in history[-1]]
    panels = panels or list(PANELS)
    columns = 3 if len(panels) > 2 else len(panels)
    rows = -(-len(panels) // columns)
    figure, grid = new_figure(rows, columns, 9.6, 2.5 * rows)
    x = [record["iteration"] for record in history]
    for axes, (key, *how) in zip(grid.flat, panels, strict=False):
        draw_curve(axes, x, [record[key] for record in history], *how)
        if total is not None:
            axes.set_xlim(0, total)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    return figure


def token_bars(tokens: Sequence, series: dict, title: str = "", height: float = 2.6) -> Figure:
    """Bars over the tokens of one response: `series` maps a label to (numbers, colour)."""
    figure, grid = new_figure(1, 1, 9.6, height)
    axes, width = grid[0, 0], 0.8 / len(series)
    for k, (label, (numbers, colour)) in enumerate(series.items()):
        x = [i + (k - (len(series) - 1) / 2) * width for i in range(len(tokens))]
        axes.bar(x, numbers, width=width, label=label, color=colour)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(tokens)), tokens, rotation=40, ha="right", fontsize=9)
    axes.set_title(title, fontsize=10, loc="left")
    axes.tick_params(axis="y", labelsize=8)
    axes.legend(fontsize=8, frameon=False)
    return figure
