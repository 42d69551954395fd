"""What a β sweep left behind: its runs, the reference's samples, the table and the exact frontier."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from helpers.jobs import POLICY
from helpers.optimum import (
    Estimate,
    Optimum,
    efficiency,
    importance_weights,
    optimal_value,
    policy_value,
)
from helpers.runs import Run, load_run
from helpers.storage import DATA, FileProblem, read_json, verify
from helpers.studies import beta_name
from helpers.validate import require

FOLDER = DATA / "sweeps"
REFERENCE, SUMMARY = "reference.safetensors", "sweep.json"
LEAST_SAMPLES = 20.0  # effective samples of the worst prompt below which no optimum is estimated


def load_tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors file; FileProblem when it is missing, cut short or altered."""
    verify(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as problem:
        raise FileProblem(f"{path} is missing, cut short or altered: {problem}.") from None


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

    def optimal_gold(self, kl_coef: float) -> float:
        """Mean gold score of the exact optimum at β."""
        weights = importance_weights(self.reference["scores"], kl_coef)  # (P, N)
        return float((weights * self.reference["gold"]).sum(dim=1).mean())

    def efficiency(self, run: Run) -> Estimate | None:
        """(J(π) − J(π_ref))/(J* − J(π_ref)) of a run's last policy."""
        best = self.optimum(run.config.kl_coef)
        if best is None:
            return None
        reached = Estimate(run.final["value"], run.final["value_stderr"])
        return efficiency(reached, self.reference_value, best)


def load_sweep(folder: Path = FOLDER) -> Sweep:
    """The sweep in a folder, the shipped one by default; FileProblem when something is broken."""
    verify(folder)
    facts = read_json(folder / SUMMARY)
    names = [beta_name(*pair) for pair in facts["runs"]]
    runs = [load_run(folder / name) for name in names]
    return Sweep(runs, load_tensors(folder / REFERENCE), facts["prompts"], facts)


def load_policy(actor: nn.Module, kl_coef: float, folder: Path = FOLDER) -> nn.Module:
    """Put the sweep's last policy at this β (seed 0, half precision on disk) into `actor`."""
    path = folder / "policies" / beta_name(kl_coef, 0) / POLICY
    weights = {name: tensor.to(actor.dtype) for name, tensor in load_tensors(path).items()}
    missing, unexpected = actor.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:  # tied to the word embeddings
        raise FileProblem(f"{path} holds the weights of another model.")
    return actor


def table(sweep: Sweep) -> list[dict]:
    """One row per β, means over seeds: what was reached beside the best there is."""
    rows = []
    for beta in sweep.betas:
        runs = [run for run in sweep.runs if run.config.kl_coef == beta]
        best = sweep.optimum(beta)
        row = {"kl_coef": beta, "seeds": len(runs)}
        for name in ("score", "gold", "kl", "value", "value_stderr", "grammatical"):
            values = torch.tensor([run.final[name] for run in runs])
            row[name] = float(values.mean())
            row[f"{name}_spread"] = float(values.std()) if len(runs) > 1 else 0.0
        row["optimal_value"] = None if best is None else best.value
        reached = [sweep.efficiency(run) for run in runs] if best is not None else []
        row["efficiency"] = sum(e.mean for e in reached) / len(reached) if reached else None
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    """β | proxy | gold | KL | J ± standard error | J* | efficiency."""
    print(
        f"{'β':>6s}{'proxy':>8s}{'gold':>8s}{'KL':>8s}{'J':>9s}{'± s.e.':>8s}{'J*':>8s}{'eff.':>7s}"
    )
    for row in rows:
        best = "      –" if row["optimal_value"] is None else f"{row['optimal_value']:7.3f}"
        share = "     –" if row["efficiency"] is None else f"{row['efficiency']:6.3f}"
        error = row["value_stderr"] / row["seeds"] ** 0.5
        print(
            f"{row['kl_coef']:6g}{row['score']:8.3f}{row['gold']:8.3f}{row['kl']:8.3f}"
            f"{row['value']:9.3f}{error:8.3f} {best} {share}"
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
