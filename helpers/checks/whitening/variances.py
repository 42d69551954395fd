"""Wrong ways to take a variance over counted tokens: each wrong mean with each wrong divisor."""

import torch

from helpers.checks.gae.shaping import zeroed
from helpers.whitening import masked_mean


def per_row(statistic):
    """The mean over rows of a statistic of each row's counted tokens."""

    def wrong(*tensors):
        *xs, mask = tensors
        return torch.stack(
            [statistic(*(x[b][mask[b]] for x in xs)) for b in range(len(mask))]
        ).mean()

    return wrong


def n_of(mask):
    """How many count."""
    return mask.sum()


MEANS = (  # ways to take the mean that a variance subtracts: name, what to say, formula
    ("", "", lambda x, mask: masked_mean(x, mask)),
    ("mean over padding", "The mean that you subtract is over all {total} positions; only {counted} count.",
     lambda x, mask: x.mean()),
    ("padding in the mean's divisor", "The mean that you subtract is divided by all {total} positions; only"
     " {counted} count.", lambda x, mask: zeroed(x, mask).mean()),
    ("median instead of mean", "You subtracted the median; subtract the mean.",
     lambda x, mask: x[mask].median()),
    ("each row's own mean", "You subtracted each row's own mean; subtract that of the batch.",
     lambda x, mask: (zeroed(x, mask).sum(1) / mask.sum(1))[:, None]),
    ("each column's own mean", "You subtracted each column's own mean; subtract that of the batch.",
     lambda x, mask: zeroed(x, mask).sum(0) / mask.sum(0).clamp(min=1)),
    ("mean of the rows' means", "The mean that you subtract is that of the rows' means; take one over all"
     " {counted} counted tokens.", per_row(torch.mean)),
    ("the first row's mean", "You subtracted the first row's mean; subtract that of the batch.",
     lambda x, mask: x[0][mask[0]].mean()),
    ("sum for the mean", "You subtracted the sum; subtract the mean.",
     lambda x, mask: x[mask].sum()),
    ("mean not subtracted", "You never subtracted the mean.", lambda x, mask: 0.0),
)  # fmt: skip
DIVISORS = (  # of the sum of squares
    ("", "", lambda mask: n_of(mask) - 1),
    ("biased variance", "You divided by n = {counted}; the unbiased variance divides by n − 1.", n_of),
    ("padding in the divisor", "You divided the squares by all {total} positions; divide by {counted} − 1.",
     lambda mask: mask.numel()),
    ("padding in the divisor", "You divided the squares by {total} − 1; divide by {counted} − 1.",
     lambda mask: mask.numel() - 1),
    ("n + 1", "You divided by n + 1; divide by n − 1.", lambda mask: n_of(mask) + 1),
    ("n − 2", "You divided by n − 2; divide by n − 1.", lambda mask: n_of(mask) - 2),
    ("divided by the number of rows", "You divided the squares by the number of rows; divide by n − 1.", len),
    ("sum instead of mean", "You summed the squares; divide by n − 1.", lambda mask: 1),
)  # fmt: skip


def variance(mean, divisor):
    """The squares of the distances from `mean`, summed over counted tokens, over a divisor."""
    return lambda x, mask: zeroed(x - mean(x, mask), mask).square().sum() / divisor(mask)


def variances():
    """Every pair of a mean and a divisor, the right pair left out: name, what to say, (x, mask) → number."""

    return [
        (a or b, " ".join(filter(None, (says, more))), variance(mean, divisor))
        for a, says, mean in MEANS
        for b, more, divisor in DIVISORS
        if a or b
    ]
