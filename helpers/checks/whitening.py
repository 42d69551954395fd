"""Exercises of notebook 03: masked statistics, whitening, explained variance."""

import torch

from helpers import ppo, whitening
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.checks.raised import also_on, explained
from helpers.whitening import masked_mean, masked_var

ONES = prefix_mask(3, 3, 1)
SMALL = (floats([1.0, 2.0, 6.0], [-4.0, 9.0, 5.0]), ONES)
LARGE = (noise(1, 3, 5) + 0.5, prefix_mask(5, 2, 5, 4))
NAN = float("nan")
WITH_NAN = (floats([1.0, NAN, NAN], [2.0, 4.0, 7.0]), prefix_mask(3, 1, 3))
LET_IN = "0 · NaN is NaN, so mask * x lets the padding in where it holds NaN: use torch.where(mask, x, 0.0)"
LONE = (floats([3.0, 7.0]), prefix_mask(2, 1))
WITH_ZERO = (floats([0.0, 0.0, 3.0, 8.0]), prefix_mask(4, 3))


def per_row(statistic):
    """The mean over rows of a statistic of each row's counted tokens."""

    def wrong(*tensors):
        *xs, mask = tensors
        return torch.stack(
            [statistic(*(x[b][mask[b]] for x in xs)) for b in range(len(mask))]
        ).mean()

    return wrong


def zeroed(x, mask):
    """0 where masked."""
    return torch.where(mask, x, 0.0)


# fmt: off
MEAN = Exercise(
    "masked_mean", "x mask", whitening.masked_mean,
    "mean = Σ mask·x / Σ mask, one number for the batch (notebook 03)",
    [SMALL, WITH_ZERO, LARGE],
    [
        ("mean over padding", "You averaged all {total} positions; only {counted} count.",
         lambda x, mask: x.mean()),
        ("padding in the divisor", "You divided by all {total} positions; only {counted} count.",
         lambda x, mask: zeroed(x, mask).mean()),
        ("padding in the sum", "You divided by {counted}, but summed all {total} positions.",
         lambda x, mask: x.sum() / mask.sum()),
        ("sum instead of mean", "You summed and never divided by the {counted} counted positions.",
         lambda x, mask: zeroed(x, mask).sum()),
        ("one mean per sequence", "You return one mean per row; return one for the batch.",
         lambda x, mask: zeroed(x, mask).sum(1) / mask.sum(1)),
        ("mean of the rows' means", "You averaged each row first, so tokens of short rows weigh"
         " more. All {counted} counted tokens should weigh the same.",
         per_row(torch.mean)),
        ("divided by the number of rows", "You divided by the number of rows; divide by {counted}"
         " tokens.",
         lambda x, mask: zeroed(x, mask).sum() / len(x)),
        ("divided by n − 1", "n − 1 belongs to the variance; a mean divides by n = {counted}.",
         lambda x, mask: zeroed(x, mask).sum() / (mask.sum() - 1)),
        ("mask upside down", "You averaged the masked positions; True means that a position counts.",
         lambda x, mask: x[~mask].mean()),
        ("zeros left out", "You treated x = 0 as padding; use the mask to find padding.",
         lambda x, mask: zeroed(x, mask).sum() / (zeroed(x, mask) != 0).sum()),
    ],
    gradient=("x",),
)

VAR = Exercise(
    "masked_var", "x mask", lambda x, mask: whitening.masked_var(x, mask),
    "var = Σ mask·(x − mean)² / (Σ mask − 1), mean over counted positions (notebook 03)",
    [SMALL, LARGE],
    [
        ("masked before subtracting only", "Subtracting the mean makes the padding non-zero: mask after"
         " subtracting, too.",
         lambda x, mask: (zeroed(x, mask) - masked_mean(x, mask)).square().sum() / (mask.sum() - 1)),
        ("biased variance", "You divided by n = {counted}; the unbiased variance divides by n − 1.",
         lambda x, mask: masked_var(x, mask, unbiased=False)),
        ("variance over padding", "You counted all {total} positions; only {counted} count.",
         lambda x, mask: x.var()),
        ("biased variance over padding", "You counted all {total} positions (only {counted} count)"
         " and divided by n instead of n − 1.",
         lambda x, mask: x.var(unbiased=False)),
        ("padding as zeros",
         "You set padding to 0 but counted it: {total} positions instead of {counted}.",
         lambda x, mask: zeroed(x, mask).var()),
        ("padding in the divisor",
         "The squares are right; divide by {counted} − 1, not {total} − 1.",
         lambda x, mask: masked_var(x, mask) * (mask.sum() - 1) / (mask.numel() - 1)),
        ("mean over padding", "The mean that you subtract is over all {total} positions; only"
         " {counted} count.",
         lambda x, mask: (x - x.mean())[mask].square().sum() / (mask.sum() - 1)),
        ("standard deviation", "That is the standard deviation; the variance is its square.",
         lambda x, mask: masked_var(x, mask).sqrt()),
        ("mean not subtracted", "You averaged x² itself; subtract the mean before you square.",
         lambda x, mask: zeroed(x, mask).square().sum() / (mask.sum() - 1)),
        ("sum instead of mean", "You summed the squares; divide by n − 1.",
         lambda x, mask: masked_var(x, mask) * (mask.sum() - 1)),
        ("absolute deviation", "You took |x − mean|; use (x − mean)².",
         lambda x, mask: (x - masked_mean(x, mask))[mask].abs().sum() / (mask.sum() - 1)),
        ("mean of the rows' variances", "You averaged a variance per row; take one over the batch.",
         per_row(lambda x: x.var() if len(x) > 1 else x.sum() * 0)),
    ],
)


