"""`python -m benchmarks.learning`: efficiency against responses generated, ours and TRL's PPO, β 0.1 and 0.3.

Efficiency is (J(π) − J(π_ref))/(J* − J(π_ref)) on the embedded world (`yardstick.py`). On the way J is
estimated from the rollouts around each budget (128 responses an iteration: mean score − β·mean KL), for
both in the same way; at the end from fresh responses.

Ours has the course's own settings, one rate for all β; its runs are those of `data/beta_sweep` where they are
there. TRL has its default ε of Adam and the best learning rate for each β, chosen on a seed that is not
reported; a third row gives ours a rate chosen in the same way (runs of `methods` are taken where they are
there). One JSON file a run in `benchmarks/results/learning`; started again, the command goes on.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

from benchmarks.common import RESULTS, emit, machine, show
from benchmarks.yardstick import (
    EVALUATED,
    RESPONSES,
    TUNED_ON,
    Yardstick,
    best_rate,
    last_value,
    untried,
)
from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.state import start_run
from helpers.studies.beta_sweep import Sweep, beta_study, load_sweep
from helpers.studies.runs import significant
from helpers.tools.command import exit_status
from helpers.tools.files import read_json, write_json
from helpers.tools.pool import advance, run_all
from helpers.tools.validate import require_count

OURS, TUNED, TRL = "ours", "ours, rate chosen as TRL's", "TRL"
ROWS = (OURS, TUNED, TRL)
TRL_EPSILON = 1e-8  # of Adam, TRL's default
BETAS, SEEDS = (0.1, 0.3), (0, 1, 2, 3, 4)
BUDGETS = (10, 20, 30, 50, 75, 100, 200)  # iterations
FOLDER, METHODS = RESULTS / "learning", RESULTS / "methods"


def settings(
    who: str, beta: float, seed: int, iterations: int, rate: float | None = None
) -> RLHFConfig:
    """The sweep's config at this β and seed; with another rate if one is given, TRL's with its own ε."""
    (job,) = beta_study((beta,), (seed,), iterations)
    changes = {} if rate is None else {"learning_rate": rate}
    changes |= {"adam_eps": TRL_EPSILON} if who == TRL else {}
    return RLHFConfig.from_dict(job.config.as_dict() | changes)


def path_of(who: str, config: RLHFConfig, elsewhere: bool = False) -> Path:
    """The file of a run of ours or of TRL's; `elsewhere`: of the same run of ours, made by `methods`."""
    rest = f"beta_{config.kl_coef:g}_lr_{config.learning_rate:g}_seed_{config.seed}_{config.iterations}.json"
    name = "trl" if who == TRL else "ours"
    return METHODS / f"ppo_{rest}" if elsewhere else FOLDER / f"{name}_{rest}"


def run_ours(config: RLHFConfig, evaluated: int) -> dict:
    """Train with the course's loop; returns `history` of rollouts and `final`."""
    state = start_run(config)
    history = [{key: row[key] for key in ("score", "kl")} for row in train_rlhf_loop(state=state)]
    return {"history": history, "final": last_value(state, evaluated)}


def make(who: str, config: RLHFConfig, evaluated: int = EVALUATED) -> None:
    """Make a run and save it."""
    torch.set_num_threads(1)
    train = run_ours
    if who == TRL:  # an extra, which ours does without
        from benchmarks.trl_world import run_trl as train
    cpu = time.process_time()
    found = train(config, evaluated)
    spent = {"cpu_seconds": time.process_time() - cpu, "on": machine()}
    write_json(path_of(who, config), significant(found | {"config": config.as_dict()} | spent))
    advance(1)


def find(who: str, config: RLHFConfig, sweep: Sweep) -> dict | None:
    """A run's `history` and `final`, shipped or saved; None where there is none."""
    for run in sweep.runs if who != TRL else ():
        if run.config.as_dict() == config.as_dict():
            return {"history": run.history, "final": run.final}
    paths = [path_of(who, config)] + ([] if who == TRL else [path_of(who, config, elsewhere=True)])
    found = [read_json(path) for path in paths if path.exists()]
    return next((run for run in found if run["config"] == config.as_dict()), None)


