"""What the drift explorer shows: the numbers of a sweep at one β, iteration, seed and prompt.

Between two trained βs stands a mixture of a trained policy with the reference (`realign.py`), with
the values the sweep measured for it. Nothing here draws.
"""

import math
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from helpers.optimum import Optimum, effective_sample_size, importance_weights
from helpers.realign import mix_logprobs
from helpers.runs import WATCHED, Run, Sample, Snapshot
from helpers.sweep_results import LEAST_SAMPLES, Sweep
from helpers.validate import require

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
    token it begins with. None where fewer than 50 samples count effectively, or β is 0.
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


class Drift:
    """A sweep, and runs that joined it, ready to be looked at from any side."""

    def __init__(self, sweep: Sweep):
        self.sweep, self.added = sweep, []
        self.optimum = cache(sweep.optimum)
        self.curves_of = cache(lambda beta, seed: run_curves(sweep.run(beta, seed)))
        self.first_token = cache(
            lambda prompt, beta: first_token_optimum(sweep, prompt, beta, self.vocabulary_size)
        )

    @property
    def vocabulary_size(self) -> int:
        """V of the next-token distributions."""
        return len(self.start.next_logprobs[self.prompts[0]])

    @property
    def start(self) -> Snapshot:
        """The reference: where every run begins."""
        return self.sweep.runs[0].snapshots[0]

    @property
    def prompts(self) -> list[str]:
        """The prompts every run was asked."""
        return list(self.start.next_logprobs)

    @property
    def stops(self) -> list[Stop]:
        """The β slider: trained βs and mixtures in order, then the runs that were added."""
        trained = [Stop(beta, f"{beta:g}", beta) for beta in self.sweep.betas]
        mixed = {}
        for entry in self.sweep.facts.get("realigned", []):
            beta, anchor = entry["kl_coef"], entry["anchor"]
            if beta not in self.sweep.betas and anchor < beta:
                mixed[beta] = Stop(beta, f"≈{beta:g}", beta, mixture=entry)
        return sorted(trained + list(mixed.values()), key=lambda stop: stop.kl_coef) + self.added

    def add(self, run: Run, label: str = "yours", own_reward: bool = False) -> Stop:
        """Let a run join, or find it where it already has; ValueError when it has no iteration yet."""
        require(bool(run.history), "run", "no iteration", "one that has begun")
        joined = [stop for stop in self.added if stop.run is run]
        if joined:
            return joined[0]
        names = [label] + [f"{label} {k}" for k in range(2, len(self.added) + 2)]
        key = next(name for name in names if all(stop.key != name for stop in self.added))
        words = f"{key}: β = {run.config.kl_coef:g}"
        self.added.append(Stop(key, words, run.config.kl_coef, run=run, own_reward=own_reward))
        return self.added[-1]

    def frontier(self, points: int = 40) -> list[Optimum]:
        """π* from the largest β down to where the reference's samples end, log-spaced."""
        grid = torch.logspace(1.0, -2.0, points).tolist()
        found = [self.optimum(beta) for beta in grid]
        return [best for best in found if best is not None]

    def finals(self) -> list[dict]:
        """The last policy of every run and mixture: β, kind ("trained", "mixture", "added"), KL, proxy."""
        ends = [(run.config.kl_coef, "trained", run.final) for run in self.sweep.runs]
        for stop in self.stops:
            if stop.mixture:
                ends.append((stop.kl_coef, "mixture", stop.mixture))
            elif stop.run and not stop.own_reward:
                ends.append((stop.kl_coef, "added", stop.run.final or stop.run.history[-1]))
        return [
            {"kl_coef": beta, "kind": kind, "kl": end["kl"], "proxy": end["score"]}
            for beta, kind, end in ends
        ]

    def all_curves(self) -> list[dict[str, list[float]]]:
        """Those of every run that has any."""
        shipped = [self.curves_of(r.config.kl_coef, r.config.seed) for r in self.sweep.runs]
        return shipped + [run_curves(stop.run) for stop in self.added if stop.run.history]

    def _last_words(self, prompt: str) -> Tensor:
        """Next-token probabilities of the reference and of every run's last policy: [runs, V]."""
        runs = self.sweep.runs + [stop.run for stop in self.added]
        shots = [self.start] + [run.snapshots[-1] for run in runs if run.snapshots]
        rows = [shot.next_logprobs[prompt] for shot in shots if prompt in shot.next_logprobs]
        return torch.stack(rows).exp()

    def likely_tokens(self, prompt: str, count: int = 12) -> list[int]:
        """The tokens that any run's last policy, or the reference, finds likeliest at this prompt."""
        probs = self._last_words(prompt)
        most = probs.max(dim=0).values  # (V,)
        chosen = most.topk(min(count, len(most))).indices.tolist()
        return sorted(chosen, key=lambda i: -float(probs[0, i]))

    def most_likely(self, prompt: str) -> float:
        """The largest probability among all of these."""
        return float(self._last_words(prompt).max())

    def view(self, stop: Stop, iteration: int, seed: int, prompt: str) -> View:
        """What the page shows. A mixture stands at the end of training of seed 0, wherever asked."""
        found = (
            self._mixture(stop, prompt)
            if stop.mixture
            else self._run(stop, iteration, seed, prompt)
        )
        now, beta = found.pop("now"), stop.kl_coef
        optimum = None if stop.own_reward else self.optimum(beta)
        best, ess = (None, None) if stop.own_reward else self.first_token(prompt, beta)
        reference = self.start.next_logprobs[prompt]
        logprobs = found.pop("logprobs")
        policy = torch.full_like(reference, math.nan) if logprobs is None else logprobs.exp()
        values = {"beta": beta, "iteration": found["iteration"], "seed": found["seed"], "ess": ess}
        return View(
            stop=stop,
            last=len(found["curves"]["kl"]) - 1,
            values=values | self._values(now, beta, optimum),
            policy=policy,
            reference=reference.exp(),
            best=best,
            optimum=optimum,
            notes=notes(stop, best is None, ess, self.sweep.reference["scores"].shape[1]),
            **found,
        )

    def _run(self, stop: Stop, iteration: int, seed: int, prompt: str) -> dict:
        """Of a run, after so many iterations or as many as it has."""
        run = stop.run or self.sweep.run(stop.kl_coef, seed)
        curves = run_curves(run) if stop.run else self.curves_of(stop.kl_coef, seed)
        at = min(iteration, len(curves["kl"]) - 1)
        shot = run.at(at)
        others = [] if stop.run else [s for s in self.sweep.seeds if s != seed]
        return {
            "seed": None if stop.run else seed,
            "iteration": at,
            "now": {name: curves[name][at] for name in COLUMNS},
            "curves": curves,
            "others": [self.curves_of(stop.kl_coef, s) for s in others],
            "snapshot": shot.iteration,
            "samples": shot.samples.get(prompt, []),
            "logprobs": shot.next_logprobs.get(prompt),
        }

    def _mixture(self, stop: Stop, prompt: str) -> dict:
        """Of a trained policy mixed with the reference: no history but its anchor's."""
        entry, curves = stop.mixture, self.curves_of(stop.mixture["anchor"], 0)
        anchor = self.sweep.run(entry["anchor"], 0).snapshots[-1].next_logprobs[prompt]
        last = len(curves["kl"]) - 1
        return {
            "seed": 0,
            "iteration": last,
            "now": {name: entry.get(column, math.nan) for name, column in COLUMNS.items()},
            "curves": curves,
            "others": [],
            "snapshot": last,
            "samples": [Sample(**row) for row in entry["samples"].get(prompt, [])],
            "logprobs": mix_logprobs(anchor, self.start.next_logprobs[prompt], entry["weight"]),
        }

    def _values(self, now: dict, beta: float, optimum: Optimum | None) -> dict:
        """The numbers by name, NaN as None, with J = proxy − β·KL and what there is to compare it to."""
        values = {name: None if math.isnan(x) else x for name, x in now.items()}
        values |= {"J": values["proxy"] - beta * values["kl"], "J_star": None, "efficiency": None}
        if optimum is not None:
            floor = self.sweep.reference_value.mean
            values["J_star"] = optimum.value
            values["efficiency"] = (values["J"] - floor) / (optimum.value - floor)
        return values


def notes(stop: Stop, hidden: bool, ess: float | None, samples: int) -> list[str]:
    """What has to be said about a view, in sentences."""
    said = []
    if stop.mixture:
        anchor, weight = stop.mixture["anchor"], stop.mixture["weight"]
        said.append(
            f"≈ is an approximation, not a training run: the policy trained at β = {anchor:g} (seed 0, "
            f"last iteration) mixed with the reference while it writes, λ = {anchor:g}/"
            f"{stop.kl_coef:g} = {weight:.2f} (decoding-time realignment, Liu et al. 2024)."
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
            f"No exact next word for this prompt: only {ess:.0f} of the reference's {samples:,} "
            "samples would count effectively, 50 are wanted."
        )
    return said
