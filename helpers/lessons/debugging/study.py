"""The clinic: runs with fifteen faults, three at three strengths, four pairs, and healthy runs.

The thresholds of `diagnose` were chosen on seeds 0 to 2, without looking at seeds 3 to 5.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.lessons.debugging.diagnose import RULES, STATISTICS, diagnose
from helpers.lessons.debugging.strengths import VARIANTS
from helpers.lessons.debugging.two_faults import BY_NAME
from helpers.state import History, start_run
from helpers.studies.faults import FAULTS, Fault
from helpers.studies.runs import Run, record_run
from helpers.studies.study import Job, Study, StudyOptions, load_study, run_study
from helpers.tools.flags import setting
from helpers.tools.validate import require_choice

FOLDER = DATA / "clinic"
BETA, ITERATIONS = 0.1, 18
OTHER_BETAS = (0.05, 0.2, 0.3)  # healthy as well: no flag may be raised there
WHOLE_RUN_SEED = 0  # the seed whose runs are kept whole: samples, next tokens
HEALTHY_PATIENT_SEED = 3  # and this one's healthy run, which is a patient too
PLANTED = FAULTS | VARIANTS | BY_NAME
SCHEDULE = [0, 1, 3, 8, 18]  # iterations of the snapshots


def healthy_config(seed: int, kl_coef: float = BETA, iterations: int = ITERATIONS) -> RLHFConfig:
    """The settings of the healthy run, into which faults are planted: defaults, 18 iterations."""
    rates = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    return RLHFConfig(kl_coef=kl_coef, seed=seed, iterations=iterations, device="cpu", **rates)


def clinic_configs(seed: int, iterations: int = ITERATIONS) -> dict[str, RLHFConfig]:
    """Configs by kind: the healthy run, healthy runs at other β, and all that is planted."""
    healthy = healthy_config(seed, iterations=iterations)
    others = {f"healthy_{beta:g}": healthy_config(seed, beta, iterations) for beta in OTHER_BETAS}
    faulty = {name: fault.config(healthy) for name, fault in PLANTED.items()}
    return {"healthy": healthy} | others | faulty


def clinic_study(seeds: list[int], iterations: int = ITERATIONS) -> list[Job]:
    """Jobs for all `clinic_configs` on each seed, each with its fault planted while it trains."""
    how = {"evaluated": 4, "checkpoints": False, "schedule": SCHEDULE}
    return [
        Job(
            kind,
            config,
            whole=seed == WHOLE_RUN_SEED or (kind, seed) == ("healthy", HEALTHY_PATIENT_SEED),
            **how | ({"within": PLANTED[kind].in_effect} if kind in PLANTED else {}),
        )
        for seed in sorted(set(seeds))
        for kind, config in clinic_configs(seed, iterations).items()
    ]


def rerun(case: str | Fault, iterations: int = ITERATIONS, seed: int = 0, shown=None) -> Run:
    """Train one case: a fault, or a key of `PLANTED`, or "healthy". `shown(run)` after each iteration.

    ValueError: unknown name.
    """
    healthy = healthy_config(seed, iterations=iterations)
    if not isinstance(case, Fault):
        require_choice("case", case, ("healthy", *PLANTED))
        case = PLANTED.get(case, Fault("healthy", "", "", ""))
    state = start_run(case.config(healthy))
    with case.in_effect():
        for run in record_run(state, Run(state.config, label=case.name), schedule=SCHEDULE):
            if shown is not None:
                shown(run)
    return run


class Clinic(Study):
    """The recorded runs of `clinic_study`."""

    def histories(self, kind: str, seeds: tuple = (0, 1, 2)) -> list[History]:
        """Histories of one kind on these seeds."""
        return [run.history for run in self.of_kind(kind, seeds)]

    def healthy(self, seeds: tuple) -> dict[str, History]:
        """Histories of all healthy runs on these seeds, at every β, by name."""
        runs = [run for run in self.runs if run.config.seed in seeds]
        return {run.label: run.history for run in runs if run.kind.startswith("healthy")}


def load_clinic(folder: Path = FOLDER) -> Clinic:
    """Load a clinic, by default the shipped one. FileProblem: missing or damaged."""
    return load_study(folder, Clinic)


def separation(clinic: Clinic, fault: Fault, seeds: tuple = (0, 1, 2)) -> dict:
    """Distance of a fault's statistic from that of the healthy runs at the same β.

    `apart`: the smallest distance of a faulty run from the healthy mean, in standard deviations of the
    healthy runs on these seeds.
    """
    statistic = STATISTICS[fault.statistic]
    healthy = [statistic(history) for history in clinic.histories("healthy", seeds)]
    broken = [statistic(history) for history in clinic.histories(fault.name, seeds)]
    middle, spread = statistics.fmean(healthy), statistics.stdev(healthy)
    apart = min(abs(value - middle) for value in broken) / max(spread, 1e-9)
    return {
        "fault": fault.name,
        "statistic": fault.statistic,
        "healthy": middle,
        "healthy_std": spread,
        "broken": statistics.fmean(broken),
        "apart": apart,
    }


def print_clinic(clinic: Clinic, seeds: tuple) -> None:
    """Print each fault's statistic, its distance and what `diagnose` finds; then the healthy runs."""
    print(f"{'fault':20s}{'statistic':20s}{'healthy':>20s}{'broken':>10s}{'apart':>9s}  flags")
    for fault in FAULTS.values():
        row = separation(clinic, fault, seeds)
        flags = {flag.name for h in clinic.histories(fault.name, seeds) for flag in diagnose(h)}
        apart = f"{row['apart']:.1f}" if row["apart"] < 1000 else "> 1000"
        print(
            f"{fault.name:20s}{fault.statistic:20s}{row['healthy']:9.4g} ± {row['healthy_std']:<8.2g}"
            f"{row['broken']:10.4g}{apart:>9}  {', '.join(sorted(flags)) or '–'}"
        )
    wrong = {n: diagnose(h) for n, h in clinic.healthy(seeds).items()}
    flagged = [name for name, flags in wrong.items() if flags]
    print(f"healthy runs: {len(wrong)}, flagged: {len(flagged)} {flagged or ''}")


def print_ranges(clinic: Clinic, seeds: tuple = (0, 1, 2)) -> None:
    """Print what each rule measures on the healthy runs of these seeds, beside its range in `RANGES`."""
    well = clinic.healthy(seeds).values()
    print(f"{'rule':34s}{'healthy, seeds ' + str(seeds):>30s}{'range':>22s}")
    for rule in RULES:
        values = [rule.measure(history) for history in well]
        measured, limits = (
            f"{min(values):.4g} … {max(values):.4g}",
            f"{rule.low:g} … {rule.high:g}",
        )
        print(f"{rule.name:34s}{measured:>30}{limits:>22}")


@dataclass(kw_only=True)
class ClinicOptions(StudyOptions):
    """The clinic: runs with fifteen faults, some milder, grosser or in pairs, and healthy runs."""

    name: ClassVar[str] = "clinic"
    seeds: list[int] = setting(list(range(6)), "each kind of run is made on each of these seeds")
    iterations: int = setting(ITERATIONS, "iterations of each run")


def run(options: ClinicOptions) -> None:
    """Run what is missing, then print the table."""
    run_study(clinic_study(options.seeds, options.iterations), options)
    seeds = tuple(sorted(set(options.seeds)))
    if len(seeds) > 1:
        clinic = load_clinic(options.results)
        print_clinic(clinic, seeds)
        print_ranges(clinic, seeds[:3])  # the seeds that the ranges are chosen on
