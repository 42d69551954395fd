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


def plain_mean(x, mask):
    """The masked mean without checks of its input: a wrong entropy may be NaN."""
    return total(x, mask) / mask.sum()
