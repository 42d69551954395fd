"""What rules are worth: how many runs of the clinic they flag, on the seeds that no range was chosen on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from helpers.lessons.debugging.checks import SEEN, UNSEEN, healthy
from helpers.lessons.debugging.diagnose import Rule
from helpers.lessons.debugging.names import metrics_of
from helpers.lessons.debugging.study import load_clinic
from helpers.studies.faults import FAULTS

ESTIMATES = {"kl_k3": "kl"}  # of the same quantity; the clinic records k1

RunMetrics = dict[str, list[float]]


@cache
def clinic_metrics() -> dict[tuple[str, int], RunMetrics]:
    """Kind and seed of each recorded run of the clinic → its metrics."""
    found = {}
    for run in load_clinic().runs:
        metrics = metrics_of(run.history)[1]
        values = {key: list(series.values()) for key, series in metrics.items()}
        found[run.kind, run.config.seed] = values
    return found


def breaks(metrics: RunMetrics, rule: Rule, rows: int) -> bool:
    """Whether a run breaks a rule in its first `rows` iterations, as far as it records the metric."""
    return rule.metric in metrics and rule.broken_by(metrics[rule.metric][:rows])


def too_early(rule: Rule, rows: int) -> bool:
    """Whether a healthy run on a seen seed breaks the rule in so few iterations."""
    rule = replace(rule, metric=ESTIMATES.get(rule.metric, rule.metric))
    runs = clinic_metrics().items()
    return any(breaks(run, rule, rows) for (kind, s), run in runs if healthy(kind) and s in SEEN)


def recorded(metric: str) -> bool:
    """Whether every run of the clinic records the metric; some do the scores' standard deviation."""
    return all(metric in run for run in clinic_metrics().values())


def measurable(rules: Sequence[Rule]) -> list[Rule]:
    """Those of the rules whose metric the clinic records."""
    return [rule for rule in rules if recorded(rule.metric)]


@dataclass(frozen=True)
class Rates:
    """Which runs on unseen seeds some rules flag: (kind, seed) → whether any of them does."""

    flagged: dict[tuple[str, int], bool]

    def count(self, well: bool) -> tuple[int, int]:
        """Of the healthy, or the faulty, runs: those flagged, and all."""
        runs = [raised for (kind, _), raised in self.flagged.items() if healthy(kind) == well]
        return sum(runs), len(runs)

    def faults(self) -> list[str]:
        """The titles of the single faults that are flagged, those on most seeds first."""
        found = Counter(kind for (kind, _), raised in self.flagged.items() if raised)
        return [FAULTS[kind].title for kind, _ in found.most_common() if kind in FAULTS]

    def __str__(self) -> str:
        (hits, faulty), (alarms, well) = self.count(well=False), self.count(well=True)
        return f"{hits} of {faulty} faulty runs and {alarms} of {well} healthy ones"


def rates(rules: Sequence[Rule], rows: int) -> Rates | None:
    """The rates of these rules together over so many iterations; None: the clinic lacks their metrics."""
    unseen = {place: run for place, run in clinic_metrics().items() if place[1] in UNSEEN}
    flagged = {at: any(breaks(run, rule, rows) for rule in rules) for at, run in unseen.items()}
    return Rates(flagged) if measurable(rules) else None
