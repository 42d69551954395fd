"""Diagnose a run from its metrics: thirteen rules, each with a healthy range."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from helpers.state import History
from helpers.tools.validate import require


def column(history: History, name: str) -> list[float]:
    """One metric over the iterations. ValueError: no iteration, or the metric is missing."""
    require(len(history) > 0, "history", "no record", "at least one iteration")
    require(
        all(name in record for record in history), "history", f"no {name!r}", f"{name!r} in each"
    )
    return [float(record[name]) for record in history]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def early(history: History, name: str) -> float:
    """Mean of a metric over the first three iterations."""
    return mean(column(history, name)[:3])


def late(history: History, name: str) -> float:
    """Mean of a metric over the last third."""
    values = column(history, name)
    return mean(values[-max(1, len(values) // 3) :])


def average(history: History, name: str) -> float:
    """Mean of a metric over all iterations."""
    return mean(column(history, name))


INFINITE = float("inf")
STATISTICS: dict[str, Callable[[History], float]] = {
    "kl": lambda history: late(history, "kl"),
    "score": lambda history: late(history, "score"),
    "entropy": lambda history: late(history, "entropy"),
    "response_length": lambda history: late(history, "response_length"),
    "ended": lambda history: late(history, "ended"),
    "value_loss": lambda history: late(history, "value_loss"),
    "explained_variance": lambda history: late(history, "explained_variance"),
    "approx_kl": lambda history: average(history, "approx_kl"),
    "clip_fraction": lambda history: average(history, "clip_fraction"),
    "first_ratio_error": lambda history: max(column(history, "first_ratio_error")),
}


@dataclass(frozen=True)
class Rule:
    """A statistic of a history, in code and in words, and the range of a healthy run."""

    name: str
    measured: str
    range: tuple[float, float]
    measure: Callable[[History], float]
    meaning: str  # what it may mean if the statistic is outside

    @property
    def healthy(self) -> str:
        """The range as one reads it; one that begins at 0 belongs to a number that is never below."""
        low, high = self.range
        if high == INFINITE:
            return f"at least {low:g}"
        return f"at most {high:g}" if low in (0.0, -INFINITE) else f"{low:g} to {high:g}"


@dataclass(frozen=True)
class Flag(Rule):
    """A rule whose statistic is outside its healthy range."""

    value: float


# the ranges were chosen on seeds 0 to 2 of data/clinic and tested on seeds 3 to 5
RULES = (
    Rule(
        "ratio not 1 at the first step",
        "first_ratio_error, largest",
        (0.0, 1e-3),
        STATISTICS["first_ratio_error"],
        "PPO's old log-probs are not those of the policy that sampled: dropout, another temperature, "
        "or another model",
    ),
    Rule(
        "negative KL",
        "kl, smallest",
        (-0.1, INFINITE),
        lambda history: min(column(history, "kl")),
        "a mean over the policy's own samples cannot stay below 0: these are not its samples (pads "
        "counted, other log-probs), or the difference is taken the wrong way round",
    ),
    Rule(
        "KL runs away",
        "kl, largest",
        (-INFINITE, 10.0),
        lambda history: max(column(history, "kl")),
        "nothing limits the policy: no penalty, a penalty with the wrong sign, or a reward on another scale",
    ),
    Rule(
        "KL stays at 0",
        "kl, last third",
        (0.3, INFINITE),
        STATISTICS["kl"],
        "the policy does not move, the reference moves with it, or the reference's log-probs stand in for "
        "the policy's",
    ),
    Rule(
        "entropy collapse",
        "entropy, last third / first three",
        (0.6, INFINITE),
        lambda history: late(history, "entropy") / early(history, "entropy"),
        "the policy samples the same few responses all the time",
    ),
    Rule(
        "score off scale",
        "score, first three, without its sign",
        (0.0, 2.0),
        lambda history: abs(early(history, "score")),
        "the reward is not normalised: at the start, scores should be a few standard deviations around 0",
    ),
    Rule(
        "score does not rise",
        "score, last third − first three",
        (0.5, INFINITE),
        lambda history: late(history, "score") - early(history, "score"),
        "nothing is learnt: β is too large, the score does not reach the rewards, or the policy is destroyed",
    ),
    Rule(
        "explained variance out of range",
        "explained_variance, last third",
        (0.05, 0.65),
        STATISTICS["explained_variance"],
        "near 0, values do not predict returns; near 1, the targets are too easy to be returns",
    ),
    Rule(
        "value loss out of range",
        "value_loss, last third",
        (0.006, 0.15),
        STATISTICS["value_loss"],
        "returns on another scale: whitened, not normalised, or replaced by per-token rewards",
    ),
    Rule(
        "length drift",
        "response_length, last third / first three",
        (0.6, 1.5),
        lambda history: late(history, "response_length") / early(history, "response_length"),
        "responses stop earlier or later than before: the stop token is not trained, or length is rewarded",
    ),
    Rule(
        "length pinned",
        "response_length, largest − smallest",
        (0.05, INFINITE),
        lambda history: (
            max(column(history, "response_length")) - min(column(history, "response_length"))
        ),
        "every response has the same length: padding counts",
    ),
    Rule(
        "nothing ends",
        "ended, last third",
        (0.5, INFINITE),
        STATISTICS["ended"],
        "responses reach the length limit, or the stop token is not counted",
    ),
    Rule(
        "updates too large",
        "approx_kl, full run",
        (0.0, 0.015),
        STATISTICS["approx_kl"],
        "the policy moves far from its rollout: the learning rate is too high, or the clip does not work",
    ),
)


def diagnose(history: History) -> list[Flag]:
    """A flag for every rule whose statistic is outside its healthy range, or not a number."""
    values = {rule: rule.measure(history) for rule in RULES}
    return [
        Flag(**vars(rule), value=value)
        for rule, value in values.items()
        if not rule.range[0] <= value <= rule.range[1]
    ]


EXACT = {"first_ratio_error": 1e-3}  # no noise: healthy below this, whatever the other runs show
SPANNING = ("kl", "approx_kl", "clip_fraction", "value_loss", "grad_norm")  # by their logarithms
SILENT = ("policy_loss",)  # says little by itself
TAIL = 1e-9  # a logarithm needs more than 0
WIDER = 2.0  # ranges of the healthy runs by which their band is widened each way


def judged_band(healthy: Sequence[History], name: str) -> tuple[float, float]:
    """Where a metric's late mean may lie: the healthy runs' range, widened each way."""
    if name in EXACT:
        return 0.0, EXACT[name]
    spans = name in SPANNING
    values = [late(one, name) for one in healthy]
    values = [math.log(max(value, TAIL)) for value in values] if spans else values
    width = WIDER * (max(values) - min(values))
    low, high = min(values) - width, max(values) + width
    return (math.exp(low), math.exp(high)) if spans else (low, high)


def out_of_band(history: History, healthy: Sequence[History], names: Sequence[str]) -> list[str]:
    """Those metrics whose late mean (of an exact one: largest value) lies outside the healthy band."""
    found = []
    for name in names:
        low, high = judged_band(healthy, name)
        value = max(column(history, name)) if name in EXACT else late(history, name)
        if name not in SILENT and not low <= value <= high:
            found.append(name)
    return found


# --- what tells two cases apart: the number whose recorded values lie farthest apart --------------

ROUNDING = 1e-4  # a ratio this near 1 is 1, whatever its digits
FACTOR = math.log(1.5)  # on a logarithmic panel, smaller factors are hard to see
ENOUGH = 8.0  # visible steps: of several numbers that are this far apart, the first one is named


@dataclass(frozen=True)
class Reading:
    """A number that a reader can take from the curves."""

    words: str  # which curve, and where on it
    measure: Callable[[History], float]
    visible: float  # the smallest difference that one can see
    floor: float | None = None  # read on a logarithmic axis that begins here

    def is_named_in(self, sign: str) -> bool:
        """Whether a sentence names this metric: "KL", "value loss", "the ratio"."""
        metric = self.words.replace(",", "").split()[0]
        name = "ratio" if metric == "first_ratio_error" else metric.replace("_", "[ _]")
        return bool(re.search(rf"\b{name}", sign, re.IGNORECASE))

    def place(self, value: float) -> float:
        """Where a value stands on its axis."""
        return value if self.floor is None else math.log(max(value, self.floor))


def first(name: str) -> Callable[[History], float]:
    """The measurement of a metric at iteration 1."""
    return lambda history: column(history, name)[0]


def in_last_third(name: str, visible: float, floor: float | None = None) -> Reading:
    """The reading of a statistic over the last third."""
    return Reading(f"{name}, mean of the last third", STATISTICS[name], visible, floor)


READINGS = (  # the sharpest first, as in the lesson's order of looking
    Reading("first_ratio_error at iteration 1", first("first_ratio_error"), FACTOR, ROUNDING),
    Reading(
        "first_ratio_error, its largest", STATISTICS["first_ratio_error"], math.log(10), ROUNDING
    ),
    in_last_third("ended", 0.1),
    Reading("score at iteration 1", first("score"), 0.5),
    Reading("kl at iteration 1", first("kl"), 0.1),
    Reading("policy_loss at iteration 1", first("policy_loss"), 0.02),
    in_last_third("kl", 0.5),
    in_last_third("score", 0.2),
    in_last_third("response_length", 1.0),
    in_last_third("entropy", 0.1),
    in_last_third("value_loss", FACTOR, 1e-6),
    in_last_third("explained_variance", 0.15),
    Reading("approx_kl, mean of the run", STATISTICS["approx_kl"], FACTOR, 1e-6),
    Reading("clip_fraction, mean of the run", STATISTICS["clip_fraction"], 0.05),
)


@dataclass(frozen=True)
class Difference:
    """A reading of two cases: its lowest and highest value in the runs of each."""

    reading: Reading
    here: tuple[float, float]
    there: tuple[float, float]

    def __str__(self) -> str:
        here, there = (" to ".join(f"{x:.3g}" for x in ends) for ends in (self.here, self.there))
        return f"{self.reading.words}: here {here}, there {there}"

    @property
    def steps(self) -> float:
        """How many visible steps lie between the two."""
        here, there = ([self.reading.place(x) for x in ends] for ends in (self.here, self.there))
        return max(there[0] - here[1], here[0] - there[1], 0.0) / self.reading.visible


def tell_apart(
    here: Sequence[History], there: Sequence[History], sign: str = ""
) -> Difference | None:
    """The reading that separates the runs of two cases best; None if no curve shows a difference.

    A metric that is named in `sign` goes first.
    """
    found = []
    for reading in READINGS:
        values = [[reading.measure(history) for history in case] for case in (here, there)]
        if all(map(math.isfinite, values[0] + values[1])):
            found.append(Difference(reading, *((min(case), max(case)) for case in values)))
    shown = [difference for difference in found if difference.steps >= 1]
    named = [difference for difference in shown if difference.reading.is_named_in(sign)]
    best = lambda difference: min(difference.steps, ENOUGH)  # noqa: E731 (the first of the best)
    return max(named or shown, key=best, default=None)
