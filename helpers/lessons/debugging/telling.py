"""What tells two cases of the clinic apart: the number whose recorded values lie farthest apart."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from helpers.lessons.debugging.diagnose import STATISTICS, column
from helpers.state import History

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

    def place(self, history: History) -> float:
        """Where the number stands on its axis."""
        value = self.measure(history)
        return value if self.floor is None else math.log(max(value, self.floor))


def first(name: str) -> Callable[[History], float]:
    """The measurement of a metric at iteration 1."""
    return lambda history: column(history, name)[0]


LATE = "mean of the last third"
READINGS = (  # the sharpest first, as in the lesson's order of looking
    Reading("first_ratio_error at iteration 1", first("first_ratio_error"), FACTOR, ROUNDING),
    Reading(
        "first_ratio_error, its largest", STATISTICS["first_ratio_error"], math.log(10), ROUNDING
    ),
    Reading("ended, " + LATE, STATISTICS["ended"], 0.1),
    Reading("score at iteration 1", first("score"), 0.5),
    Reading("kl at iteration 1", first("kl"), 0.1),
    Reading("policy_loss at iteration 1", first("policy_loss"), 0.02),
    Reading("kl, " + LATE, STATISTICS["kl"], 0.5),
    Reading("score, " + LATE, STATISTICS["score"], 0.2),
    Reading("response_length, " + LATE, STATISTICS["response_length"], 1.0),
    Reading("entropy, " + LATE, STATISTICS["entropy"], 0.1),
    Reading("value_loss, " + LATE, STATISTICS["value_loss"], FACTOR, 1e-6),
    Reading("explained_variance, " + LATE, STATISTICS["explained_variance"], 0.15),
    Reading("approx_kl, mean of the run", STATISTICS["approx_kl"], FACTOR, 1e-6),
    Reading("clip_fraction, mean of the run", STATISTICS["clip_fraction"], 0.05),
)


@dataclass(frozen=True)
class Telling:
    """A reading of two cases: its lowest and highest value in the runs of each."""

    reading: Reading
    here: tuple[float, float]
    there: tuple[float, float]
    steps: float  # how many visible steps lie between the two

    def __str__(self) -> str:
        here, there = (" to ".join(f"{x:.3g}" for x in ends) for ends in (self.here, self.there))
        return f"{self.reading.words}: here {here}, there {there}"


def compare(reading: Reading, here: Sequence[History], there: Sequence[History]) -> Telling:
    """One reading of both cases; values that are not numbers tell nothing."""
    places = [[reading.place(history) for history in case] for case in (here, there)]
    values = [[reading.measure(history) for history in case] for case in (here, there)]
    ends = [(min(case), max(case)) for case in values]
    if not all(math.isfinite(x) for case in places for x in case):
        return Telling(reading, *ends, 0.0)
    gap = max(min(places[1]) - max(places[0]), min(places[0]) - max(places[1]), 0.0)
    return Telling(reading, *ends, gap / reading.visible)


def tell_apart(here: Sequence[History], there: Sequence[History]) -> Telling | None:
    """The reading that separates the runs of two cases best; None if no curve shows a difference."""
    found = [compare(reading, here, there) for reading in READINGS]
    best = max(found, key=lambda telling: min(telling.steps, ENOUGH))  # the first of the best
    return best if best.steps >= 1 else None
