"""Sliders of notebook 07: ten answers, the one-parameter policy."""

from collections.abc import Callable, Sequence

from torch import Tensor

from helpers.kit.sliders import Explorer, slider, stops
from helpers.lessons.kl_beta.figures import gaussian_figure, ten_figure
from helpers.lessons.kl_beta.gaussian import GaussianRun


def ten_explorer(rewards: Tensor, reference: Tensor, terms: Callable) -> Explorer:
    """β over ten answers: `terms(β)` gives each answer's −β·log-ratio [10], π* [10] and J*."""

    def draw(kl_coef: float):
        return ten_figure(kl_coef, rewards, reference, *terms(kl_coef))

    return Explorer(draw, kl_coef=slider("β", 0.5, 0.05, 2.0, 0.05))


def gaussian_explorer(runs: Sequence[GaussianRun], optima: Sequence[float], start: int = 0):
    """β over the trained one-parameter policies, each beside its closed-form mean."""

    def draw(run: int):
        return gaussian_figure(runs, optima, run)

    return Explorer(draw, run=stops("β", [run.kl_coef for run in runs], start))
