"""Exercise of notebook 07: the score at an equal KL, between two neighbours of a curve."""

import math

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import Expected, also_on, explained
from helpers.checks.judging.second_look import equals, one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def score_between(
    top=math.sqrt, bottom=None, over=lambda x, a: x - a, under=lambda b, a: b - a, bend=lambda s: s,
    rise=lambda p, q: q - p, start=lambda p, q: p, join=lambda s, rise, start: start + s * rise, low=None,
):  # fmt: skip
    """The score at an equal KL, with another piece; `top`, `bottom` bend the axis in the fraction."""

    def wrong(kl_low, score_low, kl_high, score_high, kl):
        f, g = top, bottom or top
        least = low or f
        share = bend(over(f(kl), least(kl_low)) / under(g(kl_high), (low or g)(kl_low)))
        return join(share, rise(score_low, score_high), start(score_low, score_high))

    return wrong


def log1p(x):
    """log(1 + KL)."""
    return math.log1p(x)


# fmt: off
ROOTS = "take roots of all three KLs first."
SLIPS = [Slip(*entry) for entry in [
    ("linear in KL", "This is linear in KL. Near the reference a score rises as √KL: take roots first.",
     {"top": float}),
    ("linear in KL²", "You square the KL; take its root.", {"top": lambda x: x * x}),
    ("linear in log KL", "You take logarithms of the KLs; take their roots.", {"top": log1p}),
    ("linear in log KL", "You take logarithms of the KLs; take their roots.",
     {"top": lambda x: math.log(x + 1e-8)}),
    ("a third root", "You take third roots of the KLs; take square roots.", {"top": lambda x: x ** (1 / 3)}),
    ("linear in exp KL", "You take exp of the KLs; take their roots.", {"top": math.exp}),
    ("no root in the denominator", "The denominator has no roots: " + ROOTS, {"bottom": float}),
    ("no root in the numerator", "The numerator has no roots: " + ROOTS, {"top": float, "bottom": math.sqrt}),
    ("root of the share", "You take the root of a share or a difference; take those of the three KLs.",
     {"top": float, "bend": lambda s: abs(s) ** 0.5}),
    ("root of the difference", "You take the root of kl − kl_low; take the roots first, then subtract.",
     {"top": float, "bottom": math.sqrt, "over": lambda x, a: (x - a) ** 0.5}),
    ("root of the difference", "You take the root of kl_high − kl_low; take the roots first, then subtract.",
     {"bottom": float, "under": lambda b, a: (b - a) ** 0.5}),
    ("the share rooted once more", "You take a root of the share, too; those of the KLs are enough.",
     {"bend": lambda s: abs(s) ** 0.5}),
    ("the share squared", "You square the share; leave it as it is.", {"bend": lambda s: s * s}),
    ("the share bent to an S", "You bend the share to an S; leave it as it is.",
     {"bend": lambda s: s * s * (3 - 2 * s)}),
    ("the share bent to an S", "You bend the share to an S; leave it as it is.",
     {"bend": lambda s: (1 - math.cos(math.pi * s)) / 2}),
    ("the share halved", "You halve the share.", {"bend": lambda s: s / 2}),
    ("the share rounded", "You round the share to 0 or 1.", {"bend": round}),
    ("the share upside down", "You divide the wrong way round: it is (√kl − √kl_low)/(√kl_high − √kl_low).",
     {"bend": lambda s: 1 / s}),
    ("kl_low not subtracted above", "In the numerator √kl_low is not subtracted.", {"over": lambda x, a: x}),
    ("kl_low not subtracted below", "In the denominator √kl_low is not subtracted.",
     {"under": lambda b, a: b}),
    ("kl_low not subtracted", "√kl_low is subtracted nowhere: at kl_low the share has to be 0.",
     {"over": lambda x, a: x, "under": lambda b, a: b}),
    ("kl_low without a root", "You subtract kl_low without its root.", {"low": float}),
    ("a sign in the numerator", "The numerator is √kl minus √kl_low; you add.",
     {"over": lambda x, a: x + a}),
    ("a sign in the denominator", "The denominator is √kl_high minus √kl_low; you add.",
     {"under": lambda b, a: b + a}),
    ("from the far end", "At kl_low you give score_high, and the other way round: the share counts from the"
     " wrong end, or the scores are exchanged.",
     {"bend": lambda s: 1 - s}),
    ("from the far end", "Your start is score_high; at kl_low the share is 0 and must give score_low.",
     {"start": lambda p, q: q}),
    ("a sign", "You subtract where you should add: the rise score_high − score_low, or the numerator √kl −"
     " √kl_low, has the opposite sign.", {"rise": lambda p, q: p - q}),
    ("scores added", "The rise is score_high − score_low; you add them.", {"rise": lambda p, q: p + q}),
    ("score_high for the rise", "The rise is score_high − score_low; you take score_high alone.",
     {"rise": lambda p, q: q}),
    ("score_low for the rise", "The rise is score_high − score_low; you take score_low alone.",
     {"rise": lambda p, q: p}),
    ("the rise without its sign", "You take the rise without its sign; a score may fall as the KL grows.",
     {"rise": lambda p, q: abs(q - p)}),
    ("from the smaller score", "You start at the smaller score; start at score_low, the score of the lower"
     " KL, though it may be the larger one.", {"start": min, "rise": lambda p, q: abs(q - p)}),
    ("from the larger score", "You start at the larger score; start at score_low.", {"start": max}),
    ("the lower neighbour left out", "You add up a share of the difference, but not score_low.",
     {"start": lambda p, q: 0.0}),
    ("the share alone", "That is the share of the way; now move from score_low to score_high by it.",
     {"join": lambda s, rise, start: s}),
    ("the share added", "You add the share itself; multiply it by score_high − score_low.",
     {"join": lambda s, rise, start: start + s}),
    ("score_low times the share", "You multiply score_low by the share; it is added whole.",
     {"join": lambda s, rise, start: start * s + rise}),
    ("score_high times the share", "That is score_high times the share: start at score_low, and multiply only"
     " the rise by the share (brackets?).",
     {"join": lambda s, rise, start: (start + rise) * s}),
    ("kl without a root", "You take roots of kl_low and kl_high, and not of kl: " + ROOTS,
     {"top": float, "bottom": math.sqrt, "low": math.sqrt}),
]]
PROBES = [
    (1.0, 0.8, 1.69, 1.1, 1.44), (2.0, 1.4, 2.6, 1.5, 2.5), (0.25, 0.1, 0.49, 0.6, 0.36),
    (0.0, 0.1, 0.49, 0.6, 0.16), (1.21, 1.3, 4.0, 0.7, 1.96),
]
AT_EQUAL_KL = Exercise(
    "score_between", "kl_low score_low kl_high score_high kl",
    lambda *given: torch.tensor(score_between()(*given)),
    "linear in √KL between the two neighbours (notebook 07)", PROBES,
    [
        *alone(score_between, SLIPS),
        *(("scores rooted, too", "Roots belong to the KLs; scores stay as they are.",
           lambda a, p, b, q, x, back=back: back(score_between()(a, p**0.5, b, q**0.5, x)))
          for back in (lambda s: s * s, lambda s: s)),
        *(("scores squared", "You interpolate the squares of the scores; take the scores themselves.",
           lambda a, p, b, q, x, back=back, top=top: back(score_between(top=top)(a, p * p, b, q * q, x)))
          for back in (math.sqrt, lambda s: s) for top in (float, math.sqrt)),
        ("scores multiplied", "You go from score to score by a factor (geometrically); the score is linear in"
         " √KL.", lambda a, p, b, q, x: p * (q / p) ** score_between(
             join=lambda s, rise, start: s)(a, p, b, q, x)),
        ("the middle", "This is the mean of the two scores, wherever kl stands.",
         lambda a, p, b, q, x: (p + q) / 2),
        ("the nearest", "This is the nearer neighbour's score.", lambda a, p, b, q, x: p if x - a < b - x
         else q),
        ("the nearest", "This is the nearer neighbour's score.",
         lambda a, p, b, q, x: p if 2 * x**0.5 < a**0.5 + b**0.5 else q),
        ("the lower neighbour", "This is score_low, wherever kl stands.", lambda a, p, b, q, x: p),
        ("the upper neighbour", "This is score_high, wherever kl stands.", lambda a, p, b, q, x: q),
        ("through the origin", "Your curve goes from 0 through one neighbour; it goes from the lower"
         " neighbour to the upper one.", lambda a, p, b, q, x: q * (x / b) ** 0.5),
        ("through the origin", "Your curve goes from 0 through one neighbour; it goes from the lower"
         " neighbour to the upper one.", lambda a, p, b, q, x: q * x / b),
        ("not divided by the distance", "You multiply by √kl − √kl_low, and do not divide by √kl_high −"
         " √kl_low.", lambda a, p, b, q, x: p + (q - p) * (x**0.5 - a**0.5)),
        ("one share for both scores", "Both scores get the same share; score_low gets what is left, 1 −"
         " share.", lambda a, p, b, q, x: (p + q) * score_between(
             join=lambda s, rise, start: s)(a, p, b, q, x)),
        ("KLs and scores exchanged", "You interpolate the KL; return the score.",
         lambda a, p, b, q, x: a + (b - a) * score_between(join=lambda s, rise, start: s)(a, p, b, q, x)),
    ],
)
# fmt: on


