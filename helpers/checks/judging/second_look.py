"""A second look at wrong numbers that nothing has named: what else they might be, one idea after another.

A cause is a function (function, report) → (mistake, message), or None. It may call the learner's function.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike, as_tensor
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.report import Report
from helpers.checks.judging.runner import FINISHED, attempt, copy_of

Found = tuple[str, str] | None
VAGUE = ("unrecognised", "constant factor", "constant offset", "NaN or infinite", "wrong shape",
         "nearly right")  # fmt: skip


def answers_of(exercise: Exercise, function: Callable, probes: list[tuple]) -> list[Tensor] | None:
    """What the learner's function gives on these inputs; None if any of it is no tensor or an error."""
    found = []
    for probe in probes:
        expected = exercise.reference(*copy_of(probe))
        outcome = attempt(function, probe, seconds=1.0)
        if outcome.state != FINISHED:
            return None
        answer = as_tensor(outcome.value, expected)
        if answer is None:
            return None
        found.append(answer)
    return found


@cache
def with_further_cases(exercise: Exercise) -> Exercise:
    """The exercise with each test case a second time, every float of it times 0.6 to 1.4 at random.

    Numbers of which there is one a row change rows as well.
    """
    generator = torch.Generator().manual_seed(0)

    def stretched(x: object) -> object:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        x = x.roll(1) if x.dim() == 1 else x
        return x * (0.6 + 0.8 * torch.rand(x.shape, generator=generator)).to(x.dtype)

    made = [tuple(map(stretched, probe)) for probe in exercise.probes]
    return replace(exercise, probes=[*exercise.probes, *made])


def equals(answers: list[Tensor], wrong: Callable, probes: list[tuple]) -> bool:
    """Whether a wrong function gives these answers; one that raises gives none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of what is made wrong on purpose
            return all(
                alike(answer, torch.as_tensor(wrong(*copy_of(probe))))
                for answer, probe in zip(answers, probes, strict=True)
            )
    except Exception:  # noqa: BLE001 (a wrong formula may fail on some inputs)
        return False


def one_of(exercise: Exercise, *looks: Callable, only: tuple[str, ...] = VAGUE) -> Callable:
    """The first cause that finds something, for reports that say little: those named in `only`.

    A look is a function (exercise, function, answers) → (mistake, message), or None. It gets further test
    cases besides the exercise's own, so that it says nothing which holds by accident.
    """

    def cause(function: Callable, report: Report) -> Found:
        if report.mistake not in only:
            return None
        wider = with_further_cases(exercise)
        answers = answers_of(wider, function, wider.probes)
        if answers is None:
            return None
        for look in looks:
            found = look(wider, function, answers)
            if found is not None:
                return found
        return None

    return cause
