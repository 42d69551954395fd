"""Exercise checks: each reports "not attempted yet", "correct", or "not right yet" with the mistake's name.

In a notebook, write `check_gae(gae)` as the last line of a cell. Exceptions, endless loops and strange
results of the learner's function are all reported; none of them stops the notebook.
"""

from helpers.checks.clinic.own_rule import check_my_rule
from helpers.checks.clinic.repair import check_steps_5_and_6
from helpers.checks.direct.dpo_looks import check_train_dpo
from helpers.checks.direct.dpo_loss import check_dpo_loss, check_implicit_reward
from helpers.checks.groups.advantages import check_grpo_advantages, check_rloo_advantages
from helpers.checks.groups.group_step import check_group_step
from helpers.checks.groups.pass_at_k import check_pass_at_k
from helpers.checks.judging.report import Report
from helpers.checks.kl.best_mean import check_best_mean
from helpers.checks.kl.equal_kl import check_score_between
from helpers.checks.kl.optimum import check_optimum
from helpers.checks.overoptimization.best_of import check_keep_best
from helpers.checks.overoptimization.edit_effect import check_edit_effect
from helpers.checks.overoptimization.own_reward import check_my_reward
from helpers.checks.overoptimization.patch_pairs import check_patch_pairs
from helpers.checks.ppo.clipped_share import check_clip_fraction
from helpers.checks.ppo.entropy import check_entropy
from helpers.checks.ppo.policy_gradient import check_reinforce_loss
from helpers.checks.ppo.policy_loss import check_policy_loss
from helpers.checks.ppo.ratio import check_ratio
from helpers.checks.ppo.update import check_ppo_update_step
from helpers.checks.ppo.value_loss import check_value_loss
from helpers.checks.real_models.chat_rollout import check_chat_rollout
from helpers.checks.real_models.held_bytes import check_held_bytes
from helpers.checks.real_models.lora_forward import check_lora_forward
from helpers.checks.reward_model.bradley_terry import (
    check_bradley_terry_loss,
    check_preference_probability,
)
from helpers.checks.reward_model.fit_looks import check_fit_pairs
from helpers.checks.reward_model.pair_share import check_pair_accuracy
from helpers.checks.reward_model.score_scale import check_normalize_scores
from helpers.checks.rollouts.logprobs import (
    check_gather_logprobs,
    check_kl_estimate,
    check_position_ids,
)
from helpers.checks.rollouts.response_mask import check_response_mask
from helpers.checks.scaling_out.factors import check_loss_factors
from helpers.checks.scaling_out.loss_shares import check_loss_shares
from helpers.checks.scaling_out.moments import check_merge_moments
from helpers.checks.trainer.steps_and_loop import (
    check_draw_prompts,
    check_estimate_advantages,
    check_forward_logprobs,
    check_sample_with_cache,
    check_score_responses,
    check_total_rewards,
    check_train,
    check_trainer,
    check_update,
    check_write_responses,
)
from helpers.lessons.gae.checks import check_credit, check_gae, check_shape_rewards, check_td_errors
from helpers.lessons.the_loop.checks import check_objective
from helpers.lessons.whitening.checks import (
    check_explained_variance,
    check_masked_mean,
    check_masked_var,
    check_whiten_advantages,
    check_whiten_rollout,
)

CHECKS = (
    check_objective, check_gather_logprobs, check_response_mask, check_position_ids, check_kl_estimate,
    check_shape_rewards, check_td_errors, check_gae,
    check_masked_mean, check_masked_var, check_whiten_advantages, check_explained_variance,
    check_reinforce_loss, check_ratio, check_policy_loss, check_value_loss, check_entropy,
    check_clip_fraction,
    check_preference_probability, check_bradley_terry_loss, check_normalize_scores,
    check_pair_accuracy, check_fit_pairs, check_rloo_advantages, check_grpo_advantages, check_pass_at_k,
    check_implicit_reward, check_dpo_loss, check_train_dpo, check_held_bytes, check_lora_forward,
    check_loss_shares, check_merge_moments, check_loss_factors, check_edit_effect, check_best_mean,
    check_score_between,
)  # fmt: skip
EXERCISES = {check.exercise.name: check.exercise for check in CHECKS}

LARGE = (  # of lessons 01, 02, 07, 10 and 12
    check_sample_with_cache, check_credit, check_optimum, check_group_step, check_chat_rollout,
)  # fmt: skip

TRAINER = (  # of lessons 03, 04 and 06: on recorded inputs of their own
    check_draw_prompts, check_write_responses, check_score_responses, check_forward_logprobs,
    check_total_rewards, check_estimate_advantages, check_update, check_train, check_trainer,
    check_ppo_update_step, check_whiten_rollout,
)  # fmt: skip

OVEROPTIMIZATION = (check_my_reward, check_keep_best, check_patch_pairs)  # of lesson 08

CLINIC = (check_my_rule, check_steps_5_and_6)  # of lesson 09: on recorded runs, and on 06's inputs

__all__ = [
    "CHECKS",
    "EXERCISES",
    "Report",
    *(check.__name__ for check in (*CHECKS, *LARGE, *TRAINER, *OVEROPTIMIZATION, *CLINIC)),
]
