"""Exercises of notebook 13: what several processes have to add up, in pieces."""

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import far_out, sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def parts(*lengths: tuple[int, ...]) -> torch.Tensor:
    """[P, b, T] masks: the lengths of each process's responses."""
    width = max(max(row) for row in lengths)
    return torch.arange(width) < torch.tensor(lengths).unsqueeze(-1)


TWO = (floats([[1.0, 3.0, 9.0]], [[2.0, 4.0, 6.0]]).view(2, 1, 3), parts((2,), (3,)))
LARGE = (noise(3, 3, 2, 5) + 1.0, parts((1, 5), (2, 2), (4, 5)))
IDLE = (noise(4, 2, 2, 4), parts((4, 2), (0, 0)))


def sums(losses, mask):
    """Sum of the counted losses of each process: [P]."""
    return torch.where(mask, losses, 0.0).sum(dim=(1, 2))


def own(mask):
    """Counted tokens of each process: [P]."""
    return mask.sum(dim=(1, 2))


def counts(mask):
    """The same, at least 1."""
    return own(mask).clamp(min=1)


def loss_shares(above=sums, below=lambda losses, mask: mask.sum(), times=lambda mask: 1.0):
    """What each process backpropagates, so that gradients added are those of the mean over all tokens.

    With another numerator, divisor or factor.
    """
    return lambda losses, mask: above(losses, mask) / below(losses, mask) * times(mask)


def response_means() -> list:
    """Mistakes: shares [P] of a mean of the responses' means, of all, or of those with a token."""

    def means(losses, mask):
        return torch.where(mask, losses, 0.0).sum(2) / mask.sum(2).clamp(min=1)

    def nan_means(losses, mask):
        return torch.where(mask, losses, 0.0).sum(2) / mask.sum(2)

    numbers = (
        lambda m: m[..., 0].numel(),
        lambda m: m.any(2).sum(),
        lambda m: m.shape[1],
    )
    return [
        lambda x, m, mean=mean, below=below: mean(x, m).sum(1) / below(m)
        for below in numbers
        for mean in (means, nan_means)
    ]


