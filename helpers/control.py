"""`python -m helpers.control`: adaptive β, and KL in the reward against KL in the loss. Real runs, kept."""

import sys
from dataclasses import dataclass
from pathlib import Path

from helpers.jobs import origin, parse_study, run_study, study_parser, study_status
from helpers.measure import EVALUATED
from helpers.runs import Run, load_run
from helpers.storage import DATA, read_json, refresh_manifest, verify, write_json
from helpers.studies import control_study

FOLDER = DATA / "control"
SUMMARY = "control.json"


@dataclass
class Control:
    """The runs by name, and how they were made."""

    runs: dict[str, Run]
    facts: dict

    @property
    def adaptive(self) -> dict[str, Run]:
        """Runs whose β followed a target."""
        return {n: run for n, run in self.runs.items() if run.config.kl_target is not None}

    def placed(self, placement: str, kind: str = "k2") -> list[Run]:
        """Runs at fixed β with KL in the "reward" or in the "loss", by KL reached."""
        found = [
            run
            for run in self.runs.values()
            if run.config.kl_target is None and run.config.kl_placement == placement
            if placement == "reward" or run.config.kl_loss == kind
        ]
        return sorted(found, key=lambda run: run.final["kl"])


def realised_kl(run: Run) -> float:
    """Mean KL over the last third of a run, nats per response."""
    kl = run.column("kl")
    last = kl[-max(1, len(kl) // 3) :]
    return sum(last) / len(last)


def score_at_kl(runs: list[Run], kl: float) -> float | None:
    """Proxy score where these runs, sorted by KL, would reach this KL: linear between neighbours."""
    points = [(run.final["kl"], run.final["score"]) for run in runs]
    for (low, below), (high, above) in zip(points, points[1:], strict=False):
        if low <= kl <= high:
            share = (kl - low) / (high - low) if high > low else 0.0
            return below + share * (above - below)
    return None


def load_control(folder: Path = FOLDER) -> Control:
    """The study in a folder, the shipped one by default; FileProblem when something is broken."""
    verify(folder)
    facts = read_json(folder / SUMMARY, ("runs",))
    return Control({name: load_run(folder / name) for name in facts["runs"]}, facts)


def print_control(control: Control) -> None:
    """Targets and what was realised; then each placement with what it reached."""
    print(f"{'adaptive run':34s}{'target':>8s}{'realised':>10s}{'off by':>8s}{'last β':>9s}")
    for name, run in control.adaptive.items():
        target, reached = run.config.kl_target, realised_kl(run)
        off = f"{100 * (reached / target - 1):+.0f} %"
        print(f"{name:34s}{target:8g}{reached:10.2f}{off:>8s}{run.column('kl_coef')[-1]:9.4f}")
    print(f"\n{'fixed β':34s}{'proxy':>8s}{'gold':>8s}{'KL':>8s}")
    for kind in (("reward",), ("loss", "k2"), ("loss", "full")):
        for run in control.placed(*kind):
            final = run.final
            print(f"{run.label:34s}{final['score']:8.3f}{final['gold']:8.3f}{final['kl']:8.3f}")


def run(arguments: list[str] | None) -> None:
    """Whatever is left to do, then the table."""
    parser = study_parser("control", __doc__)
    parser.set_defaults(seeds=[0])
    parser.add_argument("--iterations", type=int, default=60)
    options = parse_study(parser, "control", arguments)
    study = control_study(options.seeds, options.iterations)
    run_study(study, options, lambda name: {"evaluated": EVALUATED // 4})
    write_json(options.out / SUMMARY, origin(options) | {"runs": list(study)})
    refresh_manifest(options.out)
    print_control(load_control(options.out))


if __name__ == "__main__":
    sys.exit(study_status(run, None))
