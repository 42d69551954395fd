"""What the drift explorer shows: the numbers of a sweep at one β, iteration, seed and prompt.

Between two trained βs stands a mixture of a trained policy with the reference (`realign.py`), with
the values the sweep measured for it. Nothing here draws.
"""

import math
from functools import cache

import torch
from torch import Tensor

from helpers.drift_view import COLUMNS, Stop, View, first_token_optimum, notes, run_curves
from helpers.optimum import Optimum
from helpers.realign import mix_logprobs
from helpers.runs import Run, Sample, Snapshot
from helpers.sweep_results import Sweep
from helpers.validate import require


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
            beta = entry["kl_coef"]
            if beta not in self.sweep.betas:
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
        """π* at many β, log-spaced, as far down as samples reach it: smallest KL first."""
        grid = torch.logspace(1.0, -2.0, points).tolist() + self.sweep.betas
        found = [self.optimum(beta) for beta in grid]
        return sorted((best for best in found if best is not None), key=lambda best: best.kl)

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
