"""Data of the drift explorer: the numbers of a sweep at one β, iteration, seed and prompt.

Every position of the β slider is a trained policy. Nothing is drawn here.
"""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from helpers.studies.beta_sweep import MIN_EFFECTIVE_SAMPLES, Sweep
from helpers.studies.runs import WATCHED_PROMPTS, Run, Snapshot
from helpers.theory.optimum import Optimum, effective_sample_size, importance_weights
from helpers.tools.validate import require

COLUMNS = {"proxy": "score", "gold": "gold", "kl": "kl"}  # of a record


@dataclass(frozen=True, eq=False)
class SliderStop:
    """A position of the β slider: a trained β of the sweep, or an added run."""

    key: float | str
    label: str
    kl_coef: float
    run: Run | None = None  # a run that is not the sweep's
    own_reward: bool = False  # its scores are another reward's: no J*, no frontier


@dataclass(frozen=True, eq=False)
class DriftView:
    """One position of the controls."""

    stop: SliderStop
    iteration: int
    curves: dict[str, list[float]]  # over iterations 0 … of the run
    optimum: Optimum | None


def run_curves(run: Run) -> dict[str, list[float]]:
    """Metrics of the policy after 0, 1, … updates, by name; NaN where not measured.

    After k updates: from the rollout of iteration k + 1. After the last update: `run.final`, from fresh
    responses.
    """
    rows = [*run.history, *([run.final] if run.final else [])]
    found = {name: [row.get(c, math.nan) for row in rows] for name, c in COLUMNS.items()}
    return found | {"iteration": list(range(len(rows)))}


class Drift:
    """A sweep and added runs, with all data that the explorer shows."""

    def __init__(self, sweep: Sweep):
        self.sweep, self.added = sweep, []
        self.optimum = cache(sweep.optimum)

    @property
    def start(self) -> Snapshot:
        """The view of the reference, where every run begins."""
        return next(run.snapshots[0] for run in self.sweep.runs if run.snapshots)

    @property
    def runs(self) -> list[Run]:
        """The sweep's runs, then those added."""
        return self.sweep.runs + [stop.run for stop in self.added]

    @property
    def prompts(self) -> list[str]:
        """The prompts watched in every run."""
        return list(self.start.next_logprobs)

    @property
    def stops(self) -> list[SliderStop]:
        """Positions of the β slider: trained β in order, then added runs."""
        trained = [SliderStop(beta, f"{beta:g}", beta) for beta in self.sweep.betas]
        return trained + self.added

    def first_token(self, prompt: str, kl_coef: float) -> Tensor | None:
        """π*'s distribution of the first response token to a watched prompt: [V].

        Self-normalised importance sampling: each reference response, and so its first token, has the
        weight exp(r/β). None if the effective sample size is too small, or β is 0.
        """
        prompts, reference = self.sweep.prompts, self.sweep.reference
        if kl_coef <= 0 or prompt not in WATCHED_PROMPTS or prompt not in prompts:
            return None
        row = prompts.index(prompt)
        weights = importance_weights(reference["scores"][row : row + 1], kl_coef)  # (1, N)
        if float(effective_sample_size(weights)) < MIN_EFFECTIVE_SAMPLES:
            return None
        tokens = reference["first_tokens"][WATCHED_PROMPTS.index(prompt)].long()  # (N,)
        return torch.bincount(tokens, weights[0], minlength=len(self.start.next_logprobs[prompt]))

    def add(self, run: Run, label: str = "yours", own_reward: bool = False) -> SliderStop:
        """Add a run, or find it if it was added before. ValueError: it has no iteration yet."""
        require(bool(run.history), "run", "no iteration", "one that has begun")
        joined = [stop for stop in self.added if stop.run is run]
        if joined:
            return joined[0]
        names = [label] + [f"{label} {k}" for k in range(2, len(self.added) + 2)]
        key = next(name for name in names if all(stop.key != name for stop in self.added))
        words = f"{key}: β = {run.config.kl_coef:g}"
        stop = SliderStop(key, words, run.config.kl_coef, run=run, own_reward=own_reward)
        self.added.append(stop)
        return stop

    def frontier(self, points: int = 40) -> list[Optimum]:
        """π* at many β, log-spaced, down to where the samples suffice: smallest KL first."""
        grid = torch.logspace(1.0, -2.0, points).tolist() + self.sweep.betas
        found = [self.optimum(beta) for beta in grid]
        return sorted((best for best in found if best is not None), key=lambda best: best.kl)

    def likely_tokens(self, prompt: str, count: int) -> list[int]:
        """The most likely tokens at this prompt, under the reference or any run's last policy."""
        shots = [self.start] + [run.snapshots[-1] for run in self.runs if run.snapshots]
        rows = [shot.next_logprobs[prompt] for shot in shots if prompt in shot.next_logprobs]
        probs = torch.stack(rows).exp()  # (runs, V)
        most = probs.max(dim=0).values  # (V,)
        chosen = most.topk(min(count, len(most))).indices.tolist()
        return sorted(chosen, key=lambda i: -float(probs[0, i]))

    def view(self, stop: SliderStop, iteration: int, seed: int) -> DriftView:
        """What a run had reached after this many iterations, or at its end."""
        curves = run_curves(stop.run or self.sweep.run(stop.kl_coef, seed))
        optimum = None if stop.own_reward else self.optimum(stop.kl_coef)
        return DriftView(stop, min(iteration, len(curves["kl"]) - 1), curves, optimum)
