"""Every figure of the course. Each function returns a matplotlib `Figure`; none of them computes."""

from collections.abc import Sequence

import matplotlib

matplotlib.rcParams["axes.spines.top"] = False
matplotlib.rcParams["axes.spines.right"] = False

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

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


def new_figure(rows: int = 1, columns: int = 1, width: float = 9.0, height: float = 3.0):
    """A figure outside pyplot's list, so that none leaks: (Figure, array of Axes)."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=80)
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_curve(axes: Axes, x: Sequence, y: Sequence, title: str, label: str, colour: str) -> None:
    """One curve with a quiet grid."""
    axes.plot(x, y, color=colour, linewidth=1.8)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("iteration", fontsize=8)
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(labelsize=8)
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
