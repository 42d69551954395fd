"""Diagnose a run from its metrics: thirteen rules, each with a healthy range."""

import math
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


def in_words(low: float, high: float) -> str:
    """A range as one reads it; one that begins at 0 belongs to a number that is never below."""
    if high == INFINITE:
        return f"at least {low:g}"
    return f"at most {high:g}" if low in (0.0, -INFINITE) else f"{low:g} to {high:g}"


@dataclass(frozen=True)
class Flag:
    """A statistic outside its healthy range: name, what is measured, value, range, what it may mean."""

    name: str
    measured: str
    value: float
    low: float
    high: float
    meaning: str

    @property
    def healthy(self) -> str:
        return in_words(self.low, self.high)


@dataclass(frozen=True)
class Rule:
    """A statistic of a history, in code and in words, and the range of a healthy run."""

    name: str
    measured: str
    measure: Callable[[History], float]
    meaning: str

    @property
    def low(self) -> float:
        return RANGES[self.name][0]

    @property
    def high(self) -> float:
        return RANGES[self.name][1]

    @property
    def healthy(self) -> str:
        return in_words(self.low, self.high)


RANGES = {  # the healthy ranges, chosen on seeds 0 to 2 of data/clinic and tested on seeds 3 to 5
    "ratio not 1 at the first step": (0.0, 1e-3),
    "negative KL": (-0.1, INFINITE),
    "KL runs away": (-INFINITE, 10.0),
    "KL stays at 0": (0.3, INFINITE),
    "entropy collapse": (0.6, INFINITE),
    "score off scale": (0.0, 2.0),
    "score does not rise": (0.5, INFINITE),
    "explained variance out of range": (0.05, 0.65),
    "value loss out of range": (0.006, 0.15),
    "length drift": (0.6, 1.5),
    "length pinned": (0.05, INFINITE),
    "nothing ends": (0.5, INFINITE),
    "updates too large": (0.0, 0.015),
}
RULES = (
    Rule(
        "ratio not 1 at the first step",
        "first_ratio_error, largest",
        STATISTICS["first_ratio_error"],
        "PPO's old log-probs are not those of the policy that sampled: dropout, another temperature, "
        "or another model",
    ),
    Rule(
        "negative KL",
        "kl, smallest",
        lambda history: min(column(history, "kl")),
        "a mean over the policy's own samples cannot stay below 0: these are not its samples (pads "
        "counted, other log-probs), or the difference is taken the wrong way round",
    ),
    Rule(
        "KL runs away",
        "kl, largest",
        lambda history: max(column(history, "kl")),
        "nothing limits the policy: no penalty, a penalty with the wrong sign, or a reward on another scale",
    ),
    Rule(
        "KL stays at 0",
        "kl, last third",
        STATISTICS["kl"],
        "the policy does not move, the reference moves with it, or the reference's log-probs stand in for "
        "the policy's",
    ),
    Rule(
        "entropy collapse",
        "entropy, last third / first three",
        lambda history: late(history, "entropy") / early(history, "entropy"),
        "the policy writes the same few responses all the time",
    ),
    Rule(
        "score off scale",
        "score, first three, without its sign",
        lambda history: abs(early(history, "score")),
        "the reward is not normalised: at the start, scores should be a few standard deviations around 0",
    ),
    Rule(
        "score does not rise",
        "score, last third − first three",
        lambda history: late(history, "score") - early(history, "score"),
        "nothing is learnt: β is too large, the score does not reach the rewards, or the policy is destroyed",
    ),
    Rule(
        "explained variance out of range",
        "explained_variance, last third",
        STATISTICS["explained_variance"],
        "near 0, values do not predict returns; near 1, the targets are too easy to be returns",
    ),
    Rule(
        "value loss out of range",
        "value_loss, last third",
        STATISTICS["value_loss"],
        "returns on another scale: whitened, not normalised, or replaced by per-token rewards",
    ),
    Rule(
        "length drift",
        "response_length, last third / first three",
        lambda history: late(history, "response_length") / early(history, "response_length"),
        "responses stop earlier or later than before: the stop token is not trained, or length is rewarded",
    ),
    Rule(
        "length pinned",
        "response_length, largest − smallest",
        lambda history: (
            max(column(history, "response_length")) - min(column(history, "response_length"))
        ),
        "every response has the same length: padding counts",
    ),
    Rule(
        "nothing ends",
        "ended, last third",
        STATISTICS["ended"],
        "responses reach the length limit, or the stop token is not counted",
    ),
    Rule(
        "updates too large",
        "approx_kl, whole run",
        STATISTICS["approx_kl"],
        "the policy moves far from its rollout: the learning rate is too high, or the clip does not work",
    ),
)


def diagnose(history: History) -> list[Flag]:
    """A flag for every rule whose statistic is outside its healthy range, or not a number."""
    found = []
    for rule in RULES:
        value = rule.measure(history)
        if not rule.low <= value <= rule.high:
            found.append(Flag(rule.name, rule.measured, value, rule.low, rule.high, rule.meaning))
    return found


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
