"""Wrong ways to take a mean over counted tokens, for the exercises whose result is one."""

import torch


def padding_divides(x, mask):
    """The correct sum, divided by all positions."""
    return torch.where(mask, x, 0.0).mean()


def total(x, mask):
    """Sum instead of mean."""
    return torch.where(mask, x, 0.0).sum()


def mean_of_rows(x, mask):
    """Mean of the rows' means: tokens of short rows weigh more."""
    return (torch.where(mask, x, 0.0).sum(1) / mask.sum(1)).mean()


def rows(x, mask):
    """One mean per row."""
    return torch.where(mask, x, 0.0).sum(1) / mask.sum(1)


def reductions(build, per_token):
    """Wrong ways to average; `build(reduce)` makes the wrong function."""
    return [
        ("mean over padding", "You averaged all {total} positions; only {counted} count.",
         build(lambda x, mask: x.mean())),
        ("padding in the divisor", "You divided by all {total} positions; only {counted} count.",
         build(padding_divides)),
        ("sum instead of mean", "You summed over the tokens; divide by the {counted} that count.",
         build(total)),
        ("mean of the rows' means", "You averaged each row first, so tokens of short rows weigh"
         " more. All {counted} counted tokens should weigh the same.", build(mean_of_rows)),
        ("one mean per sequence", "You return one number per row; return one for the batch.",
         build(rows)),
        ("mask upside down", "You averaged the masked positions; True means that a position counts.",
         build(lambda x, mask: x[~mask].mean())),
        ("not averaged", f"You return {per_token} for each token; return the mean over counted"
         " tokens.", build(lambda x, mask: torch.where(mask, x, 0.0))),
    ]  # fmt: skip


def per_row(x, mask):
    """Sum over the tokens, mean over the rows."""
    return total(x, mask) / len(mask)


def per_column(x, mask):
    """Sum divided by the width of the window."""
    return total(x, mask) / mask.shape[1]


def nth(x, mask, index):
    """Mean of one counted token of each row: the first (0) or the last (−1)."""
    return torch.stack([row[m][index] for row, m in zip(x, mask, strict=True)]).mean()


def other_reductions(build):
    """Rarer wrong ways to average; `build(reduce)` makes the wrong function."""
    return [
        ("divided by the number of responses", "You divided the sum by the number of responses; divide"
         " by the {counted} counted tokens.", build(per_row)),
        ("divided by the width", "You divided the sum by the width of the window; divide by the {counted}"
         " counted tokens.", build(per_column)),
        ("divided by n − 1", "You divided by n − 1; a mean divides by the {counted} counted tokens.",
         build(lambda x, mask: total(x, mask) / (mask.sum() - 1))),
        ("divided by n + 1", "You divided by n + 1; a mean divides by the {counted} counted tokens.",
         build(lambda x, mask: total(x, mask) / (mask.sum() + 1))),
        ("only the first token", "You took only the first token of each response; average over all"
         " counted ones.", build(lambda x, mask: nth(x, mask, 0))),
        ("only the last token", "You took only the last counted token of each response; average over all"
         " counted ones.", build(lambda x, mask: nth(x, mask, -1))),
        ("only the first response", "You averaged the first response alone.",
         build(lambda x, mask: x[0][mask[0]].mean())),
        ("median instead of mean", "You took the median; take the mean.",
         build(lambda x, mask: x[mask].median())),
        ("largest instead of mean", "You took the largest; take the mean.",
         build(lambda x, mask: x[mask].max())),
        ("smallest instead of mean", "You took the smallest; take the mean.",
         build(lambda x, mask: x[mask].min())),
        ("last counted token left out", "You left out the last counted token of each response.",
         build(lambda x, mask: x[mask & (mask.long().cumsum(1) < mask.long().sum(1, True))].mean())),
        ("first token left out", "You left out the first token of each response.",
         build(lambda x, mask: x[:, 1:][mask[:, 1:]].mean())),
        ("last column left out", "You left out the last column of the window.",
         build(lambda x, mask: x[:, :-1][mask[:, :-1]].mean())),
        ("first padding counted", "You counted one masked position after each response.",
         build(lambda x, mask: x[torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], 1)].mean())),
        ("divided by the longest response", "You divided by the longest response's length; divide by the"
         " {counted} counted tokens.", build(lambda x, mask: total(x, mask) / mask.sum(1).max())),
        ("the rows' sums", "You return a sum for each row; return one mean for the batch.",
         build(lambda x, mask: torch.where(mask, x, 0.0).sum(1))),
    ]  # fmt: skip


def plain_mean(x, mask):
    """The masked mean without checks of its input: a wrong entropy may be NaN."""
    return total(x, mask) / mask.sum()
