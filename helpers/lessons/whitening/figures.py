"""Figures of lesson 03: whitening before and after, noise, credit, padding, the critic."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from helpers.kit.figures import draw_lines, label_axes, new_figure, one_panel, zero_line
from helpers.kit.palette import ACCENT, ORANGE, REFERENCE, REWARD, VALUE, YELLOW


def advantage_histograms(panels: dict) -> Figure:
    """One histogram a panel, on one axis: title → numbers. Bins go from lowest to highest."""
    figure, grid = new_figure(1, len(panels), 9.6, 2.8)
    low = min(min(x) for x in panels.values())
    high = max(max(x) for x in panels.values())
    colours = REFERENCE, YELLOW, ACCENT
    for axes, (title, x), colour in zip(grid.flat, panels.items(), colours, strict=False):
        axes.hist(x, bins=np.linspace(min(x), max(x), 40), color=colour)  # same bins, other unit
        axes.set_xlim(low - 0.1, high + 0.1)
        axes.axvline(0, color="black", linewidth=0.8)
        spread = f"mean {round(np.mean(x), 2) + 0.0:.2f}, std {np.std(x, ddof=1):.2f}"
        label_axes(axes, f"{title}: {spread}", "advantage of a token", "tokens")
    return figure


def noise_curves(offsets: Sequence[float], curves: dict) -> Figure:
    """Noise of the gradient against a constant added to the scores: label → numbers."""
    figure, axes = one_panel(6.6, 2.6)
    draw_lines(axes, offsets, curves, (REFERENCE, YELLOW))
    axes.set_ylim(0, 1.1 * max(max(y) for y in curves.values()))
    title = "How far minibatches' gradients lie from their mean"
    label_axes(axes, title, "constant added to every score", "noise: typical distance", "both")
    return figure


def credit_by_score(scores: Sequence, panels: dict) -> Figure:
    """Mean credit of a response's tokens against its score, a dot a response: title → credit."""
    figure, grid = new_figure(1, len(panels), 7.6, 2.6)
    top = 1.1 * max(np.abs(credit).max() for credit in panels.values())
    colours = YELLOW, ORANGE
    for axes, (title, credit), colour in zip(grid.flat, panels.items(), colours, strict=False):
        axes.scatter(scores, credit, s=16, color=colour, linewidths=0)
        zero_line(axes)
        axes.set_ylim(-top, top)
        label_axes(axes, title, "score of the response", "mean credit of its tokens")
    return figure


def run_lines(runs: dict, title: str, label: str) -> Figure:
    """One line a run over its iterations: label → numbers."""
    figure, axes = one_panel(6.6, 2.6)
    x = range(1, 1 + len(next(iter(runs.values()))))
    draw_lines(axes, x, runs, (YELLOW, ORANGE, REFERENCE))
    axes.set_xticks(x)
    label_axes(axes, title, "iteration", label, grid="both")
    return figure


def critic_and_truth(panels: dict) -> Figure:
    """Mean observed return and mean value, a panel a run: title → (returns, values)."""
    figure, grid = new_figure(1, len(panels), 7.6, 2.6)
    both = [number for pair in panels.values() for line in pair for number in line]
    margin = 0.1 * (max(both) - min(both))
    for axes, (title, (truth, expected)) in zip(grid.flat, panels.items(), strict=False):
        x = range(1, len(truth) + 1)
        axes.fill_between(x, expected, truth, color="#FAE6DA", linewidth=0)
        curves = {"observed return": truth, "critic's value": expected}
        draw_lines(axes, x, curves, (REWARD, VALUE), markersize=4)
        axes.set(ylim=(min(both) - margin, max(both) + margin), xticks=x)
        label_axes(axes, title, "iteration", "mean over tokens", grid="both")
    return figure


def whitened_padding_figure(right: Sequence, wrong: Sequence, share: float) -> Figure:
    """Whitened advantages of the counted tokens: by the mask, and with the padding taking part."""
    figure, axes = one_panel(6.6, 2.6)
    bins = np.linspace(-5, 5, 61)
    label = f"counted only: std {np.std(right, ddof=1):.2f}"
    axes.hist(right, bins=bins, color=YELLOW, label=label)
    label = f"padding takes part: std {np.std(wrong, ddof=1):.2f}"
    axes.hist(wrong, bins=bins, histtype="step", color=ORANGE, linewidth=1.8, label=label)
    axes.set_ylim(0, 260)
    title = f"{share:.0%} of the positions are padding"
    label_axes(axes, title, "whitened advantage of a counted token", "tokens")
    axes.legend(loc="upper left")
    return figure
