"""Exercises of notebook 04, first half: the ratio and the clipped losses."""

import torch

from helpers import ppo
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.whitening import masked_mean


def log_ratio(logprobs, old_logprobs, mask):
    """log π − log π_old, 0 where masked."""
    return torch.where(mask, logprobs - old_logprobs, 0.0)


def padding_divides(x, mask):
    """The right sum over the wrong number."""
    return torch.where(mask, x, 0.0).mean()


def total(x, mask):
    """Never divided."""
    return torch.where(mask, x, 0.0).sum()


def mean_of_rows(x, mask):
    """Rows first: short ones weigh more."""
    return (torch.where(mask, x, 0.0).sum(1) / mask.sum(1)).mean()


def rows(x, mask):
    """Never averaged over rows."""
    return torch.where(mask, x, 0.0).sum(1) / mask.sum(1)


def reductions(build, per_token):
    """The five ways to average wrongly; `build(reduce)` makes the wrong function."""
    return [
        ("mean over padding", "You averaged all {total} positions; only {counted} count.",
         build(lambda x, mask: x.mean())),
        ("padding in the divisor", "You divided by all {total} positions; only {counted} count.",
         build(padding_divides)),
        ("sum instead of mean", "You summed over the tokens; divide by the {counted} that count.",
         build(total)),
        ("mean of the rows' means", "You averaged rows first: a token of a short row weighs more"
         " then. Each of the {counted} tokens should weigh the same.", build(mean_of_rows)),
        ("one mean per sequence", "You have a number for each row; wanted is one for the batch.",
         build(rows)),
        ("not averaged", f"You have {per_token} for each token; wanted is the mean of those that"
         " count.", build(lambda x, mask: torch.where(mask, x, 0.0))),
    ]  # fmt: skip


LOGPROBS = (floats([-1.0, -2.0, -0.4, -5.0]), floats([-1.5, -1.0, -0.5, -2.0]), prefix_mask(4, 3))
BATCH = (-noise(1, 3, 5).abs(), -noise(2, 3, 5).abs(), prefix_mask(5, 2, 5, 4))


def ratio(logprobs, old_logprobs, mask):
    """exp(log π − log π_old), 1 where masked."""
    return log_ratio(logprobs, old_logprobs, mask).exp()


# fmt: off
RATIO = Exercise(
    "ratio", "logprobs old_logprobs mask", ratio,
    "ρ = exp(logprobs − old_logprobs), 1 where masked"
    " (Schulman et al. 2017, eq. 6; notebook 04)",
    [LOGPROBS, BATCH],
    [
        ("difference without exp", "That is the logarithm of the ratio; take its exponential.",
         log_ratio),
        ("ratio reversed", "You have π_old/π; the new policy stands above the line.",
         lambda p, old, mask: ratio(old, p, mask)),
        ("quotient of log-probs", "You divided logarithms; a ratio is exp of their difference.",
         lambda p, old, mask: torch.where(mask, p / old, 1.0)),
        ("product of probabilities", "You added the log-probs; subtract the old ones.",
         lambda p, old, mask: torch.where(mask, (p + old).exp(), 1.0)),
        ("masked positions are 0", "Where the mask is False the ratio is 1: nothing has changed.",
         lambda p, old, mask: torch.where(mask, (p - old).exp(), 0.0)),
        ("mask ignored", "{padded} of {total} positions do not count: there the ratio is 1.",
         lambda p, old, mask: (p - old).exp()),
        ("always 1", "Your ratio is 1 everywhere: are both log-probs the old ones?",
         lambda p, old, mask: torch.ones_like(p)),
        ("1 subtracted", "That is ρ − 1 (expm1); PPO's ratio is around 1.",
         lambda p, old, mask: torch.expm1(log_ratio(p, old, mask))),
        ("one ratio per sequence", "You multiplied the tokens' ratios; PPO has one for each token.",
         lambda p, old, mask: torch.where(
             mask, log_ratio(p, old, mask).sum(1, True).exp(), 1.0)),
        ("clipped already", "The clip belongs to the loss; the ratio is not clipped.",
         lambda p, old, mask: ratio(p, old, mask).clamp(0.8, 1.2)),
    ],
    gradient=("logprobs",),
)


def policy(gain, reduce=masked_mean, sign=-1.0):
    """Policy loss of another gain(ρ, A, ε) per token, or another mean."""

    def wrong(logprobs, old_logprobs, advantages, mask, cliprange):
        rho = (logprobs - old_logprobs).exp()
        return sign * reduce(gain(rho, advantages, cliprange), mask)

    return wrong


def surrogate(rho, a, eps):
    """The right one."""
    return torch.minimum(rho * a, rho.clamp(1 - eps, 1 + eps) * a)


