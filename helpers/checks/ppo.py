"""Exercises of notebook 04: the ratio and PPO's two clipped losses."""

import torch

from helpers import ppo
from helpers.checks.averages import reductions
from helpers.checks.compare import alike, as_tensor
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import TIME_LIMIT, backward, checker
from helpers.checks.raised import explained
from helpers.checks.report import compare, show
from helpers.checks.runner import attempt, copy_of
from helpers.whitening import masked_mean


def log_ratio(logprobs, old_logprobs, mask):
    """log π − log π_old, 0 where masked."""
    return torch.where(mask, logprobs - old_logprobs, 0.0)


LOGPROBS = (floats([-1.0, -2.0, -0.4, -5.0]), floats([-1.5, -1.0, -0.5, -2.0]), prefix_mask(4, 3))
BATCH = (-noise(1, 3, 5).abs(), -noise(2, 3, 5).abs(), prefix_mask(5, 2, 5, 4))
UNLIKELY = (floats([-120.0, -110.0]), floats([-119.5, -111.0]), prefix_mask(2, 2))
INF, NAN = float("inf"), float("nan")
# what the padding may hold: a difference whose exp overflows, −inf − (−inf), NaN
SPOILT = [
    (floats([-1.0, *now]), floats([-1.2, *old]), prefix_mask(3, 1))
    for now, old in (([900.0, -1.0], [-900.0, -1000.0]), ([-INF, NAN], [-INF, -1.0]))
]


def ratio(logprobs, old_logprobs, mask):
    """exp(log π − log π_old), 1 where masked."""
    return log_ratio(logprobs, old_logprobs, mask).exp()


# fmt: off
RATIO = Exercise(
    "ratio", "logprobs old_logprobs mask", ratio,
    "ρ = exp(logprobs − old_logprobs), 1 where masked"
    " (Schulman et al. 2017, eq. 6; notebook 04)",
    [LOGPROBS, BATCH, UNLIKELY],
    [
        ("difference without exp", "That is the logarithm of the ratio; take exp of it.",
         log_ratio),
        ("ratio reversed", "You have π_old/π; the ratio is π/π_old.",
         lambda p, old, mask: ratio(old, p, mask)),
        ("quotient of log-probs", "You divided log-probs; the ratio is exp of their difference.",
         lambda p, old, mask: torch.where(mask, p / old, 1.0)),
        ("quotient of probabilities", "exp(−120) rounds to 0, and 0/0 is NaN: subtract the log-probs"
         " first, then take one exp.", lambda p, old, mask: torch.where(mask, p.exp() / old.exp(), 1.0)),
        ("mask upside down", "You have 1 where the mask is True; it is to be 1 where it is False.",
         lambda p, old, mask: ratio(p, old, ~mask)),
        ("product of probabilities", "You added the log-probs; subtract the old ones.",
         lambda p, old, mask: torch.where(mask, (p + old).exp(), 1.0)),
        ("masked positions are 0", "Where the mask is False, the ratio should be 1, not 0.",
         lambda p, old, mask: torch.where(mask, (p - old).exp(), 0.0)),
        ("mask ignored", "Where the mask is False, the ratio should be 1.",
         lambda p, old, mask: (p - old).exp()),
        ("always 1", "Your ratio is 1 everywhere: are both log-probs the old ones?",
         lambda p, old, mask: torch.ones_like(p)),
        ("1 subtracted", "That is ρ − 1 (expm1); do not subtract 1.",
         lambda p, old, mask: torch.expm1(log_ratio(p, old, mask))),
        ("one ratio per sequence", "You multiplied the tokens' ratios; PPO has one ratio per token.",
         lambda p, old, mask: torch.where(
             mask, log_ratio(p, old, mask).sum(1, True).exp(), 1.0)),
        ("clipped already", "You clipped the ratio; that is done later, in the loss.",
         lambda p, old, mask: ratio(p, old, mask).clamp(0.8, 1.2)),
    ],
    gradient=("logprobs",),
)


def policy(gain, reduce=masked_mean, sign=-1.0):
    """Policy loss with another gain(ρ, A, ε) per token, or another mean."""

    def wrong(logprobs, old_logprobs, advantages, mask, cliprange):
        rho = (logprobs - old_logprobs).exp()
        return sign * reduce(gain(rho, advantages, cliprange), mask)

    return wrong


