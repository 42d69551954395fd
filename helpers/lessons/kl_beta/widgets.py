"""Sliders of notebook 07: ten answers, three estimates, the one-parameter policy."""

from collections.abc import Callable, Sequence

from torch import Tensor

from helpers.kit.sliders import Explorer, picker, slider, stops
from helpers.lessons.kl_beta.figures import estimator_figure, gaussian_figure, ten_figure
from helpers.lessons.kl_beta.gaussian import GaussianRun


def ten_explorer(rewards: Tensor, reference: Tensor, terms: Callable) -> Explorer:
    """β over ten answers: `terms(β)` gives each answer's −β·log-ratio [10], π* [10] and J*."""

    def draw(kl_coef: float):
        return ten_figure(kl_coef, rewards, reference, *terms(kl_coef))

    return Explorer(draw, kl_coef=slider("β", 0.5, 0.05, 2.0, 0.05))


def estimator_explorer(
    iterations: Sequence[int],
    exact: Sequence[float],
    errors: dict[int, dict],
    sampled: Sequence[dict],
    next_logprobs: Sequence[Tensor],
    vocabulary: Sequence[str],
) -> Explorer:
    """Drift and batch size: lists run over the same snapshots, the first of them the reference.

    `exact` KL in nats; `errors` batch size → name → list; `sampled` a list of batch size → name →
    [batches]; `next_logprobs` [V] each, nats. It starts at the farthest.
    """

    def draw(shot: int, size: int):
        words = next_logprobs[shot], next_logprobs[0], vocabulary
        return estimator_figure(exact, errors[size], shot, sampled[shot][size], size, words)

    return Explorer(
        draw,
        shot=stops("drift: after iteration", iterations, start=list(exact).index(max(exact))),
        size=picker("tokens in a batch", sorted(errors)),
    )


def gaussian_explorer(runs: Sequence[GaussianRun], optima: Sequence[float], start: int = 0):
    """β over the trained one-parameter policies, each beside its closed-form mean."""

    def draw(run: int):
        return gaussian_figure(runs, optima, run)

    return Explorer(draw, run=stops("β", [run.kl_coef for run in runs], start))
