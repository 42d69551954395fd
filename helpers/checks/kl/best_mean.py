"""Exercise of notebook 07: the best mean of one parameter, where two slopes hold each other."""

import math

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import Expected, also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def best_mean(
    pull=2.0, anchor=lambda b, s: b / s**2, top=None, sign=1.0, solve=lambda top, pull, anchor: top /
     (pull + anchor)
):  # fmt: skip
    """Where a spring to 1 and a spring to 0 hold each other, with another piece."""
    return lambda kl_coef, sigma: solve(
        pull if top is None else top, pull, sign * anchor(kl_coef, sigma)
    )


# fmt: off
KL = "The KL is m²/(2σ²): "
SLIPS = [Slip(*entry) for entry in [
    ("σ left out", KL + "σ is missing.", {"anchor": lambda b, s: b}),
    ("σ not squared", KL + "you divide by σ.", {"anchor": lambda b, s: b / s}),
    ("σ multiplies", KL + "you multiply by σ².", {"anchor": lambda b, s: b * s**2}),
    ("2σ² multiplies", KL + "you multiply by 2σ².", {"anchor": lambda b, s: 4 * b * s**2}),
    ("σ multiplies", KL + "you multiply by σ.", {"anchor": lambda b, s: b * s}),
    ("σ doubled, not squared", KL + "you take 2σ (σ*2) for σ² (σ**2).", {"anchor": lambda b, s: b / (2 * s)}),
    ("half the KL's slope", "The derivative of m²/(2σ²) is m/σ²: yours is half of it (or the reward's slope"
     " is doubled).",
     {"anchor": lambda b, s: b / (2 * s**2)}),
    ("the KL's slope times four", "The derivative of m²/(2σ²) is m/σ²: against the reward's slope yours is"
     " four times as large. Has a half become a 2?", {"anchor": lambda b, s: 4 * b / s**2}),
    ("a factor 2", "The slopes are −2(m − 1) and m/σ²: a factor 2 is lost, or stands at the KL.",
     {"anchor": lambda b, s: 2 * b / s**2}),
    ("2σ squared whole", "Against the reward's slope, the KL's is a quarter of m/σ². Did you square 2σ?"
     " Only σ is squared.", {"anchor": lambda b, s: b / (2 * s) ** 2}),
    ("σ to the fourth", "You squared σ² again.", {"anchor": lambda b, s: b / s**4}),
    ("the root of σ", "You took the root of σ; σ is squared.", {"anchor": lambda b, s: b / s**0.5}),
    ("β squared", "β stands in J once; you squared it, perhaps in (β/σ)².", {"anchor": lambda b, s: b**2 /
     s**2}),
    ("the root of β", "You took the root of β.", {"anchor": lambda b, s: b**0.5 / s**2}),
    ("β left out", "β is missing: at β = 0 the mean is 1.", {"anchor": lambda b, s: 1 / s**2}),
    ("a sign in the denominator", "β/σ² is added to the 2; yours is subtracted: the sign of one of the two"
     " slopes is wrong.", {"sign": -1.0}),
    ("1 in the numerator", "Your mean is half of the right one: the numerator is the reward's slope"
     " at 0, which is 2.", {"top": 1.0}),
    ("4 in the numerator", "Your mean is twice the right one: the numerator is the reward's slope"
     " at 0, which is 2.", {"top": 4.0}),
    ("1 in the denominator", "The denominator is 2 + β/σ²; you have 1 for the 2.", {"pull": 1.0, "top": 2.0}),
    ("upside down", "That is the right fraction upside down: m = 2/(2 + β/σ²).",
     {"solve": lambda top, pull, a: (pull + a) / top}),
    ("brackets forgotten", "That is 1 + β/σ². Is it 2/2 + β/σ², without brackets around the"
     " denominator?",
     {"solve": lambda top, pull, a: top / pull + a}),
    ("slopes subtracted", "That is one slope less the other; set their sum to 0 and solve for m.",
     {"solve": lambda top, pull, a: pull - a}),
    ("slopes added", "That is the denominator alone; m is 2 divided by it.",
     {"solve": lambda top, pull, a: pull + a}),
    ("β/(2σ²) alone", "That is β/(2σ²): the slopes divided, or the KL's price at m = 1."
     " Set the sum of the slopes to 0 and solve for m.",
     {"solve": lambda top, pull, a: a / top}),
    ("the share given up", "This is 1 − m, the share of the way that is given up.",
     {"solve": lambda top, pull, a: a / (pull + a)}),
    ("first order in β", "1 − β/(2σ²) is right only for a small β; solve for m exactly.",
     {"solve": lambda top, pull, a: 1 - a / pull}),
    ("an exponential in β", "The mean falls as a fraction, 2/(2 + β/σ²), not as an exponential.",
     {"solve": lambda top, pull, a: math.exp(-a / pull)}),
    ("an exponential in β", "The mean falls as a fraction, 2/(2 + β/σ²), not as an exponential.",
     {"solve": lambda top, pull, a: math.exp(-a)}),
    ("a root too many", "You took the root of the right fraction: the slope of (m − 1)² is 2(m − 1), without"
     " a square.", {"solve": lambda top, pull, a: abs(top / (pull + a)) ** 0.5}),
    ("squared", "You squared the right mean.", {"solve": lambda top, pull, a: (top / (pull + a)) ** 2}),
    ("never below 0", "That is 1 − β/(2σ²), cut off at 0: right only for a small β. Solve for m"
     " exactly; the fraction never is negative.",
     {"solve": lambda top, pull, a: max(0.0, 1 - a / pull)}),
]]
RIGHT = best_mean()


