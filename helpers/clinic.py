"""`python -m helpers.clinic`: fifteen broken runs and their healthy neighbours, on six seeds. Kept.

Thresholds of `helpers.diagnose` were set on seeds 0 to 2; nobody looked at 3 to 5 before they stood.
"""

import argparse
import statistics
import sys
from pathlib import Path

from helpers.config import RLHFConfig
from helpers.diagnose import STATISTICS, diagnose
from helpers.faults import FAULTS, Fault, find_fault
from helpers.histories import (
    Histories,
    History,
    keep_histories,
    kind_of,
    load_histories,
    run_name,
    seed_of,
)
from helpers.jobs import origin, parse_study, run_study, study_parser, study_status
from helpers.runs import Run, record_run
from helpers.state import start_run
from helpers.storage import DATA, refresh_manifest
from helpers.studies import Study

FOLDER = DATA / "clinic"
SUMMARY = "clinic.json"
BETA, ITERATIONS = 0.1, 18
OTHER_BETAS = (0.05, 0.2, 0.3)  # healthy as well: no flag may be raised there
SHOWN = 0  # the seed whose runs are kept whole: samples, next tokens
SCHEDULE = [0, 1, 3, 8, 18]  # iterations of the snapshots


def healthy_config(seed: int, kl_coef: float = BETA, iterations: int = ITERATIONS) -> RLHFConfig:
    """The settings every fault is planted into: the course's defaults, 18 iterations."""
    return RLHFConfig(kl_coef=kl_coef, seed=seed, iterations=iterations, device="cpu")


def clinic_study(seeds: list[int], iterations: int = ITERATIONS) -> Study:
    """Each seed: every fault, the healthy run beside them, healthy runs at other β."""
    study = {}
    for seed in sorted(set(seeds)):
        healthy = healthy_config(seed, iterations=iterations)
        study[run_name("healthy", seed)] = healthy
        for beta in OTHER_BETAS:
            study[run_name(f"healthy_{beta:g}", seed)] = healthy_config(seed, beta, iterations)
        for fault in FAULTS.values():
            study[run_name(fault.name, seed)] = fault.config(healthy)
    return study


def job_fields(name: str) -> dict:
    """What is special about a run of the clinic."""
    fields = {"evaluated": 4, "checkpoints": False, "schedule": SCHEDULE}
    kind = kind_of(name)
    return fields | ({"within": FAULTS[kind].planted} if kind in FAULTS else {})


def rerun(name: str, iterations: int = ITERATIONS, seed: int = 0, shown=None) -> Run:
    """Train one case again, here and now: a fault's name, or "healthy". `shown(run)` after each step."""
    healthy = healthy_config(seed, iterations=iterations)
    fault = Fault("healthy", "", "", "") if name == "healthy" else find_fault(name)
    state = start_run(fault.config(healthy))
    with fault.planted():
        for run in record_run(state, Run(state.config, label=name), schedule=SCHEDULE):
            if shown is not None:
                shown(run)
    return run


class Clinic(Histories):
    """Every run of the clinic by name."""

    def of_kind(self, kind: str, seeds: tuple = (0, 1, 2)) -> list[History]:
        """Histories of one kind on these seeds."""
        return [self.histories[run_name(kind, seed)] for seed in seeds]

    def healthy(self, seeds: tuple) -> dict[str, History]:
        """All healthy runs on these seeds, at every β."""
        return {
            name: history
            for name, history in self.histories.items()
            if kind_of(name).startswith("healthy") and seed_of(name) in seeds
        }


def load_clinic(folder: Path = FOLDER) -> Clinic:
    """The clinic in a folder, the shipped one by default; FileProblem when something is broken."""
    return Clinic(**vars(load_histories(folder, SUMMARY)))


def separation(clinic: Clinic, fault: Fault, seeds: tuple = (0, 1, 2)) -> dict:
    """How far a fault's statistic lies from that of the healthy runs at the same β.

    `apart`: the smallest distance of a broken run from the healthy mean, in standard deviations of
    the healthy runs on these seeds.
    """
    statistic = STATISTICS[fault.statistic]
    healthy = [statistic(history) for history in clinic.of_kind("healthy", seeds)]
    broken = [statistic(history) for history in clinic.of_kind(fault.name, seeds)]
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
    """Each fault: its statistic, how far apart, what `diagnose` says; then the healthy runs."""
    print(f"{'fault':20s}{'statistic':20s}{'healthy':>20s}{'broken':>10s}{'apart':>9s}  flags")
    for fault in FAULTS.values():
        row = separation(clinic, fault, seeds)
        flags = {flag.name for h in clinic.of_kind(fault.name, seeds) for flag in diagnose(h)}
        apart = f"{row['apart']:.1f}" if row["apart"] < 1000 else "> 1000"
        print(
            f"{fault.name:20s}{fault.statistic:20s}{row['healthy']:9.4g} ± {row['healthy_std']:<8.2g}"
            f"{row['broken']:10.4g}{apart:>9}  {', '.join(sorted(flags)) or '–'}"
        )
    wrong = {n: diagnose(h) for n, h in clinic.healthy(seeds).items()}
    flagged = [name for name, flags in wrong.items() if flags]
    print(f"healthy runs: {len(wrong)}, flagged: {len(flagged)} {flagged or ''}")


def run(arguments: list[str] | None) -> None:
    """Whatever is left to do, then the table."""
    parser = study_parser("clinic", __doc__)
    parser.set_defaults(seeds=list(range(6)))
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    options = parse_study(parser, "clinic", arguments)
    runs = options.work / "runs"  # most are kept as a history only, in --out
    everywhere = argparse.Namespace(**vars(options) | {"out": runs})
    run_study(clinic_study(options.seeds, options.iterations), everywhere, job_fields)
    keep_histories(runs, options.out, SUMMARY, lambda name: seed_of(name) == SHOWN, origin(options))
    refresh_manifest(options.out)
    seeds = tuple(sorted(set(options.seeds)))
    if len(seeds) > 1:
        print_clinic(load_clinic(options.out), seeds)


if __name__ == "__main__":
    sys.exit(study_status(run, None))
