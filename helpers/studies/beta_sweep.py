"""The β sweep: the same training at many β and several seeds, evaluated and saved.

Real runs: nothing is smoothed or selected. It can be killed at any time; `--resume` continues from
the last checkpoint of each run. Results depend on the seed, and in the last digits on the machine.
"""

import math
import shutil
import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from helpers.config import RLHFConfig
from helpers.data import DATA, verify
from helpers.state import start_run
from helpers.studies.measure import REFERENCE_SAMPLES, measure, sample_reference
from helpers.studies.runs import POLICY, Run
from helpers.studies.study import (
    WHOLE_RUN_SEED,
    Job,
    Study,
    StudyOptions,
    load_study,
    read_study,
    record,
    run_name,
    write_study,
)
from helpers.theory.optimum import Estimate, Optimum, efficiency, optimal_value, policy_value
from helpers.tools.files import FileProblem, atomic_file, read_tensors
from helpers.tools.flags import setting

FOLDER = DATA / "beta_sweep"
REFERENCE = "reference.safetensors"
PROPOSAL = 0.1  # β of the policy (seed 0) whose samples help to estimate every J*
PROPOSAL_SAMPLES = 500  # of it, to each prompt
BETAS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0)
KEPT_POLICIES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)  # β of the policies that are kept, seed 0
MIN_EFFECTIVE_SAMPLES = 20.0  # of the worst prompt, below which no optimum is estimated


def beta_kind(kl_coef: float) -> str:
    """Kind of the runs at this β: "beta_0.1"."""
    return f"beta_{kl_coef:g}"


@dataclass
class Sweep(Study):
    """A study over β, and the reference's responses to the same prompts (`sample_reference`)."""

    reference: dict[str, Tensor]

    @property
    def prompts(self) -> list[str]:
        """The prompts of every run."""
        return self.facts["prompts"]

    @property
    def betas(self) -> list[float]:
        """Every β, smallest first."""
        return sorted({run.config.kl_coef for run in self.runs})

    @property
    def seeds(self) -> list[int]:
        """Every seed."""
        return sorted({run.config.seed for run in self.runs})

    @property
    def shown_seeds(self) -> list[int]:
        """Seeds whose runs were kept whole, with samples and next-token distributions."""
        return sorted({run.config.seed for run in self.runs if run.snapshots})

    def run(self, kl_coef: float, seed: int) -> Run:
        """The run at this β and seed. ValueError: there is none."""
        return super().run(beta_kind(kl_coef), seed)

    @cached_property
    def reference_value(self) -> Estimate:
        """J(π_ref): the reference's mean score (its KL is 0)."""
        scores = self.reference["scores"]
        return policy_value(scores, torch.zeros_like(scores), 0.0)

    def optimum(self, kl_coef: float) -> Optimum | None:
        """The optimum at β, or None at β = 0 and where the effective sample size is too small.

        Estimated from one set of samples at every β: the reference's, and those of a trained policy,
        which is closer to π* at a small β.
        """
        scores, proposed = self.reference["scores"], self.reference["proposal_scores"]
        ratios = self.reference["log_ratios"]
        mixture = {
            "scores": torch.cat([scores, proposed], dim=1),
            "log_ratios": torch.stack([torch.zeros_like(ratios), ratios]),
            "sizes": [scores.shape[1], proposed.shape[1]],
        }
        with suppress(ValueError):
            return optimal_value(kl_coef=kl_coef, min_ess=MIN_EFFECTIVE_SAMPLES, **mixture)
        return None


def load_sweep(folder: Path = FOLDER) -> Sweep:
    """Load a sweep, by default the shipped one. FileProblem: missing or damaged."""
    study = load_study(folder, names=("prompts",))
    verify(folder / REFERENCE)
    reference = read_tensors(folder / REFERENCE)
    runs = sorted(study.runs, key=lambda run: (run.config.kl_coef, run.config.seed))
    return Sweep(runs, study.facts, reference)


def load_policy(actor: nn.Module, kl_coef: float, folder: Path = FOLDER) -> nn.Module:
    """Load the sweep's last policy at this β (seed 0, saved in half precision) into `actor`."""
    path = folder / run_name(beta_kind(kl_coef), 0) / POLICY
    verify(path)
    weights = {name: tensor.to(actor.dtype) for name, tensor in read_tensors(path).items()}
    if weights.keys() | {"lm_head.weight"} != actor.state_dict().keys() | {"lm_head.weight"}:
        raise FileProblem(f"{path} holds the weights of another model.")
    actor.load_state_dict(weights, strict=False)  # lm_head is tied to the word embeddings
    return actor


