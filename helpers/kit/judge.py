"""Check a learner's function: run it, find the first result that is wrong, say where, what kind, and why."""

import inspect
import time
from collections.abc import Callable
from dataclasses import replace

from IPython.display import display
from torch import Tensor

from helpers.kit.diagnosis import Trial, agrees, diagnosed, is_gradient
from helpers.kit.exercise import Exercise, Seen
from helpers.kit.own import names_in, taken
from helpers.kit.patterns import as_tensor, first_difference, form
from helpers.kit.report import (
    CORRECT,
    MISTAKE,
    NOT_ATTEMPTED,
    UNKNOWN,
    Report,
    brief,
    compare,
    counted,
    kind_of,
)
from helpers.kit.running import (
    PATIENCE,
    TimeLimit,
    Wrong,
    attempt,
    code_of,
    is_missing,
    is_stub,
    line_of,
    shown,
)

UNFINISHED = (NotImplemented, Ellipsis)
SHOWN = 60  # numbers of a gradient
AGAIN = "it is called once more: Is something kept from one call to the next, or drawn at random?"


def checker(exercise: Exercise) -> Callable[[Callable], Callable]:
    """The function `check_<name>` of an exercise: shows a report, returns the function to go on with."""

    def check(function: Callable) -> Callable:
        use, report = taken(check, function, check.report(function))
        display(report)  # as text where there is no notebook
        return use

    check.__name__ = check.__qualname__ = f"check_{exercise.name}"
    check.__doc__ = (
        f"Check your `{exercise.signature}`; the result is yours if it is right, else the course's."
    )
    check.exercise, check.report = exercise, lambda function: counted(judge(exercise, function))
    return check


def exercise(solution: str, look: str, probes, mistakes="", **more) -> Callable:
    """The check of an exercise (see `Exercise`)."""
    return checker(Exercise(solution, look, probes, mistakes, **more))


def judge(exercise: Exercise, function: Callable) -> Report:
    """Check one answer. The result is a report, whatever the function does."""
    if is_stub(function):
        return not_attempted(exercise)  # before anything is loaded
    if not callable(function):
        says = f"Pass the function itself, not the {type(function).__name__} {function!r:.60}."
        return told(exercise, "not a function", says)
    report = tried(exercise, function) or passed(exercise, exercise.remark(function))
    return (report.status == MISTAKE and comes_first(exercise, function)) or report


def tried(exercise: Exercise, function: Callable) -> Report | None:
    """The report of what is wrong or missing; None if all is right."""
    answers, deadline = [], None
    for probe in shown(exercise.cases, f"Checking {exercise.name}", exercise.seconds):
        exercise.expected(probe)  # outside the time limit
        deadline = deadline or time.thread_time() + exercise.seconds
        left = deadline - time.thread_time()
        answer, error = attempt(lambda p=probe: exercise.seen(function, p), left)
        if error is not None:
            return broken(exercise, function, probe, error)
        answers.append(answer)
    try:
        report = compared(exercise, function, answers)
    except Exception as error:  # noqa: BLE001 (a strange answer must not break the notebook)
        report = told(exercise, UNKNOWN, f"Your result cannot be compared: {error}")
    return report or at_edges(exercise, function)


def comes_first(exercise: Exercise, function: Callable) -> Report | None:
    """The report where a function of an earlier exercise, which this one calls, is not right yet."""
    called = set(names_in(code_of(function)))
    known = getattr(inspect.unwrap(function), "__globals__", {})
    for name in called & exercise.used.keys() & known.keys():
        other = exercise.used[name]
        if known[name] is not other.right and judge(other, known[name]).status != CORRECT:
            says = f"It calls {name}, which is not right yet: finish that one first."
            return told(exercise, f"{name} comes first", says)
    return None


def passed(exercise: Exercise, remark: str) -> Report:
    """The report of a right answer."""
    every = (name for probe in exercise.cases for name in exercise.expected(probe))
    trained = {f"gradient of {name}" for name in exercise.gradient}
    names = [name for name in dict.fromkeys(every) if name not in trained]
    says = f"Passed {len(exercise.cases)} of {len(exercise.cases)} test cases."
    if len(names) > 1:
        says = f"All {len(names)} results are right{few(': ', names)}."
    return Report(exercise.name, CORRECT, f"{says} {remark}".strip())


