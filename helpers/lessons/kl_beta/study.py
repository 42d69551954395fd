"""Adaptive β: recorded runs whose KL coefficient follows a target for the KL."""

from collections.abc import Iterator
from functools import partial
from itertools import product

from helpers.studies.study import Job, StudyOptions, loader, record

TARGETS = (1.0, 3.0)  # nats per response, of the adaptive β
FIRST_BETAS = (0.02, 0.5)  # where the adaptive β starts: too small, too large
HORIZON = 150.0  # responses: these runs leave no time for the thousands of published ones


load_kl_control = loader("kl_control")


class KLControlOptions(StudyOptions, name="kl_control", seeds=[0]):
    """Adaptive β, for two targets and from two first values."""

    SETTINGS = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """Each target from each first β, all kept whole."""
        train = partial(record, evaluated=40)
        for target, first in product(TARGETS, FIRST_BETAS):
            config = self.config(seed, kl_coef=first, kl_target=target, kl_horizon=HORIZON)
            yield Job(f"target_{target:g}_from_{first:g}", config, train, whole=True)
