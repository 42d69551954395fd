"""All studies by name: `python -m helpers study NAME`."""

from collections.abc import Callable

from helpers.lessons.debugging import study as clinic
from helpers.lessons.kl_beta import control_study as kl_control
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

STUDIES: dict[str, tuple[type[Options], Callable[[Options], None]]] = {
    "beta_sweep": (beta_sweep.BetaSweepOptions, beta_sweep.run),
    "kl_control": (kl_control.KLControlOptions, kl_control.run),
    "reward_hacking": (reward_hacking.RewardHackingOptions, reward_hacking.run),
    "reward_quality": (reward_quality.RewardQualityOptions, reward_quality.run),
    "patching": (patching.PatchingOptions, patching.run),
    "clinic": (clinic.ClinicOptions, clinic.run),
    "clip": (clip.ClipOptions, clip.run),
    "direct": (direct.DirectOptions, direct.run),
    "real_model": (real_model.RealModelOptions, real_model.run),
    "one_token": (one_token.OneTokenOptions, one_token.run),
    "trainer_band": (trainer_band.TrainerBandOptions, trainer_band.run),
    "trl": (trl.TRLOptions, trl.run),
    "without_a_critic": (without_a_critic.WithoutACriticOptions, without_a_critic.run),
}
