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
from helpers.tools.command import exit_status, menu
from helpers.tools.flags import FlagParser
from helpers.tools.validate import require

KINDS = (beta_sweep.BetaSweepOptions, kl_control.KLControlOptions, clinic.ClinicOptions)
KINDS += (reward_hacking.RewardHackingOptions, reward_quality.RewardQualityOptions)
KINDS += (clip.ClipOptions, direct.DirectOptions, one_token.OneTokenOptions)
KINDS += (trainer_band.TrainerBandOptions, distilling.DistillingOptions)
KINDS += (without_a_critic.WithoutACriticOptions, real_task.RealTaskOptions)
KINDS += (real_reward.RealRewardOptions,)
STUDIES: dict[str, type[Options]] = {kind.name: kind for kind in KINDS}


def run_study(name: str, command: str, arguments: list[str]) -> int:
    """Run a study by the flags of its options; → its exit status."""

    def run() -> None:
        require(name in STUDIES, "NAME", repr(name), f"one of {', '.join(STUDIES)}")
        kind = STUDIES[name]
        how = {"prog": f"python -m helpers {command}", "description": kind.__doc__}
        FlagParser(kind, **how).options(arguments).run()

    return exit_status(run, STOPPED)


def sweep(arguments: list[str]) -> int:
    """`python -m helpers sweep`; → its exit status."""
    return run_study("beta_sweep", "sweep", arguments)


def study(arguments: list[str]) -> int:
    """`python -m helpers study NAME`; → its exit status."""
    name, *rest = arguments or ["--help"]
    if name not in ("-h", "--help"):
        return run_study(name, f"study {name}", rest)
    lines = {name: kind.__doc__ for name, kind in STUDIES.items()}
    print(menu("python -m helpers study NAME", "Recorded studies of the course.", lines))
    return 0