def tuned(
    who: str, sweep: Sweep, beta: float, iterations: int
) -> tuple[float | None, dict[float, float]]:
    """The best rate, None while some are untried; J at the end of the tuning seed by rate."""

    def end_at(rate: float) -> float | None:
        run = find(who, settings(who, beta, TUNED_ON, iterations, rate), sweep)
        return None if run is None else run["final"]["value"]

    return best_rate(end_at)


def missing(
    sweep: Sweep,
    iterations: int,
    betas: tuple[float, ...] = BETAS,
    seeds: tuple[int, ...] = SEEDS,
    peers: bool = True,
) -> list[tuple]:
    """Runs to make next: ours, those that choose TRL's rates, and those of the chosen rates."""
    wanted = []
    for beta in betas:
        wanted += [(OURS, settings(OURS, beta, seed, iterations)) for seed in seeds]
        for who in (TUNED, TRL) if peers else ():
            rate, ends = tuned(who, sweep, beta, iterations)
            tries = [(TUNED_ON, one) for one in untried(ends)] or [(seed, rate) for seed in seeds]
            wanted += [(who, settings(who, beta, seed, iterations, one)) for seed, one in tries]
    return [(make, one) for one in wanted if find(*one, sweep) is None]


# --- the table ------------------------------------------------------------------------------------


def spread(values: list[float]) -> dict:
    """Mean over the seeds and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "stderr": error}


def contest(who: str, sweep: Sweep, beta: float, iterations: int) -> dict:
    """One trainer at one β: means over the seeds that are there, on the way and at the end."""
    yardstick, rate, ends = Yardstick(sweep, beta), None, {}
    if who != OURS:
        rate, ends = tuned(who, sweep, beta, iterations)
    known = who == OURS or rate is not None
    configs = [settings(who, beta, seed, iterations, rate) for seed in SEEDS] if known else []
    runs = [run for config in configs if (run := find(who, config, sweep)) is not None]
    curves = [yardstick.along(run["history"], BUDGETS) for run in runs]
    shared = [n for n in BUDGETS if curves and all(n in curve for curve in curves)]
    return {
        "rate": rate,
        "tried": ends,
        "seeds": len(runs),
        "along": {n: spread([curve[n] for curve in curves]) for n in shared},
        "end": spread([yardstick.end(run) for run in runs]) if runs else None,
    }


def compare(sweep: Sweep, beta: float, iterations: int) -> dict:
    """Both trainers at one β, ours also with a rate chosen for it."""
    return {"beta": beta} | {who: contest(who, sweep, beta, iterations) for who in ROWS}


def print_one(found: dict) -> None:
    """Print the table of one β: efficiency ± standard error over the seeds."""
    print(f"\nβ = {found['beta']:g}")
    for who in (TUNED, TRL):
        tried = ", ".join(f"{rate:g}: {end:.3f}" for rate, end in found[who]["tried"].items())
        if tried:
            print(f"{who}: J at the end of seed {TUNED_ON} by learning rate: {tried}")
    made = [who for who in ROWS if found[who]["seeds"]]
    rows, seen = [], [n for n in BUDGETS if any(n in found[who]["along"] for who in made)]
    for who in made:
        one = found[who]
        places = [one["along"].get(n) for n in seen] + [one["end"]]
        cells = [f"{p['mean']:.3f} ± {p['stderr']:.3f}" if p else "–" for p in places]
        rows.append([f"{who} ({one['seeds']} seeds)", *cells])
    show(["responses", *(f"{RESPONSES * n:,}" for n in seen), "last policy"], rows)


def run(arguments: list[str] | None) -> None:
    """Command line: make the missing runs, print a table for each β and a JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--iterations", type=int, default=100, help="of each new run (100)")
    parser.add_argument("--betas", nargs="+", type=float, default=BETAS, help="(0.1 0.3)")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="(0 to 4)")
    parser.add_argument("--ours", action="store_true", help="only the course's settings")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--table", action="store_true", help="only existing runs; make none")
    options = parser.parse_args(arguments)
    for count in ("iterations", "jobs"):
        require_count(f"--{count}", getattr(options, count))
    sweep = load_sweep()
    asked = (options.iterations, options.betas, options.seeds, not options.ours)
    while not options.table and (tasks := missing(sweep, *asked)):
        run_all(tasks, options.jobs, 1, len(tasks))
    found = [compare(sweep, beta, options.iterations) for beta in options.betas]
    for one in found:
        print_one(one)
    emit("learning", {"results": found, "tuned_on": TUNED_ON})


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped; start it again and it goes on."))
