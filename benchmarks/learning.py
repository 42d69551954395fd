"""`python -m benchmarks.learning`: efficiency against responses generated, ours and TRL's, β 0.1 and 0.3.

Efficiency is (J(π) − J(π_ref))/(J* − J(π_ref)) on the embedded world (`helpers/theory/optimum.py`).
During training, J is estimated from each iteration's rollout (128 responses: mean score − β·mean KL) and
averaged over WINDOW iterations and the seeds; at the end, from fresh responses.

Each trainer uses its best learning rate of GRID for each β, chosen by the final efficiency of seed 0.
Ours runs twice: with TRL's ε of Adam, and with the course's. The course's runs at SHIPPED_RATE are those
in `data/beta_sweep`; all others are made here, one JSON file each in `benchmarks/results/learning`. After a
kill, start the command again: it continues, and only the unfinished run is lost.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

from benchmarks.common import RESULTS, emit, machine, show
from helpers.config import RLHFConfig
from helpers.experiments.beta_sweep import Sweep, beta_study, load_sweep
from helpers.experiments.measure import measure
from helpers.loop import train_rlhf_loop
from helpers.state import resolve_rates, start_run
from helpers.theory.optimum import Estimate, Optimum, efficiency
from helpers.tools.command import exit_status
from helpers.tools.files import read_json, write_json
from helpers.tools.validate import require_count

OURS, TRL, COURSE = "ours", "TRL", "ours, ε of the course"
GRID = {OURS: (3e-4, 6e-4, 1e-3), TRL: (1e-4, 3e-4, 6e-4, 1e-3), COURSE: (3e-4, 1e-3)}
EPSILON = {OURS: 1e-8, TRL: 1e-8, COURSE: 1e-5}  # Adam's
FILES = {OURS: "ours_eps_1e-8", TRL: "trl", COURSE: "ours"}  # beginning of their file names
SHIPPED_RATE = 3e-4  # of data/beta_sweep
BETAS, SEEDS = (0.1, 0.3), (0, 1, 2)
BUDGETS = (10, 20, 30, 50, 75, 100)  # iterations, of 128 responses each
WINDOW = 5  # iterations averaged, up to and including the budget
FOLDER = RESULTS / "learning"
EVALUATED = 80  # fresh responses to each of 128 prompts, for a last policy


def settings(who: str, beta: float, seed: int, rate: float, iterations: int) -> RLHFConfig:
    """The shipped sweep's config at this β and seed, with another learning rate and ε of Adam."""
    (job,) = beta_study((beta,), (seed,), iterations)
    changes = {"learning_rate": rate, "adam_eps": EPSILON[who]}
    return resolve_rates(RLHFConfig.from_dict(job.config.as_dict() | changes))


def path_of(who: str, config: RLHFConfig) -> Path:
    """The file of a run of ours or of TRL's."""
    name = f"{FILES[who]}_beta_{config.kl_coef:g}_lr_{config.learning_rate:g}_seed_{config.seed}"
    length = "" if config.iterations == 100 else f"_{config.iterations}_iterations"
    return FOLDER / f"{name}{length}.json"


def run_ours(config: RLHFConfig, evaluated: int) -> dict:
    """Train with the course's loop; returns `history` of rollouts and `final`."""
    state = start_run(config)
    history = list(train_rlhf_loop(state=state))
    final, _ = measure(state, state.models.actor, evaluated)
    return {"history": history, "final": final}


def make(who: str, config: RLHFConfig, evaluated: int = EVALUATED) -> None:
    """Make a run and save it."""
    train = run_ours
    if who == TRL:  # an extra, which ours does without
        from benchmarks.trl_world import run_trl as train
    began, cpu = time.perf_counter(), time.process_time()
    found = train(config, evaluated)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    path = path_of(who, config)
    write_json(path, found | {"config": config.as_dict(), "on": machine()} | spent)
    print(f"made {path.name} in {spent['cpu_seconds']:.0f} s of CPU", flush=True)