def surrogate(rho, a, eps):
    """The correct gain."""
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
        ("max instead of min", "You took the larger gain; take the smaller one, or the clip has no"
         " effect.",
         policy(lambda r, a, e: torch.maximum(r * a, r.clamp(1 - e, 1 + e) * a))),
        ("minus sign missing", "The loss is minus the gain: the optimizer minimises it.",
         policy(surrogate, sign=1.0)),
        ("clip without min", "You used only the clipped ratio; take the smaller of the two gains.",
         policy(lambda r, a, e: r.clamp(1 - e, 1 + e) * a)),
        ("no clip",
         "You used ρA without the clip; ε = {cliprange} has no effect.",
         policy(lambda r, a, e: r * a)),
        ("advantage clipped", "PPO clips the ratio, not the advantage.",
         policy(lambda r, a, e: torch.minimum(r * a, r * a.clamp(-e, e)))),
        ("product clipped", "You clipped ρA; clip ρ, then multiply by A.",
         policy(lambda r, a, e: torch.minimum(r * a, (r * a).clamp(1 - e, 1 + e)))),
        ("smaller ratio", "You took the smaller ratio, then multiplied; take the smaller product."
         " They differ for a negative advantage.",
         policy(lambda r, a, e: torch.minimum(r, r.clamp(1 - e, 1 + e)) * a)),
        ("clipped to ±ε", "You clipped ρ to ±{cliprange}; clip it to 1 ± {cliprange}.",
         policy(lambda r, a, e: torch.minimum(r * a, r.clamp(-e, e) * a))),
        ("clipped above only", "You clipped only at 1 + ε; clip at 1 − ε too.",
         policy(lambda r, a, e: torch.minimum(r * a, r.clamp(max=1 + e) * a))),
        ("log-ratio clipped", "You clipped log ρ to ±ε before the exp; clip ρ to 1 ± ε.",
         policy(lambda r, a, e: torch.minimum(r * a, r.log().clamp(-e, e).exp() * a))),
        ("ratio reversed", "You have π_old/π; the ratio is π/π_old.",
         policy(lambda r, a, e: surrogate(1 / r, a, e))),
        ("difference without exp", "log π − log π_old is the ratio's logarithm; take exp.",
         policy(lambda r, a, e: surrogate(r.log(), a, e))),
        ("log-probs instead of the ratio", "−A·log π is REINFORCE; PPO uses the ratio.",
         lambda p, old, a, mask, e: -masked_mean(p * a, mask)),
        ("ratio always 1", "Your ratio is 1 everywhere: compare with the rollout's old log-probs, not"
         " with the new ones.", policy(lambda r, a, e: a)),
        ("ε written in", "You wrote 0.2 for ε; use the argument, here {cliprange}.",
         policy(lambda r, a, e: surrogate(r, a, 0.2))),
        ("absolute advantage", "Keep the sign of the advantage: bad tokens must become less likely.",
         policy(lambda r, a, e: surrogate(r, a.abs(), e))),
        *reductions(lambda reduce: policy(surrogate, reduce), "a loss"),
    ],
    gradient=("logprobs",),
)


def critic(square, reduce=masked_mean, factor=0.5):
    """Value loss with another square(V, V_old, R, ε) per token, or another mean."""
    return lambda v, old, r, mask, eps: factor * reduce(square(v, old, r, eps), mask)


def near(v, old, eps):
    """V, clipped to V_old ± ε."""
    return torch.clamp(v, old - eps, old + eps)