def objective(m, b, s):
    """J(m) = −(m − 1)² − β·m²/(2σ²)."""
    return -((m - 1) ** 2) - b * m**2 / (2 * s**2)


BEST_MEAN = Exercise(
    "best_mean", "kl_coef sigma", lambda b, s: torch.tensor(RIGHT(b, s)),
    "dJ/dm = −2(m − 1) − β·m/σ² = 0 (notebook 07)",
    [(0.4, 0.5), (0.05, 0.5), (2.0, 0.25), (0.0, 0.5), (0.3, 1.5)],
    [
        *alone(best_mean, SLIPS),
        ("the reward's peak", "This is the peak, whatever β is.", lambda b, s: 1.0),
        ("1/(1 + β)", "σ² is missing, and a factor 2 is lost or stands at the KL.", lambda b, s: 1 / (1 + b)),
        ("brackets around 2 + β", "σ² divides β alone: 2 + β/σ², not (2 + β)/σ².",
         lambda b, s: 2 / ((2 + b) / s**2)),
        ("brackets around the fraction", "σ² divides β alone, not the whole fraction.",
         lambda b, s: 2 / (2 + b) / s**2),
        ("2/2 + β over σ²", "That is (1 + β)/σ². The mean is 2 divided by"
         " 2 + β/σ², in brackets.", lambda b, s: (2 / 2 + b) / s**2),
        ("J at the best mean", "That is J at the best mean; return the mean.",
         lambda b, s: objective(RIGHT(b, s), b, s)),
        ("J at the best mean", "That is J at the best mean; return the mean.",
         lambda b, s: objective(RIGHT(b, s), b, s) - s**2),
        ("the reward at the best mean", "That is the reward at the best mean; return the mean.",
         lambda b, s: -((RIGHT(b, s) - 1) ** 2)),
        ("the KL at the best mean", "That is the KL at the best mean; return the mean.",
         lambda b, s: RIGHT(b, s) ** 2 / (2 * s**2)),
        ("the slope at 1", "That is dJ/dm at m = 1; set dJ/dm to 0 and solve for m.",
         lambda b, s: -b / s**2),
    ],
)
# fmt: on
LIMITS = Expected(
    "division by zero",
    "division by 0 at β = 0",
    "At β = 0 you divide by 0, where the answer is 1. Solved for m, the denominator is 2 + β/σ², which is"
    " never 0: is a β below a fraction line, or the 2 of the reward's slope lost?",
)
FAR = [
    (
        f"wrong where {words}",
        f"Right in the first cases, wrong where {words}: is something bounded, rounded, added, or"
        " searched for in steps?",
        given,
    )
    for words, given in (
        ("β is 50", (50.0, 0.5)), ("β is 0.0003", (0.0003, 0.02)), ("σ is 30", (40.0, 30.0)),
    )
]  # fmt: skip
check_best_mean = explained(
    checker(BEST_MEAN),
    (LIMITS,),
    also_on(BEST_MEAN, *FAR),
    cause=one_of(
        BEST_MEAN,
        two_at_once(best_mean, SLIPS),
        result_changed,
        other_inputs(
            also={
                "kl_coef": {
                    "0.1 where it is 0": lambda b: b or 0.1,
                    "1 where it is 0": lambda b: b or 1.0,
                    "10 times as large": lambda b: 10 * b,
                    "10 times as small": lambda b: b / 10,
                    "at least 0.1": lambda b: max(b, 0.1),
                    "at most 1": lambda b: min(b, 1.0),
                },
                "sigma": {
                    "0.5, whatever you are given": lambda s: 0.5,
                    "1, whatever you are given": lambda s: 1.0,
                },
            }
        ),
        without_effect,
        case_by_case(
            ("β = 0", (0.0, 0.5)),
            ("β is small", (0.05, 0.5)),
            ("β is large", (5.0, 0.5)),
            ("σ = 1", (0.4, 1.0)),
            ("σ is small", (0.4, 0.25)),
        ),
    ),
)  # fmt: skip
