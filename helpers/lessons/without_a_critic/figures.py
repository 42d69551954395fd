"""Figures of lesson 10: weights of prompts, pushes on answers, pass@k, group sizes, two rewards."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from helpers.kit.figures import draw_bars, draw_seeds, label_axes, new_figure, one_panel
from helpers.kit.palette import BLUE, GREEN, GREY, ORANGE, PINK

Runs = dict[str, Sequence[Sequence[float]]]  # label → one list of numbers per seed
STYLES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PINK, ":"))


def weight_figure(shares: Sequence[float], curves: dict[str, Sequence[float]]) -> Figure:
    """Weight of a prompt against its share of right answers, in units of the weight at ½."""
    figure, axes = one_panel(6.6, 2.8)
    for (label, y), (colour, line) in zip(curves.items(), STYLES, strict=False):
        axes.plot(shares, y, color=colour, linestyle=line, linewidth=2, label=label)
    axes.set_ylim(0, 1.1)
    axes.legend(loc="lower center")
    words = "share of right answers to the prompt"
    label_axes(axes, "Weight of a prompt in the gradient", words, "weight (at ½: 1)", grid="both")
    return figure


def answer_bars(names: Sequence[str], series: dict[str, Sequence[float]]) -> Figure:
    """Expected push on each answer, for several ways to average."""
    figure, axes = one_panel(7.6, 2.8)
    fills = ({"color": ORANGE}, {"color": GREY}, {"facecolor": "white", "edgecolor": "black"})
    bars = zip(series.items(), fills, strict=False)
    draw_bars(axes, names, [(y, {"label": label} | fill) for (label, y), fill in bars])
    axes.legend(ncols=len(series), loc="upper right")
    label_axes(axes, "Where the expected gradient pushes", "", "push (short right: 1)")
    return figure


def draw_values(axes: Axes, place: int, values: Sequence[float], colour: str) -> None:
    """One number a seed as rings, their mean as a bar."""
    axes.plot([place - 0.25, place + 0.25], [np.mean(values)] * 2, color=colour, linewidth=3)
    axes.plot([place] * len(values), values, "o", color=colour, markersize=5, fillstyle="none")


def pass_figure(x: Sequence[int], panels: dict[str, Runs]) -> Figure:
    """pass@k along training, a panel for each title: a thin line per seed, a thick one for their mean."""
    figure, grid = new_figure(1, len(panels), 4.8 * len(panels), 3.1)
    for axes, (title, runs) in zip(grid.flat, panels.items(), strict=True):
        for (label, seeds), (colour, line) in zip(runs.items(), STYLES, strict=False):
            draw_seeds(axes, x, seeds, colour, label, line)
        axes.set_ylim(0, 1)
        axes.set_xticks(x)
        label_axes(axes, title, "iteration", "share of prompts", grid="both")
    lines, labels = grid.flat[0].get_legend_handles_labels()  # the same in each panel
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels))
    return figure


def group_size_figure(sizes: Sequence[int], values: Runs, curves: Runs, chosen: int) -> Figure:
    """J of the last policies by K, and the score along training of the chosen K in colour.

    `values` and `curves` map str(K) to one number, or one list, per seed.
    """
    figure, grid = new_figure(1, 2, 9.6, 2.9)
    left, right = grid[0]
    for x, size in enumerate(sizes):
        colour = BLUE if size == chosen else GREY
        draw_values(left, x, values[str(size)], colour)
        for y in curves[str(size)]:
            width, order = (1.8, 3) if size == chosen else (0.8, 2)
            steps = range(1, len(y) + 1)
            right.plot(steps, y, color=colour, linewidth=width, zorder=order)
    left.set_xticks(range(len(sizes)), [f"K = {size}" for size in sizes])
    label_axes(left, "Last policies, a circle per seed", "", "J, reference std", grid="y")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    title = f"K = {chosen}: {64 // chosen} prompts in each batch of 64"
    label_axes(right, title, "iteration", "score of the rollout", grid="both")
    return figure


def front_figure(
    front: Sequence[Sequence[float]], ends: dict[str, dict[str, Sequence[float]]]
) -> Figure:
    """Means of two rewards: the frontier as a line, and where each way of adding ends, by unit."""
    figure, axes = one_panel(6.6, 3.2)
    axes.plot(*zip(*front, strict=True), color=GREY, linewidth=2, label="the frontier at this KL")
    for (label, by_unit), colour in zip(ends.items(), (ORANGE, BLUE), strict=True):
        for (unit, point), marker in zip(by_unit.items(), "os^", strict=False):
            axes.plot(*point, marker, color=colour, markersize=8, label=f"{label}, {unit}")
    axes.legend(loc="lower right")
    label_axes(axes, "Two rewards at 1 nat of KL", "mean length, words", "mean score", grid="both")
    return figure
