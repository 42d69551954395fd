"""Exercises of notebook 03: masked statistics, whitening, explained variance."""

import torch

from helpers import ppo, whitening
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.whitening import masked_mean, masked_var

ONES = prefix_mask(3, 3, 1)
SMALL = (floats([1.0, 2.0, 6.0], [-4.0, 9.0, 5.0]), ONES)
LARGE = (noise(1, 3, 5) + 0.5, prefix_mask(5, 2, 5, 4))
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
    """Padding as zeros that still take part."""
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
        ("one mean per sequence", "You took a mean for each row; wanted is one for the batch.",
         lambda x, mask: zeroed(x, mask).sum(1) / mask.sum(1)),
        ("mean of the rows' means", "You averaged rows first: a token of a short row weighs more"
         " then. Each of the {counted} counted tokens should weigh the same.",
         per_row(torch.mean)),
        ("divided by the number of rows", "You divided by the number of rows, not of tokens.",
         lambda x, mask: zeroed(x, mask).sum() / len(x)),
        ("divided by n − 1", "n − 1 belongs to the variance; a mean divides by n = {counted}.",
         lambda x, mask: zeroed(x, mask).sum() / (mask.sum() - 1)),
        ("mask upside down", "You averaged the {padded} masked positions. True means: counts.",
         lambda x, mask: x[~mask].mean()),
        ("zeros left out", "You took x = 0 for padding; only the mask knows what counts.",
         lambda x, mask: zeroed(x, mask).sum() / (zeroed(x, mask) != 0).sum()),
    ],
    gradient=("x",),
)

VAR = Exercise(
    "masked_var", "x mask", lambda x, mask: whitening.masked_var(x, mask),
    "var = Σ mask·(x − mean)² / (Σ mask − 1), mean over counted positions (notebook 03)",
    [SMALL, LARGE],
    [
        ("biased variance", "You divided by n = {counted}; unbiased is n − 1.",
         lambda x, mask: masked_var(x, mask, unbiased=False)),
        ("variance over padding", "You counted all {total} positions; only {counted} count.",
         lambda x, mask: x.var()),
        ("biased variance over padding", "All {total} positions, and divided by n, not n − 1.",
         lambda x, mask: x.var(unbiased=False)),
        ("padding as zeros",
         "You set padding to 0 and counted it: {total} positions, not {counted}.",
         lambda x, mask: zeroed(x, mask).var()),
        ("padding in the divisor",
         "The squares are right; divide by {counted} − 1, not {total} − 1.",
         lambda x, mask: masked_var(x, mask) * (mask.sum() - 1) / (mask.numel() - 1)),
        ("mean over padding", "The mean that you subtract is over all {total} positions.",
         lambda x, mask: (x - x.mean())[mask].square().sum() / (mask.sum() - 1)),
        ("standard deviation", "That is the standard deviation; the variance has no root.",
         lambda x, mask: masked_var(x, mask).sqrt()),
        ("mean not subtracted", "You averaged x² itself; subtract the mean before you square.",
         lambda x, mask: zeroed(x, mask).square().sum() / (mask.sum() - 1)),
        ("sum instead of mean", "You summed the squares and did not divide by n − 1.",
         lambda x, mask: masked_var(x, mask) * (mask.sum() - 1)),
        ("absolute deviation", "You took |x − mean|; the variance squares it.",
         lambda x, mask: (x - masked_mean(x, mask))[mask].abs().sum() / (mask.sum() - 1)),
        ("mean of the rows' variances", "You took a variance per row; each has its own mean then.",
         per_row(lambda x: x.var() if len(x) > 1 else x.sum() * 0)),
    ],
)


def whitened(advantages, mask, mean=None, var=None, root=torch.rsqrt):
    """Whitening with a part exchanged."""
    mean = masked_mean(advantages, mask) if mean is None else mean
    var = masked_var(advantages, mask) if var is None else var
    return zeroed((advantages - mean) * root(var + whitening.EPSILON), mask)


