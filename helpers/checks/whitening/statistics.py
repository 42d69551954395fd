"""Exercises of notebook 03: masked statistics, whitening."""

import torch

from helpers import whitening
from helpers.checks.gae.shaping import zeroed
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.whitening.variances import DIVISORS, MEANS, per_row, variance, variances
from helpers.whitening import masked_mean, masked_var

ONES = prefix_mask(3, 3, 1)
SMALL = (floats([1.0, 2.0, 6.0], [-4.0, 9.0, 5.0]), ONES)
LARGE = (noise(1, 3, 5) + 0.5, prefix_mask(5, 2, 5, 4))
WITH_ZERO = (floats([0.0, 0.0, 3.0, 8.0]), prefix_mask(4, 3))


MEAN_NAMES = {name for name, *_ in MEANS}


def whitening_grid():
    """Whitening by a wrong mean, by a wrong variance, or by both."""

    def one(mean, var):
        return lambda a, mask: whitened(a, mask, mean(a, mask), var(a, mask))

    wrong = [entry for entry in MEANS if entry[0]]
    both = [
        (name, f"{says} The same in your variance.", one(mean, variance(mean, divisor)))
        for name, says, mean in wrong
        for _, _, divisor in DIVISORS[:4]
    ]
    listed = (
        "mean over padding",
        "mean not subtracted",
        "biased variance",
    )  # with words of their own
    means = [
        (name, says, one(mean, masked_var)) for name, says, mean in wrong if name not in listed
    ]
    own = [(f"{name} in the variance" if name in MEAN_NAMES else name, f"In the variance: {says}",
            one(masked_mean, var)) for name, says, var in variances()
           if name not in listed or name in MEAN_NAMES]  # fmt: skip
    return [*both, *means, *own]


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
        *[(name, says, lambda x, mask, pick=pick: pick(x[mask])) for name, says, pick in (
            ("median", "That is the median; take the mean.", torch.median),
            ("middle of the extremes", "That is the middle between smallest and largest; take the mean.",
             lambda x: (x.max() + x.min()) / 2),
            ("largest", "That is the largest counted number; take the mean.", torch.max),
            ("smallest", "That is the smallest counted number; take the mean.", torch.min),
            ("root of the mean square", "You squared first; take the mean of x itself.",
             lambda x: x.square().mean().sqrt()),
            ("mean of squares", "You squared first; take the mean of x itself.",
             lambda x: x.square().mean()),
            ("standard deviation", "That is the standard deviation; take the mean.", torch.std),
            ("divided by n + 1", "You divided by one more than there are: {counted} count.",
             lambda x: x.sum() / (len(x) + 1)),
            ("low precision", "You summed in bfloat16, with 3 digits; keep float32.",
             lambda x: (x.bfloat16().sum() / len(x)).float()),
            ("low precision", "You summed in float16, with 3 digits; keep float32.",
             lambda x: x.half().mean().float()),
        )],
        ("mean of the columns' means", "You averaged each column first, so tokens of a column that few rows"
         " have weigh more. All {counted} counted tokens should weigh the same.",
         lambda x, mask: per_row(torch.mean)(*(y.T[mask.any(0)] for y in (x, mask)))),
        ("mean of the columns' means", "You averaged each column first, so tokens of a column that few rows"
         " have weigh more. All {counted} counted tokens should weigh the same.",
         lambda x, mask: (zeroed(x, mask).sum(0) / mask.sum(0).clamp(min=1)).mean()),
        ("sum of the rows' means", "You averaged each row and added the means; take one mean over the batch.",
         lambda x, mask: (zeroed(x, mask).sum(1) / mask.sum(1)).sum()),
        ("divided by the number of columns", "You divided by the number of columns; divide by {counted}"
         " tokens.", lambda x, mask: zeroed(x, mask).sum() / x.shape[1]),
        ("divided by the padding", "You divided by the number of masked positions; divide by {counted}.",
         lambda x, mask: zeroed(x, mask).sum() / (~mask).sum()),
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
        ("variance over padding", "You counted all {total} positions; only {counted} count.",
         lambda x, mask: x.var()),
        ("biased variance over padding", "You counted all {total} positions (only {counted} count)"
         " and divided by n instead of n − 1.",
         lambda x, mask: x.var(unbiased=False)),
        ("padding as zeros",
         "You set padding to 0 but counted it: {total} positions instead of {counted}.",
         lambda x, mask: zeroed(x, mask).var()),
        ("standard deviation", "That is the standard deviation; the variance is its square.",
         lambda x, mask: masked_var(x, mask).sqrt()),
        ("absolute deviation", "You took |x − mean|; use (x − mean)².",
         lambda x, mask: (x - masked_mean(x, mask))[mask].abs().sum() / (mask.sum() - 1)),
        *variances(),
        ("square of the sum", "You summed first and squared then: Σ (x − mean)² squares each distance.",
         lambda x, mask: zeroed(x, mask).sum().square() / (mask.sum() - 1)),
        ("square of the sum", "You summed first and squared then: Σ (x − mean)² squares each distance, and"
         " the sum of distances is 0.",
         lambda x, mask: zeroed(x - masked_mean(x, mask), mask).sum().square() / (mask.sum() - 1)),
        ("square of the sum", "You summed the sizes |x − mean| first and squared then; square each distance.",
         lambda x, mask: (x - masked_mean(x, mask))[mask].abs().sum().square() / (mask.sum() - 1)),
        ("mean of squares minus mean", "You subtracted the mean from the mean of squares; subtract mean².",
         lambda x, mask: masked_mean(x.square(), mask) - masked_mean(x, mask)),
        ("square of the mean", "That is the square of the mean.",
         lambda x, mask: masked_mean(x, mask).square()),
        ("mean absolute deviation", "You averaged |x − mean|; use (x − mean)².",
         lambda x, mask: (x - masked_mean(x, mask))[mask].abs().mean()),
        ("standard deviation", "That is a standard deviation (with n); the variance is its square.",
         lambda x, mask: masked_var(x, mask, unbiased=False).sqrt()),
        ("fourth powers", "You squared twice.",
         lambda x, mask: (x - masked_mean(x, mask))[mask].pow(4).sum() / (mask.sum() - 1)),
        ("mean over padding squared", "You subtracted the square of the mean over all"
         " {total} positions; use (x − mean)² of what counts.",
         lambda x, mask: masked_mean(x.square(), mask) - x.mean().square()),
        ("range", "That is the distance of the extremes.",
         lambda x, mask: x[mask].max() - x[mask].min()),
        ("mean of the columns' variances", "You took a variance per column; take one over the batch.",
         lambda x, mask: per_row(lambda y: y.var() if len(y) > 1 else y.sum() * 0)(
             *(y.T[mask.any(0)] for y in (x, mask)))),
        ("variance of the rows' means", "You took the variance of the rows' means; take it over all tokens.",
         lambda x, mask: (zeroed(x, mask).sum(1) / mask.sum(1)).var()),
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


