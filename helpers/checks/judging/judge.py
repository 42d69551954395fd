"""Check a learner's function: run it, compare the results, name the mistake."""

import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike, as_tensor, right
from helpers.checks.judging.dependence import depends_otherwise
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.mistakes import form, name_mistake
from helpers.checks.judging.places import place_of
from helpers.checks.judging.report import (
    CORRECT,
    MISTAKE,
    NOT_ATTEMPTED,
    Report,
    compare,
    kind_of,
    show,
)
from helpers.checks.judging.runner import (
    MISSING,
    RAISED,
    TIMED_OUT,
    TimeLimit,
    attempt,
    copy_of,
    limited,
    line_of,
)

TIME_LIMIT = 5.0  # seconds, for all calls of a check together
STUDY_LIMIT = 2.0  # seconds, for a look at what a wrong answer depends on


def judge(exercise: Exercise, function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """Check one answer. The result is a report, whatever the function does."""
    if function is None or function is Ellipsis or function is NotImplemented:
        return _not_attempted(exercise, exercise.probes[0])
    if not callable(function):
        says = f"Pass the function itself, not the {type(function).__name__} {function!r:.60}."
        return _mistake(exercise, "not a function", says)
    deadline, answers = time.monotonic() + seconds, []
    for probe in exercise.probes:
        outcome = attempt(function, probe, deadline - time.monotonic())
        report = _broken(exercise, function, probe, outcome, seconds)
        if report is not None:
            return report
        answers.append(outcome.value)
    try:
        report = _compared(exercise, function, answers)
    except Exception as error:  # noqa: BLE001 (a strange answer must not break the notebook)
        report = _mistake(exercise, "unrecognised", f"Your result cannot be compared: {error}")
    report = report or _gradients(exercise, function, seconds)
    return report or _repeated(exercise, function, seconds) or _correct(exercise)


def checker(exercise: Exercise) -> Callable[..., Report]:
    """The function `check_<name>` of an exercise."""

    def check(function: Callable, seconds: float = TIME_LIMIT) -> Report:
        return judge(exercise, function, seconds)

    check.__name__ = check.__qualname__ = f"check_{exercise.name}"
    check.__doc__ = f"Check your `{exercise.signature}`."
    check.exercise = exercise
    return check


def _correct(exercise: Exercise) -> Report:
    count = len(exercise.probes)
    return Report(exercise.name, CORRECT, f"Passed {count} of {count} test cases.")


def _not_attempted(exercise: Exercise, probe: tuple) -> Report:
    """The report of a stub; of an answer that does only the first test cases: unfinished."""
    if probe is not exercise.probes[0]:
        here = f" for {exercise.group}={exercise.key(probe)!r}" if exercise.group else ""
        return _mistake(
            exercise, "unfinished", f"A good start, but something is still missing{here}."
        )
    says = f"Write {exercise.signature} and run the cell again. The notebook works without it, too."
    return Report(exercise.name, NOT_ATTEMPTED, says)  # `look` would give the formula away


def _mistake(
    exercise, name: str, says: str, probe=None, yours=None, expected=None, what: str = ""
) -> Report:
    """The report of a mistake, with a case that shows it."""
    case = []
    if probe is not None:
        case = [(label, show(x)) for label, x in exercise.named(probe).items()]
    if expected is not None:
        case += compare(yours, expected, what)
    return Report(exercise.name, MISTAKE, says, name, exercise.look, tuple(case))


def _broken(exercise, function, probe, outcome, seconds: float) -> Report | None:
    """The report of a call that did not finish normally, or None."""
    if outcome.state == MISSING:
        return _not_attempted(exercise, probe)
    if outcome.state == TIMED_OUT:
        says = f"Not finished after {seconds:g} seconds. Is there an endless loop?"
        return _mistake(exercise, "endless loop", says, probe)
    if outcome.state == RAISED:
        return _exception(exercise, function, probe, outcome.error)
    if outcome.changed:
        names = " and ".join(exercise.names[i] for i in outcome.changed)
        says = (
            f"You changed {names} in place, but the caller still needs the old values. Use a copy"
        )
        says += " (x.clone(), or an operation without a trailing underscore)."
        return _mistake(exercise, "inputs changed", says, probe)
    return None


def _exception(exercise, function, probe, error: BaseException) -> Report:
    line = line_of(error, function)
    says = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    says += f", in {line}." if line else f". It is called as {exercise.signature}."
    if "NotImplementedType" in str(error):
        says += " A function called there is not written yet: it returns NotImplemented."
    return _mistake(exercise, "exception", says, probe)


def _compared(exercise: Exercise, function: Callable, answers: list) -> Report | None:
    """None if every answer is correct, else the report of the first group that is not."""
    expected = [exercise.reference(*copy_of(probe)) for probe in exercise.probes]
    tensors = [as_tensor(a, e) for a, e in zip(answers, expected, strict=True)]
    wrong = [i for i, e in enumerate(expected) if not right(tensors[i], e)]
    if not wrong:
        return None
    first = wrong[0]
    if tensors[first] is None:
        return _wrong_type(exercise, exercise.probes[first], answers[first], expected[first])
    if any(tensor is None for tensor in tensors):
        first = next(i for i, tensor in enumerate(tensors) if tensor is None)
        return _wrong_type(exercise, exercise.probes[first], answers[first], expected[first])
    keys = [exercise.key(probe) for probe in exercise.probes]
    same = [i for i, key in enumerate(keys) if key == keys[first]]
    probes, tensors, expected = ([x[i] for i in same] for x in (exercise.probes, tensors, expected))
    first = same.index(first)
    name, says, first = name_mistake(exercise, function, same, tensors, expected, first)
    if name in ("unrecognised", "nearly right"):
        again = _another(exercise, function, probes[first], tensors[first])
        name, says = again or (name, says)
    if name == "unrecognised":
        masks = [exercise.counted(probe, e) for probe, e in zip(probes, expected, strict=True)]
        place = place_of(list(zip(tensors, expected, strict=True)), masks)
        name, says = _studied(exercise, function, probes) or place or (name, says)
    if name in ("constant factor", "constant offset") and len(same) < len(keys):
        says = f"Where {exercise.group} is {keys[same[0]]!r}: {says[0].lower()}{says[1:]}"
    return _mistake(exercise, name, says, probes[first], tensors[first], expected[first])


def _another(exercise: Exercise, function: Callable, probe: tuple, answer: Tensor) -> tuple | None:
    """Name and message where the same numbers give another wrong result when they are given again."""
    again = as_tensor(attempt(function, probe, STUDY_LIMIT).value, answer)
    if again is None or alike(again, answer):
        return None
    return "another result the second time", (
        "Your numbers are wrong, and called once more with the same inputs you return others: is something"
        " drawn at random, or kept from one call to the next?"
    )


def _studied(exercise: Exercise, function: Callable, probes: list) -> tuple[str, str] | None:
    """Name and message from what the answer depends on, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return limited(lambda: depends_otherwise(exercise, function, probes), STUDY_LIMIT)
    except (Exception, TimeLimit):  # noqa: BLE001 (a further look must not break the notebook)
        return None


def _wrong_type(exercise, probe, answer, expected: Tensor) -> Report:
    got = {type(None): "None: is there a `return`?"}.get(type(answer), kind_of(answer))
    if isinstance(answer, Tensor):
        got = f"a tensor of layout {answer.layout}"
    says = f"You return {got}{'' if got[-1] == '?' else '.'} Expected: a tensor, {form(expected)}."
    return _mistake(exercise, "wrong type", says, probe, answer, expected)


def _gradients(exercise: Exercise, function: Callable, seconds: float) -> Report | None:
    """After correct numbers, check the gradients of the trained arguments; None if correct."""
    deadline = time.monotonic() + seconds
    places = [exercise.names.index(name) for name in exercise.gradient]
    for probe in exercise.probes if places else []:
        outcome = attempt(backward(function, places), probe, deadline - time.monotonic())
        report = _broken(exercise, function, probe, outcome, seconds)
        if report is not None:
            return report
        wanted = backward(exercise.reference, places)(*copy_of(probe))
        for name, got, want in zip(exercise.gradient, outcome.value, wanted, strict=True):
            if got is None:
                says = f"The numbers are correct, but no gradient reaches {name}: through it nothing is"
                says += " trained. Do not use .item(), .detach(), .data, no_grad or new tensors."
                return _mistake(exercise, "detached", says, probe)
            if bool(got.isnan().any()) and not bool(want.isnan().any()):
                says = f"The numbers are correct, but the gradient of {name} is NaN:"
                says += f" {why_nan(exercise, probe)}"
                return _mistake(exercise, "NaN gradient", says, probe, got, want, "gradient")
            if not alike(got, want):
                says = f"The numbers are correct, but the gradient of {name} is not."
                says += " Is a part of the formula detached?"
                return _mistake(exercise, "wrong gradient", says, probe, got, want, "gradient")
    return None


def _repeated(exercise: Exercise, function: Callable, seconds: float) -> Report | None:
    """After correct numbers, the first test case once more: the calls before it must leave nothing behind."""
    probe = exercise.probes[0]
    expected = exercise.reference(*copy_of(probe))
    answer = as_tensor(attempt(function, probe, seconds).value, expected)
    if right(answer, expected):
        return None
    says = "All was right at first, and called once more with the first numbers you return something else: is"
    says += " something kept from one call to the next, or drawn at random?"
    return _mistake(exercise, "another result the second time", says, probe, answer, expected)


def why_nan(exercise: Exercise, probe: tuple) -> str:
    """Where a NaN gradient comes from: the padding, or where there is none a probability of 0."""
    mask = exercise.named(probe).get("mask")
    if isinstance(mask, Tensor) and not bool(mask.all()):
        return (
            "what the padding holds must be replaced (torch.where) before exp, not only after it."
        )
    return "0 · ∞ is NaN. The slope of a logarithm is infinite where a probability rounds to 0: log_softmax."


def backward(function: Callable, places: list[int]) -> Callable:
    """The function's gradients (of the sum of its result) with respect to some arguments, or None."""

    def work(*inputs):
        leaves = [inputs[i].requires_grad_() for i in places]
        with torch.enable_grad():
            value = function(*inputs)
            if not isinstance(value, Tensor) or not value.requires_grad:
                return [None] * len(leaves)
            return list(torch.autograd.grad(value.sum(), leaves, allow_unused=True))

    return work