def rows_whitened(advantages, mask):
    """Each row by its own statistics: every response then averages 0, good or bad."""
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
         "Mean and variance are over all {total} positions; {counted} count.",
         lambda a, mask: zeroed((a - a.mean()) / a.std(), mask)),
        ("padding as zeros", "You set padding to 0 and let it take part in mean and variance.",
         lambda a, mask: whitened(a, mask, zeroed(a, mask).mean(), zeroed(a, mask).var())),
        ("mean over padding", "The variance is right; the mean is over all {total} positions.",
         lambda a, mask: whitened(a, mask, mean=a.mean())),
        ("variance over padding", "The mean is right; the variance is over all {total} positions.",
         lambda a, mask: whitened(a, mask, var=a.var())),
        ("no square root", "You divided by the variance; divide by its root.",
         lambda a, mask: whitened(a, mask, root=torch.reciprocal)),
        ("multiplied by the deviation", "You multiplied by √var; divide by it.",
         lambda a, mask: whitened(a, mask, root=torch.sqrt)),
        ("mean kept", "You added the mean back: that is for rewards, not for advantages.",
         lambda a, mask: zeroed(whitening.whiten_advantages(a, mask, False), mask)),
        ("mean not subtracted", "You only divided; subtract the mean first.",
         lambda a, mask: whitened(a, mask, mean=0.0)),
        ("only centred", "You subtracted the mean; divide by √(var + 1e-8) as well.",
         lambda a, mask: zeroed(a - masked_mean(a, mask), mask)),
        ("one whitening per sequence", "Each row has its own mean and variance; PPO whitens the"
         " whole batch, so that a bad response stays bad.", rows_whitened),
        ("biased variance", "You divided by n = {counted} in the variance; unbiased is n − 1.",
         lambda a, mask: whitened(a, mask, var=masked_var(a, mask, unbiased=False))),
        ("no epsilon",
         "Where all advantages are equal you divide 0 by 0. Add 1e-8 to the variance.",
         lambda a, mask: zeroed((a - masked_mean(a, mask)) / masked_var(a, mask).sqrt(), mask)),
    ],
)


def ev_with(spread):
    """Explained variance with another measure of spread."""
    return lambda v, r, mask: 1 - spread(r - v, mask) / spread(r, mask)


def biased(x, mask):
    """Variance over n."""
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
        ("padding as zeros", "You set padding to 0 and counted it.",
         lambda v, r, mask: 1 - zeroed(r - v, mask).var() / zeroed(r, mask).var()),
        ("1 − forgotten", "That is the unexplained share; subtract it from 1.",
         lambda v, r, mask: biased(r - v, mask) / biased(r, mask)),
        ("fraction upside down", "Var(returns) belongs below the line.",
         lambda v, r, mask: 1 - biased(r, mask) / biased(r - v, mask)),
        ("squared error instead of variance", "You averaged (returns − values)²: that counts a"
         " constant offset too, which the variance does not.",
         lambda v, r, mask: 1 - masked_mean((r - v).square(), mask) / biased(r, mask)),
        ("second moments", "You averaged squares without subtracting the means.",
         ev_with(lambda x, mask: masked_mean(x.square(), mask))),
        ("divided by Var(values)", "Below the line stands Var(returns), not Var(values).",
         lambda v, r, mask: 1 - biased(r - v, mask) / biased(v, mask)),
        ("Var(values)/Var(returns)", "The critic can vary a lot and still be wrong: take the"
         " variance of what is left, returns − values.",
         lambda v, r, mask: biased(v, mask) / biased(r, mask)),
        ("sum instead of difference",
         "You took returns + values; what is left is returns − values.",
         lambda v, r, mask: 1 - biased(r + v, mask) / biased(r, mask)),
        ("standard deviations", "You divided standard deviations; take variances.",
         ev_with(lambda x, mask: biased(x, mask).sqrt())),
        ("mean of the rows' shares",
         "You took one share per row; take both variances over the batch.",
         per_row(lambda v, r: 1 - (r - v).var() / r.var())),
    ],
)
# fmt: on

check_masked_mean, check_masked_var = checker(MEAN), checker(VAR)
check_whiten_advantages, check_explained_variance = checker(WHITEN), checker(EV)
