"""Large exercises: a function that returns several tensors; the first line that goes wrong is named."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from numbers import Real

from torch import Tensor

from helpers.checks.judging.compare import as_tensor, right
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.judge import TIME_LIMIT, judge
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report, kind_of
from helpers.checks.judging.runner import FINISHED, attempt


def part_of(function: Callable, index: int) -> Callable:
    """The same function, but only its result at `index`; results that are no tuple stay as they are."""

    @functools.wraps(function)
    def picked(*given):
        answer = function(*given)
        return answer[index] if isinstance(answer, (tuple, list)) else answer

    return picked


def parts_checker(results: Mapping[str, Exercise]) -> Callable[..., Report]:
    """The check of a function that returns several tensors: what each is called → its exercise.

    The exercises share name, arguments and probes, and are looked at in the order in which they are
    computed: the report is that of the first one that is wrong.
    """
    names, parts = list(results), list(results.values())
    name = parts[0].name

    def check(function: Callable, seconds: float = TIME_LIMIT) -> Report:
        if callable(function):
            problem = _form(parts, names, function, seconds)
            if problem is not None:
                return problem
        for index, part in enumerate(parts):
            one = part_of(function, index) if callable(function) else function
            report = judge(part, one, seconds)
            if report.status == NOT_ATTEMPTED:
                return report
            if report.status == MISTAKE:
                return _placed(report, names, index)
        return Report(name, CORRECT, f"All {len(parts)} results are right: {', '.join(names)}.")

    check.__name__ = check.__qualname__ = f"check_{name}"
    check.__doc__ = f"Check your `{parts[0].signature}`."
    check.exercise = parts[0]
    return check


def begun_too(
    results: Mapping[str, Exercise], whole: Callable[..., Report]
) -> Callable[..., Report]:
    """The check `whole`, and also of answers whose last results are still NotImplemented.

    What is written already is looked at, although something after it is missing.
    """
    names, first = list(results), next(iter(results.values()))

    def check(function: Callable, seconds: float = TIME_LIMIT) -> Report:
        count = _written(first, len(names), function, seconds)
        if count == len(names):
            return whole(function, seconds)
        if count > 0:
            begun = {name: results[name] for name in names[:count]}
            report = parts_checker(begun)(_first_results(function, count), seconds)
            if report.status == MISTAKE:
                return report
        so_far = f"Right so far: {', '.join(names[:count])}. " if count else ""
        says = (
            f"{so_far}Now write what gives the {names[count]}. The notebook works without it, too."
        )
        return Report(first.name, NOT_ATTEMPTED, says)  # `look` would give the formula away

    check.__name__, check.__qualname__ = whole.__name__, whole.__qualname__
    check.__doc__, check.exercise = whole.__doc__, first
    return check


def _written(first: Exercise, count: int, function: Callable, seconds: float) -> int:
    """How many of the results stand before the first that is NotImplemented."""
    answer = attempt(function, first.probes[0], seconds).value if callable(function) else None
    if not isinstance(answer, tuple) or len(answer) != count:
        return count  # `whole` says what is wrong with it
    return next((i for i, x in enumerate(answer) if x is NotImplemented), count)


def _first_results(function: Callable, count: int) -> Callable:
    """The same function, with only its first `count` results."""

    @functools.wraps(function)
    def shorter(*given):
        return function(*given)[:count]

    return shorter


def _placed(report: Report, names: list[str], index: int) -> Report:
    """The same report, with the words that say how far the computation is right."""
    if report.mistake in ("exception", "endless loop", "inputs changed", "not a function"):
        return replace(report, look="")  # any of the parts may be the one
    so_far = f"Right so far: {', '.join(names[:index])}. " if index else ""
    says = f"{so_far}The first wrong result: the {names[index]}. {report.message}"
    return replace(report, message=says)


def _form(parts: list[Exercise], names: list[str], function, seconds: float) -> Report | None:
    """The report of results that are not so many tensors, or stand in another order; None if fine."""
    outcome = attempt(function, parts[0].probes[-1], seconds)
    if outcome.state != FINISHED:
        return None  # `judge` says what happened
    answer, wants = outcome.value, f"Return {len(names)} tensors: {', '.join(names)}."
    if not isinstance(answer, (tuple, list)) or len(answer) != len(parts):
        got = "None: is there a `return`?" if answer is None else f"{kind_of(answer)}."
        if isinstance(answer, (tuple, list)):
            got = f"{len(answer)} results."
        return _mistake(parts[0], "wrong type", f"{wants} You return {got}")
    if any(not isinstance(x, (Tensor, Real)) for x in answer):
        return None
    expected = [part.reference(*part.probes[-1]) for part in parts]
    for order in permutations(range(len(parts))):
        moved = [as_tensor(answer[k], wanted) for k, wanted in zip(order, expected, strict=True)]
        if order != tuple(range(len(parts))) and all(map(right, moved, expected)):
            says = f"Each of them is right, but they stand in another order. {wants}"
            return _mistake(parts[0], "the order of the results", says)
    return None


def _mistake(part: Exercise, name: str, says: str) -> Report:
    return Report(part.name, MISTAKE, says, name, part.look)
