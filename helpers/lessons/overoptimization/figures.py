"""Figures of notebook 08: proxy and gold over distance, a bias, the ledger of a hack.

A *band* is what three seeds of one kind of run measured, iteration by iteration: `d` [T], the mean
√KL in √nats, and for each column (mean, lowest, highest), [T] each.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.kit.figures import label_axes, new_figure, one_panel
from helpers.kit.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE

DISTANCE = "d = √KL, √nats"
GOLD_PANEL, OWN_PROXY = ("gold", "Gold", "points"), ("score", "Proxy", "its reference std")
BLACK, QUIET = "#222222", "#BBBBBB"
LEDGER_COLOURS = {  # of the things gold counts, in the ledger
    "praise": REWARD,
    "blame": ACCENT,
    "broken": KL,
    "repetition": VALUE,
    "contradiction": POLICY,
    "hype": GOLD,
    "no full stop at the end": REFERENCE,
}
SMALLEST = 0.15  # points: an item of the ledger that is smaller everywhere goes into "all others"


def draw_band(axes: Axes, band: dict, column: str, colour: str, label: str = "", **how) -> None:
    """Mean over seeds as a line, lowest to highest as a shade, a dot where the runs end."""
    mean, low, high = band[column]
    axes.fill_between(band["d"], low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(band["d"], mean, color=colour, label=label, **how)
    axes.plot(band["d"][-1:], mean[-1:], "o", color=colour, markersize=4)


# --- 1: proxy and gold in one panel -----------------------------------------------------------------


def goodhart_figure(bands: dict, best: dict, low: float = -3.0, far: float = 6.0) -> Figure:
    """Proxy (dashed) and gold (solid) over √KL in one panel, both as gains in reference std.

    `bands` label → band, three at most; `best` {"d", "score", "gold"} lists over n. What falls below
    `low` or lies beyond `far` leaves the picture.
    """
    figure, axes = one_panel(8.6, 4.4)
    for (label, band), colour in zip(bands.items(), (KL, POLICY, VALUE), strict=False):
        draw_band(axes, band, "score", colour, linestyle="--", linewidth=1.3)
        draw_band(axes, band, "gold", colour, label, linewidth=2.2)
    axes.plot(best["d"], best["score"], "--", color=BLACK, linewidth=1.3)
    axes.plot(best["d"], best["gold"], "s-", color=BLACK, markersize=4, label="best of n")
    axes.plot([], [], "--", color=QUIET, label="dashed: proxy")
    axes.plot([], [], "-", color=QUIET, linewidth=2.2, label="solid: gold")
    axes.axhline(0, color=REFERENCE, linewidth=0.8)
    shown = [band["score"][2][band["d"] <= far] for band in bands.values()]
    axes.set_xlim(-0.05, far)
    axes.set_ylim(low, 0.4 + max(*best["score"], *(float(top.max()) for top in shown)))
    label_axes(axes, "Proxy and gold over the distance", DISTANCE, "gain, reference std", "both")
    axes.legend(loc="lower left")
    return figure


# --- 2: the labeller's bias -------------------------------------------------------------------------


def bias_figure(runs: dict) -> Figure:
    """Proxy, gold and flattery over the iterations; `runs` label → histories of its seeds."""
    figure, grid = new_figure(1, 3, 9.6, 2.9)
    panels = OWN_PROXY, GOLD_PANEL, ("flattery", "Responses that flatter", "share")
    looks = (KL, "-"), (POLICY, "--")
    for axes, (column, title, unit) in zip(grid[0], panels, strict=True):
        for (label, histories), (colour, line) in zip(runs.items(), looks, strict=True):
            for k, history in enumerate(histories):
                values = [record[column] for record in history]
                how = {"color": colour, "label": label if k == 0 else "", "linewidth": 1.4}
                axes.plot(range(1, len(values) + 1), values, line, **how)
        label_axes(axes, title, "iteration", unit, grid="both")
    grid[0, 0].legend()
    return figure


# --- 3: kinds of reward model at equal distance ------------------------------------------------------


def equal_distance_figure(gold: dict[str, dict[float, np.ndarray]]) -> Figure:
    """Gold of each kind of reward model, a panel a distance: dots are seeds, the line is their mean.

    `gold` kind in words → distance → points of the seeds [3], NaN where a run does not come so far.
    """
    distances = list(next(iter(gold.values())))
    figure, grid = new_figure(1, len(distances), 9.6, 4.0)
    for axes, d in zip(grid[0], distances, strict=True):
        for row, points in enumerate(at[d] for at in gold.values()):
            axes.plot(points, [row] * len(points), "o", color=POLICY, markersize=5, alpha=0.7)
            if np.isfinite(points).any():
                axes.plot([np.nanmean(points)] * 2, [row - 0.35, row + 0.35], color=BLACK)
        axes.set_yticks(range(len(gold)), list(gold) if axes is grid[0, 0] else [])
        axes.set_ylim(len(gold) - 0.4, -0.6)
        label_axes(axes, f"Gold at d = {d:g}", "points", grid="both")
    return figure


# --- 4: the ledger of a hack -----------------------------------------------------------------------


def _stack(axes: Axes, iterations: Sequence[int], points: dict) -> None:
    """Bars at each snapshot: what was given stands above 0, what was taken hangs below it."""
    up, down = np.zeros(len(iterations)), np.zeros(len(iterations))
    for name, worth in points.items():
        colour, bottom = LEDGER_COLOURS.get(name, QUIET), np.where(worth > 0, up, down)
        axes.bar(iterations, worth, 3.2, bottom, color=colour, edgecolor="white", label=name)
        up, down = up + worth.clip(min=0), down + worth.clip(max=0)


def ledger_figure(iterations: Sequence[int], points: dict, proxy: Sequence[float]) -> Figure:
    """What gold gave and took, item by item, over the snapshots of one run; above each the proxy."""
    figure, axes = one_panel(8.6, 3.9)
    total = np.sum(list(points.values()), axis=0)
    known = {name: np.array(points[name]) for name in LEDGER_COLOURS if name in points}
    large = {name: worth for name, worth in known.items() if abs(worth).max() >= SMALLEST}
    _stack(axes, iterations, large | {"all others": total - sum(large.values())})
    axes.plot(
        iterations, total, "D-", color=BLACK, markersize=4, linewidth=1.2, label="the sum: gold"
    )
    top = axes.get_ylim()[1]
    for at, score in zip(iterations, proxy, strict=True):
        axes.text(at, top + 0.2, f"{score:+.1f}", color=REWARD, ha="center", fontsize=9)
    axes.text(iterations[0] - 2, top + 1.1, "proxy, reference std:", color=REWARD, fontsize=9)
    axes.set_ylim(top=top + 2)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.legend(loc="lower left")
    label_axes(axes, "What the gold score is made of", "iteration", "points a sample")
    return figure
