"""Figures of notebook 04: the clip seen from both sides, and what it does to a real rollout."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from helpers.kit.figures import draw_lines, label_axes, legend_below, new_figure, one_panel
from helpers.kit.palette import ACCENT, GREEN, ORANGE, POLICY, REFERENCE, VALUE

BAND = "#E6E6E6"  # ground between 1 − ε and 1 + ε
LEAST_RATIO, LARGEST_RATIO = 0.2, 2.6  # ratios shown; what lies beyond is drawn on the edge
SIDES = (
    (1.0, "A > 0: the token did better than expected", "surrogate at A = +1"),
    (-1.0, "A < 0: it did worse", "surrogate at A = −1"),
)


def _curve(axes: Axes, sign: float, cliprange: float) -> None:
    """min(ρA, clip(ρ)A) for A = ±1, its flat part set apart, beside the unclipped ρA."""
    rho = torch.linspace(LEAST_RATIO, LARGEST_RATIO, 200)
    edge = 1 + sign * cliprange
    flat = rho >= edge if sign > 0 else rho <= edge
    gain = torch.minimum(sign * rho, sign * rho.clamp(1 - cliprange, 1 + cliprange))
    axes.plot(rho, sign * rho, color=REFERENCE, linestyle=":", label="ρA, without a clip")
    axes.plot(rho[~flat], gain[~flat], color=POLICY, linewidth=2.2, label="still pulls: slope A")
    how = {"linewidth": 2.2, "linestyle": "--", "label": "flat, the token is clipped: slope 0"}
    axes.plot(rho[flat], gain[flat], color=ORANGE, **how)


def _histogram(axes: Axes, ratios: Tensor, sign: float, cliprange: float) -> None:
    """How many real tokens have which ratio; those on the flat part in the colour of the flat part."""
    edges = np.linspace(LEAST_RATIO, LARGEST_RATIO, 49)
    clipped = ratios > 1 + cliprange if sign > 0 else ratios < 1 - cliprange
    shown = ratios.clamp(LEAST_RATIO, LARGEST_RATIO - 1e-4)
    stacked = ((shown, ORANGE), (shown[~clipped], POLICY))  # an outline each: faster than 48 bars
    for tokens, colour in stacked:
        axes.stairs(*np.histogram(tokens, edges), baseline=0.5, fill=True, color=colour)
    axes.set(yscale="log", ylim=(0.7, 2 * len(ratios)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    share = float(clipped.float().mean()) if len(ratios) else 0.0
    words = f"{len(ratios)} tokens, {share:.0%} clipped"
    words += f"; ratios {ratios.min():.2f} to {ratios.max():.2f}"
    label_axes(axes, words, "ratio ρ = π / π_old", "tokens (log scale)")


def surrogate_figure(cliprange: float, ratio: Tensor, advantages: Tensor, mask: Tensor) -> Figure:
    """The surrogate for both signs of A, and below it the tokens of a rollout: all [B, T]."""
    figure, grid = new_figure(2, 2, 9.6, 5.4)
    for column, (sign, title, unit) in enumerate(SIDES):
        top, bottom = grid[:, column]
        _curve(top, sign, cliprange)
        label_axes(top, title, y=unit)
        _histogram(bottom, ratio[mask & (advantages * sign > 0)], sign, cliprange)
        for axes in (top, bottom):
            axes.axvspan(1 - cliprange, 1 + cliprange, color=BAND, zorder=0, label="1 ± ε")
            axes.set_xlim(LEAST_RATIO - 0.05, LARGEST_RATIO + 0.05)
    legend_below(figure, grid[0, 0])
    return figure


def min_and_max_figure() -> Figure:
    """The right surrogate and the one with `max`, for both signs of the advantage; ε is 0.2."""
    figure, grid = new_figure(1, 2, 9.6, 2.9)
    rho = torch.linspace(0, 2, 201)
    for axes, (sign, title, unit) in zip(grid[0], SIDES, strict=True):
        both = sign * rho, sign * rho.clamp(0.8, 1.2)
        curves = {"min (right)": torch.minimum(*both), "max (wrong)": torch.maximum(*both)}
        draw_lines(axes, rho, curves, (POLICY, ORANGE), markersize=0, linewidth=2.2)
        axes.axvline(1, color="black", linewidth=0.7)
        label_axes(axes, title, "ratio ρ", unit)
    return figure


def value_clip_figure(old_value: float, target: float, cliprange_value: float) -> Figure:
    """Three candidate losses of one value estimate; the thick one is their larger, which PPO uses."""
    figure, axes = one_panel(9.6, 3.0)
    value = torch.linspace(-1.5, 1.5, 301)
    near = value.clamp(old_value - cliprange_value, old_value + cliprange_value)
    square, clipped = 0.5 * (value - target).square(), 0.5 * (near - target).square()
    larger = torch.maximum(square, clipped)
    axes.plot(value, larger, color=VALUE, linewidth=5, alpha=0.45, label="the larger: the loss")
    axes.plot(value, square, color=REFERENCE, linestyle=":", label="½(V − R)²")
    axes.plot(value, clipped, color=POLICY, linestyle="--", label="½(clip(V) − R)²")
    axes.axvspan(old_value - cliprange_value, old_value + cliprange_value, color=ACCENT, alpha=0.15)
    axes.axvline(old_value, color="black", linewidth=0.8)
    axes.axvline(target, color=GREEN, linewidth=1.5)
    top = float(larger.max())
    axes.text(old_value, top, " V_old", fontsize=9, va="top")
    axes.text(target, 0.86 * top, " R", fontsize=9, va="top")
    label_axes(axes, "", "new value V (shaded: V_old ± ε)", "loss of this token")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def bandit_figure(words: Sequence[str], exact: Tensor, estimates: dict[str, Tensor]) -> Figure:
    """Estimates of a gradient [N, K], a dot each, beside the exact one [K]."""
    figure, axes = one_panel(9.6, 3.0)
    pairs = zip(estimates.items(), (ORANGE, POLICY), strict=False)
    for shift, ((name, found), colour) in zip((-0.17, 0.17), pairs, strict=False):
        spread = torch.linspace(-0.12, 0.12, len(found))
        x = torch.arange(len(words))[:, None] + shift + spread  # (K, N)
        axes.scatter(x, found.T, s=5, color=colour, alpha=0.5, label=name)
    for k, height in enumerate(exact.tolist()):
        label = "exact" if k == 0 else None
        axes.plot([k - 0.36, k + 0.36], [height] * 2, color="black", linewidth=2, label=label)
    axes.set_xticks(range(len(words)), list(words))
    label_axes(axes, "", "", "gradient on the word's logit")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def negative_side_figure() -> Figure:
    """A bad token's gradient, as a factor of A·∇log π: PPO, dual clip and CISPO; ε is 0.2."""
    figure, axes = one_panel(9.6, 2.6)
    rho = torch.linspace(0, 5, 501)
    ppo = torch.where(rho < 0.8, 0.0, rho)
    curves = {"PPO": ppo, "dual clip, c = 3": torch.where(rho > 3, 0.0, ppo)}
    curves["CISPO, ε_high = 0.2"] = rho.clamp(max=1.2)
    draw_lines(axes, rho, curves, (POLICY, ORANGE, GREEN), markersize=0, linewidth=2.2)
    label_axes(axes, "A < 0: the token did worse than expected", "ratio ρ", "factor of A·∇log π")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
