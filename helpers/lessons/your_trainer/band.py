"""Lesson 06: train with somebody's eight functions, and compare the curve with the course's own runs.

A band is the range in which the course's runs lie, on seeds that differ: of score and KL, smoothed over
five iterations, mean ± `WIDTH` standard deviations. The study records the runs it is made of, and
others that only tell how often a right trainer leaves it.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from helpers.data import DATA
from helpers.kit.recorded import trainer_config, trainer_parts
from helpers.kit.report import CORRECT, MISTAKE, Report
from helpers.lessons.your_trainer.checks import COURSE, own_ones
from helpers.lessons.your_trainer.loop import in_place
from helpers.studies.runs import significant
from helpers.studies.study import Options, origin, read_study, write_study
from helpers.tools.pool import advance, run_all
from helpers.tools.validate import require

FOLDER = DATA / "trainer_band"
CURVES = ("score", "kl")  # reference standard deviations, nats per response
SMOOTHED = 5  # iterations in a running mean
WIDTH = 5.0  # standard deviations
MAKE_IT, OTHERS = 20, 40  # seeds of the band, and further ones, to count how many leave it
FLOOR = {"score": 0.06, "kl": 0.1}  # least standard deviations, where all runs agree


def trained(functions: dict[str, Callable], config, parts=None) -> Iterator[tuple[float, float]]:
    """Train (fresh) parts with these functions, else the course's; yields score and KL."""
    functions, parts = COURSE | functions, parts or trainer_parts()
    # prompts may be drawn by any of the three
    torch.manual_seed(config.seed), random.seed(config.seed), np.random.seed(config.seed)
    with in_place(functions):
        for score, kl in functions["train"](parts, config):
            yield float(score), float(kl)
            advance(1)


def run_trainer(functions: dict[str, Callable] | None = None, config=None, parts=None) -> dict:
    """A run with these functions, the course's for those not given; → curves [iterations] by name."""
    curve = list(trained(functions or {}, config or trainer_config(), parts))
    return dict(zip(CURVES, torch.tensor(curve).T.tolist(), strict=True)) if curve else {}


def beside_course(run: dict, functions: dict[str, Callable], config) -> str:
    """One sentence: up to which iteration these functions' run is the course's of the same seed, to 1e-4."""
    if not own_ones(functions):
        return "This is the course's own run."
    for number, course in enumerate(trained({}, config), start=1):
        for name, x in zip(CURVES, course, strict=True):
            if not abs(run[name][number - 1] - x) < 1e-4:
                return f"First apart from the course's own run: the {name} of iteration {number}."
    return "Score and KL of each iteration are those of the course's own run, to 1e-4."


def smooth(curve: list[float]) -> Tensor:
    """Running mean of the last `SMOOTHED` iterations, fewer at the beginning: [N] → [N]."""
    x = torch.tensor(curve, dtype=torch.float64)
    sums = torch.cat([x.new_zeros(1), x.cumsum(0)])
    ends = torch.arange(1, len(x) + 1)
    starts = (ends - SMOOTHED).clamp(min=0)
    return (sums[ends] - sums[starts]) / (ends - starts)


@dataclass
class Band:
    """Mean and standard deviation of the course's smoothed curves, at each iteration."""

    mean: dict[str, Tensor]
    std: dict[str, Tensor]
    width: float = WIDTH

    def edges(self, name: str) -> tuple[Tensor, Tensor]:
        """Lower and upper edge of one curve: [N] each."""
        half = self.width * self.std[name]
        return self.mean[name] - half, self.mean[name] + half

    def distance(self, run: dict) -> dict[str, Tensor]:
        """How far a run is from the mean, in standard deviations: [N] by name."""
        return {n: (smooth(run[n]) - self.mean[n]) / self.std[n] for n in CURVES}


def neighbours(std: Tensor, reach: int = 3) -> Tensor:
    """Standard deviations pooled over iterations nearby, since few runs know each but roughly: [N]."""
    around = [std[max(0, t - reach) : t + reach + 1] for t in range(len(std))]
    return torch.stack([x.square().mean().sqrt() for x in around])


def make_band(runs: list[dict]) -> Band:
    """The band of some runs. ValueError: fewer than three."""
    require(len(runs) > 2, "runs", len(runs), "at least three")
    smoothed = {n: torch.stack([smooth(run[n]) for run in runs]) for n in CURVES}
    # one more run differs from the mean of these by its own noise and by the mean's
    more = (1 + 1 / len(runs)) ** 0.5
    std = {n: more * neighbours(x.std(0)).clamp(min=FLOOR[n]) for n, x in smoothed.items()}
    return Band({n: x.mean(0) for n, x in smoothed.items()}, std)


def first_exit(run: dict, band: Band) -> tuple[str, int, str] | None:
    """What leaves the band first: curve, iteration (from 1), "above" or "below"; None if nothing."""
    found = []
    for name, away in band.distance(run).items():
        outside = (~(away.abs() <= band.width)).nonzero().flatten().tolist()
        found += [(t + 1, name, "above" if away[t] > 0 else "below") for t in outside[:1]]
    iteration, name, side = min(found, default=(0, "", ""))
    return (name, iteration, side) if found else None


def check_curve(run: dict, band: Band) -> Report:
    """Whether a run lies in the band; if not, what leaves it first."""
    found = first_exit(run, band)
    if found is None:
        says = "Score and KL stay in the band of the course's own runs."
        return Report("the curve", CORRECT, says)
    name, iteration, side = found
    label = {"score": "the score", "kl": "the KL"}[name]
    says = f"First out is {label}: {side} the band at iteration {iteration}."
    says += " Check the functions one by one: the curve says that something is wrong, not what."
    return Report("the curve", MISTAKE, says, f"{label} is {side} the band")


def load_band(folder: Path = FOLDER) -> Band:
    """The recorded band. FileProblem: missing or damaged."""
    return make_band(recorded_runs("band", folder))


def recorded_runs(kind: str, folder: Path = FOLDER) -> list[dict]:
    """The recorded runs of a kind: "band", or "other" on seeds that the band has not seen."""
    return [run for run in read_study(folder)["runs"].values() if run["kind"] == kind]


class TrainerBandOptions(Options, name="trainer_band"):
    """Trainer band: the course's own runs at the settings of lesson 06, and others to test the band."""

    def run(self) -> None:
        """Record the runs, write `study.json`, and count the others that leave the band."""
        tasks = [(record, (seed,)) for seed in range(MAKE_IT + OTHERS)]
        found = run_all(tasks, 2, 1, len(tasks) * trainer_config().iterations)
        runs = {f"seed_{one['seed']}": one for one in found}
        facts = origin(self) | {"config": trainer_config().as_dict()}
        write_study(self.results, facts | {"runs": runs})
        others, band = recorded_runs("other", self.results), load_band(self.results)
        outside = [one["seed"] for one in others if first_exit(one, band)]
        print(f"{len(outside)} of {len(others)} other runs leave the band: seeds {outside}")


def record(seed: int) -> dict:
    """One run of the course's trainer, rounded."""
    found = run_trainer(config=trainer_config(seed=seed))
    kind = "band" if seed < MAKE_IT else "other"
    return {"kind": kind, "seed": seed} | significant({name: found[name] for name in CURVES})
