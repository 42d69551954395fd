"""`python -m benchmarks.learning`: efficiency against responses generated, ours and TRL's, β 0.1 and 0.3.

Efficiency is (J(π) − J(π_ref))/(J* − J(π_ref)) on the embedded world (`helpers/optimum.py`). Along
training J is read off each iteration's own rollout (128 fresh responses of the policy as it was: mean
score − β·mean KL), averaged over WINDOW iterations and the seeds; at the end off fresh responses.

Ours are the runs shipped in `data/sweeps`, all at one learning rate. TRL's are made here, each a JSON
file in `benchmarks/results/learning`, so that a kill costs one run at most: start it again and it goes
on. TRL's learning rate is the best of GRID for each β, chosen by the efficiency its seed 0 ends with.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

from benchmarks.common import RESULTS, emit, machine, show
from helpers.command import exit_status
from helpers.config import RLHFConfig
from helpers.optimum import Estimate, Optimum, efficiency
from helpers.storage import read_json, write_json
from helpers.studies import beta_study
from helpers.sweep_results import Sweep, load_sweep
from helpers.validate import require_count

GRID = (3e-4, 1e-3, 1e-4)
BETAS, SEEDS = (0.1, 0.3), (0, 1, 2)
BUDGETS = (10, 20, 30, 50, 75, 100)  # iterations, of 128 responses each
WINDOW = 5  # iterations averaged, up to and including the budget
FOLDER = RESULTS / "learning"
EVALUATED = 80  # fresh responses to each of 128 prompts, for a last policy


def settings(beta: float, seed: int, rate: float, iterations: int) -> RLHFConfig:
    """The shipped sweep's settings at this β and seed, with another learning rate."""
    (base,) = beta_study((beta,), (seed,), iterations).values()
    return RLHFConfig.from_dict(base.as_dict() | {"learning_rate": rate})


def path_of(config: RLHFConfig) -> Path:
    """Where a run of TRL's is kept."""
    name = f"trl_beta_{config.kl_coef:g}_lr_{config.learning_rate:g}_seed_{config.seed}"
    length = "" if config.iterations == 100 else f"_{config.iterations}_iterations"
    return FOLDER / f"{name}{length}.json"


def provide(config: RLHFConfig, evaluated: int = EVALUATED) -> dict:
    """The run as it was kept, or made now and kept."""
    path = path_of(config)
    if not path.exists():
        from benchmarks.trl_world import run_trl

        began, cpu = time.perf_counter(), time.process_time()
        found = run_trl(config, evaluated)
        spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        write_json(path, found | {"config": config.as_dict(), "on": machine()} | spent)
        print(f"made {path.name} in {spent['cpu_seconds']:.0f} s of CPU", flush=True)
    return read_json(path)


class Yardstick:
    """Efficiency at one β, from J."""

    def __init__(self, sweep: Sweep, beta: float):
        self.reference, self.beta = sweep.reference_value, beta
        self.best: Optimum = sweep.optimum(beta)

    def share(self, value: float, stderr: float = 0.0) -> float:
        """J → efficiency."""
        return efficiency(Estimate(value, stderr), self.reference, self.best).mean

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
        return self.share(run["final"]["value"], run["final"]["value_stderr"])


def ours(sweep: Sweep, beta: float) -> list[dict]:
    """The shipped runs at β: `history` and `final` of each seed."""
    runs = [sweep.run(beta, seed) for seed in SEEDS]
    return [{"history": run.history, "final": run.final} for run in runs]


def choose(beta: float, yardstick: Yardstick, iterations: int, make: bool) -> tuple:
    """TRL's best learning rate by the end of seed 0, and what each of the grid ended with."""
    ends = {}
    for rate in GRID:
        config = settings(beta, 0, rate, iterations)
        if make or path_of(config).exists():
            ends[rate] = yardstick.end(provide(config))
    best = max(ends, key=ends.get) if ends else None
    return best, ends


def theirs(beta: float, rate: float | None, iterations: int, make: bool) -> list[dict]:
    """TRL's runs at its best learning rate, as many seeds as there are."""
    configs = [] if rate is None else [settings(beta, s, rate, iterations) for s in SEEDS]
    return [provide(config) for config in configs if make or path_of(config).exists()]


def compare(sweep: Sweep, beta: float, iterations: int, make: bool) -> dict:
    """Both contestants at one β: means over seeds at each budget and at the end."""
    yardstick = Yardstick(sweep, beta)
    rate, ends = choose(beta, yardstick, iterations, make)
    found = {"beta": beta, "trl_learning_rates": ends, "trl_best": rate}
    for name, runs in (("ours", ours(sweep, beta)), ("TRL", theirs(beta, rate, iterations, make))):
        curves = [yardstick.along(run["history"]) for run in runs]
        shared = [n for n in BUDGETS if curves and all(n in curve for curve in curves)]
        found[name] = {
            "seeds": len(runs),
            "along": {n: statistics.fmean(curve[n] for curve in curves) for n in shared},
            "end": [yardstick.end(run) for run in runs],
        }
    return found


def print_one(found: dict) -> None:
    """The table of one β."""
    tried = ", ".join(f"{rate:g}: {end:.3f}" for rate, end in found["trl_learning_rates"].items())
    print(
        f"\nβ = {found['beta']:g}; TRL's learning rates on seed 0 ended with {tried or 'nothing'}"
    )
    rows = []
    for name in ("ours", "TRL"):
        one = found[name]
        cells = [f"{one['along'][n]:.3f}" if n in one["along"] else "–" for n in BUDGETS]
        end = f"{statistics.fmean(one['end']):.3f}" if one["end"] else "–"
        rows.append([f"{name} ({one['seeds']} seeds)", *cells, end])
    show(["responses", *(str(128 * n) for n in BUDGETS), "last policy"], rows)


def run(arguments: list[str] | None) -> None:
    """Make what is missing, then a table for each β and a JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--iterations", type=int, default=100, help="of TRL's runs (100)")
    parser.add_argument("--table", action="store_true", help="only what is there; run nothing")
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
