"""Figures of lesson 10: methods side by side, weights of prompts and tokens, pass@k, stale samplers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from helpers.kit.figures import draw_bars, draw_seeds, label_axes, new_figure, one_panel
from helpers.kit.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE

Runs = dict[str, Sequence[Sequence[float]]]  # label → one list of numbers per seed
STYLES = ((POLICY, "-"), (KL, "--"), (REWARD, "-."), (VALUE, ":"))


def value_figure(values: dict[str, Sequence[float]], best: float, reference: float) -> Figure:
    """J of the last policies: a dot per seed, a bar for their mean; once with J* and reference, once near."""
    figure, (panels,) = new_figure(1, 2, 9.6, 2.8)
    for axes in panels:
        for x, each in enumerate(values.values()):
            draw_values(axes, x, each, POLICY, "black")
        axes.set_xticks(range(len(values)), values)
        axes.set_xlim(-0.5, len(values) - 0.4)
    whole, near = panels
    for y, words in ((best, "J*, the best possible"), (reference, "the reference")):
        whole.axhline(y, color=REFERENCE, linestyle="--", linewidth=1.2)
        whole.annotate(words, (len(values) - 0.42, y), (0, 3), textcoords="offset points",
                       fontsize=9, ha="right", color="0.3")  # fmt: skip
    whole.set_ylim(top=best + 0.12 * (best - reference))
    label_axes(whole, "Score minus β·KL of the last policies", "", "J, reference std", grid="y")
    label_axes(near, "The same, from near", "", "", grid="y")
    return figure


def weight_figure(shares: Sequence[float], curves: dict[str, Sequence[float]]) -> Figure:
    """Weight of a prompt against its share of right answers, in units of the weight at ½."""
    figure, axes = one_panel(6.6, 2.8)
    for (label, y), (colour, line) in zip(curves.items(), STYLES, strict=False):
        axes.plot(shares, y, color=colour, linestyle=line, linewidth=2, label=label)
    axes.set_ylim(0, 1.1)
    axes.legend(loc="lower center")
    words = "share of right answers to the prompt"
    label_axes(axes, "How hard a prompt pushes", words, "weight (at ½: 1)", grid="both")
    return figure


def answer_bars(names: Sequence[str], series: dict[str, Sequence[float]]) -> Figure:
    """Expected push on each answer, for several ways to average."""
    figure, axes = one_panel(7.6, 2.8)
    fills = ({"color": KL}, {"color": REFERENCE}, {"facecolor": "white", "edgecolor": "black"})
    bars = zip(series.items(), fills, strict=False)
    draw_bars(axes, names, [(y, {"label": label} | fill) for (label, y), fill in bars])
    axes.legend(ncols=len(series), loc="upper right")
    label_axes(axes, "Where the expected gradient pushes", "", "push (short right: 1)")
    return figure


def draw_runs(axes: Axes, x: Sequence[float], runs: Runs) -> None:
    """Runs by label: a thin line per seed, a thick one for their mean."""
    for (label, seeds), (colour, line) in zip(runs.items(), STYLES, strict=False):
        draw_seeds(axes, x, seeds, colour, label, line)


def draw_values(axes: Axes, place: int, values: Sequence[float], colour: str, ring: str) -> None:
    """One number a seed as rings, their mean as a bar."""
    axes.plot([place - 0.25, place + 0.25], [np.mean(values)] * 2, color=colour, linewidth=3)
    axes.plot([place] * len(values), values, "o", color=ring, markersize=5, fillstyle="none")


def run_figure(x: Sequence[float], runs: Runs, title: str, label: str) -> Figure:
    """Runs over their iterations: thin lines are seeds, thick ones means."""
    figure, axes = one_panel(7.0, 2.8)
    draw_runs(axes, x, runs)
    axes.legend()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label_axes(axes, title, "iteration", label, grid="both")
    return figure


def pass_figure(x: Sequence[int], panels: dict[str, Runs]) -> Figure:
    """pass@k or pass rates along training, a panel for each title, all on one scale."""
    figure, grid = new_figure(1, len(panels), 4.8 * len(panels), 3.1)
    for axes, (title, runs) in zip(grid.flat, panels.items(), strict=True):
        draw_runs(axes, x, runs)
        axes.set_ylim(0, 1)
        axes.set_xticks(x)
        label_axes(axes, title, "iteration", "share of requests", grid="both")
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
        colour = POLICY if size == chosen else REFERENCE
        draw_values(left, x, values[str(size)], colour, colour)
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


def staleness_figure(lags: Sequence[int], series: dict[str, Sequence[float]]) -> Figure:
    """Share of a batch that still counts against the sampler's age: label → numbers."""
    figure, axes = one_panel(6.6, 2.7)
    markers = ("o", "s", "^")
    for (label, y), (colour, line), marker in zip(series.items(), STYLES, markers, strict=False):
        axes.plot(lags, y, color=colour, linestyle=line, marker=marker, markersize=5, label=label)
    axes.set_ylim(0, 1.05)
    axes.set_xticks(lags)
    axes.legend(loc="lower left")
    words = "iterations since these responses were written"
    label_axes(axes, "Effective share of a stale batch", words, "effective sample size / n", "both")
    return figure


def ratio_histograms(panels: dict[str, Sequence[float]], limits: tuple[float, float]) -> Figure:
    """Ratios on one scale, a panel each, with the clip's limits."""
    figure, grid = new_figure(1, len(panels), 4.8 * len(panels), 2.7)
    bins = np.linspace(0, 2.5, 51)
    for axes, (title, x), colour in zip(grid.flat, panels.items(), (ACCENT, GOLD), strict=False):
        axes.hist(np.clip(x, 0, 2.5), bins=bins, color=colour)
        for limit in limits:
            axes.axvline(limit, color="black", linewidth=1, linestyle="--")
        label_axes(axes, title, "ratio π / π_old (above 2.5: at the edge)", "count")
    return figure
