"""Diagnose a run from its metrics: thirteen rules, each with a healthy range."""

from collections.abc import Callable
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
    low: float
    high: float
    meaning: str


INFINITE = float("inf")
RULES = (
    Rule(
        "ratio not 1 at the first step",
        STATISTICS["first_ratio_error"],
        0.0,
        1e-3,
        "PPO's old log-probs are not those of the policy that sampled: dropout, another temperature, "
        "or another model",
    ),
    Rule(
        "negative KL",
        lambda history: min(column(history, "kl")),
        -0.1,
        INFINITE,
        "the mean KL over the policy's own samples cannot stay below 0: sign, direction or mask is wrong",
    ),
    Rule(
        "KL runs away",
        lambda history: max(column(history, "kl")),
        -INFINITE,
        10.0,
        "nothing limits the policy: no penalty, a penalty with the wrong sign, or a reward on another scale",
    ),
    Rule(
        "KL stays at 0",
        STATISTICS["kl"],
        0.3,
        INFINITE,
        "the policy does not move, or the reference moves with it",
    ),
    Rule(
        "entropy collapse",
        lambda history: late(history, "entropy") / early(history, "entropy"),
        0.6,
        INFINITE,
        "the policy writes the same few responses all the time",
    ),
    Rule(
        "score off scale",
        lambda history: abs(early(history, "score")),
        0.0,
        2.0,
        "the reward is not normalised: at the start, scores should be a few standard deviations around 0",
    ),
    Rule(
        "score does not rise",
        lambda history: late(history, "score") - early(history, "score"),
        0.5,
        INFINITE,
        "nothing is learnt: β is too large, the score does not reach the rewards, or the policy is destroyed",
    ),
    Rule(
        "explained variance out of range",
        STATISTICS["explained_variance"],
        0.05,
        0.65,
        "near 0, values do not predict returns; near 1, the targets are too easy to be returns",
    ),
    Rule(
        "value loss out of range",
        STATISTICS["value_loss"],
        0.006,
        0.15,
        "returns on another scale: whitened, not normalised, or replaced by per-token rewards",
    ),
    Rule(
        "length drift",
        lambda history: late(history, "response_length") / early(history, "response_length"),
        0.6,
        1.5,
        "responses stop earlier or later than before: the stop token is not trained, or length is rewarded",
    ),
    Rule(
        "length pinned",
        lambda history: (
            max(column(history, "response_length")) - min(column(history, "response_length"))
        ),
        0.05,
        INFINITE,
        "every response has the same length: padding counts",
    ),
    Rule(
        "nothing ends",
        STATISTICS["ended"],
        0.5,
        INFINITE,
        "responses reach the length limit, or the stop token is not counted",
    ),
    Rule(
        "updates too large",
        STATISTICS["approx_kl"],
        0.0,
        0.015,
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
