"""What tells two cases apart: the number whose recorded values lie farthest apart on its panel."""

import math
from collections.abc import Sequence
from itertools import product

from helpers.lessons.debugging.diagnose import column
from helpers.lessons.debugging.figures import METRICS, Metric
from helpers.lessons.debugging.measures import MEASURES
from helpers.state import History

ROUNDING = 1e-4  # where logarithmic panels begin: a ratio this near 1 is 1, whatever its digits
LEAST = 0.1  # of a panel's height: less is hard to see


def height(metric: Metric, value: float) -> float:
    """Where a value stands on the metric's panel."""
    return math.log(max(value, ROUNDING)) if metric.spans else value


def tell_apart(here: Sequence[History], there: Sequence[History]) -> str:
    """The reading that separates the runs of two cases best, in words; "" if no panel shows a difference."""
    found = {}
    for metric, reading in product(METRICS, ("at iteration 1", "last third")):
        lines = [[column(history, metric.key) for history in case] for case in (here, there)]
        points = [height(metric, value) for case in lines for line in case for value in line]
        if all(map(math.isfinite, points)):
            values = [[MEASURES[reading].of(line) for line in case] for case in lines]
            ends = [(min(case), max(case)) for case in values]
            (low, high), (least, most) = ([height(metric, x) for x in pair] for pair in ends)
            apart = max(least - high, low - most)
            if apart > LEAST * (max(points) - min(points)):
                mine, other = (" to ".join(f"{x:.3g}" for x in pair) for pair in ends)
                words = f"{metric.key}, {reading}: here {mine}, there {other}"
                found[words] = apart / (max(points) - min(points))
    return max(found, key=found.get, default="")
