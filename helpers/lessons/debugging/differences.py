"""What tells two cases apart: the number whose recorded values lie farthest apart."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.lessons.debugging.diagnose import column
from helpers.lessons.debugging.measures import MEASURES
from helpers.state import History

ROUNDING = 1e-4  # a ratio this near 1 is 1, whatever its digits
FACTOR = math.log(1.5)  # on a logarithmic panel, smaller factors are hard to see
ENOUGH = 8.0  # visible steps: of several numbers that are this far apart, the first one is named


@dataclass(frozen=True)
class Reading:
    """A number that a reader can take from the curves."""

    metric: str
    reading: str  # a key of MEASURES
    visible: float  # the smallest difference that one can see
    floor: float | None = None  # read on a logarithmic axis that begins here

    @property
    def words(self) -> str:
        """Which curve, and where on it."""
        return f"{self.metric}, {self.reading}"

    def measure(self, history: History) -> float:
        """The number, of a run's records."""
        return MEASURES[self.reading].of(column(history, self.metric))

    def is_named_in(self, sign: str) -> bool:
        """Whether a sentence names this metric: "KL", "value loss", "the ratio"."""
        metric = self.metric.removeprefix("first_").removesuffix("_error")
        name = metric.replace("_", "[ _]")
        return bool(re.search(rf"\b{name}", sign, re.IGNORECASE))

    def place(self, value: float) -> float:
        """Where a value stands on its axis."""
        return value if self.floor is None else math.log(max(value, self.floor))


READINGS = (  # the sharpest first, as in the lesson's order of looking
    Reading("first_ratio_error", "at iteration 1", FACTOR, ROUNDING),
    Reading("first_ratio_error", "largest", math.log(10), ROUNDING),
    Reading("ended", "last third", 0.1),
    Reading("score", "at iteration 1", 0.5),
    Reading("kl", "at iteration 1", 0.1),
    Reading("policy_loss", "at iteration 1", 0.02),
    Reading("kl", "last third", 0.5),
    Reading("score", "last third", 0.2),
    Reading("response_length", "last third", 1.0),
    Reading("entropy", "last third", 0.1),
    Reading("value_loss", "last third", FACTOR, 1e-6),
    Reading("explained_variance", "last third", 0.15),
    Reading("approx_kl", "full run", FACTOR, 1e-6),
    Reading("clip_fraction", "full run", 0.05),
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