def columns_whitened(advantages, mask):
    """Each column by its own statistics; one of a single token becomes 0."""
    columns = torch.zeros_like(advantages)
    for t in range(mask.shape[1]):
        x = advantages[mask[:, t], t]
        if len(x) > 1:
            columns[mask[:, t], t] = (x - x.mean()) / (x.var() + whitening.EPSILON).sqrt()
    return columns


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
        ("mean not subtracted", "You only divided; subtract the mean first.",
         lambda a, mask: zeroed(a / (masked_var(a, mask).sqrt() + 1e-8), mask)),
        *whitening_grid(),
        ("divided before the mean is subtracted", "You divided by √var first and subtracted the mean then:"
         " subtract, then divide.",
         lambda a, mask: zeroed(
             a / (masked_var(a, mask) + 1e-8).sqrt() - masked_mean(a, mask), mask)),
        ("scaled by the extremes", "You scaled to 0 … 1 by smallest and largest; use mean and √var.",
         lambda a, mask: zeroed((a - a[mask].min()) / (a[mask].max() - a[mask].min() + 1e-8), mask)),
        ("scaled by the extremes", "You divided by the largest size; use √var.",
         lambda a, mask: zeroed((a - masked_mean(a, mask)) / a[mask].abs().max(), mask)),
        ("scaled by the extremes", "You divided by the distance of the extremes; use √var.",
         lambda a, mask: zeroed((a - masked_mean(a, mask)) / (a[mask].max() - a[mask].min()), mask)),
        ("mean absolute deviation", "You divided by the mean of |A − mean|; divide by √var.",
         lambda a, mask: whitened(
             a, mask, var=(a - masked_mean(a, mask))[mask].abs().mean().square())),
        ("the first row's statistics", "Your mean and deviation are the first row's; take the batch's.",
         lambda a, mask: whitened(a, mask, masked_mean(a[:1], mask[:1]), masked_var(a[:1], mask[:1]))),
        ("divided twice", "You divided by √var twice.",
         lambda a, mask: whitened(a, mask) / masked_var(a, mask).sqrt()),
        ("deviation added up", "You divided by 1 + √var; divide by √(var + 1e-8).",
         lambda a, mask: zeroed((a - masked_mean(a, mask)) / (1 + masked_var(a, mask).sqrt()), mask)),
        ("mean added", "You added the mean; subtract it.",
         lambda a, mask: whitened(a, mask, mean=-masked_mean(a, mask))),
        ("variance subtracted", "You subtracted the deviation and divided by it; subtract the mean.",
         lambda a, mask: whitened(a, mask, mean=masked_var(a, mask).sqrt())),
        ("clipped", "You cut the result off at ±1; whitening cuts nothing off.",
         lambda a, mask: whitened(a, mask).clamp(-1, 1)),
        *[("a large epsilon", f"You added {size:g}; 1e-8 only keeps 0/0 away.",
           lambda a, mask, size=size: whitened(a, mask, var=masked_var(a, mask) + size))
          for size in (1.0, 0.1, 1e-2, 1e-3)],
        *[("a large epsilon", f"You added {size:g}; 1e-8 only keeps 0/0 away.",
           lambda a, mask, size=size: zeroed(
               (a - masked_mean(a, mask)) / (masked_var(a, mask).sqrt() + size), mask))
          for size in (0.1, 1e-2, 1e-3)],
        ("one whitening per column", "You whitened each column by itself: token t of a response against token"
         " t of the others. Take one mean and one variance over the batch.", columns_whitened),
        ("one whitening per sequence", "You whitened each row by itself; PPO whitens the whole"
         " batch, so that a bad response stays bad.", rows_whitened),
        ("biased variance", "You divided by n = {counted} in the variance; use n − 1.",
         lambda a, mask: whitened(a, mask, var=masked_var(a, mask, unbiased=False))),
        ("no epsilon",
         "If all advantages are equal, you divide 0 by 0. Add 1e-8 to the variance.",
         lambda a, mask: zeroed((a - masked_mean(a, mask)) / masked_var(a, mask).sqrt(), mask)),
    ],
)


# fmt: on
