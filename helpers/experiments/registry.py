"""All studies by name: `python -m helpers study NAME`."""

from collections.abc import Callable

from helpers.experiments import (
    beta_sweep,
    clinic,
    clip,
    direct,
    kl_control,
    one_token,
    patching,
    real_model,
    reward_hacking,
    reward_quality,
    trainer_band,
    trl,
    without_a_critic,
)
from helpers.experiments.study import Options

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