def not_attempted(exercise: Exercise) -> Report:
    """The report of a stub; the formula would give the answer away."""
    says = f"Write {exercise.signature} and run the cell again. The notebook works without it, too."
    return Report(exercise.name, NOT_ATTEMPTED, says)


def told(exercise: Exercise, name: str, says: str, case: tuple = (), where: str = "") -> Report:
    """The report of a mistake; without `where` its sentence is told at once."""
    return Report(exercise.name, MISTAKE, says, name, exercise.look, case, where)


def case_of(exercise: Exercise, probe: tuple, yours=None, expected=None, what: str = "") -> tuple:
    """The lines of a case: both values where there are any, and the inputs."""
    inputs = [(label, brief(x)) for label, x in exercise.named(probe).items()]
    what = "" if what == "result" else what  # the name of one that has none
    return (*(compare(yours, expected, what) if expected is not None else ()), *inputs)


# --- 1: broken ------------------------------------------------------------------------------------


def broken(exercise: Exercise, function: Callable, probe: tuple, error: BaseException) -> Report:
    """The report of a try that this exception ended."""
    if is_missing(error):
        if probe is exercise.cases[0]:
            return not_attempted(exercise)
        return told(exercise, "unfinished", "A good start, but something is still missing here.",
                    case_of(exercise, probe))  # fmt: skip
    if isinstance(error, TimeLimit):
        limit = exercise.seconds
        says = f"Not finished after {limit:g} seconds of computing, or {PATIENCE * limit:g} in all."
        return told(exercise, "endless loop", f"{says} An endless loop?")
    if isinstance(error, Wrong):
        case = compare(error.yours, error.expected) if error.expected is not None else ()
        return told(exercise, error.name, error.says, tuple(case))
    return raised(exercise, function, probe, error)


HINTS = {  # a part of what torch says → what it means
    "size of tensor": "Two tensors do not fit: print their shapes before this line.",
    "bool tensor": "Numbers minus a mask: turn the mask into numbers first, mask.long().",
    "index out of range in self": "A model was given a position or a token that its embedding does not have:"
    " is a position −1?",
    "NotImplementedType": "A function called there is not written yet: it returns NotImplemented.",
    "NaN": "Padding may hold anything, and 0 · ∞ is NaN: replace what is there with torch.where.",
    "graph a second time": "Is something with a gradient made before the loop? What is fixed: no_grad().",
    "probability tensor contains": "multinomial takes probabilities, not logarithms: exp or softmax first.",
}


def raised(exercise: Exercise, function: Callable, probe: tuple, error: BaseException) -> Report:
    """The report of an exception: its words, the learner's line, and what it means if that is known."""
    line, words = line_of(error, function), " ".join(str(error).split())[:300]
    says = f"{type(error).__name__}: {words}"
    says += f", in {line}." if line else f". It is called as {exercise.signature}."
    hint = next((hint for part, hint in HINTS.items() if part in words), "")
    return told(exercise, "exception", f"{says} {hint}".strip(), case_of(exercise, probe))


# --- 2: the first result that is wrong ---------------------------------------------------------------


def compared(exercise: Exercise, function: Callable, answers: list[Seen]) -> Report | None:
    """None if every result is right, else the report of the first one that is not."""
    wanted = [exercise.expected(probe) for probe in exercise.cases]
    given = list(dict.fromkeys(name for seen in wanted for name in seen))
    # results that only some probes have stand in the order of the exercise's
    names = sorted(given, key=(*exercise.results, *given).index)
    for index, name in enumerate(names):
        tries = [(probe, mine.get(name), right[name])
                 for probe, mine, right in zip(exercise.cases, answers, wanted, strict=True)
                 if name in right]  # fmt: skip
        if any(got is x for _, got, _ in tries for x in UNFINISHED):
            so_far = f"{right_so_far(names[:index])} " if index else ""
            says = f"{so_far}Now write what gives the {name}. The notebook works without it, too."
            return Report(exercise.name, NOT_ATTEMPTED, says)
        right = [one for one in tries if agrees(name, *one[1:])]
        if len(right) == len(tries):
            continue
        wrong = [one for one in tries if not agrees(name, *one[1:])]
        report = first_wrong(Trial(exercise, function, answers, names[: index + 1], wrong))
        if right and report.where:
            some = f"({len(right)} of {len(tries)} test cases are right.)"
            some = only_where(exercise, right, wrong) or some
            report = replace(report, where=f"{report.where} {some}")
        return report
    return None


