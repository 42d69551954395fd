"""Sliders of notebook 07: ten answers, the one-parameter policy."""

from collections.abc import Callable, Sequence

from torch import Tensor

from helpers.kit.figures import label_axes, new_figure
from helpers.kit.palette import KL, POLICY, REFERENCE, REWARD
from helpers.kit.sliders import Explorer, slider, stops
from helpers.lessons.kl_beta.figures import draw_answers, gaussian_figure
from helpers.lessons.kl_beta.gaussian import GaussianRun


def ten_explorer(rewards: Tensor, reference: Tensor, terms: Callable) -> Explorer:
    """β over ten answers: `terms(β)` gives each answer's −β·log-ratio [10], π* [10] and J*."""

    def draw(kl_coef: float):
        penalties, best, value = terms(kl_coef)
        figure, grid = new_figure(1, 2, 9.6, 3.2)
        left, right = grid[0]
        total = rewards + penalties
        draw_answers(left, (rewards, REWARD, "reward"), (penalties, KL, "−β·log π/π_ref"))
        left.plot(range(len(total)), total, "o", color="black", markersize=5, label="their sum")
        left.axhline(value, color=POLICY, linestyle="--", linewidth=1.2, label="their sum at π*")
        left.set_ylim(-1.7 - 1.75 * kl_coef, 1.6 + 1.1 * kl_coef)  # the costs grow with β
        label_axes(left, f"Our policy at β = {kl_coef:.2f}", "answer", "reward units")
        left.legend(loc="lower left")
        draw_answers(right, (reference, REFERENCE, "reference"), (best, POLICY, "π*, the best"))
        right.set_ylim(0, 1)
        words = f"The best policy at this β: J* = {value:.2f}"
        label_axes(right, words, "answer", "probability")
        right.legend(loc="upper left")
        return figure

    return Explorer(draw, kl_coef=slider("β", 0.5, 0.05, 2.0, 0.05))


def gaussian_explorer(runs: Sequence[GaussianRun], optima: Sequence[float], start: int = 0):
    """β over the trained one-parameter policies, each beside its closed-form mean."""

    def draw(run: int):
        return gaussian_figure(runs, optima, run)

    return Explorer(draw, run=stops("β", [run.kl_coef for run in runs], start))