def larger(v, old, r, eps):
    """The correct square."""
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
        ("min instead of max", "You took the smaller square; take the larger one, so that a large"
         " step of V brings no gain.", critic(lambda v, old, r, e: torch.minimum(
             (v - r).square(), (near(v, old, e) - r).square()))),
        ("half missing", "Multiply the mean of the squares by ½.", critic(larger, factor=1.0)),
        ("no clip",
         "Your result is (V − R)²: ε = {cliprange_value} has no effect. (A clip around R instead"
         " of V_old has no effect either.)",
         critic(lambda v, old, r, e: (v - r).square())),
        ("clip without max", "You used only the clipped value; take the larger of the two squares.",
         critic(lambda v, old, r, e: (near(v, old, e) - r).square())),
        ("clipped around the returns", "You clipped the error V − R; clip V around V_old.",
         critic(lambda v, old, r, e: (v - r).clamp(-e, e).square())),
        ("clipped to ±ε", "You clipped V to ±{cliprange_value}; clip it to V_old ± ε.",
         critic(lambda v, old, r, e: larger(v, torch.zeros_like(v), r, e))),
        ("clipped like a ratio", "1 ± ε is for the policy's ratio; here the range is V_old ± ε.",
         critic(lambda v, old, r, e: larger(v, torch.ones_like(v), r, e))),
        ("clipped in proportion to the old value", "You clipped V to V_old·(1 ± ε); the range is"
         " V_old ± ε.", critic(lambda v, old, r, e: torch.maximum((v - r).square(), (torch.clamp(
             v, torch.minimum(old * (1 - e), old * (1 + e)), torch.maximum(old * (1 - e), old * (1 + e)))
             - r).square()))),
        ("larger of two means", "You took the larger of two means; take the larger square of each token,"
         " then the mean.", lambda v, old, r, mask, e: 0.5 * torch.maximum(
             masked_mean((v - r).square(), mask), masked_mean((near(v, old, e) - r).square(), mask))),
        ("larger value", "You took the larger value, V or the clipped one; take the larger square.",
         critic(lambda v, old, r, e: (torch.maximum(v, near(v, old, e)) - r).square())),
        ("squares added", "You added the two squares; take the larger one.",
         critic(lambda v, old, r, e: (v - r).square() + (near(v, old, e) - r).square())),
        ("ε written in", "You wrote 0.2 for ε; use the argument, here {cliprange_value}.",
         critic(lambda v, old, r, e: larger(v, old, r, 0.2))),
        ("absolute error", "You took |V − R|; the loss squares it.",
         critic(lambda v, old, r, e: larger(v, old, r, e).sqrt())),
        ("values and old values swapped", "You clipped V_old around V; clip V around V_old.",
         critic(lambda v, old, r, e: larger(old, v, r, e))),
        ("old values instead of values", "You used V_old − R; use V − R, because V is trained.",
         critic(lambda v, old, r, e: (old - r).square())),
        ("old values as the target", "You used V − V_old; the target is the return R.",
         critic(lambda v, old, r, e: (v - old).square())),
        *reductions(lambda reduce: critic(larger, reduce), "a loss"),
    ],
    gradient=("values",),
)
# fmt: on


LET_IN = (
    "With NaN or −inf in the padding your result is wrong: 0 · NaN is NaN, so a product with the mask"
    " lets it in. Use torch.where(mask, x, 0.0), or x[mask]."
)
TOO_LATE = (
    "The numbers are correct, but with garbage in the padding the gradient of logprobs is NaN:"
    " replace what is masked (torch.where) before exp, not only after it."
)


def padding_kept_out(exercise, *cases):
    """A second look (`then`): neither result nor gradient of `logprobs` may depend on the padding."""

    def then(function):
        for given in cases:
            shown = [(label, show(x)) for label, x in exercise.named(given).items()]
            expected = exercise.reference(*copy_of(given))
            outcome = attempt(function, given, TIME_LIMIT)
            answer = as_tensor(outcome.value, expected)
            if answer is None or not alike(answer, expected):
                return "NaN in the padding", LET_IN, (*shown, *compare(answer, expected))
            slopes = attempt(backward(function, [0]), given, TIME_LIMIT).value
            wanted = backward(exercise.reference, [0])(*copy_of(given))
            if not slopes or slopes[0] is None or not alike(slopes[0], wanted[0]):
                got = slopes[0] if slopes else None
                return "NaN gradient", TOO_LATE, (*shown, *compare(got, wanted[0]))
        return None

    return then


SPOILT_POLICY = [
    (logprobs, old, floats([1.0, *padding]), mask, 0.2)
    for (logprobs, old, mask), padding in zip(SPOILT, ([3.0, -3.0], [NAN, INF]), strict=True)
]

check_ratio = explained(checker(RATIO), then=padding_kept_out(RATIO, *SPOILT))
check_policy_loss = explained(checker(POLICY), then=padding_kept_out(POLICY, *SPOILT_POLICY))
check_value_loss = checker(VALUE)
