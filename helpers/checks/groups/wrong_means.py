"""The three means of a group step (notebook 10): which one was taken where another was asked for."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.groups.group_slips import averaged, loss_of
from helpers.checks.judging.compare import alike
from helpers.checks.judging.report import Report
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import VAGUE

# the words follow the name of the mean that was asked for
WANTED = {
    "response": "take each row's mean first, then the mean of those",
    "token": "divide the sum by the {counted} counted tokens, each of which weighs the same",
    "fixed": "divide the sum by B · response_length",
}


# --- other means of the gains [B, T], by their mask and the longest length --------------------------


def of_rows(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """The mean of 'response'."""
    return (x.sum(1) / mask.sum(1)).mean()


def of_tokens(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """The mean of 'token'."""
    return x.sum() / mask.sum()


def over_length(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """The mean of 'fixed'."""
    return x.sum() / (len(x) * length)


def by_position(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """Over the responses at each position, then over the positions; one without a token counts as 0."""
    return (x.sum(0) / mask.sum(0).clamp(min=1)).mean()


def by_used_position(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """The same over the positions that have a token."""
    return (x.sum(0) / mask.sum(0)).nanmean()


def taken_for(how: str, name: str, what: str, mean: Callable) -> tuple:
    """The mistake that for `how` another mean was taken; `what` says which."""
    return f"{how}: {name}", f"For '{how}' {what}; {WANTED[how]}.", averaged(**{how: mean})


TOKENS = "your mean is that of 'token', over all counted tokens together"
ROWS = "your mean is that of 'response', the mean of the rows' means"
LENGTH = "your mean is that of 'fixed', sum / (B · response_length)"
POSITIONS = "you averaged over the responses at each position, then over the positions"

# fmt: off
WRONG_MEANS = [
    taken_for("response", "all tokens together", TOKENS, of_tokens),
    taken_for("response", "the fixed length", LENGTH, over_length),
    ("response: length with padding", "For 'response' you divided each row by its whole width, or"
     " the longest row's length; divide by its counted tokens.", averaged(
         response=lambda x, m, n: x.mean(1).mean())),
    ("response: rows not averaged", "For 'response' you summed the rows' means; average them.",
     averaged(response=lambda x, m, n: (x.sum(1) / m.sum(1)).sum())),
    ("response: rows not divided", "For 'response' you averaged the rows' sums; divide each by its"
     " own number of counted tokens first.",
     averaged(response=lambda x, m, n: x.sum(1).mean())),
    ("response: one number per row", "For 'response' you return one number per row; average them.",
     averaged(response=lambda x, m, n: x.sum(1) / m.sum(1))),
    ("fixed: divided by the width", "For 'fixed' you divided by the width of this batch; divide by"
     " response_length = {config.response_length}, the same in every batch.",
     averaged(fixed=lambda x, m, n: x.sum() / x.numel())),
    ("fixed: divided by the longest response", "For 'fixed' you divided by the longest response of"
     " this batch; divide by response_length = {config.response_length}, the same in every batch.",
     averaged(fixed=lambda x, m, n: x.sum() / (len(x) * m.sum(1).max()))),
    ("fixed: number of responses missing", "For 'fixed' you divided by response_length alone;"
     " divide by B · response_length.", averaged(fixed=lambda x, m, n: x.sum() / n)),
    ("fixed: length missing", "For 'fixed' you divided by the number of responses alone; divide by"
     " B · response_length.", averaged(fixed=lambda x, m, n: x.sum() / len(x))),
    taken_for("fixed", "counted tokens", TOKENS, of_tokens),
    ("fixed: rows divided twice", "For 'fixed' you divided each row by its own length too; sum its"
     " tokens, then divide all by the same number.",
     averaged(fixed=lambda x, m, n: (x.sum(1) / m.sum(1)).sum() / (len(x) * n))),
    taken_for("fixed", "mean of means", ROWS, of_rows),
    ("token: padding in the divisor", "For 'token' you divided by all {total} positions; only"
     " {counted} count.", averaged(token=lambda x, m, n: x.mean())),
    taken_for("token", "mean of means", ROWS, of_rows),
    taken_for("token", "the fixed length", LENGTH, over_length),
    ("token: gains of 0 not counted", "For 'token' you divided by the tokens whose gain is not 0. A group of"
     " equal rewards has gains of 0, and its tokens count: divide by mask.sum().",
     averaged(token=lambda x, m, n: x.sum() / (x != 0).sum())),
    ("token: not divided", "For 'token' you summed; divide by the {counted} counted tokens.",
     averaged(token=lambda x, m, n: x.sum())),
    ("token: divided by the responses", "For 'token' you divided by the number of responses;"
     " divide by the {counted} counted tokens.",
     averaged(token=lambda x, m, n: x.sum() / len(x))),
    *(taken_for(how, "averaged by position", POSITIONS, mean)
      for how in WANTED for mean in (by_position, by_used_position)),
]
# fmt: on


def unknown_mean(probes: list[tuple]) -> Callable:
    """A cause of a wrong loss of right gains that nothing has named: for which setting its mean is wrong.

    What the loss depends on says little here, since its arguments come in through the gains.
    """

    def cause(function: Callable, report: Report) -> tuple[str, str] | None:
        vague = report.mistake in VAGUE or report.mistake.startswith(("weight of", "sign of"))
        if not vague or "wrong result: the loss" not in report.message:
            return None
        *_, mask, config = next(probe for probe in probes if not _right_loss(function, probe))
        before = report.message.partition("result: the loss.")[0] + "result: the loss."
        wanted = WANTED[config.loss_aggregation].format(counted=int(mask.sum()))
        says = f"The gains are right, so look at their mean for '{config.loss_aggregation}':"
        name = f"{config.loss_aggregation}: not the mean of the gains"
        return name, f"{before} {says} {wanted}. Nothing is added to it."

    return cause


def _right_loss(function: Callable, probe: tuple) -> bool:
    loss = torch.as_tensor(function(*copy_of(probe))[-1]).detach()
    return alike(loss, loss_of(*probe))
