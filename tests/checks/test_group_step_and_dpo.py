"""Mistakes in lessons 10 and 11 whose numbers alone mislead: what is said is about the line that is wrong."""

import pytest
import torch
from direct_answers import descending
from group_step_answers import smaller, step

from helpers import checks
from helpers.groups import grpo_advantages, rloo_advantages


def said(report):
    assert report.status == "mistake", report
    return report.mistake, report.message


# --- group_step: the mean of the loss ---------------------------------------------------------------

MEANS = {
    "response": lambda x, m, n: (x.sum(1) / m.sum(1)).mean(),
    "token": lambda x, m, n: x.sum() / m.sum(),
    "fixed": lambda x, m, n: (x.sum(1) / n).mean(),
}
OTHERS = [(asked, taken) for asked in MEANS for taken in MEANS if asked != taken]


@pytest.mark.parametrize(("asked", "taken"), OTHERS)
def test_a_mean_taken_for_another_is_named(asked, taken):
    name, says = said(checks.check_group_step(step(**{asked: MEANS[taken]})))
    assert name.startswith(f"{asked}: ") and "wrong result: the loss" in says
    assert f"For '{asked}' your mean is that of '{taken}'" in says


def test_two_means_that_are_exchanged_are_named_as_means():
    answer = step(token=MEANS["fixed"], fixed=MEANS["token"])
    assert "For 'token' your mean is that of 'fixed'" in said(checks.check_group_step(answer))[1]


@pytest.mark.parametrize("how", MEANS)
def test_a_mean_by_position_is_named(how):
    def by_position(x, m, n):
        rows = [x[m[:, t], t].mean() for t in range(x.shape[1]) if m[:, t].any()]
        return torch.stack(rows).mean()

    with_empty = step(**{how: lambda x, m, n: (x.sum(0) / m.sum(0).clamp(min=1)).mean()})
    for answer in (step(**{how: by_position}), with_empty):
        name, says = said(checks.check_group_step(answer))
        assert name == f"{how}: averaged by position" and f"For '{how}' you averaged" in says


def test_a_mean_that_nothing_knows_is_still_called_a_mean():
    name, says = said(checks.check_group_step(step(token=lambda x, m, n: x.sum() / n)))
    assert name == "token: not the mean of the gains" and "look at their mean for 'token'" in says


# --- group_step: the KL of each token ---------------------------------------------------------------


def kl_of(old, ref, mask, config):
    return config.kl_coef * torch.where(mask, old - ref, 0.0)


def finished(rewards, logprobs, old, mask, config, advantages_of=None):
    if advantages_of is None:
        advantages_of = rloo_advantages if config.method == "rloo" else grpo_advantages
    advantages = advantages_of(rewards, config.responses_per_prompt)
    ratio = torch.where(mask, logprobs - old, 0.0).exp()
    column = advantages.unsqueeze(1)
    gains = smaller(ratio, column, config.cliprange, config.cliprange_high).masked_fill(~mask, 0.0)
    return rewards, advantages, gains, -gains[mask].mean()


def subtracted(scores, logprobs, old, ref, mask, config):
    rewards = scores - kl_of(old, ref, mask, config)
    return finished(rewards, logprobs, old, mask, config)


def subtracted_in_place(scores, logprobs, old, ref, mask, config):
    rewards = scores.clone()
    rewards -= kl_of(old, ref, mask, config)
    return finished(rewards, logprobs, old, mask, config)


def made_a_column(scores, logprobs, old, ref, mask, config):
    rewards = scores[:, None] - kl_of(old, ref, mask, config)
    return finished(rewards, logprobs, old, mask, config)


def with_advantages_of_its_own(scores, logprobs, old, ref, mask, config):
    rewards = scores[:, None] - kl_of(old, ref, mask, config)
    grouped = rewards.view(-1, config.responses_per_prompt)
    advantages = (grouped - grouped.mean(1, keepdim=True)).flatten()
    gains = (logprobs - old).exp() * advantages.unsqueeze(1)
    return rewards, advantages, gains, -gains.mean()


def without_an_error(scores, logprobs, old, ref, mask, config):
    rewards = scores[:, None] - kl_of(old, ref, mask, config)
    advantages = rewards - rewards.mean(0)
    return rewards, advantages, advantages * mask, -(advantages * mask).mean()


def only_begun(scores, logprobs, old, ref, mask, config):
    rewards = scores[:, None] - kl_of(old, ref, mask, config)
    return rewards, NotImplemented, NotImplemented, NotImplemented