def table(sweep: Sweep) -> list[dict]:
    """One row per β, averaged over seeds: results of the runs, and the optimum; None without J*."""
    rows = []
    for beta in sweep.betas:
        runs = sweep.of_kind(beta_kind(beta))
        row = {"kl_coef": beta, "seeds": len(runs)}
        for name in ("score", "gold", "kl", "value"):
            row[name] = statistics.fmean(run.final[name] for run in runs)
        row["gold_spread"] = spread([run.final["gold"] for run in runs])
        row["broken"] = 1 - statistics.fmean(run.final["grammatical"] for run in runs)
        rows.append(row | beside_optimum(sweep, runs, sweep.optimum(beta)))
    return rows


def spread(values: list[float]) -> float:
    """Standard deviation; 0 of one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def beside_optimum(sweep: Sweep, runs: list[Run], best: Optimum | None) -> dict:
    """J*, the runs' mean efficiency, its standard error, and their spread; None without J*.

    The efficiency's standard error is of the estimate for these policies: the evaluation's of each run,
    and that of J* and of the reference, which the runs share.
    """
    names = ("optimal_value", "efficiency", "efficiency_stderr", "efficiency_spread")
    if best is None:
        return dict.fromkeys(names)
    values, errors = ([run.final[name] for run in runs] for name in ("value", "value_stderr"))
    estimates = [Estimate(*both) for both in zip(values, errors, strict=True)]
    estimates.append(Estimate(statistics.fmean(values), math.hypot(*errors) / len(runs)))
    *each, mean = (efficiency(found, sweep.reference_value, best) for found in estimates)
    reached = mean.mean, mean.stderr, spread([found.mean for found in each])
    return dict(zip(names, (best.value, *reached), strict=True))


def reference_row(sweep: Sweep) -> dict:
    """The reference's proxy and gold, beside the rows of `table`; its KL is 0, and J is its proxy."""
    score, gold = (float(sweep.reference[name].mean()) for name in ("scores", "gold"))
    return {"score": score, "gold": gold, "kl": 0.0, "value": score}


def print_table(rows: list[dict], reference: dict) -> None:
    """Print each β's results, as far as there are any; the first line is the reference."""
    print(
        f"{'β':>9s}{'proxy':>8s}{'gold (seeds)':>16s}{'KL':>9s}{'broken':>8s}{'J':>8s}{'J*':>8s}"
        f"{'efficiency (s.e.; seeds)':>27s}"
    )
    print("reference{score:8.3f}{gold:8.2f}{kl:17.3f}{value:16.3f}".format(**reference))
    optimal = "{optimal_value:8.3f}"
    optimal += "{efficiency:11.3f} ({efficiency_stderr:.3f}; {efficiency_spread:.3f})"
    for row in rows:
        line = "{kl_coef:9g}{score:8.3f}{gold:8.2f} ({gold_spread:5.2f}){kl:9.3f}{broken:8.0%}"
        line += "{value:8.3f}" + ("" if row["efficiency"] is None else optimal)
        print(line.format(**row))


def provide_reference(out: Path) -> None:
    """The reference's samples: the shipped ones if present, else new ones (about 25 minutes)."""
    with atomic_file(out / REFERENCE) as temporary:
        if (FOLDER / REFERENCE).exists():
            verify(FOLDER / REFERENCE)
            shutil.copyfile(FOLDER / REFERENCE, temporary)
        else:
            state = start_run(RLHFConfig(device="cpu"))
            proposal = load_policy(state.models.actor, PROPOSAL, out)
            own = measure(state, proposal, PROPOSAL_SAMPLES)[1]
            save_file(sample_reference(state, REFERENCE_SAMPLES, proposal, own), temporary)


class BetaSweepOptions(StudyOptions, name="beta_sweep", command="sweep"):
    """The β sweep: the same training at many β and several seeds."""

    SETTINGS = {"batch_size": 128, "minibatch_size": 128}
    SETTINGS |= {"learning_rate": 3e-4, "critic_learning_rate": 3e-3}
    betas: list[float] = setting(list(BETAS), "KL coefficients")

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """The same at each β; on one seed kept whole, at some β with the policy."""
        whole = seed == WHOLE_RUN_SEED
        for beta in sorted(self.betas):
            train = partial(record, keep_policy=whole and beta in KEPT_POLICIES)
            yield Job(beta_kind(beta), self.config(seed, kl_coef=beta), train, whole)

    def run(self) -> None:
        """Run what is missing (reference samples, runs), then print the table."""
        super().run()
        out = self.results
        if not (out / REFERENCE).exists():
            provide_reference(out)
        prompts = start_run(RLHFConfig(device="cpu")).prompts
        write_study(out, read_study(out) | {"prompts": prompts})
        sweep = load_sweep(out)
        print_table(table(sweep), reference_row(sweep))
