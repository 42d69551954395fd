"""Figures of notebook 07: ten answers, one parameter, a β that follows a target."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from helpers.kit.figures import draw_bars, label_axes, log_ticks, new_figure
from helpers.kit.palette import KL, POLICY, REFERENCE, REWARD, SKY, YELLOW
from helpers.lessons.kl_beta.gaussian import (
    GaussianRun,
    gaussian_objective,
    normal_logprob,
    peak_reward,
)

# --- ten answers -----------------------------------------------------------------------


def draw_answers(axes: Axes, *series: tuple[Sequence, str, str]) -> None:
    """Bars over the answers 1, 2, …; each of `series`: numbers, colour, label."""
    bars = [(numbers, {"color": colour, "label": label}) for numbers, colour, label in series]
    draw_bars(axes, range(1, len(series[0][0]) + 1), bars)


def penalty_figure(reference: Tensor, reached: dict[str, Tensor]) -> Figure:
    """Where each penalty leads: one panel a policy [10], beside the reference."""
    figure, grid = new_figure(1, len(reached), 9.6, 2.6)
    panels = zip(grid[0], reached.items(), (POLICY, KL, YELLOW), strict=True)
    for axes, (name, probs), colour in panels:
        draw_answers(axes, (reference, REFERENCE, "reference"), (probs, colour, "trained"))
        axes.set_ylim(0, 1.02)
        label_axes(axes, name, "answer", "probability" if axes is grid[0, 0] else "")
        axes.legend(loc="upper left")
    return figure


# --- one parameter ---------------------------------------------------------------------


def _densities(axes: Axes, mean: float, optimum: float) -> None:
    """Reference, trained policy and optimum as densities; the reward above them on its own axis."""
    y = torch.linspace(-1.6, 2.4, 200)
    for centre, colour, line, label in (
        (0.0, REFERENCE, "-", "reference"),
        (mean, POLICY, "-", "trained"),
        (optimum, "black", "--", "formula"),
    ):
        density = normal_logprob(y, centre).exp()
        axes.plot(y, density, line, color=colour, label=label, linewidth=1.8)
    axes.set_ylim(0, 1.9)
    twin = axes.twinx()
    twin.plot(y, peak_reward(y), color=REWARD, linewidth=1.4)
    twin.set_ylim(-8, 4)
    twin.set_yticks([-8, -4, 0])
    twin.spines[["top"]].set_visible(False)
    twin.tick_params(labelsize=9, colors=REWARD)
    twin.set_ylabel("reward", color=REWARD, labelpad=-6)
    axes.legend(loc="upper left", ncols=2)
    label_axes(axes, "What the policy says", "y", "density")


def _training(axes: Axes, runs: Sequence[GaussianRun], chosen: int, optimum: float) -> None:
    """m over the gradient steps: the chosen run, the others faintly, the formula dashed."""
    for k, run in enumerate(run for run in runs if run is not runs[chosen]):
        label = "_" if k else "at the other β"
        axes.plot(run.means, color=SKY, linewidth=0.9, alpha=0.5, label=label)
    axes.plot(runs[chosen].means, color=POLICY, linewidth=2, label="at this β")
    axes.legend(loc="upper right")
    axes.axhline(optimum, color="black", linestyle="--", linewidth=1.2)
    axes.set_ylim(-0.1, 1.5)
    title = f"Training: ends at {runs[chosen].means[-1]:.2f}, formula {optimum:.2f}"
    label_axes(axes, title, "step", "mean m")


def _objective(axes: Axes, kl_coef: float, mean: float, optimum: float) -> None:
    """J(m) at this β, with the trained policy and the optimum on it."""
    m = torch.linspace(-0.5, 1.5, 100)
    reward, value = (gaussian_objective(m, beta) for beta in (0.0, kl_coef))
    axes.plot(m, reward, color=REWARD, label="E[reward]")
    axes.plot(m, value - reward, color=KL, linestyle=":", label="−β·KL")
    axes.plot(m, value, color=POLICY, linewidth=2, label="J, their sum")
    axes.plot(mean, gaussian_objective(mean, kl_coef), "o", color=POLICY, markersize=8)
    axes.axvline(optimum, ymax=0.68, color="black", linestyle="--", linewidth=1.2)
    axes.set(ylim=(-4, 1.9), yticks=range(-4, 1))
    axes.legend(loc="upper left", ncols=2)
    label_axes(axes, f"The objective at β = {kl_coef:g}", "mean m", "reward units")


def gaussian_figure(runs: Sequence[GaussianRun], optima: Sequence[float], chosen: int) -> Figure:
    """One trained Gaussian policy beside its closed-form optimum; the other βs faintly."""
    figure, grid = new_figure(1, 3, 10.0, 3.2)
    run, optimum = runs[chosen], optima[chosen]
    _densities(grid[0, 0], run.means[-1], optimum)
    _training(grid[0, 1], runs, chosen, optimum)
    _objective(grid[0, 2], run.kl_coef, run.means[-1], optimum)
    return figure


# --- a β that follows a target ----------------------------------------------------------

START_STYLES = ("-", "--", ":")


def target_figure(groups: dict[float, list[tuple]]) -> Figure:
    """KL over iterations, above, and β, below: `{target: [(first β, KL [n], β [n]), ...]}`."""
    figure, grid = new_figure(2, len(groups), 10.0, 4.6)
    for column, (target, runs) in enumerate(groups.items()):
        upper, lower = grid[:, column]
        units = ("", "") if column else ("KL, nats per response", "β (log scale)")
        upper.axhspan(0.8 * target, 1.2 * target, color=REFERENCE, alpha=0.2, linewidth=0)
        upper.axhline(target, color=REFERENCE, linewidth=1)
        for style, (first, kl, betas) in zip(START_STYLES, runs, strict=False):
            x = range(1, len(kl) + 1)
            upper.plot(x, kl, style, color=KL, linewidth=1.6, label=f"β starts at {first:g}")
            lower.plot(x, betas, style, color=POLICY, linewidth=1.6, label=f"from {first:g}")
        label_axes(upper, f"Target: a KL of {target:g}", y=units[0], grid="both")
        label_axes(lower, x="iteration", y=units[1], grid="both")
        upper.set_ylim(0)
        log_ticks(lower)
    grid[0, -1].legend(), grid[1, -1].legend()
    return figure
