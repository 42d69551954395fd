"""Numbers read from the values of one metric, and the iterations they are read at."""

import math
from collections.abc import Callable
from operator import sub
from statistics import StatisticsError, correlation, median_low
from typing import NamedTuple

Values = list[float]


def mean(values: Values) -> float:
    return sum(values) / len(values)


def last_third(values: Values) -> slice:
    """Where the last third lies."""
    return slice(len(values) - max(1, len(values) // 3), len(values))


def first_three(values: Values) -> slice:
    """Where the first three lie."""
    return slice(0, min(3, len(values)))


def middle_of_last_third(values: Values) -> slice:
    """Where the median of the last third lies (of two, the lower)."""
    late = last_third(values)
    place = values.index(median_low(values[late]), late.start)
    return slice(place, place + 1)


def whole(values: Values) -> slice:
    """All iterations."""
    return slice(0, len(values))


def place_of(pick: Callable) -> Callable[[Values], slice]:
    """Where the largest (`max`) or smallest (`min`) value lies; NaN counts as both."""

    def place(values: Values) -> slice:
        wrong = [i for i, value in enumerate(values) if math.isnan(value)]
        found = wrong[0] if wrong else values.index(pick(values))
        return slice(found, found + 1)

    return place


def ratio(new: float, old: float) -> float:
    """new / old; of two zeros 1."""
    if old == 0.0:
        return 1.0 if new == 0.0 else math.inf
    return new / old


def trend(values: Values) -> float:
    """Correlation with the iteration, from −1 to 1; 0 where nothing changes."""
    try:
        return correlation(range(len(values)), values)
    except StatisticsError:
        return 0.0


class Measure(NamedTuple):
    """A number, and the spans of iterations that show it."""

    of: Callable[[Values], float]
    spans: Callable[[Values], list[slice]]


def of_means(*spans: Callable[[Values], slice], make: Callable = float) -> Measure:
    """What `make` makes of the means over these spans."""
    places = lambda values: [span(values) for span in spans]  # noqa: E731
    return Measure(lambda values: make(*(mean(values[s]) for s in places(values))), places)


MEASURES = {
    "at iteration 1": of_means(lambda values: slice(0, 1)),
    "largest": of_means(place_of(max)),
    "smallest": of_means(place_of(min)),
    "last third": of_means(last_third),
    "median of the last third": of_means(middle_of_last_third),
    "last third, absolute value": of_means(last_third, make=abs),
    "full run": of_means(whole),
    "full run, absolute value": of_means(whole, make=abs),
    "first three, absolute value": of_means(first_three, make=abs),
    "last third − first three": of_means(last_third, first_three, make=sub),
    "last third / first three": of_means(last_third, first_three, make=ratio),
    "largest − smallest": of_means(place_of(max), place_of(min), make=sub),
    "correlation with the iteration": Measure(trend, of_means(last_third, first_three).spans),
}
