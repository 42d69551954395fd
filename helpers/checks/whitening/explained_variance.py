"""Exercise of notebook 03: the share of the returns' variance that the critic explains."""

import torch

from helpers import ppo
from helpers.checks.gae.shaping import zeroed
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import sizes
from helpers.checks.whitening.statistics_looks import FAR_OFF, NAN, NAN_MISTAKE, NARROW, WITH_NAN
from helpers.checks.whitening.variances import per_row
from helpers.whitening import masked_mean, masked_var


def ev_with(spread):
    """Explained variance with another measure of spread."""
    return lambda v, r, mask: 1 - spread(r - v, mask) / spread(r, mask)


def biased(x, mask):
    """Variance with divisor n."""
    return masked_var(x, mask, unbiased=False)


# fmt: off
EV = Exercise(
    "explained_variance", "values returns mask", ppo.explained_variance,
    "1 − Var(returns − values)/Var(returns) over counted tokens (notebook 03)",
    [
        (floats([1.0, 2.0, 6.0], [2.0, 9.0, 5.0]), floats([2.0, 2.5, 4.0], [1.0, -3.0, 0.0]),
         prefix_mask(3, 3, 2)),
        (noise(2, 3, 5), noise(3, 3, 5) + 1.0, prefix_mask(5, 2, 5, 4)),
    ],
    [
        ("explained over padding", "You counted all {total} positions; only {counted} count.",
         lambda v, r, mask: 1 - (r - v).var() / r.var()),
        ("padding as zeros", "You set padding to 0 but counted it.",
         lambda v, r, mask: 1 - zeroed(r - v, mask).var() / zeroed(r, mask).var()),
        ("1 − forgotten", "That is the unexplained share; subtract it from 1.",
         lambda v, r, mask: biased(r - v, mask) / biased(r, mask)),
        ("fraction upside down", "The fraction is reversed: divide by Var(returns).",
         lambda v, r, mask: 1 - biased(r, mask) / biased(r - v, mask)),
        ("squared error instead of variance", "You averaged (returns − values)²; use its variance,"
         " which ignores a constant offset.",
         lambda v, r, mask: 1 - masked_mean((r - v).square(), mask) / biased(r, mask)),
        ("squared error over the unbiased variance", "You averaged (returns − values)²; use its variance,"
         " which ignores a constant offset.",
         lambda v, r, mask: 1 - masked_mean((r - v).square(), mask) / masked_var(r, mask)),
        ("second moments", "You averaged squares without subtracting the means.",
         ev_with(lambda x, mask: masked_mean(x.square(), mask))),
        ("divided by Var(values)", "Divide by Var(returns), not by Var(values).",
         lambda v, r, mask: 1 - biased(r - v, mask) / biased(v, mask)),
        ("Var(values)/Var(returns)", "Values can vary a lot and still be wrong: use the variance of"
         " the error, returns − values.",
         lambda v, r, mask: biased(v, mask) / biased(r, mask)),
        ("error over padding", "The variance of the error counts the padding; only {counted} positions"
         " count.", lambda v, r, mask: 1 - (r - v).var() / masked_var(r, mask)),
        ("error over padding", "The variance of the error counts the padding; only {counted} positions"
         " count.", lambda v, r, mask: 1 - (r - v).var(unbiased=False) / biased(r, mask)),
        ("returns over padding", "The variance of the returns counts the padding; only {counted} positions"
         " count.", lambda v, r, mask: 1 - masked_var(r - v, mask) / r.var()),
        ("returns over padding", "The variance of the returns counts the padding; only {counted} positions"
         " count.", lambda v, r, mask: 1 - biased(r - v, mask) / r.var(unbiased=False)),
        ("1 added", "You added the unexplained share to 1; subtract it.",
         lambda v, r, mask: 1 + biased(r - v, mask) / biased(r, mask)),
        ("1 subtracted", "That is the unexplained share minus 1; take 1 minus it.",
         lambda v, r, mask: biased(r - v, mask) / biased(r, mask) - 1),
        ("correlation", "That is the correlation, which forgives a wrong scale; explained variance does not.",
         lambda v, r, mask: torch.corrcoef(torch.stack([v[mask], r[mask]]))[0, 1]),
        ("squared correlation", "That is the squared correlation, which forgives a wrong scale and sign;"
         " explained variance does not.",
         lambda v, r, mask: torch.corrcoef(torch.stack([v[mask], r[mask]]))[0, 1].square()),
        ("covariance over Var(returns)", "You divided a covariance; use the variance of the error.",
         lambda v, r, mask: torch.cov(torch.stack([v[mask], r[mask]]))[0, 1] / masked_var(r, mask)),
        ("two divisors", "One of your variances divides by n, the other by n − 1: use the same for both.",
         lambda v, r, mask: 1 - biased(r - v, mask) / masked_var(r, mask)),
        ("two divisors", "One of your variances divides by n, the other by n − 1: use the same for both.",
         lambda v, r, mask: 1 - masked_var(r - v, mask) / biased(r, mask)),
        ("absolute errors", "You used mean absolute distances; use variances.",
         lambda v, r, mask: 1 - (r - v)[mask].abs().mean()
         / (r - masked_mean(r, mask))[mask].abs().mean()),
        ("absolute errors", "You used mean absolute sizes; use variances.",
         ev_with(lambda x, mask: x[mask].abs().mean())),
        ("absolute errors", "You used mean absolute distances; use variances.",
         ev_with(lambda x, mask: (x - masked_mean(x, mask))[mask].abs().mean())),
        ("the error's variance alone", "That is Var(returns − values); divide it by Var(returns).",
         lambda v, r, mask: biased(r - v, mask)),
        ("the error's variance alone", "You subtracted Var(returns − values) itself from 1; divide it by"
         " Var(returns).", lambda v, r, mask: 1 - biased(r - v, mask)),
        ("a difference of variances", "You subtracted the variances; divide them.",
         lambda v, r, mask: biased(r, mask) - biased(r - v, mask)),
        ("divided by both variances", "You divided by Var(returns) + Var(values); divide by Var(returns).",
         lambda v, r, mask: 1 - biased(r - v, mask) / (biased(r, mask) + biased(v, mask))),
        ("sum instead of difference",
         "You used returns + values; the error is returns − values.",
         lambda v, r, mask: 1 - biased(r + v, mask) / biased(r, mask)),
        ("standard deviations", "You divided standard deviations; use variances.",
         ev_with(lambda x, mask: biased(x, mask).sqrt())),
        ("mean of the rows' shares",
         "You averaged one share per row; take both variances over the batch.",
         per_row(lambda v, r: 1 - (r - v).var() / r.var())),
    ],
)
# fmt: on