def find(who: str, config: RLHFConfig, sweep: Sweep, may_make: bool) -> dict | None:
    """A run's `history` and `final`: shipped, saved, or made now; None if it may not be made."""
    if who == COURSE and config.learning_rate == SHIPPED_RATE:
        run = sweep.run(config.kl_coef, config.seed)
        return {"history": run.history, "final": run.final}
    if may_make and not path_of(who, config).exists():
        make(who, config)
    return read_json(path_of(who, config)) if path_of(who, config).exists() else None


class Yardstick:
    """Efficiency at one β, from J."""

    def __init__(self, sweep: Sweep, beta: float):
        self.reference, self.beta = sweep.reference_value, beta
        self.best: Optimum = sweep.optimum(beta)

    def share(self, value: float) -> float:
        """J → efficiency."""
        return self.estimate(value, 0.0).mean

    def estimate(self, value: float, stderr: float) -> Estimate:
        """J with its standard error → efficiency with its own."""
        return efficiency(Estimate(value, stderr), self.reference, self.best)

    def along(self, history: list[dict]) -> dict[int, float]:
        """Efficiency at each budget, from the rollouts of the iterations just before it.

        A record's rollout was written before its update, so after n updates the policy is seen in
        record n + 1; the window ends with the last record there is by budget n.
        """
        values = [row["score"] - self.beta * row["kl"] for row in history]
        spans = {n: values[max(0, n - WINDOW) : n] for n in BUDGETS if n <= len(values)}
        return {n: self.share(statistics.fmean(span)) for n, span in spans.items()}

    def end(self, run: dict) -> float:
        """Efficiency of the last policy."""
        return self.share(run["final"]["value"])


def contest(who: str, sweep: Sweep, beta: float, iterations: int, may_make: bool) -> dict:
    """One trainer at one β: its best learning rate by the end of seed 0, means over the seeds."""
    yardstick = Yardstick(sweep, beta)

    def runs(rate: float, seeds: tuple) -> list[dict]:
        configs = [settings(who, beta, seed, rate, iterations) for seed in seeds]
        found = [find(who, config, sweep, may_make) for config in configs]
        return [run for run in found if run is not None]

    ends = {rate: yardstick.end(run) for rate in GRID[who] for run in runs(rate, SEEDS[:1])}
    best = max(ends, key=ends.get) if ends else None
    chosen = [] if best is None else runs(best, SEEDS)
    curves = [yardstick.along(run["history"]) for run in chosen]
    shared = [n for n in BUDGETS if curves and all(n in curve for curve in curves)]
    return {
        "learning_rates": ends,
        "best": best,
        "seeds": len(chosen),
        "along": {n: statistics.fmean(curve[n] for curve in curves) for n in shared},
        "end": [yardstick.end(run) for run in chosen],
    }


def compare(sweep: Sweep, beta: float, iterations: int, may_make: bool) -> dict:
    """All trainers at one β."""
    found = {who: contest(who, sweep, beta, iterations, may_make) for who in GRID}
    return {"beta": beta} | found


def print_one(found: dict) -> None:
    """Print the table of one β."""
    print(f"\nβ = {found['beta']:g}")
    rows = []
    for who in GRID:
        one = found[who]
        tried = ", ".join(f"{rate:g}: {end:.3f}" for rate, end in one["learning_rates"].items())
        print(f"{who}: final efficiency on seed 0 by learning rate: {tried or 'nothing'}")
        cells = [f"{one['along'][n]:.3f}" if n in one["along"] else "–" for n in BUDGETS]
        end = f"{statistics.fmean(one['end']):.3f}" if one["end"] else "–"
        rows.append([f"{who} ({one['seeds']} seeds)", f"{one['best'] or '–'}", *cells, end])
    show(["responses", "rate", *(str(128 * n) for n in BUDGETS), "last policy"], rows)


def run(arguments: list[str] | None) -> None:
    """Command line: make the missing runs, print a table for each β and a JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--iterations", type=int, default=100, help="of each new run (100)")
    parser.add_argument("--table", action="store_true", help="only existing runs; make none")
    options = parser.parse_args(arguments)
    require_count("--iterations", options.iterations)
    torch.set_num_threads(1)
    sweep = load_sweep()
    found = [compare(sweep, beta, options.iterations, not options.table) for beta in BETAS]
    for one in found:
        print_one(one)
    emit("learning", {"results": found, "window": WINDOW})


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped; start it again and it goes on."))
