"""Diagnose a run from its metrics: rules, each with the range of a healthy run."""

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

from helpers.lessons.debugging.measures import MEASURES, last_third, mean
from helpers.state import History
from helpers.tools.validate import require


def column(history: History, name: str) -> list[float]:
    """One metric over the iterations. ValueError: no iteration, or the metric is missing."""
    require(len(history) > 0, "history", "no record", "at least one iteration")
    everywhere = all(name in record for record in history)
    require(everywhere, "history", f"no {name!r}", f"{name!r} in each")
    return [float(record[name]) for record in history]


def late(history: History, name: str) -> float:
    """Mean of a metric over the last third."""
    values = column(history, name)
    return mean(values[last_third(values)])


def average(history: History, name: str) -> float:
    """Mean of a metric over all iterations."""
    return mean(column(history, name))


@dataclass(frozen=True)
class Rule:
    """A number read from a metric, and its range in a healthy run: an entry of `rules.toml`."""

    name: str
    metric: str
    reading: str  # a key of MEASURES
    range: tuple[float, float]
    meaning: str  # what it may mean if the number is outside
    look: str  # what to look at next
    lesson: str  # its number
    here: bool = False  # the range is this world's: of use for runs of the course alone
    note: bool = False  # being outside is no fault
    rows: int = 1  # the fewest that it is applied to in a log

    @property
    def measured(self) -> str:
        """The number in words."""
        return f"{self.metric}, {self.reading}"

    @property
    def healthy(self) -> str:
        """The range as one reads it; one that begins at 0 belongs to a number that is never below."""
        low, high = self.range
        if high == math.inf:
            return f"at least {low:g}"
        return f"at most {high:g}" if low in (0.0, -math.inf) else f"{low:g} to {high:g}"

    def measure(self, values: list[float]) -> float:
        """The number, of the metric's values."""
        return MEASURES[self.reading].of(values)

    def broken_by(self, values: list[float]) -> bool:
        """Whether the number is outside the range, or is none."""
        return not self.range[0] <= self.measure(values) <= self.range[1]

    def spans(self, values: list[float]) -> list[slice]:
        """The iterations that the number is read at."""
        return MEASURES[self.reading].spans(values)


@dataclass(frozen=True, kw_only=True)
class Flag(Rule):
    """A rule that a history breaks, and its number there."""

    value: float


_TABLE = tomllib.loads((Path(__file__).parent / "rules.toml").read_text("utf-8"))
RULES, LOG_RULES = (
    tuple(Rule(**entry | {"range": tuple(entry["range"])}) for entry in _TABLE[name])
    for name in ("rules", "log_rules")
)


def diagnose(history: History) -> list[Flag]:
    """A flag for every rule whose number is outside its healthy range, or not a number."""
    values = {rule: column(history, rule.metric) for rule in RULES}
    broken = [rule for rule in RULES if rule.broken_by(values[rule])]
    return [Flag(**vars(rule), value=rule.measure(values[rule])) for rule in broken]
