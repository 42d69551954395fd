"""Checks that say more: words for an error that a lesson expects, a second look at what passed."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from helpers.checks.judging.compare import alike, as_tensor
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.report import CORRECT, MISTAKE, Report, compare, show
from helpers.checks.judging.runner import copy_of

UNFINISHED = (
    "exception",
    "endless loop",
    "inputs changed",
    "another result the second time",
)  # there are no numbers to look at


class Expected(NamedTuple):
    """An error that many answers raise: a part of its message, the mistake's name, what to say.

    `when` tells answers with the same message apart: function → whether this is their mistake.
    """

    part: str
    name: str
    says: str
    when: Callable[[Callable], bool] = lambda function: True


def import_optimizers() -> None:
    """Make an optimizer. The first one imports much of torch, which a check's time limit must not cut."""
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(()))])


def explained(
    check: Callable[..., Report],
    errors: tuple[Expected, ...] = (),
    then: Callable | None = None,
    first: Callable[[], None] = lambda: None,
    cause: Callable | None = None,
) -> Callable[..., Report]:
    """The same check, where a known error has a name.

    `then` looks at a function that passed: function → (mistake, message[, case]), or None if all is well.
    `first()` is called before the check, outside its time limit. `cause` looks at a function with wrong
    numbers: (function, report) → (mistake, message), or None where the report has said it.
    """

    def fuller(function: Callable, *options, **named) -> Report:
        first()
        report = check(function, *options, **named)
        if report.mistake == "exception":
            for error in errors:
                if error.part in report.message and error.when(function):
                    return replace(report, mistake=error.name, message=error.says)
        if cause is not None and report.case and report.mistake not in UNFINISHED:
            why = _found(cause, function, report)
            if why is not None:
                return replace(report, mistake=why[0], message=why[1])
        found = _further(then, function) if then is not None and report.status == CORRECT else None
        if found is None:
            return report
        name, says, *case = found
        look, case = check.exercise.look, case[0] if case else ()
        return replace(report, status=MISTAKE, mistake=name, message=says, look=look, case=case)

    fuller.__name__ = fuller.__qualname__ = check.__name__
    fuller.__doc__, fuller.exercise = check.__doc__, check.exercise
    return fuller


def _found(cause: Callable, function: Callable, report: Report) -> tuple[str, str] | None:
    try:
        return cause(function, report)
    except Exception:  # noqa: BLE001 (the second look at a strange answer must not break the notebook)
        return None


def _further(then: Callable, function: Callable) -> tuple | None:
    """What a further look finds at a function that passed; an error there is a mistake as well."""
    try:
        return then(function)
    except Exception as error:  # noqa: BLE001 (reported, never raised)
        says = f"Right on the first test cases; on a further one it raises {type(error).__name__}:"
        return "exception", f"{says} {' '.join(str(error).split())[:300]}"


def also_on(exercise: Exercise, *cases: tuple) -> Callable:
    """A second look (`then`) at further inputs: `cases` are (name, message, arguments).

    Apart from the probes of an exercise, so that an answer that is wrong there keeps its name.
    """

    def then(function: Callable) -> tuple | None:
        for name, says, given in cases:
            expected = exercise.reference(*copy_of(given))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as in `attempt`
                answer = as_tensor(function(*copy_of(given)), expected)
            if answer is None or not alike(answer, expected):
                shown = [(label, show(x)) for label, x in exercise.named(given).items()]
                return name, says, (*shown, *compare(answer, expected))
        return None

    return then
