"""Exercise checks: each tells "not attempted yet", "correct", or the likely mistake by its name.

In a notebook: `check_gae(gae)` as the last line of a cell. Nothing that a learner's function does
reaches the notebook: exceptions, endless loops and strange results all end in the report.
"""

from helpers.checks.lesson01 import (
    check_gather_logprobs,
    check_kl_estimate,
    check_position_ids,
    check_response_mask,
)
from helpers.checks.lesson02_advantages import check_discounted_returns, check_gae
from helpers.checks.lesson02_rewards import check_shape_rewards, check_td_errors
from helpers.checks.lesson03 import (
    check_explained_variance,
    check_masked_mean,
    check_masked_var,
    check_whiten_advantages,
)
from helpers.checks.lesson04_losses import check_policy_loss, check_ratio, check_value_loss
from helpers.checks.lesson04_measures import check_clip_fraction, check_entropy
from helpers.checks.lesson05 import (
    check_bradley_terry_loss,
    check_normalize_scores,
    check_pair_accuracy,
    check_preference_probability,
)
from helpers.checks.lesson10 import check_grpo_advantages, check_rloo_advantages
from helpers.checks.report import Report

CHECKS = (
    check_gather_logprobs, check_response_mask, check_position_ids, check_kl_estimate,
    check_shape_rewards, check_td_errors, check_gae, check_discounted_returns,
    check_masked_mean, check_masked_var, check_whiten_advantages, check_explained_variance,
    check_ratio, check_policy_loss, check_value_loss, check_entropy, check_clip_fraction,
    check_preference_probability, check_bradley_terry_loss, check_normalize_scores,
    check_pair_accuracy, check_rloo_advantages, check_grpo_advantages,
)  # fmt: skip
EXERCISES = {check.exercise.name: check.exercise for check in CHECKS}

__all__ = ["CHECKS", "EXERCISES", "Report", *(check.__name__ for check in CHECKS)]
