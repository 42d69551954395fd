"""What tells two cases apart: the number whose recorded values lie farthest apart."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from helpers.lessons.debugging.diagnose import column
from helpers.lessons.debugging.measures import MEASURES
from helpers.state import History

ROUNDING = 1e-4  # a ratio this near 1 is 1, whatever its digits
FACTOR = math.log(1.5)  # on a logarithmic panel, smaller factors are hard to see
ENOUGH = 8.0  # visible steps: of several numbers that are this far apart, the first one is named


class Reading(NamedTuple):
    """A number that a reader can take from the curves."""

    metric: str
    reading: str  # a key of MEASURES
    visible: float  # the smallest difference that one can see
    floor: float | None = None  # read on a logarithmic axis that begins here

    def measure(self, history: History) -> float:
        """The number, of a run's records."""
        return MEASURES[self.reading].of(column(history, self.metric))

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


def tell_apart(here: Sequence[History], there: Sequence[History]) -> str:
    """The reading that separates the runs of two cases best, in words; "" if no curve shows a difference."""
    found = {}
    for reading in READINGS:
        values = [[reading.measure(history) for history in case] for case in (here, there)]
        ends = [(min(case), max(case)) for case in values]
        if all(map(math.isfinite, sum(values, []))):
            (low, high), (least, most) = (map(reading.place, pair) for pair in ends)
            steps = max(least - high, low - most) / reading.visible
            if steps >= 1:
                mine, other = (" to ".join(f"{x:.3g}" for x in pair) for pair in ends)
                words = f"{reading.metric}, {reading.reading}: here {mine}, there {other}"
                found[words] = min(steps, ENOUGH)
    return max(found, key=found.get, default="")  # the first of the best