EV_WITH_NAN = (WITH_NAN[0], floats([2.0, NAN, NAN], [1.0, -3.0, 0.5]), WITH_NAN[1])
EV_FAR_OFF = (
    *FAR_OFF[:2],
    (
        floats([9000.25, 9000.25, 9001.5, 9003.0]),
        floats([9000.0, 9000.5, 9002.0, 9002.5]),
        prefix_mask(4, 4),
    ),
)
BAD_CRITIC = (
    "wrong for a bad critic",
    "Right for a fair critic; where the error varies far more than the returns do, the number is far below 0,"
    " and stays so: is it clamped?",
    (floats([9.0, -11.0], [4.0, 0.0]), floats([1.0, 2.0], [3.0, 0.0]), prefix_mask(2, 2, 1)),
)
EV_NARROW = (
    NARROW[0],
    "Right where numbers differ by much; where returns and errors have a deviation of 0.04 it is not. Is a"
    " number added, or something bounded below?",
    (floats([0.51, 0.52, 0.5, 0.5]), floats([0.5, 0.56, 0.47, 0.54]), prefix_mask(4, 4)),
)
check_explained_variance = explained(
    checker(EV),
    then=also_on(
        EV,
        (*NAN_MISTAKE[:2], EV_WITH_NAN),
        EV_FAR_OFF,
        BAD_CRITIC,
        EV_NARROW,
        *sizes(tuple(x.roll(-1, 0) for x in EV.probes[1]), token=False),  # first a row of five
    ),
)