def whitened(advantages, mask, mean=None, var=None, root=torch.rsqrt):
    """Whitening with one part replaced."""
    mean = masked_mean(advantages, mask) if mean is None else mean
    var = masked_var(advantages, mask) if var is None else var
    return zeroed((advantages - mean) * root(var + whitening.EPSILON), mask)


def rows_whitened(advantages, mask):
    """Each row by its own statistics: the mean of every response is 0, good or bad."""
    pairs = zip(advantages.split(1), mask.split(1), strict=True)
    return torch.cat([whitening.whiten_advantages(a, m) for a, m in pairs])


WHITEN = Exercise(
    "whiten_advantages", "advantages mask",
    lambda advantages, mask: whitening.whiten_advantages(advantages, mask),
    "(A − mean)/√(var + 1e-8), mean and var over counted tokens, 0 where masked"
    " (notebook 03)",
    [SMALL, (floats([2.0, 2.0, 7.0]), prefix_mask(3, 2)), LARGE],
    [
        ("whitening over padding",
         "Your mean and variance are over all {total} positions; only {counted} count.",
         lambda a, mask: zeroed((a - a.mean()) / a.std(), mask)),
        ("padding as zeros", "You set padding to 0 but counted it in mean and variance.",
         lambda a, mask: whitened(a, mask, zeroed(a, mask).mean(), zeroed(a, mask).var())),
        ("mean over padding", "Your variance is correct, but your mean is over all {total} positions.",
         lambda a, mask: whitened(a, mask, mean=a.mean())),
        ("variance over padding", "Your mean is correct, but your variance is over all {total}"
         " positions.",
         lambda a, mask: whitened(a, mask, var=a.var())),
        ("no square root", "You divided by the variance; divide by its square root.",
         lambda a, mask: whitened(a, mask, root=torch.reciprocal)),
        ("multiplied by the deviation", "You multiplied by √var; divide by it.",
         lambda a, mask: whitened(a, mask, root=torch.sqrt)),
        ("mean kept", "You added the mean back: that is for rewards, not for advantages.",
         lambda a, mask: zeroed(whitening.whiten_advantages(a, mask, False), mask)),
        ("mean not subtracted", "You only divided; subtract the mean first.",
         lambda a, mask: whitened(a, mask, mean=0.0)),
        ("only centred", "You subtracted the mean; divide by √(var + 1e-8) as well.",
         lambda a, mask: zeroed(a - masked_mean(a, mask), mask)),
        ("one whitening per sequence", "You whitened each row by itself; PPO whitens the whole"
         " batch, so that a bad response stays bad.", rows_whitened),
        ("biased variance", "You divided by n = {counted} in the variance; use n − 1.",
         lambda a, mask: whitened(a, mask, var=masked_var(a, mask, unbiased=False))),
        ("no epsilon",
         "If all advantages are equal, you divide 0 by 0. Add 1e-8 to the variance.",
         lambda a, mask: zeroed((a - masked_mean(a, mask)) / masked_var(a, mask).sqrt(), mask)),
    ],
)


def ev_with(spread):
    """Explained variance with another measure of spread."""
    return lambda v, r, mask: 1 - spread(r - v, mask) / spread(r, mask)


def biased(x, mask):
    """Variance with divisor n."""
    return masked_var(x, mask, unbiased=False)


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

NAN_MISTAKE = ("NaN in the padding", f"{LET_IN}, or x[mask].", WITH_NAN)
ONE_TOKEN = "With one counted token n − 1 is 0, and 0/0 is NaN: divide by at least 1 (clamp)."
EV_WITH_NAN = (WITH_NAN[0], floats([2.0, NAN, NAN], [1.0, -3.0, 0.5]), WITH_NAN[1])

check_masked_mean = explained(checker(MEAN), then=also_on(MEAN, NAN_MISTAKE))
check_masked_var = explained(
    checker(VAR), then=also_on(VAR, NAN_MISTAKE, ("one token", ONE_TOKEN, LONE))
)
check_whiten_advantages = explained(
    checker(WHITEN), then=also_on(WHITEN, ("NaN in the padding", f"{LET_IN}.", WITH_NAN))
)
check_explained_variance = explained(checker(EV), then=also_on(EV, (*NAN_MISTAKE[:2], EV_WITH_NAN)))
