"""Figures of notebook 05: preferences, Bradley–Terry, fitting, calibration, two judges."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from helpers.kit.figures import draw_lines, label_axes, new_figure, one_panel
from helpers.kit.palette import BLUE, GREEN, GREY, ORANGE, SKY, YELLOW

LN2 = math.log(2)
FARTHEST = 8  # points of gold score that the histogram of gaps shows


def gap_histogram(gaps: Sequence[float]) -> Figure:
    """Gold score of the chosen minus that of the rejected response, pair by pair.

    Gaps above `FARTHEST` stand at the edge.
    """
    figure, axes = one_panel(8.4, 2.8)
    edges = [k / 2 for k in range(-22, 2 * FARTHEST + 1)]
    better, worse = [min(FARTHEST, g) for g in gaps if g >= 0], [g for g in gaps if g < 0]
    names = "the better one was chosen, or an equal", "the worse one was chosen"
    for name, some, colour in zip(names, (better, worse), (GREEN, ORANGE), strict=True):
        axes.hist(some, edges, color=colour, label=f"{name}: {len(some) / len(gaps):.0%}")
    axes.set_xlim(min(gaps) - 0.5, FARTHEST + 0.5)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])  # room for the legend
    axes.legend(loc="upper right")
    words = f"gold(chosen) − gold(rejected), points (above {FARTHEST} at the edge)"
    label_axes(axes, "What the labeller did", words, "pairs", grid="both")
    return figure


def bradley_terry_figure(seen: Sequence[tuple[float, float, int]], temperature: float) -> Figure:
    """Chance, loss and gradient over the difference; `seen`: (gold gap, share that chose it, pairs)."""
    figure, grid = new_figure(1, 3, 9.8, 2.8)
    x = np.linspace(-5, 5, 201)
    sigmoid = 1 / (1 + np.exp(-x))
    chance, loss, gradient = grid[0]
    chance.plot(x, sigmoid, color=GREEN, label="σ(difference)")
    gaps, shares, pairs = np.array(seen).T
    errors = 2 * np.sqrt(shares * (1 - shares) / pairs)  # standard errors of a share
    look = {"fmt": "o", "color": YELLOW, "markersize": 5, "label": "labeller"}
    chance.errorbar(gaps / temperature, shares, errors, **look)
    chance.set_xlim(-5, 5)
    chance.legend(loc="upper left", handlelength=1.2)
    words = "Chance that A is preferred", "score of A − score of B", "probability"
    label_axes(chance, *words, grid="both")
    loss.plot(x, np.log1p(np.exp(-x)), color=BLUE)
    loss.plot(0, LN2, "o", color="black", markersize=4)
    loss.annotate("no idea: ln 2", (0, LN2), (5, 3), fontsize=9, textcoords="offset points")
    label_axes(loss, "Loss of one pair", "chosen − rejected", "nats", grid="both")
    gradient.plot(x, sigmoid - 1, color=ORANGE)
    words = "Its slope: −P(the rejected wins)", "chosen − rejected", "d loss / d difference"
    label_axes(gradient, *words, grid="both")
    return figure


def fit_curves(history: list[dict], total: int, best: float) -> Figure:
    """Loss of each step; accuracy on training and on held-out pairs, where it was measured."""
    figure, grid = new_figure(1, 2, 9.4, 2.8)
    loss, accuracy = grid[0]
    loss.plot([r["step"] for r in history], [r["loss"] for r in history], color=BLUE)
    loss.axhline(LN2, color=GREY, linestyle="--", linewidth=1)
    loss.text(total, LN2, "ln 2 ", fontsize=9, ha="right", va="bottom")
    loss.set(xlim=(0, total), ylim=(0, None))
    words = "Bradley–Terry loss of the batch", "gradient step", "nats per pair"
    label_axes(loss, *words, grid="both")
    measured = [record for record in history if "test" in record]
    names = {"train": "its own pairs", "test": "held-out pairs"}
    curves = {name: [record[key] for record in measured] for key, name in names.items()}
    draw_lines(accuracy, [r["step"] for r in measured], curves, (BLUE, GREEN), markersize=4)
    limits = (
        (0.5, 0.505, "bottom", "chance", GREY),
        (best, best - 0.01, "top", "best possible", YELLOW),
    )
    for height, at, side, words, colour in limits:  # between them lies any honest accuracy
        accuracy.axhline(height, color=colour, linestyle="--", linewidth=1.2)
        place = accuracy.get_yaxis_transform()  # x in shares of the panel
        accuracy.text(1.0, at, words, transform=place, ha="right", va=side, fontsize=9)
    accuracy.set_ylim(0.4, 1.04)
    accuracy.set_xlim(0, total)
    accuracy.legend(loc="upper left")
    label_axes(accuracy, "Accuracy", "gradient step", "share of pairs", grid="both")
    return figure


def calibration_figure(curves: dict[str, list[dict]]) -> Figure:
    """Predicted against actual; `curves` maps a name to rows of `study.calibration`.

    Dots are as large as the number of pairs behind them; one or two pairs make none.
    """
    figure, axes = one_panel(5.4, 3.6)
    for (name, rows), (colour, mark) in zip(
        curves.items(), ((SKY, "o"), (GREEN, "s")), strict=True
    ):
        rows = [row for row in rows if row["pairs"] > 2]
        total = sum(row["pairs"] for row in rows)
        x, y = [row["predicted"] for row in rows], [row["actual"] for row in rows]
        sizes = [20 + 400 * row["pairs"] / total for row in rows]
        axes.plot(x, y, color=colour, linewidth=1)
        axes.scatter(x, y, sizes, color=colour, alpha=0.75, marker=mark)
        axes.plot([], [], marker=mark, color=colour, label=name)  # the legend's mark, of one size
    axes.plot([0.5, 1], [0.5, 1], color=GREY, linestyle="--", linewidth=1)
    axes.set(xlim=(0.48, 1.02), ylim=(0.4, 1.04))
    axes.legend(loc="upper left")
    words = "predicted chance that its favourite wins", "chance that the labeller agrees"
    label_axes(axes, "Calibration", *words, grid="both")
    return figure


def mean_by_size(runs: list[dict], temperature: float, key: str) -> tuple[list[int], list[float]]:
    """Sizes in order, and the mean over seeds of `key` at each."""
    own = [run for run in runs if run["temperature"] == temperature]
    sizes = sorted({run["pairs"] for run in own})
    groups = [[run[key] for run in own if run["pairs"] == size] for size in sizes]
    return sizes, [sum(group) / len(group) for group in groups]


def proxy_gold_figure(
    proxy: Sequence[float], gold: Sequence[float], marked: Sequence[int]
) -> Figure:
    """Each text by both scores, in standard deviations; `marked` ones ringed."""
    figure, axes = one_panel(6.0, 3.2)
    axes.plot(gold, proxy, "s", color=BLUE, ms=1.8, mew=0, antialiased=False)  # sharp and small
    axes.axline((0, 0), slope=1, color=GREY, linewidth=1)
    rings = [gold[i] for i in marked], [proxy[i] for i in marked]
    axes.plot(*rings, "o", color=ORANGE, fillstyle="none", markersize=9, label="most overrated")
    axes.legend(loc="upper left")
    words = "gold score, standard deviations", "reward model, std. deviations"
    label_axes(axes, "Two judges of the same texts", *words, grid="both")
    return figure