def log_of_kl(exercise: Exercise, function, answers: list) -> tuple[str, str] | None:
    """A look for logarithms of the KL, whatever is done where it is 0."""
    above = [k for k, (kl_low, *_) in enumerate(exercise.probes) if kl_low > 0]
    probes = [exercise.probes[k] for k in above]
    if not equals([answers[k] for k in above], score_between(top=math.log), probes):
        return None
    return "linear in log KL", (
        "You take logarithms of the KLs, which have no value at KL = 0; take their roots."
    )


AT_ZERO = Expected(
    "division by zero",
    "division by 0",
    "You divide by 0: kl_low may be 0 (also in kl/kl_low), and log 1 is 0. Only the distance √kl_high −"
    " √kl_low belongs below the line, and it is above 0.",
)  # fmt: skip
LOG_OF_ZERO = Expected(
    "math domain error", "linear in log KL, or a root of a negative number",
    "A logarithm of KL = 0, or the root of a negative number. Take the roots of the three KLs, which are"
    " never negative, then subtract.",
)  # fmt: skip
ENDS = (
    (
        "wrong at the lower end",
        "At kl = kl_low the result is score_low.",
        (0.0, 0.3, 0.5, 0.9, 0.0),
    ),
    (
        "wrong at the upper end",
        "At kl = kl_high the result is score_high.",
        (0.1, 0.3, 0.5, 0.9, 0.5),
    ),
    (
        "wrong for large KLs and scores",
        "Right for KLs up to 4 nats, wrong where they go to 64, and a score is 80: is something bounded?",
        (4.0, 3.0, 64.0, 80.0, 36.0),
    ),
    ("wrong for negative scores", "Scores may be negative.", (0.1, -0.8, 0.5, -0.2, 0.3)),
)
check_score_between = explained(
    checker(AT_EQUAL_KL),
    (AT_ZERO, LOG_OF_ZERO),
    also_on(AT_EQUAL_KL, *ENDS),
    cause=one_of(
        AT_EQUAL_KL,
        log_of_kl,
        two_at_once(score_between, SLIPS),
        other_inputs(),
        result_changed,
        without_effect,
        case_by_case(
            ("kl = kl_low", (0.25, 0.1, 0.49, 0.6, 0.25)),
            ("kl = kl_high", (0.25, 0.1, 0.49, 0.6, 0.49)),
            ("kl_low = 0", (0.0, 0.1, 0.49, 0.6, 0.16)),
            ("the score rises", PROBES[0]),
            ("the score falls", PROBES[-1]),
        ),
    ),
)
