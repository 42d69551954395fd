"""What a β sweep left behind: its runs, the reference's samples, the table and the exact frontier."""

import statistics
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from helpers.jobs import POLICY
from helpers.optimum import (
    Estimate,
    Optimum,
    efficiency,
    optimal_value,
    policy_value,
)
from helpers.runs import Run, load_run
from helpers.storage import DATA, FileProblem, read_json, read_tensors, verify
from helpers.studies import beta_name
from helpers.validate import require

FOLDER = DATA / "sweeps"
REFERENCE, SUMMARY = "reference.safetensors", "sweep.json"
LEAST_SAMPLES = 20.0  # effective samples of the worst prompt below which no optimum is estimated


@dataclass
class Sweep:
    """All runs of a sweep, and what the reference wrote for the same prompts.

    `reference` holds `scores` and `gold` [P, N] of N reference responses to each of P prompts, and
    `first_tokens` [W, N]: how those to the watched prompts begin.
    """

    runs: list[Run]
    reference: dict[str, Tensor]
    prompts: list[str]
    facts: dict = field(default_factory=dict)  # command, versions, settings, realignment

    @property
    def betas(self) -> list[float]:
        """Every β, smallest first."""
        return sorted({run.config.kl_coef for run in self.runs})

    @property
    def seeds(self) -> list[int]:
        """Every seed."""
        return sorted({run.config.seed for run in self.runs})

    def run(self, kl_coef: float, seed: int) -> Run:
        """The run at this β and seed; ValueError when there is none."""
        for run in self.runs:
            if run.config.kl_coef == kl_coef and run.config.seed == seed:
                return run
        raise ValueError(f"run: got β = {kl_coef}, seed {seed}; wants one of {self.betas}.")

    @cached_property
    def reference_value(self) -> Estimate:
        """J(π_ref): the mean score of the reference, whose KL is 0."""
        scores = self.reference["scores"]
        return policy_value(scores, torch.zeros_like(scores), 0.0)

    def optimum(self, kl_coef: float) -> Optimum | None:
        """The exact optimum at β, or None at β = 0 and where no samples reach it.

        From the reference's samples; where too few of them count, from those of the policies trained
        at this β, which are nearer to the optimum: the same quantity by another proposal.
        """
        if kl_coef <= 0:
            return None
        for estimate in (self.optimum_by_reference, self.optimum_by_policy):
            with suppress(ValueError):
                return estimate(kl_coef)
        return None

    def optimum_by_reference(self, kl_coef: float) -> Optimum:
        """π* weighed out of the reference's samples; ValueError where too few of them count."""
        return optimal_value(self.reference["scores"], kl_coef, LEAST_SAMPLES)

    def optimum_by_policy(self, kl_coef: float) -> Optimum:
        """π* weighed out of the last policies' own samples; ValueError where that cannot be."""
        runs = [run for run in self.runs if run.config.kl_coef == kl_coef and run.responses]
        require(len(runs) > 0, "kl_coef", kl_coef, f"a β that was trained: {self.betas}")
        scores = torch.cat([run.responses["score"] for run in runs], dim=1)  # (P, runs · n)
        log_ratio = -torch.cat([run.responses["kl"] for run in runs], dim=1)  # log π_ref − log π
        return optimal_value(scores, kl_coef, LEAST_SAMPLES, log_ratio)

    def efficiency(self, run: Run, best: Optimum) -> Estimate:
        """(J(π) − J(π_ref))/(J* − J(π_ref)) of a run's last policy, beside the optimum at its β."""
        reached = Estimate(run.final["value"], run.final["value_stderr"])
        return efficiency(reached, self.reference_value, best)


def load_sweep(folder: Path = FOLDER) -> Sweep:
    """The sweep in a folder, the shipped one by default; FileProblem when something is broken."""
    for name in (SUMMARY, REFERENCE):  # each run is held against the manifest when it is loaded
        verify(folder / name)
    facts = read_json(folder / SUMMARY, ("runs", "prompts"))
    names = [beta_name(*pair) for pair in facts["runs"]]
    runs = [load_run(folder / name) for name in names]
    return Sweep(runs, read_tensors(folder / REFERENCE), facts["prompts"], facts)


def load_policy(actor: nn.Module, kl_coef: float, folder: Path = FOLDER) -> nn.Module:
    """Put the sweep's last policy at this β (seed 0, half precision on disk) into `actor`."""
    path = folder / "policies" / beta_name(kl_coef, 0) / POLICY
    verify(path)
    weights = {name: tensor.to(actor.dtype) for name, tensor in read_tensors(path).items()}
    wanted = {name: w.shape for name, w in actor.state_dict().items() if name != "lm_head.weight"}
    if {name: w.shape for name, w in weights.items()} != wanted:
        raise FileProblem(f"{path} holds the weights of another model.")
    actor.load_state_dict(weights, strict=False)  # lm_head is tied to the word embeddings
    return actor


def table(sweep: Sweep) -> list[dict]:
    """One row per β, means over seeds: what was reached beside the best there is."""
    rows = []
    for beta in sweep.betas:
        runs = [run for run in sweep.runs if run.config.kl_coef == beta]
        best = sweep.optimum(beta)
        row = {"kl_coef": beta, "seeds": len(runs)}
        for name in ("score", "gold", "kl", "value", "value_stderr"):
            row[name] = statistics.fmean(run.final[name] for run in runs)
        values = [run.final["value"] for run in runs]
        row["value_spread"] = statistics.stdev(values) if len(runs) > 1 else 0.0
        row["optimal_value"] = None if best is None else best.value
        reached = [sweep.efficiency(run, best).mean for run in runs] if best is not None else []
        row["efficiency"] = statistics.fmean(reached) if reached else None
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    """β | proxy | gold | KL | J ± standard error | its spread over seeds | J* | efficiency."""
    print(
        f"{'β':>6s}{'proxy':>8s}{'gold':>8s}{'KL':>8s}{'J':>9s}"
        f"{'± s.e.':>8s}{'± seeds':>9s}{'J*':>8s}{'eff.':>7s}"
    )
    for row in rows:
        best = "      –" if row["optimal_value"] is None else f"{row['optimal_value']:7.3f}"
        share = "     –" if row["efficiency"] is None else f"{row['efficiency']:6.3f}"
        error = row["value_stderr"] / row["seeds"] ** 0.5
        print(
            f"{row['kl_coef']:6g}{row['score']:8.3f}{row['gold']:8.3f}{row['kl']:8.3f}"
            f"{row['value']:9.3f}{error:8.3f}{row['value_spread']:9.3f} {best} {share}"
        )


def realignment_check(sweep: Sweep, tolerance: float = 0.05) -> list[dict]:
    """Mixtures that stand for a trained β beside the policy trained there (seed 0), by β.

    J of both, their difference, and whether it is within `tolerance` (score units).
    """
    rows = []
    for mixture in sweep.facts.get("realigned", []):
        beta, anchor = mixture["kl_coef"], mixture["anchor"]
        if beta in sweep.betas:
            trained = sweep.run(beta, 0).final["value"]
            gap = mixture["value"] - trained
            row = {"kl_coef": beta, "anchor": anchor, "weight": mixture["weight"]}
            row |= {"value": mixture["value"], "trained": trained, "gap": gap}
            rows.append(row | {"holds": abs(gap) <= tolerance})
    return sorted(rows, key=lambda row: (row["kl_coef"], row["anchor"]))