def score_at_the_last_token(scores, logprobs, old, ref, mask, config):
    rewards, rows = -kl_of(old, ref, mask, config), torch.arange(len(scores))
    rewards[rows, mask.sum(1) - 1] += scores
    return rewards, *finished(scores, logprobs, old, mask, config)[1:]


PER_TOKEN = [
    subtracted, subtracted_in_place, made_a_column, with_advantages_of_its_own, without_an_error,
    only_begun, score_at_the_last_token,
]  # fmt: skip


@pytest.mark.parametrize("answer", PER_TOKEN)
def test_a_kl_per_token_is_a_mistake_of_the_rewards(answer):
    name, says = said(checks.check_group_step(answer))
    assert name == "the KL is not summed" and "wrong result: the rewards" in says
    assert "sum the KL over the response's counted tokens" in says


def test_advantages_that_are_no_column_are_so_called_when_the_rewards_are_right():
    def answer(scores, logprobs, old, ref, mask, config):
        total = scores - kl_of(old, ref, mask, config).sum(1)
        credit = rloo_advantages(total, config.responses_per_prompt)
        return total, credit, (logprobs - old).exp() * credit, total.mean()

    assert said(checks.check_group_step(answer))[0] == "advantages not a column"


# --- grpo_advantages: a limit of the std ------------------------------------------------------------


def limited(least):
    def answer(rewards, group_size):
        rows = rewards.reshape(-1, group_size)
        std = torch.maximum(rows.std(1, keepdim=True), torch.tensor(least))
        return ((rows - rows.mean(1, keepdim=True)) / std).flatten()

    return answer


def test_a_lower_limit_of_the_std_is_no_smaller_epsilon():
    name, says = said(checks.check_grpo_advantages(limited(1e-4)))
    assert name == "epsilon as a lower limit" and "add 1e-4 to the std" in says
    whole = step(grpo=lambda g: (g - g.mean(1, True)) / g.std(1, keepdim=True).clamp(min=1e-4))
    assert said(checks.check_group_step(whole))[0] == "grpo: epsilon as a lower limit"


@pytest.mark.parametrize("least", [1e-6, 1e-8, 1e-12])
def test_a_small_epsilon_is_one_wherever_it_stands(least):
    def added(rewards, group_size):
        rows = rewards.reshape(-1, group_size)
        return ((rows - rows.mean(1, True)) / (rows.std(1, keepdim=True) + least)).flatten()

    for answer in (limited(least), added):
        assert said(checks.check_grpo_advantages(answer))[0] == "smaller epsilon"


# --- train_dpo: gradients that are clipped ----------------------------------------------------------


@pytest.mark.parametrize("limit", [0.1, 0.5, 1.0, 5.0, 10.0])
@pytest.mark.parametrize(
    "clip", [torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_], ids=["norm", "value"]
)
def test_clipped_gradients_are_named(clip, limit):
    if clip is torch.nn.utils.clip_grad_value_:
        limit /= 2
    name, says = said(checks.check_train_dpo(descending(lambda weights: clip(weights, limit))))
    assert name == "gradients clipped" and "leave it out" in says


def test_gradients_that_are_left_alone_pass():
    assert checks.check_train_dpo(descending(lambda weights: None)).status == "correct"


# --- implicit_reward: weights in words --------------------------------------------------------------

WEIGHTED = [
    ("ref_logprobs added without β", lambda p, ref, b: ref + b * p),
    ("ref_logprobs added divided by β", lambda p, ref, b: b * p + ref / b),
    ("ref_logprobs subtracted divided by β", lambda p, ref, b: b * p - ref / b),
    ("ref_logprobs subtracted times β squared", lambda p, ref, b: b * (p - b * ref)),
    ("logprobs subtracted without β", lambda p, ref, b: -(p + b * ref)),
    ("logprobs added without β, ref_logprobs added without β", lambda p, ref, b: p + ref),
    ("logprobs added without β, ref_logprobs added times β", lambda p, ref, b: p + b * ref),
]


@pytest.mark.parametrize(("name", "answer"), WEIGHTED, ids=[name for name, _ in WEIGHTED])
def test_a_wrong_weight_is_told_in_words(name, answer):
    found, says = said(checks.check_implicit_reward(answer))
    assert found == name
    assert ("subtract β times it" in says) == ("ref_logprobs" in name) and "strongly" not in says
