"""Exercise of notebook 13: what to multiply losses by where a library averages, in pieces."""

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def loss_factors(above=lambda n: n, below=lambda n: n.sum(), times=len):
    """Factor [P] for each part's mean loss, so that their average is the mean over all tokens.

    With another numerator, divisor or number of parts.
    """
    return lambda counts: above(counts) / below(counts) * times(counts)


# fmt: off
SLIPS = [Slip(*entry) for entry in [
    ("the share alone", "The library divides by the number of parts: multiply by it, so that the"
     " division cancels.", {"times": lambda n: 1.0}),
    ("divided by the number of parts", "You divided by the number of parts. The library does so already:"
     " multiply by it, so that the division cancels.", {"times": lambda n: 1 / len(n)}),
    ("two parts taken for granted", "You multiplied by 2; multiply by the number of parts, len(counts).",
     {"times": lambda n: 2.0}),
    ("one part too few", "You multiplied by P − 1; the library divides by P.",
     {"times": lambda n: len(n) - 1}),
    ("as if the losses were sums", "You left out the part's own count: its loss is a mean over its tokens,"
     " not their sum.", {"above": torch.ones_like}),
    ("counts squared", "You squared the counts.", {"above": lambda n: n * n}),
    ("rooted counts", "You took the roots of the counts.", {"above": lambda n: n.sqrt()}),
    ("the tokens of the others", "You took the tokens of the other parts; take the part's own.",
     {"above": lambda n: n.sum() - n}),
    ("counts added up so far", "You added the counts so far; take the part's own.",
     {"above": lambda n: n.cumsum(0)}),
    ("counts in another order", "You gave each part another part's count.", {"above": lambda n: n.flip(0)}),
    ("counts in another order", "You gave each part another part's count.", {"above": lambda n: n.roll(1)}),
    ("one less", "You took one less than the part's count.", {"above": lambda n: n - 1}),
    ("never divided by all tokens", "You multiplied by the counts; divide by the tokens of all parts"
     " together.", {"below": lambda n: 1}),
    ("divided by the largest count", "You divided by the largest count; divide by the tokens of all.",
     {"below": lambda n: n.max()}),
    ("divided by the smallest count", "You divided by the smallest count; divide by the tokens of all.",
     {"below": lambda n: n.min()}),
    ("divided by one part's count", "You divided by one part's count; divide by the tokens of all.",
     {"below": lambda n: n[0]}),
    ("divided by one part's count", "You divided by one part's count; divide by the tokens of all.",
     {"below": lambda n: n[-1]}),
    ("divided by N − 1", "You divided by N − 1; divide by N, the tokens of all.",
     {"below": lambda n: n.sum() - 1}),
    ("divided by N − P", "You divided by N − P; divide by N, the tokens of all.",
     {"below": lambda n: n.sum() - len(n)}),
    ("divided by N²", "You divided by N twice.", {"below": lambda n: n.sum() ** 2}),
]]
OWN = Slip("divided by its own count", "You divided by the part's own count, which its mean has done already:"
           " divide by the tokens of all parts together.", {"below": lambda n: n})  # alone it is `EQUAL`
EQUAL = (
    "Your factors are the same for all parts, whatever the counts: multiply by the part's count, and"
    " divide by"
    " the tokens of all parts together (by its own count its mean is divided already)."
)
UPSIDE_DOWN = "Upside down: a part with more tokens has to weigh more, not less."
FACTORS = Exercise(
    "loss_factors", "counts", loss_factors(),
    "P · n / N: times the number of parts, times the part's share of all tokens (notebook 13)",
    [(floats([2.0, 6.0])[0],), (floats([5.0, 1.0, 10.0, 4.0])[0],), (floats([7.0])[0],)],
    [
        ("no factor", "A factor of 1 leaves the mean of means as it is.", torch.ones_like),
        ("the same for all parts", EQUAL, lambda n: torch.full_like(n, len(n))),
        ("the same for all parts", EQUAL, lambda n: torch.full_like(n, 1 / len(n))),
        *alone(loss_factors, SLIPS),
        ("upside down", UPSIDE_DOWN, lambda n: n.sum() / (len(n) * n)),
        ("upside down", UPSIDE_DOWN, lambda n: n.sum() / n),
        ("upside down", UPSIDE_DOWN, lambda n: 1 / n),
        ("one number", "You return one number; return one for each part, [P].",
         lambda n: torch.tensor(float(len(n)))),
        ("softmax", "Shares are n / N; softmax(n) is something else.",
         lambda n: len(n) * n.softmax(0)),
    ],
)
# fmt: on
MANY = (
    "wrong for many parts",
    "Right for a few parts, wrong for forty, of 1 to 2000 tokens.",
    (torch.arange(40.0) * 50 + 1,),
)
check_loss_factors = explained(
    checker(FACTORS),
    then=also_on(FACTORS, MANY),
    cause=one_of(
        FACTORS,
        two_at_once(loss_factors, [*SLIPS, OWN]),
        result_changed,
        other_inputs(),
        without_effect,
        case_by_case(
            ("there is one part", (floats([7.0])[0],)),
            ("all parts have as many tokens", (floats([4.0, 4.0])[0],)),
            ("one has more tokens", (floats([2.0, 6.0])[0],)),
            ("there are three parts", (floats([1.0, 2.0, 5.0])[0],)),
        ),
    ),
)
