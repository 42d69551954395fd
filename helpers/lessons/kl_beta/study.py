"""Adaptive β: recorded runs whose KL coefficient follows a target for the KL."""

import statistics
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.studies.measure import EVALUATED
from helpers.studies.runs import Run
from helpers.studies.study import Job, StudyOptions, load_study
from helpers.tools.flags import setting

FOLDER = DATA / "kl_control"
TARGETS = (1.0, 3.0)  # nats per response, of the adaptive β
FIRST_BETAS = (0.02, 0.5)  # where the adaptive β starts: too small, too large
HORIZON = 150.0  # responses: these runs leave no time for the thousands of published ones


def realised_kl(run: Run) -> float:
    """Mean KL over the last third of a run, nats per response."""
    kl = run.column("kl")
    return statistics.fmean(kl[-max(1, len(kl) // 3) :])


load_kl_control = partial(load_study, FOLDER)


@dataclass(kw_only=True)
class KLControlOptions(StudyOptions):
    """Adaptive β, for two targets and from two first values."""

    name: ClassVar[str] = "kl_control"
    SETTINGS: ClassVar[dict] = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    seeds: list[int] = setting([0], "each kind of run is made on each of these seeds")
    iterations: int = setting(
        100, "iterations: the KL has to come back from where a wrong β took it"
    )

    def configs(self, seed: int) -> dict[str, RLHFConfig]:
        """Each target from each first β."""
        config = partial(self.config, seed, kl_horizon=HORIZON)
        return {
            f"target_{target:g}_from_{first:g}": config(kl_coef=first, kl_target=target)
            for target in TARGETS
            for first in FIRST_BETAS
        }

    def job(self, kind: str, config: RLHFConfig) -> Job:
        """All are kept whole."""
        return Job(kind, config, True, evaluated=EVALUATED // 4)