POLICY = Exercise(
    "policy_loss", "logprobs old_logprobs advantages mask cliprange",
    lambda *arguments: ppo.policy_loss(*arguments)[0],
    "−mean min(ρA, clip(ρ, 1 − ε, 1 + ε)·A) over counted tokens"
    " (Schulman et al. 2017, eq. 7; notebook 04)",
    [
        (LOGPROBS[0], LOGPROBS[1], floats([2.0, -1.0, 3.0, 4.0]), LOGPROBS[2], 0.2),
        (BATCH[0], BATCH[1], noise(3, 3, 5), BATCH[2], 0.3),
    ],
    [
        ("max instead of min", "You took the larger gain: then the clip holds nothing back.",
         policy(lambda r, a, e: torch.maximum(r * a, r.clamp(1 - e, 1 + e) * a))),
        ("minus sign missing", "The gain is to grow and a loss is to fall: put a minus in front.",
         policy(surrogate, sign=1.0)),
        ("clip without min", "You only used the clipped ratio; take the smaller of both gains.",
         policy(lambda r, a, e: r.clamp(1 - e, 1 + e) * a)),
        ("no clip",
         "You used ρA alone; ε = {cliprange} plays no part.", policy(lambda r, a, e: r * a)),
        ("advantage clipped", "PPO clips the ratio, not the advantage.",
         policy(lambda r, a, e: torch.minimum(r * a, r * a.clamp(-e, e)))),
        ("product clipped", "You clipped ρA; clip ρ, then multiply by A.",
         policy(lambda r, a, e: torch.minimum(r * a, (r * a).clamp(1 - e, 1 + e)))),
        ("smaller ratio", "You took the smaller ratio, then multiplied; take the smaller product:"
         " for a negative advantage they differ.",
         policy(lambda r, a, e: torch.minimum(r, r.clamp(1 - e, 1 + e)) * a)),
        ("clipped to ±ε", "You clipped ρ to ±{cliprange}; the range is around 1.",
         policy(lambda r, a, e: torch.minimum(r * a, r.clamp(-e, e) * a))),
        ("clipped above only", "The range has two ends: 1 − ε and 1 + ε.",
         policy(lambda r, a, e: torch.minimum(r * a, r.clamp(max=1 + e) * a))),
        ("log-ratio clipped", "You clipped log ρ to ±ε before the exp; clip ρ to 1 ± ε.",
         policy(lambda r, a, e: torch.minimum(r * a, r.log().clamp(-e, e).exp() * a))),
        ("ratio reversed", "You have π_old/π; the new policy stands above the line.",
         policy(lambda r, a, e: surrogate(1 / r, a, e))),
        ("difference without exp", "log π − log π_old is the ratio's logarithm; take exp.",
         policy(lambda r, a, e: surrogate(r.log(), a, e))),
        ("log-probs instead of the ratio", "−A·log π is REINFORCE; PPO has the ratio.",
         lambda p, old, a, mask, e: -masked_mean(p * a, mask)),
        ("absolute advantage", "The advantage keeps its sign: bad tokens become less likely.",
         policy(lambda r, a, e: surrogate(r, a.abs(), e))),
        *reductions(lambda reduce: policy(surrogate, reduce), "a loss"),
    ],
    gradient=("logprobs",),
)


def critic(square, reduce=masked_mean, factor=0.5):
    """Value loss of another square(V, V_old, R, ε) per token, or another mean."""
    return lambda v, old, r, mask, eps: factor * reduce(square(v, old, r, eps), mask)


def near(v, old, eps):
    """V, no farther than ε from V_old."""
    return torch.clamp(v, old - eps, old + eps)


def larger(v, old, r, eps):
    """The right one."""
    return torch.maximum((v - r).square(), (near(v, old, eps) - r).square())


VALUE = Exercise(
    "value_loss", "values old_values returns mask cliprange_value",
    lambda *arguments: ppo.value_loss(*arguments)[0],
    "½·mean max((V − R)², (clip(V, V_old ± ε) − R)²) over counted tokens"
    " (Huang et al. 2024; notebook 04)",
    [
        (floats([1.0, 0.0, 2.0, 5.0]), floats([0.4, 0.7, 2.1, 1.0]), floats([1.6, -2.0, 2.5, -3.0]),
         prefix_mask(4, 3), 0.2),
        (noise(4, 3, 5), noise(5, 3, 5), noise(6, 3, 5), BATCH[2], 0.3),
    ],
    [
        ("min instead of max", "You took the smaller square; with the larger one the critic gains"
         " nothing by leaping.", critic(lambda v, old, r, e: torch.minimum(
             (v - r).square(), (near(v, old, e) - r).square()))),
        ("half missing", "The mean of the squares is halved.", critic(larger, factor=1.0)),
        ("no clip",
         "What remains is (V − R)²: ε = {cliprange_value} plays no part. (A clip around R"
         " in place of V_old does nothing either.)",
         critic(lambda v, old, r, e: (v - r).square())),
        ("clip without max", "You only used the clipped value; take the larger square of both.",
         critic(lambda v, old, r, e: (near(v, old, e) - r).square())),
        ("clipped around the returns", "You clipped the error V − R; clip V around V_old.",
         critic(lambda v, old, r, e: (v - r).clamp(-e, e).square())),
        ("clipped to ±ε", "You clipped V to ±{cliprange_value}; the range is around V_old.",
         critic(lambda v, old, r, e: larger(v, torch.zeros_like(v), r, e))),
        ("clipped like a ratio", "1 ± ε is for the policy's ratio; here the range is V_old ± ε.",
         critic(lambda v, old, r, e: larger(v, torch.ones_like(v), r, e))),
        ("absolute error", "You took |V − R|; the loss squares it.",
         critic(lambda v, old, r, e: larger(v, old, r, e).sqrt())),
        ("values and old values swapped", "You clipped V_old around V; the new value is clipped.",
         critic(lambda v, old, r, e: larger(old, v, r, e))),
        ("old values instead of values", "You measured V_old − R; only V is trained.",
         critic(lambda v, old, r, e: (old - r).square())),
        ("old values as the target", "You measured V − V_old; the target is the return.",
         critic(lambda v, old, r, e: (v - old).square())),
        *reductions(lambda reduce: critic(larger, reduce), "a loss"),
    ],
    gradient=("values",),
)
# fmt: on

check_ratio = checker(RATIO)
check_policy_loss, check_value_loss = checker(POLICY), checker(VALUE)
