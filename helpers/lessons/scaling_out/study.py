"""Our loop and TRL's PPOTrainer side by side: the same models, prompts and settings."""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.loop import train_rlhf_loop
from helpers.scale.trl import VERSION, require_trl, train_with_trl
from helpers.state import load_models, start_run
from helpers.studies.study import (
    Options,
    Study,
    as_columns,
    as_entry,
    keep_runs,
    load_study,
    origin,
    run_name,
)
from helpers.tools.flags import setting
from helpers.tools.validate import require_count

FOLDER = DATA / "trl"
KEPT = ("iteration", "score", "kl", "value_loss")


def side_by_side(seed: int, iterations: int) -> Iterator[tuple[str, dict]]:
    """Train with both from the same models and settings; returns name and entry of each run, "ours" first."""
    # TRL clips no gradient, so ours clips none here
    rates = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3, "max_grad_norm": 1e6}
    config = RLHFConfig(seed=seed, iterations=iterations, micro_batch_size=64, **rates)
    models = load_models(config)
    theirs, prompts = copy.deepcopy(models), start_run(config, models).prompts
    trainers = {
        "ours": lambda: list(train_rlhf_loop(config, models, prompts=prompts)),
        "trl": lambda: train_with_trl(config, theirs, prompts),
    }
    for kind, train in trainers.items():
        started = time.process_time()
        columns = as_columns(train(), KEPT)
        final = {"cpu_seconds": round(time.process_time() - started)}
        yield run_name(kind, seed), as_entry(kind, config, columns, final)


def load_trl(folder: Path = FOLDER) -> Study:
    """Load the recorded runs, of kinds "ours" and "trl". FileProblem: missing or damaged."""
    return load_study(folder)


@dataclass(kw_only=True)
class TRLOptions(Options):
    """TRL: our loop and TRL's PPOTrainer on the same models and settings."""

    name: ClassVar[str] = "trl"
    seeds: list[int] = setting([0, 1, 2], "both are trained on each of these seeds")
    iterations: int = setting(20, "iterations of each run")

    def __post_init__(self):
        require_count("--iterations", self.iterations)


def run(options: TRLOptions) -> None:
    """Train both on each seed, one after the other, and save their histories."""
    require_trl()
    facts = origin(options, torch.get_num_threads())
    facts["versions"]["trl"] = VERSION
    for seed in options.seeds:
        keep_runs(options.results, dict(side_by_side(seed, options.iterations)), facts)
