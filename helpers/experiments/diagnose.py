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
class Flag:
    """A statistic outside its healthy range: name, value, range, and what it may mean."""

    name: str
    value: float
    low: float
    high: float
    meaning: str


@dataclass(frozen=True)
class Rule:
    """A statistic of a history and the range of a healthy run."""

    name: str
    measure: Callable[[History], float]
    meaning: str

    @property
    def low(self) -> float:
        return RANGES[self.name][0]

    @property
    def high(self) -> float:
        return RANGES[self.name][1]


INFINITE = float("inf")
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
        STATISTICS["first_ratio_error"],
        "PPO's old log-probs are not those of the policy that sampled: dropout, another temperature, "
        "or another model",
    ),
    Rule(
        "negative KL",
        lambda history: min(column(history, "kl")),
        "a mean over the policy's own samples cannot stay below 0: these are not its samples (pads "
        "counted, other log-probs), or the difference is taken the wrong way round",
    ),
    Rule(
        "KL runs away",
        lambda history: max(column(history, "kl")),
        "nothing limits the policy: no penalty, a penalty with the wrong sign, or a reward on another scale",
    ),
    Rule(
        "KL stays at 0",
        STATISTICS["kl"],
        "the policy does not move, or the reference moves with it",
    ),
    Rule(
        "entropy collapse",
        lambda history: late(history, "entropy") / early(history, "entropy"),
        "the policy writes the same few responses all the time",
    ),
    Rule(
        "score off scale",
        lambda history: abs(early(history, "score")),
        "the reward is not normalised: at the start, scores should be a few standard deviations around 0",
    ),
    Rule(
        "score does not rise",
        lambda history: late(history, "score") - early(history, "score"),
        "nothing is learnt: β is too large, the score does not reach the rewards, or the policy is destroyed",
    ),
    Rule(
        "explained variance out of range",
        STATISTICS["explained_variance"],
        "near 0, values do not predict returns; near 1, the targets are too easy to be returns",
    ),
    Rule(
        "value loss out of range",
        STATISTICS["value_loss"],
        "returns on another scale: whitened, not normalised, or replaced by per-token rewards",
    ),
    Rule(
        "length drift",
        lambda history: late(history, "response_length") / early(history, "response_length"),
        "responses stop earlier or later than before: the stop token is not trained, or length is rewarded",
    ),
    Rule(
        "length pinned",
        lambda history: (
            max(column(history, "response_length")) - min(column(history, "response_length"))
        ),
        "every response has the same length: padding counts",
    ),
    Rule(
        "nothing ends",
        STATISTICS["ended"],
        "responses reach the length limit, or the stop token is not counted",
    ),
    Rule(
        "updates too large",
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
            found.append(Flag(rule.name, value, rule.low, rule.high, rule.meaning))
    return found


EXACT = {"first_ratio_error": 1e-3}  # no noise: healthy below this, whatever the other runs show
SPANNING = ("approx_kl", "value_loss", "grad_norm")  # compared by their logarithms
SILENT = ("policy_loss",)  # says little by itself
TAIL = 1e-9  # a logarithm needs more than 0
WIDER = 2.0  # ranges of the healthy runs by which their band is widened each way


def out_of_band(history: History, healthy: Sequence[History], names: Sequence[str]) -> list[str]:
    """Those metrics whose late mean lies outside the healthy runs', widened each way."""
    found = []
    for name in names:
        if name in SILENT:
            continue
        if name in EXACT:
            inside = max(column(history, name)) <= EXACT[name]
        else:
            scale = (lambda x: math.log(max(x, TAIL))) if name in SPANNING else float
            values = [scale(late(one, name)) for one in healthy]
            width = WIDER * (max(values) - min(values))
            value = scale(late(history, name))
            inside = min(values) - width <= value <= max(values) + width
        found += [] if inside else [name]
    return found