# fmt: off
SLIPS = [Slip(*entry) for entry in [
    ("each process's own mean", "You divided by each process's own count. Gradients are added, so"
     " two processes would count twice: divide by all {counted} counted tokens.",
     {"below": lambda x, m: counts(m)}),
    ("each process's own mean", "You divided by each process's own count (0 where a process has no token):"
     " divide by all {counted} counted tokens.", {"below": lambda x, m: own(m)}),
    ("padding in the divisor", "You divided by all {total} positions; only {counted} count.",
     {"below": lambda x, m: m.numel()}),
    ("own positions in the divisor", "You divided by a process's positions, padding included; divide by all"
     " {counted} counted tokens.", {"below": lambda x, m: m[0].numel()}),
    ("sum instead of mean", "You summed and never divided by the {counted} counted tokens.",
     {"below": lambda x, m: 1}),
    ("divided by the number of responses", "You divided by the number of responses; PPO's loss is a"
     " mean over {counted} tokens.", {"below": lambda x, m: m[..., 0].numel()}),
    ("divided by the number of responses", "You divided by a process's number of responses; PPO's loss is a"
     " mean over all {counted} counted tokens.", {"below": lambda x, m: m.shape[1]}),
    ("divided by the width", "You divided by the width of the window; divide by the {counted} counted"
     " tokens.",
     {"below": lambda x, m: m.shape[2]}),
    ("divided by the number of processes alone", "You divided by the number of processes; divide by the"
     " {counted} counted tokens.", {"below": lambda x, m: len(m)}),
    ("divided by n − 1", "You divided by n − 1; a mean divides by the {counted} counted tokens.",
     {"below": lambda x, m: m.sum() - 1}),
    ("divided by n + 1", "You divided by n + 1; a mean divides by the {counted} counted tokens.",
     {"below": lambda x, m: m.sum() + 1}),
    ("one process's count for all", "You divided by one process's count; divide by that of all, {counted}.",
     {"below": lambda x, m: m[0].sum()}),
    ("one process's count for all", "You divided by one process's count; divide by that of all, {counted}.",
     {"below": lambda x, m: m[-1].sum()}),
    ("the largest count for all", "You divided by the largest process's count; divide by that of all.",
     {"below": lambda x, m: own(m).max()}),
    ("the smallest count for all", "You divided by the smallest process's count; divide by that of all.",
     {"below": lambda x, m: own(m).min()}),
    ("another process's count", "You divided each sum by another process's count; divide by that of all"
     " processes, {counted}.", {"below": lambda x, m: own(m).flip(0)}),
    ("another process's count", "You divided each sum by another process's count; divide by that of all"
     " processes, {counted}.", {"below": lambda x, m: own(m).roll(1)}),
    ("another process's count", "You divided each sum by another process's count; divide by that of all"
     " processes, {counted}.", {"below": lambda x, m: own(m).roll(-1)}),
    ("the count of the others", "You divided by the other processes' tokens; divide by all {counted}.",
     {"below": lambda x, m: m.sum() - own(m)}),
    ("counts added up so far", "You divided by the tokens of the processes so far; divide by all {counted}.",
     {"below": lambda x, m: own(m).cumsum(0)}),
    ("share of the summed loss", "You divided by the sum of all losses; divide by the {counted} counted"
     " tokens (the shares need not add up to 1).", {"below": lambda x, m: sums(x, m).sum()}),
    ("divided by the sizes of the losses", "You divided by the losses' sizes; divide by the {counted}"
     " tokens.",
     {"below": lambda x, m: sums(x.abs(), m).sum()}),
    ("divided by the number of processes", "You divided once more by the number of processes."
     " Gradients are added, not averaged.", {"times": lambda m: 1 / len(m)}),
    ("multiplied by the number of processes", "You multiplied by the number of processes. That is"
     " right where a library averages gradients; here they are added.", {"times": lambda m: len(m)}),
    ("weighed by its share of the tokens", "You multiplied by the process's share of the tokens once more;"
     " the sum over its tokens holds it already.", {"times": lambda m: own(m) / m.sum()}),
    ("multiplied by its tokens", "You multiplied by the process's number of tokens.", {"times": own}),
    ("the sign", "Σ loss / N: a minus sign too many.", {"times": lambda m: -1.0}),
    ("padding in the sum", "You summed the padding too; only {counted} of {total} positions count.",
     {"above": lambda x, m: x.sum(dim=(1, 2))}),
    ("mask upside down", "You summed the masked positions; True means that a position counts.",
     {"above": lambda x, m: sums(x, ~m)}),
    ("averaged over the window first", "You averaged over the window before the sum: the width is divided by,"
     " too.", {"above": lambda x, m: sums(x, m) / m.shape[2]}),
    ("averaged over the responses first", "You averaged over the responses before the sum.",
     {"above": lambda x, m: sums(x, m) / m.shape[1]}),
    ("the responses' means", "You averaged each response first; sum over its tokens.",
     {"above": lambda x, m: (torch.where(m, x, 0.0).sum(2) / m.sum(2).clamp(min=1)).sum(1)}),
    ("the tokens, not the losses", "That is the share of the tokens; multiply each by its loss.",
     {"above": lambda x, m: own(m)}),
    ("the loss of all but its own", "You took the loss of the other processes; each has its own.",
     {"above": lambda x, m: sums(x, m).sum() - sums(x, m)}),
    ("losses added up so far", "You added the processes' losses so far; each has its own.",
     {"above": lambda x, m: sums(x, m).cumsum(0)}),
    ("the same for all", "Every process gets the whole sum; each has its own part of it.",
     {"above": lambda x, m: sums(x, m).sum().expand(len(m))}),
    ("the same for all", "Every process gets the average; each has its own part.",
     {"above": lambda x, m: sums(x, m).mean().expand(len(m))}),
    ("losses squared", "You squared the losses.", {"above": lambda x, m: sums(x * x, m)}),
    ("losses without their sign", "You took the losses without their signs.",
     {"above": lambda x, m: sums(x.abs(), m)}),
    ("only the first response", "You summed only each process's first response.",
     {"above": lambda x, m: torch.where(m, x, 0.0)[:, 0].sum(-1)}),
    ("only the last response", "You summed only each process's last response.",
     {"above": lambda x, m: torch.where(m, x, 0.0)[:, -1].sum(-1)}),
]]
SHARES = Exercise(
    "loss_shares", "losses mask", loss_shares(),
    "Σ of the process's counted losses / counted tokens of ALL processes (notebook 13)",
    [TWO, LARGE, IDLE],
    [
        ("mean of means", "This is the mean of the processes' means: a token weighs more where there are"
         " few. Divide each sum by all {counted} counted tokens.",
         lambda x, m: sums(x, m) / counts(m) / len(m)),
        ("mean of means", "This is the mean of the processes' means (0/0 where a process has no token):"
         " divide"
         " each sum by all {counted} counted tokens.", lambda x, m: sums(x, m) / own(m) / len(m)),
        *(("mean of the responses' means", "You averaged each response first, and then the responses: a"
           " token of a short response weighs more. Sum over all tokens, and divide by all {counted} counted"
           " ones.", share) for share in response_means()),
        ("0/0 for a process without a token", "Your formula divides by each process's own count, which may be"
         " 0: divide the sum by all {counted} counted tokens, and do not take the own mean first.",
         lambda x, m: sums(x, m) / own(m) * (own(m) / m.sum())),
        *alone(loss_shares, SLIPS),
        ("one number", "You return the whole loss; return what each process contributes, [P].",
         lambda x, m: sums(x, m).sum() / m.sum()),
        ("one number", "You return the mean of the processes' means; return what each contributes, [P].",
         lambda x, m: (sums(x, m) / counts(m)).mean()),
        ("the processes summed", "You summed over the processes; keep them, and sum over responses and tokens"
         " (dim 1 and 2).", lambda x, m: torch.where(m, x, 0.0).sum((0, 1)) / m.sum()),
        ("the processes summed", "You summed over the processes; keep them, and sum over responses and tokens"
         " (dim 1 and 2).", lambda x, m: torch.where(m, x, 0.0).sum((0, 2)) / m.sum()),
        ("tokens not summed", "You summed over the responses alone; sum over the tokens, too.",
         lambda x, m: torch.where(m, x, 0.0).sum(1) / m.sum()),
        ("responses not summed", "You summed over the tokens alone; sum over the responses, too.",
         lambda x, m: torch.where(m, x, 0.0).sum(2) / m.sum()),
        ("not summed", "You return a number for each token; sum those of a process.",
         lambda x, m: torch.where(m, x, 0.0) / m.sum()),
        ("whole-number division", "You divided by // (or cut the decimals off): divide by /.",
         lambda x, m: sums(x, m) // m.sum()),
    ],
    gradient=("losses",),
)
# fmt: on
ZERO_LOSS = (
    "tokens whose loss is 0 left out",
    "Right where no loss is 0, wrong where some are: they count too, so divide by mask.sum().",
    (torch.tensor([[[0.0, 3.0]], [[2.0, 0.0]]]), parts((2,), (2,))),
)
LONE = (
    "wrong for one token",
    "Right for more tokens; one process with one counted token has that token's loss.",
    (torch.tensor([[[2.5]]]), parts((1,))),
)
FAR = far_out("losses are large", (100 * noise(7, 2, 2, 3), parts((3, 2), (1, 3))))
check_loss_shares = explained(
    checker(SHARES),
    then=also_on(SHARES, ZERO_LOSS, LONE, FAR, *sizes(LARGE, token=False)),
    cause=one_of(
        SHARES,
        two_at_once(loss_shares, SLIPS),
        result_changed,
        other_inputs(),
        without_effect,
        case_by_case(
            ("there is one process", (noise(5, 1, 2, 3), parts((3, 2)))),
            ("all processes have as many tokens", (noise(6, 2, 1, 3), parts((3,), (3,)))),
            ("one has more tokens", TWO),
            ("one has no tokens", IDLE),
        ),
    ),
)
