"""`python -m helpers sweep` and `study NAME`: make the recorded runs of data/ again, or like them."""

from helpers.lessons.debugging import study as clinic
from helpers.lessons.kl_beta import study as kl_control
from helpers.lessons.overoptimization import distilling
from helpers.lessons.overoptimization import study as reward_hacking
from helpers.lessons.ppo_update import study as clip
from helpers.lessons.real_models import reward_study as real_reward
from helpers.lessons.real_models import task_study as real_task
from helpers.lessons.reward_model import study as reward_quality
from helpers.lessons.without_a_critic import study as without_a_critic
from helpers.lessons.without_a_reward_model import study as direct
from helpers.lessons.your_trainer import band as trainer_band
from helpers.studies import beta_sweep, one_token
from helpers.studies.study import STOPPED, Options
from helpers.tools.command import choose
from helpers.tools.flags import command

KINDS = (beta_sweep.BetaSweepOptions, kl_control.KLControlOptions, clinic.ClinicOptions)
KINDS += (reward_hacking.RewardHackingOptions, reward_quality.RewardQualityOptions)
KINDS += (clip.ClipOptions, direct.DirectOptions, one_token.OneTokenOptions)
KINDS += (trainer_band.TrainerBandOptions, distilling.DistillingOptions)
KINDS += (without_a_critic.WithoutACriticOptions, real_task.RealTaskOptions)
KINDS += (real_reward.RealRewardOptions,)
STUDIES: dict[str, type[Options]] = {kind.name: kind for kind in KINDS}


def run_study(name: str, arguments: list[str]) -> int:
    """Run a study by the flags of its options; → its exit status."""
    kind = STUDIES[name]
    return command(f"helpers study {name}", kind, stopped=STOPPED)(kind.run)(arguments)


SWEEP = beta_sweep.BetaSweepOptions
sweep = command("helpers sweep", SWEEP, stopped=STOPPED)(SWEEP.run)


def study(arguments: list[str]) -> int:
    """`python -m helpers study NAME`; → its exit status."""
    about = "python -m helpers study NAME", "Recorded studies of the course."
    lines = {name: kind.__doc__ for name, kind in STUDIES.items()}
    return choose(*about, lines, run_study, arguments)