def only_where(exercise: Exercise, right: list[tuple], wrong: list[tuple]) -> str:
    """Which word, or yes or no, an input has in all wrong cases and not in all right ones; "" if none."""
    well, ill = ([exercise.named(x, apart=True) for x, *_ in cases] for cases in (right, wrong))
    shared = [
        (sum(case[name] == value for case in well), name, value)
        for name, value in ill[0].items()
        if isinstance(value, (str, bool)) and all(case[name] == value for case in ill)
    ]
    count, name, value = min(shared, default=(len(well), "", ""))
    return f"Wrong only where {name} is {value!r}." if count < len(well) else ""


def right_so_far(names: list[str]) -> str:
    """These results are right; of many the last is named."""
    return f"Right so far: {few('', names) or f'{len(names)} results, the last: {names[-1]}'}."


def few(start: str, names: list[str]) -> str:
    """The names after `start`, unless there are many."""
    return f"{start}{', '.join(names)}" if len(names) <= 6 else ""


def first_wrong(trial: Trial) -> Report:
    """The report of the first result that is wrong; those before are right."""
    exercise, _, _, (*before, name), wrong = trial
    probe, got, wanted = wrong[0]
    where = f"{right_so_far(before)} The first that is not: {name}." if before else ""
    if not isinstance(wanted, Tensor):
        return told(exercise, *diagnosed(trial), case_of(exercise, probe, got, wanted, name), where)
    tensor = as_tensor(got, wanted)
    if tensor is None:
        what = "None: is there a `return`?" if got is None else f"{kind_of(got)}."
        return told(
            exercise, "wrong type", f"You return {what} Expected: a tensor, {form(wanted)}."
        )
    both, what = (tensor, wanted), name
    if is_gradient(name) and wanted.numel() > SHOWN:
        both, what = (tensor.norm(), wanted.norm()), f"length of the {name}"
    case = case_of(exercise, probe, *both, what)
    if not where:
        alike_made = tensor.shape == wanted.shape and tensor.device == wanted.device
        at = first_difference(tensor, wanted) if alike_made else ()
        which = f": {name}" if name != "result" else ""
        where = f"Wrong in this case{which}{f', first at {list(at)}' if at else ''}."
    kind_of_mistake, says = diagnosed(trial)
    if (mask := exercise.mask(probe)) is not None:
        says = says.replace("{counted}", f"{int(mask.sum())}").replace("{total}", f"{mask.numel()}")
    return told(exercise, kind_of_mistake, says, case, where)


# --- after right results ---------------------------------------------------------------------------


def at_edges(exercise: Exercise, function: Callable) -> Report | None:
    """The report of the first further input, or the first probe again, on which the function is wrong."""
    for what, probe in (*exercise.edges, (AGAIN, exercise.cases[0])):
        words, _, hint = what.partition(": ")
        answer, error = attempt(lambda p=probe: exercise.seen(function, p), exercise.seconds)
        if error is not None:
            report = broken(exercise, function, probe, error)
            return replace(report, message=f"Right otherwise; where {words}: {report.message}")
        for name, wanted in exercise.expected(probe).items():
            got = answer.get(name)
            if not agrees(name, got, wanted):
                case = case_of(exercise, probe, got, wanted, name)
                where = f"All is right but where {words}."
                return told(exercise, f"wrong where {words}", hint or where, case, where)
    return None
