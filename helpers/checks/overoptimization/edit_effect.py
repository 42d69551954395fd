"""Exercise of notebook 08: the effect of an edit on scores, with its standard error."""

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Exercise, floats, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import far_out
from helpers.reward_model import edit_effect


def effects(mean, error) -> object:
    """A wrong pair made from two functions of (before, after)."""
    return lambda b, a: torch.stack([mean(b, a), error(b, a)])


def right_mean(b: Tensor, a: Tensor) -> Tensor:
    return (a - b).mean()


def effect_of(d: Tensor) -> Tensor:
    """Mean and standard error of some differences."""
    return torch.stack([d.mean(), d.std() / len(d) ** 0.5])


def right_error(b: Tensor, a: Tensor) -> Tensor:
    return (a - b).std() / len(a) ** 0.5


# fmt: off
EFFECT = Exercise(
    "edit_effect", "before after", edit_effect,
    "d = after − before; mean of d, and std(d)/√N (notebook 08)",
    [(floats(0.0, 1.0, 3.0, -1.0).flatten(), floats(1.0, 1.5, 5.0, 0.0).flatten()),
     (noise(12, 9), noise(12, 9) * 1.1 + 0.4), (noise(13, 30), noise(14, 30))],
    [
        ("reversed", "You have before − after: a raised score must come out positive.",
         effects(lambda b, a: (b - a).mean(), right_error)),
        ("std of one", "That is the spread of one difference. The mean of N of them is surer: divide"
         " by √N.", effects(right_mean, lambda b, a: (a - b).std())),
        ("divided by N", "Divide the standard deviation by √N, not by N.",
         effects(right_mean, lambda b, a: (a - b).std() / len(a))),
        ("variance", "That is a variance divided by N. Take the root.",
         effects(right_mean, lambda b, a: (a - b).var() / len(a))),
        ("variance", "You divided the variance by √N: take its root, the standard deviation.",
         effects(right_mean, lambda b, a: (a - b).var() / len(a) ** 0.5)),
        ("multiplied by √N", "You multiplied by √N; the mean of many is surer: divide.",
         effects(right_mean, lambda b, a: (a - b).std() * len(a) ** 0.5)),
        ("not paired", "You added the variances of both sides. Each text is its own control: take the"
         " spread of the differences.",
         effects(right_mean, lambda b, a: ((a.var() + b.var()) / len(a)) ** 0.5)),
        ("not paired", "You pooled both sides. Each text is its own control: take the spread of the"
         " differences.", effects(right_mean, lambda b, a: torch.cat([b, a]).std() / len(a) ** 0.5)),
        ("not paired", "You pooled both sides. Each text is its own control: take the spread of the"
         " differences.", effects(right_mean, lambda b, a: torch.cat([b, a]).std() / (2 * len(a)) ** 0.5)),
        ("not paired", "You averaged the variances of both sides. Each text is its own control: take the"
         " spread of the differences.",
         effects(right_mean, lambda b, a: ((a.var() + b.var()) / 2 / len(a)) ** 0.5)),
        ("spread of after", "You took the spread of `after`. Take that of the differences.",
         effects(right_mean, lambda b, a: a.std() / len(a) ** 0.5)),
        ("spread of before", "You took the spread of `before`. Take that of the differences.",
         effects(right_mean, lambda b, a: b.std() / len(a) ** 0.5)),
        ("biased std", "You divided by N inside the standard deviation; the unbiased one has N − 1.",
         effects(right_mean, lambda b, a: (a - b).std(unbiased=False) / len(a) ** 0.5)),
        ("N − 1 twice", "std has N − 1 in it already: divide it by √N.",
         effects(right_mean, lambda b, a: (a - b).std() / (len(a) - 1) ** 0.5)),
        ("size of the differences", "You took absolute values: falls would count as rises.",
         effects(lambda b, a: (a - b).abs().mean(), right_error)),
        ("size of the differences", "You took absolute values: falls would count as rises.",
         lambda b, a: effect_of((a - b).abs())),
        ("relative change", "You divided by the score before; return the change itself.",
         lambda b, a: effect_of((a - b) / b)),
        ("difference of two spreads", "You subtracted two standard deviations. Take the one of the"
         " differences.", effects(right_mean, lambda b, a: (a.std() - b.std()) / len(a) ** 0.5)),
        ("difference of two spreads", "You subtracted two standard deviations. Take the one of the"
         " differences.", effects(right_mean, lambda b, a: (a.std() - b.std()).abs() / len(a) ** 0.5)),
        ("spread of the sums", "You took the spread of before + after. Take that of the differences.",
         effects(right_mean, lambda b, a: (a + b).std() / len(a) ** 0.5)),
        ("2N", "You counted both sides: there are N differences, so divide by √N.",
         effects(right_mean, lambda b, a: (a - b).std() / (2 * len(a)) ** 0.5)),
        ("an interval", "That is half a 95 % interval, 1.96 standard errors; return one.",
         effects(right_mean, lambda b, a: 1.96 * right_error(b, a))),
        ("spread about zero", "You took the root of the mean square; subtract the mean change first (std).",
         effects(right_mean, lambda b, a: (a - b).square().mean().sqrt() / len(a) ** 0.5)),
        ("spread about zero", "You took squares about zero; subtract the mean change first (std).",
         effects(right_mean, lambda b, a: (
             (a - b).square().sum() / (len(a) - 1)).sqrt() / len(a) ** 0.5)),
        ("mean absolute deviation", "You averaged |d − mean|; take the standard deviation.",
         effects(right_mean, lambda b, a: (a - b - right_mean(b, a)).abs().mean() / len(a) ** 0.5)),
        ("standardised", "You divided the changes by their spread: the result is no longer in points.",
         effects(lambda b, a: right_mean(b, a) / (a - b).std(),
                 lambda b, a: torch.tensor(len(a) ** -0.5))),
        ("a median", "That is a median; take the mean.",
         effects(lambda b, a: (a - b).median(), right_error)),
        ("a sum", "You added the differences up; take their mean.",
         effects(lambda b, a: (a - b).sum(), right_error)),
        ("after alone", "That is the mean of `after`; subtract `before`.",
         effects(lambda b, a: a.mean(), right_error)),
        ("the two exchanged", "First the mean, then its standard error.",
         effects(right_error, right_mean)),
        ("twice the error", "That is two standard errors; return one.",
         effects(right_mean, lambda b, a: 2 * right_error(b, a))),
        ("a t value", "That is mean/error; return the error itself.",
         effects(right_mean, lambda b, a: right_mean(b, a) / right_error(b, a))),
    ],
)
# fmt: on
UNMOVED = (
    "texts that did not move left out",
    "Right where all scores move, wrong where some stay: a change of 0 counts as any other.",
    (floats([1.0, 2.0, 3.0, 0.5])[0], floats([1.0, 2.5, 3.0, 2.0])[0]),
)
ALIKE = (
    "digits lost",
    "Right where changes are small, wrong where all are about 1000: is the variance a mean of squares"
    " minus the"
    " square of the mean? These are large and nearly equal. Subtract the mean first, or take std().",
    (floats([0.0, 0.5, 1.0, 0.25])[0], floats([1000.0, 1000.75, 1000.5, 1000.25])[0]),
)
LARGE = far_out(
    "changes are large", tuple(floats([0.0, 0.5, 1.0, 0.0], [300.0, -260.0, 40.0, 900.0]))
)
PAIR = (
    "two texts",
    "Right for more texts; for two, N − 1 is 1.",
    tuple(floats([0.0, 1.0], [0.5, 3.0])),
)
MANY = (
    "many texts",
    "Right for 30 texts and less, wrong for 200.",
    (noise(15, 200), noise(16, 200)),
)
check_edit_effect = explained(
    checker(EFFECT), then=also_on(EFFECT, UNMOVED, LARGE, ALIKE, PAIR, MANY)
)
