"""KL control: adaptive β, and KL in the reward against KL in the loss."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.studies.measure import EVALUATED
from helpers.studies.runs import Run
from helpers.studies.study import Job, Study, StudyOptions, load_study
from helpers.tools.flags import setting
from helpers.tools.validate import require_number

FOLDER = DATA / "kl_control"
# a KL in the loss is weighed against whitened advantages, so that it takes a larger β to end at the
# same KL
REWARD_BETAS = (0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
LOSS_BETAS = (0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 3.0)
WIDEST_GAP = 0.7  # nats between two runs: wider apart, nothing is interpolated
ADAPTIVE_SEED = 0  # the seed that the adaptive β is run on; these runs are kept whole
TARGETS = (1.0, 3.0)  # nats per response, of the adaptive β
FIRST_BETAS = (0.02, 0.5)  # where the adaptive β starts: too small, too large
HORIZON = 150.0  # responses: these runs leave no time for the thousands of published ones


class KLControl(Study):
    """The recorded runs."""

    @property
    def adaptive(self) -> list[Run]:
        """Runs whose β followed a target."""
        return [run for run in self.runs if run.config.kl_target is not None]

    def curve(self, placement: str) -> list[tuple[float, float, float, float]]:
        """(KL, proxy, gold, β) of a placement at each fixed β, averaged over seeds, by KL."""
        by_beta = {}
        for run in self.placed(placement):
            by_beta.setdefault(run.config.kl_coef, []).append(run)
        names = ("kl", "score", "gold")
        return sorted(
            (*(statistics.fmean(run.final[name] for run in runs) for name in names), beta)
            for beta, runs in by_beta.items()
        )

    def placed(self, placement: str) -> list[Run]:
        """Runs at fixed β with KL in the "reward" or in the "loss", sorted by their KL."""
        fixed = (run for run in self.runs if run.config.kl_target is None)
        found = (run for run in fixed if run.config.kl_placement == placement)
        return sorted(found, key=lambda run: run.final["kl"])


def realised_kl(run: Run) -> float:
    """Mean KL over the last third of a run, nats per response."""
    kl = run.column("kl")
    return statistics.fmean(kl[-max(1, len(kl) // 3) :])


def score_at_kl(points: list[tuple[float, float]], kl: float, between: Callable) -> float | None:
    """Score at this KL, between neighbouring (KL, score); None outside, or over a gap.

    `between` is lesson 07's `score_between` or does the same. ValueError: a negative KL.
    """
    require_number("kl", kl, low=0.0)
    for (low, below), (high, above) in pairwise(sorted(points)):
        if low <= kl <= high and high - low <= WIDEST_GAP:
            return between(low, below, high, above, kl)
    return None


def seed_scores_at_kl(runs: list[Run], kl: float, between: Callable) -> list[float]:
    """`score_at_kl` of each seed's own runs of one placement; seeds without it are left out."""
    by_seed = {}
    for run in runs:
        by_seed.setdefault(run.config.seed, []).append((run.final["kl"], run.final["score"]))
    found = [score_at_kl(points, kl, between) for points in by_seed.values()]
    return [score for score in found if score is not None]


load_kl_control = partial(load_study, FOLDER, KLControl)


@dataclass(kw_only=True)
class KLControlOptions(StudyOptions):
    """KL control: adaptive β, and KL in the reward against KL in the loss."""

    name: ClassVar[str] = "kl_control"
    SETTINGS: ClassVar[dict] = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    seeds: list[int] = setting([0, 1, 2], "each kind of run is made on each of these seeds")
    iterations: int = setting(60, "iterations of a run at fixed β; with adaptive β two thirds more")

    def configs(self, seed: int) -> dict[str, RLHFConfig]:
        """Adaptive β for two targets and two initial β, on one seed; KL in the reward, and in the loss."""
        config = partial(self.config, seed)
        # the KL has to come back from where a wrong β took it: two thirds more
        longer = {"iterations": self.iterations * 5 // 3, "kl_horizon": HORIZON}
        adaptive = {
            f"target_{target:g}_from_{first:g}": config(kl_coef=first, kl_target=target, **longer)
            for target in TARGETS
            for first in FIRST_BETAS
        }
        fixed = {f"reward_{beta:g}": config(kl_coef=beta) for beta in REWARD_BETAS}
        placed = {"kl_placement": "loss", "kl_loss": "k2"}
        fixed |= {f"loss_k2_{beta:g}": config(kl_coef=beta, **placed) for beta in LOSS_BETAS}
        return (adaptive if seed == ADAPTIVE_SEED else {}) | fixed

    def job(self, kind: str, config: RLHFConfig) -> Job:
        """The adaptive ones whole."""
        whole = config.kl_target is not None
        return Job(kind, config, whole, evaluated=EVALUATED // 4)
