"""All studies by name: `python -m helpers study NAME`."""

from collections.abc import Callable

from helpers.lessons.debugging import study as clinic
from helpers.lessons.kl_beta import study as kl_control
from helpers.lessons.overoptimization import patching
from helpers.lessons.overoptimization import study as reward_hacking
from helpers.lessons.ppo_update import study as clip
from helpers.lessons.real_models import study as real_model
from helpers.lessons.reward_model import study as reward_quality
from helpers.lessons.scaling_out import study as trl
from helpers.lessons.without_a_critic import study as without_a_critic
from helpers.lessons.without_a_reward_model import study as direct
from helpers.lessons.your_trainer import band as trainer_band
from helpers.studies import beta_sweep, one_token
from helpers.studies.study import Options

RUNS = [study.run for study in (beta_sweep, kl_control, reward_hacking, reward_quality, patching)]
RUNS += [study.run for study in (clinic, clip, direct, real_model, one_token, trainer_band, trl)]
RUNS += [without_a_critic.run]
# each `run` says by its annotation which options it takes, and these say the study's name
STUDIES: dict[str, tuple[type[Options], Callable[[Options], None]]] = {
    run.__annotations__["options"].name: (run.__annotations__["options"], run) for run in RUNS
}
