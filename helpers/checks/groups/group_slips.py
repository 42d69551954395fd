"""A step without a critic (notebook 10), line by line, and the same with one line changed."""

from typing import NamedTuple

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Mistake
from helpers.groups import grpo_advantages, rloo_advantages


class Settings(NamedTuple):
    """The fields of an `RLHFConfig` that a group step reads."""

    method: str
    responses_per_prompt: int
    kl_coef: float
    loss_aggregation: str
    cliprange: float
    cliprange_high: float
    response_length: int


# --- the right step, line by line -----------------------------------------------------------------


def kept(x: Tensor, mask: Tensor) -> Tensor:
    """0 where masked."""
    return torch.where(mask, x, 0.0)


def rewards_of(scores, logprobs, old_logprobs, ref_logprobs, mask, config) -> Tensor:
    """Score minus β times the response's KL, which is counted with the log-probs of the rollout: [B]."""
    return scores - config.kl_coef * kept(old_logprobs - ref_logprobs, mask).sum(dim=1)


def credit(rewards: Tensor, config) -> Tensor:
    """RLOO's or GRPO's advantages: [B] → [B]."""
    method = rloo_advantages if config.method == "rloo" else grpo_advantages
    return method(rewards, config.responses_per_prompt)


def advantages_of(*given) -> Tensor:
    """Advantages within each group: [B]."""
    return credit(rewards_of(*given), given[-1])


def smaller_gain(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """min(ρA, clip(ρ)·A)."""
    return torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def gains_of(*given) -> Tensor:
    """The clipped gain of each counted token, 0 in the padding: [B, T]."""
    return gains_with(smaller_gain)(*given)


def loss_of(*given) -> Tensor:
    """Minus the mean gain, as `loss_aggregation` says."""
    return -mean_gain(gains_of(*given), given[-2], given[-1])


def mean_gain(gains: Tensor, mask: Tensor, config, **wrong) -> Tensor:
    """The mean that `loss_aggregation` names; `wrong` replaces one of the three."""
    how, length = config.loss_aggregation, config.response_length
    right = {
        "token": lambda: gains.sum() / mask.sum(),
        "response": lambda: (gains.sum(dim=1) / mask.sum(dim=1)).mean(),
        "fixed": lambda: gains.sum() / (len(gains) * length),
    }
    return wrong[how](gains, mask, length) if how in wrong else right[how]()


# --- the same with one slip -----------------------------------------------------------------------


def paid(kl):
    """Rewards with another penalty kl(old, ref, mask): [B]."""
    return lambda s, p, old, ref, m, c: s - c.kl_coef * kl(old, ref, m)


def per_token(s, p, old, ref, m, c):
    """The KL's price at each token, the score at all of them: [B, T] instead of [B]."""
    return s.unsqueeze(1) - c.kl_coef * kept(old - ref, m)


def masked_per_token(*given):
    """The same, with 0 in the padding."""
    return kept(per_token(*given), given[-2])


def score_at_the_end(s, p, old, ref, m, c):
    """The rewards of each token, as in PPO: the score at the last counted one."""
    prices = -c.kl_coef * kept(old - ref, m)
    return prices + torch.where(m & ~without_last(m), s.unsqueeze(1), 0.0)


def in_groups(method: str, mistake: Mistake) -> Mistake:
    """A mistake in the advantages of one method; those of the other method stay right."""

    def wrong(*given):
        rewards, config = rewards_of(*given), given[-1]
        if config.method != method:
            return credit(rewards, config)
        return mistake.wrong(rewards, config.responses_per_prompt)

    return Mistake(f"{method}: {mistake.name}", f"For '{method}': {mistake.says}", wrong)


def gains_with(gain, advantages=advantages_of):
    """Gains by another gain(ρ, A, low, high), or with other advantages: [B, T]."""

    def step(s, p, old, ref, m, c):
        ratio = kept(p - old, m).exp()
        column = advantages(s, p, old, ref, m, c).unsqueeze(1).expand_as(p)
        return kept(gain(ratio, column, c.cliprange, c.cliprange_high), m)

    return step


def gains_by(log_ratio):
    """Gains by another log-ratio(logprobs, old_logprobs, ref_logprobs, mask): [B, T]."""

    def step(s, p, old, ref, m, c):
        column = advantages_of(s, p, old, ref, m, c).unsqueeze(1)
        ratio = log_ratio(p, old, ref, m).exp()
        return kept(smaller_gain(ratio, column, c.cliprange, c.cliprange_high), m)

    return step


def without_last(mask: Tensor) -> Tensor:
    """The mask without each row's last counted token."""
    return mask & (mask.long().cumsum(1) < mask.long().sum(1, keepdim=True))


def without_easy(s, p, old, ref, m, c):
    """The loss of the responses whose advantage is not 0."""
    hard = advantages_of(s, p, old, ref, m, c) != 0
    gains = gains_of(s, p, old, ref, m, c)[hard]
    return -mean_gain(gains, m[hard], c)


def padding_in_gains(s, p, old, ref, m, c):
    """The ratio is 1 in the padding, so the gain there is A."""
    column = advantages_of(s, p, old, ref, m, c).unsqueeze(1)
    return smaller_gain(kept(p - old, m).exp(), column, c.cliprange, c.cliprange_high)


def times_mask(s, p, old, ref, m, c):
    """Right until padding gives NaN, which 0 does not remove."""
    column = advantages_of(s, p, old, ref, m, c).unsqueeze(1)
    return smaller_gain((p - old).exp(), column, c.cliprange, c.cliprange_high) * m


def along_the_tokens(s, p, old, ref, m, c):
    """The advantages run along the tokens: response b's stands at token b of every response."""
    a, width = advantages_of(s, p, old, ref, m, c), p.shape[1]
    along = torch.cat([a, a.new_zeros(width)])[:width].expand_as(p)
    return kept(smaller_gain(kept(p - old, m).exp(), along, c.cliprange, c.cliprange_high), m)


def averaged(**wrong_means):
    """The loss with one of the three means replaced."""

    def step(*given):
        return -mean_gain(gains_of(*given), given[-2], given[-1], **wrong_means)

    return step
