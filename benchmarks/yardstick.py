"""Efficiency, (J(π) − J(π_ref))/(J* − J(π_ref)) on the embedded world, and how a peer's rate is chosen."""

import statistics
from collections.abc import Callable

from helpers.studies.beta_sweep import Sweep
from helpers.theory.optimum import Estimate, Optimum, efficiency

TUNED_ON = 10  # the seed that chooses a rate; none that is reported
RATES = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
GRID = RATES[4:7]  # tried by all; the others where the best is an edge
WINDOW = 5  # rollouts that a value on the way is the mean of


class Yardstick:
    """Efficiency at one β, from J."""

    def __init__(self, sweep: Sweep, beta: float):
        self.reference, self.beta = sweep.reference_value, beta
        self.best: Optimum = sweep.optimum(beta)

    def share(self, value: float) -> float:
        """J → efficiency."""
        return self.estimate(value, 0.0).mean

    def estimate(self, value: float, stderr: float) -> Estimate:
        """J with its standard error → efficiency with its own."""
        return efficiency(Estimate(value, stderr), self.reference, self.best)

    def along(self, history: list[dict], budgets: tuple[int, ...]) -> dict[int, float]:
        """Efficiency after so many updates: by values measured there, else from the rollouts around.

        The policy after n updates writes rollout n + 1: the middle one of those whose mean is taken.
        """
        if history and "value" in history[0]:
            measured = {row["iteration"]: row["value"] for row in history}
            return {n: self.share(measured[n]) for n in budgets if n in measured}
        values, half = [row["score"] - self.beta * row["kl"] for row in history], WINDOW // 2
        spans = {
            n: values[n - half : n + half + 1] for n in budgets if half <= n < len(values) - half
        }
        return {n: self.share(statistics.fmean(span)) for n, span in spans.items()}


def untried(ends: dict[float, float]) -> tuple[float, ...]:
    """The rates to try next, given J by rate: those of GRID, then the neighbour of a best at an edge."""
    left = tuple(rate for rate in GRID if rate not in ends)
    if left:
        return left
    place = RATES.index(max(ends, key=ends.get))
    around = RATES[max(place - 1, 0) : place + 2]
    return tuple(rate for rate in around if rate not in ends)


def best_rate(end_at: Callable[[float], float | None]) -> tuple[float | None, dict[float, float]]:
    """The rate of the highest J, None while some are untried; and J of all that were tried."""
    ends = {rate: end for rate in RATES if (end := end_at(rate)) is not None}
    return None if untried(ends) else max(ends, key=ends.get), ends
