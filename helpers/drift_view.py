"""One moment of the drift explorer: which stop of the slider, which numbers, what has to be said."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from helpers.optimum import Optimum, effective_sample_size, importance_weights
from helpers.runs import WATCHED, Run, Sample
from helpers.sweep_results import LEAST_SAMPLES, Sweep

COLUMNS = {
    "proxy": "score",
    "gold": "gold",
    "kl": "kl",
    "entropy": "entropy",
    "length": "response_length",
}


@dataclass(frozen=True, eq=False)
class Stop:
    """One position of the β slider: a trained β of the sweep, a mixture, or a run that was added."""

    key: float | str
    label: str
    kl_coef: float
    mixture: dict | None = None  # an entry of `sweep.facts["realigned"]`
    run: Run | None = None  # a run that is not the sweep's
    own_reward: bool = False  # its scores are another reward's: no J*, no frontier


@dataclass(frozen=True, eq=False)
class View:
    """Everything the page shows at one moment. Probabilities are [V]; a value not measured is None."""

    stop: Stop
    seed: int | None  # None for an added run
    iteration: int
    last: int  # the last iteration there is
    values: dict  # beta, iteration, proxy, gold, kl, J, J_star, efficiency, entropy, length, ess
    curves: dict[str, list[float]]  # over iterations 0 … of the run, or of a mixture's anchor
    others: list[dict[str, list[float]]]  # of the other seeds
    snapshot: int  # the iteration at which samples and next token were kept
    samples: list[Sample]
    policy: Tensor
    reference: Tensor
    best: Tensor | None  # π*'s next token; None where the samples do not reach it
    optimum: Optimum | None
    notes: list[str] = field(default_factory=list)


def run_curves(run: Run) -> dict[str, list[float]]:
    """Values of the policy after 0, 1, … updates, by name; NaN where something was not measured.

    After k updates: the rollout that begins iteration k + 1. After the last: `run.final`, fresh
    responses; it has no entropy and length, so the last rollout's stand there once more.
    """
    found = {}
    for name, column in COLUMNS.items():
        numbers = [record.get(column, math.nan) for record in run.history]
        if run.final:
            numbers.append(run.final.get(column, numbers[-1] if numbers else math.nan))
        found[name] = numbers
    found["iteration"] = list(range(len(found["kl"])))
    return found


def first_token_optimum(sweep: Sweep, prompt: str, kl_coef: float, size: int):
    """π*'s distribution of the first response token of one watched prompt: ([V] or None, ess).

    Self-normalised importance sampling: each reference response counts exp(r/β), and so does the
    token it begins with. None where too few samples count effectively, or β is 0.
    """
    if kl_coef <= 0 or prompt not in WATCHED or prompt not in sweep.prompts:
        return None, None
    row = sweep.prompts.index(prompt)
    weights = importance_weights(sweep.reference["scores"][row : row + 1], kl_coef)  # (1, N)
    ess = float(effective_sample_size(weights))
    if ess < LEAST_SAMPLES:
        return None, ess
    tokens = sweep.reference["first_tokens"][WATCHED.index(prompt)].long()  # (N,)
    return torch.bincount(tokens, weights[0], minlength=size), ess


def notes(stop: Stop, hidden: bool, ess: float | None, samples: int) -> list[str]:
    """What has to be said about a view, in sentences."""
    said = []
    if stop.mixture:
        anchor, weight = stop.mixture["anchor"], stop.mixture["weight"]
        said.append(
            f"≈ is an approximation, not a training run: the policy trained at β = {anchor:g} (seed 0, "
            f"last iteration) mixed with the reference while it writes, λ = {anchor:g}/"
            f"{stop.kl_coef:g} = {weight:.2f} (decoding-time realignment, Liu et al. "
            "2024). It has no history: the curves, faint, are that policy's."
        )
    if stop.run and not stop.run.final:
        said.append("Measured on its own rollouts, not on fresh responses.")
    if stop.own_reward:
        said.append(
            "Scored by another reward than the sweep: J* is unknown, heights do not compare."
        )
    elif stop.kl_coef == 0:
        said.append("β = 0 has no optimum: nothing holds the policy back.")
    elif hidden and ess is not None:
        said.append(
            f"No optimum ◆ for the next word: only {ess:.0f} of the reference's {samples:,} samples "
            f"for this prompt would count effectively, {LEAST_SAMPLES:g} are wanted."
        )
    elif ess is not None:
        said.append(f"◆ The optimum's next word: from {ess:,.0f} effective samples of {samples:,}.")
    return said
