"""Figures of notebook 08: proxy and gold over distance, a bias, what moves the peak, the ledger of a hack.

A *band* is what three seeds of one kind of run measured, iteration by iteration: `d` [T], the mean
√KL in √nats, and for each column (mean, lowest, highest), [T] each.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.plots.base import label_axes, new_figure, one_panel
from helpers.plots.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE

DISTANCE = "d = √KL, √nats"
BLACK, QUIET = "#222222", "#BBBBBB"
LEDGER_STYLES = {  # of the things gold counts, in the ledger
    "praise": (REWARD, "-"),
    "blame": (ACCENT, "--"),
    "broken": (KL, "--"),
    "repetition": (VALUE, "--"),
    "contradiction": (POLICY, "--"),
    "hype": (GOLD, "--"),
    "no full stop at the end": (REFERENCE, "--"),
}


def draw_band(axes: Axes, band: dict, column: str, colour: str, label: str = "", **how) -> None:
    """Mean over seeds as a line, lowest to highest as a shade, a dot where the runs end."""
    mean, low, high = band[column]
    axes.fill_between(band["d"], low, high, color=colour, alpha=0.18, linewidth=0)
    style = {"linewidth": 1.7} | how
    axes.plot(band["d"], mean, color=colour, label=label, **style)
    axes.plot(
        band["d"][-1:], mean[-1:], "o", color=colour, markersize=4, zorder=style.get("zorder")
    )


# --- 1: proxy and gold in one panel -----------------------------------------------------------------


def goodhart_figure(bands: dict, best: dict, low: float = -3.0, far: float = 6.0) -> Figure:
    """Proxy (dashed) and gold (solid) over √KL in one panel, both as gains in reference std.

    `bands` label → band, three at most; `best` {"d", "score", "gold"} lists over n. What falls below
    `low` or lies beyond `far` leaves the picture.
    """
    figure, axes = one_panel(8.6, 4.4)
    for (label, band), colour in zip(bands.items(), (KL, POLICY, ACCENT), strict=False):
        draw_band(axes, band, "score", colour, linestyle="--", linewidth=1.3)
        draw_band(axes, band, "gold", colour, label, linewidth=2.2)
    axes.plot(best["d"], best["score"], "--", color=BLACK, linewidth=1.3)
    axes.plot(best["d"], best["gold"], "s-", color=BLACK, markersize=4, label="best of n")
    axes.plot([], [], "--", color=QUIET, label="dashed: proxy")
    axes.plot([], [], "-", color=QUIET, linewidth=2.2, label="solid: gold")
    axes.axhline(0, color=REFERENCE, linewidth=0.8)
    axes.set_xlim(-0.05, far)
    axes.set_ylim(low, None)
    label_axes(axes, "Proxy and gold over the distance", DISTANCE, "gain, reference std", "both")
    axes.legend(loc="lower left")
    return figure


# --- 2: the labeller's bias -------------------------------------------------------------------------


def bias_figure(runs: dict) -> Figure:
    """Proxy, gold and flattery over the iterations; `runs` label → histories of its seeds."""
    figure, grid = new_figure(1, 3, 9.6, 2.9)
    panels = (
        ("score", "Proxy", "its reference std"),
        ("gold", "Gold", "points"),
        ("flattery", "Responses that flatter", "share"),
    )
    for axes, (column, title, unit) in zip(grid[0], panels, strict=True):
        for (label, histories), (colour, line) in zip(
            runs.items(), ((KL, "-"), (POLICY, "--")), strict=True
        ):
            for k, history in enumerate(histories):
                values = [record[column] for record in history]
                axes.plot(values, line, color=colour, label=label if k == 0 else "", linewidth=1.4)
        label_axes(axes, title, "iteration", unit, grid="both")
    grid[0, 0].legend()
    return figure


# --- 3: what changes it ---------------------------------------------------------------------------


def factor_figure(bands: dict, chosen: str) -> Figure:
    """Gold and proxy over √KL for every value of one factor (label → band); the chosen in colour."""
    figure, grid = new_figure(1, 2, 9.6, 3.2)
    panels = (("gold", "Gold", "points", GOLD), ("score", "Proxy", "reference std", REWARD))
    for axes, (column, title, unit, colour) in zip(grid[0], panels, strict=True):
        for label, band in bands.items():
            if label != chosen:
                draw_band(axes, band, column, QUIET, linewidth=1.1)
        draw_band(axes, bands[chosen], column, colour, chosen, linewidth=2.4, zorder=5)
        label_axes(axes, f"{title}: {chosen}", DISTANCE, unit, grid="both")
    return figure


def _dumbbells(axes: Axes, rows: dict) -> None:
    """One line a kind of run: end, where it was stopped, peak."""
    for k, (end, kept, peak) in enumerate(rows.values()):
        axes.plot([end, peak], [k, k], color=QUIET, linewidth=2, zorder=1)
        axes.plot(end, k, "x", color=KL, markersize=7, label="never stopped" if k == 0 else "")
        axes.plot(peak, k, "|", color=BLACK, markersize=12, label="its own peak" if k == 0 else "")
        axes.plot(kept, k, "o", color=GOLD, markersize=7, label="stopped" if k == 0 else "")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)


def stopping_figure(limits: Sequence, kept: Sequence, chosen: int, rows: dict) -> Figure:
    """Left: mean gold kept by stopping at each KL limit. Right: kind → (end, kept, peak), points."""
    figure, grid = new_figure(1, 2, 9.6, 3.6)
    left, right = grid[0]
    left.plot(limits, kept, ".-", color=GOLD)
    left.plot(limits[chosen], kept[chosen], "o", color=GOLD, markersize=10)
    left.set_xscale("log", base=2)
    left.set_xticks(limits[::2], [f"{limit:g}" for limit in limits[::2]])
    left.minorticks_off()
    left.grid(True)
    label_axes(left, "All runs, stopped at one KL", "KL limit, nats", "gold kept, points")
    _dumbbells(right, rows)
    label_axes(right, f"Stopped at KL {limits[chosen]:g}", "gold, points")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=3)  # fmt: skip
    return figure


# --- 4 and 5: the ledger of a hack, and the rounds of patching ------------------------------------


def ledger_figure(iterations: Sequence[int], points: dict, proxy: Sequence[float]) -> Figure:
    """What gold gave (solid) and took (dashed), item by item, over the snapshots of one run."""
    figure, grid = new_figure(1, 2, 9.6, 3.7)
    left, right = grid[0]
    for name, (colour, line) in LEDGER_STYLES.items():
        if name in points:
            left.plot(iterations, points[name], line, color=colour, marker=".", label=name)
    left.axhline(0, color="black", linewidth=0.8)
    label_axes(left, "What the gold score is made of", "iteration", "points a sample")
    figure.legend(loc="outside lower left", ncols=4)
    total = [sum(column) for column in zip(*points.values(), strict=True)]
    right.plot(iterations, proxy, ".-", color=REWARD, label="proxy, reference std")
    right.plot(iterations, total, ".--", color=GOLD, label="gold, points")
    right.axhline(0, color="black", linewidth=0.8)
    label_axes(right, "The same samples, by two judges", "iteration")
    right.legend()
    return figure


def rounds_figure(bands: dict) -> Figure:
    """Gold and proxy over the iterations, a line and a shade over seeds for each round of patching."""
    figure, grid = new_figure(1, 2, 9.6, 3.0)
    looks = ((KL, "-"), (GOLD, "--"), (POLICY, "-."))
    panels = (
        ("gold", "Gold", "points"),
        ("score", "Proxy (each round has its own)", "its reference std"),
    )
    for axes, (column, title, unit) in zip(grid[0], panels, strict=True):
        for (label, band), (colour, line) in zip(bands.items(), looks, strict=True):
            mean, low, high = band[column]
            x = range(1, len(mean) + 1)
            axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(x, mean, line, color=colour, linewidth=1.8, label=label)
        label_axes(axes, title, "iteration", unit, grid="both")
    grid[0, 0].legend()
    return figure
