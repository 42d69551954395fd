"""Lesson 06's eight checks, one by one and of a whole trainer."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from helpers.kit.exercise import Exercise
from helpers.kit.judge import judge
from helpers.kit.recorded import sample_responses
from helpers.kit.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report
from helpers.lessons.your_trainer.loop import check_train
from helpers.lessons.your_trainer.steps import (  # noqa: F401 (the lesson takes all from here)
    STEPS,
    check_draw_prompts,
    check_estimate_advantages,
    check_forward_logprobs,
    check_score_responses,
    check_total_rewards,
    check_update,
    check_write_responses,
)

EXERCISES: dict[str, Exercise] = {**STEPS, "train": check_train.exercise}
NAMES = tuple(EXERCISES)
# the course's own; its sampler has a cache, and draws what the solution draws
COURSE = {name: exercise.right for name, exercise in EXERCISES.items()}
COURSE["write_responses"] = sample_responses
forward_logprobs = COURSE["forward_logprobs"]


@dataclass(frozen=True, repr=False)
class TrainerReport:
    """The reports on all eight functions, in the order of the steps."""

    reports: tuple[Report, ...]

    @property
    def first(self) -> Report | None:
        """The first function that is wrong; None if none is."""
        return next((report for report in self.reports if report.status == MISTAKE), None)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.first is not None:
            return f"The first that is not right is {self.first.exercise}; what you wrote before it is."
        missing = [one.exercise for one in self.reports if one.status == NOT_ATTEMPTED]
        if not missing:
            return "On the recorded inputs all eight do what the course's own do. Train with them."
        if len(missing) == len(self.reports):
            return "Not attempted yet: the lesson goes on with the course's own functions."
        return f"Not attempted yet: {', '.join(missing)}. The others are right."

    def __str__(self) -> str:
        lines = [f"{number} {report.title}" for number, report in enumerate(self.reports, start=1)]
        more = [str(self.first)] if self.first is not None else []
        return "\n".join([*lines, self.verdict, *more])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{escape(report.title)}</li>" for report in self.reports)
        more = self.first._repr_html_() if self.first is not None else ""
        return f'<ol style="margin:4px 0">{rows}</ol><p>{escape(self.verdict)}</p>{more}'


def as_functions(functions: object) -> dict[str, Callable]:
    """A trainer as a dict: from a dict, or from functions in a list, by their names."""
    if not isinstance(functions, dict):
        functions = {getattr(f, "__name__", ""): f for f in functions}
    return {name: functions[name] for name in NAMES if name in functions}


def check_trainer(functions: object) -> TrainerReport:
    """Check all functions of a trainer, step by step; the first wrong one is explained.

    After a wrong one the rest is still checked, so that all that is right is ticked.
    """
    given = as_functions(functions)
    return TrainerReport(tuple(judge(EXERCISES[name], given.get(name)) for name in NAMES))


def right_ones(functions: object) -> dict[str, Callable]:
    """Those functions of a trainer that pass; the course's own can stand in for the others."""
    given = as_functions(functions)
    return {name: f for name, f in given.items() if judge(EXERCISES[name], f).status == CORRECT}
