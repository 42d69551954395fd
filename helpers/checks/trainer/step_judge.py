"""How a step of a trainer is judged: tried on recorded inputs, compared with the course's, explained.

Where a learner's function gives something else than the course's own, it is compared with what well-known
wrong versions give; if none gives the same, the first result that differs is named.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor
from transformers.utils import logging

from helpers.checks.judging.compare import alike, symptom
from helpers.checks.judging.exercise import Mistake
from helpers.checks.judging.places import place_of
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report, show
from helpers.checks.judging.runner import MISSING, RAISED, TIMED_OUT, attempt, is_stub, line_of
from helpers.checks.trainer.course_steps import COURSE
from helpers.checks.trainer.inputs import Seen, Wrong, recorded

TIME_LIMIT = 60.0  # seconds for one function


@dataclass(frozen=True, eq=False)
class Step:
    """One function of the trainer: how it is called, tried and explained."""

    name: str
    look: str  # the formula
    observe: Callable[[Callable], Seen]  # tries a function on the recorded inputs
    mistakes: list[Mistake] = field(default_factory=list)
    also: tuple[Callable, ...] = ()  # other right ones, whose numbers differ
    own: Callable | None = None  # the right function, where it is none of the trainer's
    more: Callable[[Callable], Seen] | None = None  # looked at when the first look finds nothing
    then: Callable[[Callable], Seen] | None = None  # a further look at what is right so far
    cause: Callable[[Callable], object] | None = (
        None  # raises Wrong with the cause of wrong numbers
    )
    mask: Tensor | None = None  # of what it gives, where that is not the recorded rollout's
    by_first: bool = False  # a mistake is known by the first result that differs, whatever follows

    @property
    def course(self) -> Callable:
        """The course's own function."""
        return self.own or COURSE[self.name]

    @property
    def signature(self) -> str:
        """The call as the learner writes it."""
        return f"{self.name}({', '.join(inspect.signature(self.course).parameters)})"


@cache
def reference(step: Step) -> Seen:
    """What the course's function gives."""
    return step.observe(step.course)


@cache
def made_by(step: Step, index: int) -> Seen | None:
    """What a well-known mistake gives, or None if it raises."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # transformers warns of the mistakes that are made here on purpose
    try:
        return step.observe(step.mistakes[index].wrong)
    except Exception:  # noqa: BLE001 (a wrong function may fail)
        return None
    finally:
        logging.set_verbosity(before)


def agrees(name: str, label: str, got: Tensor, expected: Tensor) -> bool:
    """Equal up to rounding; gradients by their relative error."""
    if "gradient" in label:
        return bool((got - expected).norm() <= 2e-3 * expected.norm() + 1e-7)
    return alike(got, expected)


def judge_step(step: Step, function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """The report on one function, whatever else it calls."""
    if is_stub(function):
        return _not_attempted(step)  # before anything is loaded
    if not callable(function):
        says = f"Pass the function itself, not the {type(function).__name__} {function!r:.60}."
        return mistaken(step, "not a function", says)
    reference(step)
    report = _looked_at(step, step.observe, function, seconds)
    if step.more is not None and (report is None or report.mistake in UNSURE):
        more = _looked_at(step, step.more, function, seconds)
        report = more if report is None or (more and more.mistake not in UNSURE) else report
    if step.then is not None and report is None:
        report = _looked_at(step, step.then, function, seconds)
    if step.cause is not None and report is not None and report.mistake in VAGUE:
        report = _caused(step, function, seconds) or report
    right = "Same as the course's on the recorded inputs."
    return report or Report(step.name, CORRECT, right, look=step.look)


def _looked_at(step: Step, observe: Callable, function: Callable, seconds: float) -> Report | None:
    """The report of one way to try a function; None if all is right."""
    outcome = attempt(observe, (function,), seconds)
    report = _broken(step, function, outcome, seconds)
    return _compared(step, outcome.value) if report is None and outcome.value else report


UNSURE = {  # of a gradient; further looks may say more
    "unrecognised", "no gradient", "the weight of the value loss",
}  # fmt: skip
VAGUE = UNSURE | {  # where something is wrong, and not yet what
    "constant factor", "constant offset", "last counted position", "NaN or infinite",
    "wrong dtype", "log-probs of the tokens", "log-probs wrong after the first token",
}  # fmt: skip


def _caused(step: Step, function: Callable, seconds: float) -> Report | None:
    """The report of the cause of wrong numbers; None if it is not found."""
    error = attempt(step.cause, (function,), seconds).error
    if not isinstance(error, Wrong):
        return None
    return mistaken(step, error.name, error.says, error.yours, error.expected)


def _not_attempted(step: Step) -> Report:
    says = f"Write {step.signature} and run the cell again. The notebook works without it, too."
    return Report(step.name, NOT_ATTEMPTED, says)  # `look` would give the formula away


def mistaken(step: Step, name: str, says: str, yours=None, expected=None) -> Report:
    """The report of a mistake: its name, what it says, and the two tensors where there are any."""
    pairs = (("yours", yours), ("expected", expected))
    case = tuple((label, show(x)) for label, x in pairs if x is not None)
    return Report(step.name, MISTAKE, says, name, step.look, case)


NO_ROW = (
    "The model was given a position or a token that is no row of its embedding. Is a position −1? On"
    " left padding cumsum(mask) − 1 is −1; cumsum(mask) − mask is 0 there."
)


def _broken(step: Step, function: Callable, outcome, seconds: float) -> Report | None:
    """The report of a call that did not finish normally, or None."""
    if outcome.state == MISSING:
        return _not_attempted(step)
    if outcome.state == TIMED_OUT:
        says = f"Not finished after {seconds:g} seconds. Is there an endless loop?"
        return mistaken(step, "endless loop", says)
    error = outcome.error
    if outcome.state == RAISED and isinstance(error, Wrong):
        return mistaken(step, error.name, error.says, error.yours, error.expected)
    if outcome.state == RAISED and "index out of range in self" in str(error):
        return mistaken(step, "no row of the embedding", NO_ROW)
    if outcome.state == RAISED:
        line = line_of(error, function)
        says = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        says += f", in {line}." if line else f". It is called as {step.signature}."
        return mistaken(step, "exception", says)
    return None


def _compared(step: Step, seen: Seen) -> Report | None:
    """None if all is as it should be, else the report of the mistake."""
    expected = reference(step)
    differ = [x for x in expected if not agrees(step.name, x, seen[x], expected[x])]
    if not differ or any(_equals(step, seen, step.observe(other)) for other in step.also):
        return None
    first = differ[0]
    known = _known(step, seen)
    if known is None and step.by_first:
        labels = list(expected)
        known = _known(step, {label: seen[label] for label in labels[: labels.index(first) + 1]})
    if known is not None:
        return mistaken(step, known.name, known.says)
    got, want = seen[first], expected[first]
    found = None if "gradient" in first else _pattern(step, got, want)
    nan = next((x for x in expected if not bool(seen[x].isfinite().all())), None)
    if nan is not None and (found is None or nan == first):
        return mistaken(
            step, "NaN or infinite", f"Your {nan}: NaN or infinite. Which line can cause that?"
        )
    if "gradient" in first:
        return mistaken(step, *gradient_words(seen, expected, differ))
    close = torch.isclose(got.double(), want.double(), 1e-4, 1e-5)
    row = int((~close).reshape(len(got), -1).any(1).nonzero()[0])
    name, says = found or (
        "unrecognised",
        f"{first.capitalize()}: not as it should be{f', first in row {row}' * (len(got) > 1)}.",
    )
    says = says if found is None else f"{first.capitalize()}: {says}"
    return mistaken(step, name, says, got[row], want[row])


def _pattern(step: Step, got: Tensor, want: Tensor) -> tuple[str, str] | None:
    """Name and message of a pattern in wrong numbers, or None."""
    if got.dim() == 2:
        masks = [recorded().counted if step.mask is None else step.mask]
        return symptom([(got, want)], masks) or place_of([(got, want)], masks)
    return symptom([(got, want)], [None]) if got.dim() == 1 else None


def _known(step: Step, seen: Seen) -> Mistake | None:
    """The well-known mistake that gives these results."""
    for index, mistake in enumerate(step.mistakes):
        made = made_by(step, index)
        if made and _equals(step, seen, made):
            return mistake
    return None


def _equals(step: Step, seen: Seen, made: Seen) -> bool:
    """Whether two functions gave the same."""
    return all(
        made[x].shape == seen[x].shape and agrees(step.name, x, seen[x], made[x]) for x in seen
    )


def gradient_words(seen: Seen, expected: Seen, differ: list[str]) -> tuple[str, str]:
    """Name and message: where wrong gradients differ, in words."""
    first = differ[0]
    clean = [x for x in expected if x not in differ]
    role = "actor" if "actor" in first else "critic"
    half = "policy's" if role == "actor" else "critic's"
    cosine = torch.cosine_similarity(seen[first], expected[first], 0)
    size = seen[first].norm() / expected[first].norm()
    if size < 1e-6:
        return "no gradient", (
            f"No gradient reaches the {role}. Is a part of its loss detached, or without gradients?"
        )
    if cosine > 0.99999 and abs(size - 1) > 0.01:
        return factor_words(first, float(size))
    says = f"The {first} is not right: the error is {wrong_share(seen[first], expected[first])} of"
    says += " its length."
    if "step 1" in first:
        says += f" Look at the {half} part of the loss."
        says += " Is a term there too many, such as an entropy bonus?" if cosine > 0.9 else ""
    elif "step" in first:
        says += " The first step is right: is something carried over from it, or computed once for both?"
    elif clean:
        says += " Unclipped gradients are right: look at the clipping to max_grad_norm."
    return "unrecognised", says


def factor_words(first: str, size: float) -> tuple[str, str]:
    """Name and message of a gradient that is right but for a factor.

    The actor's stands before the critic's, so where the critic's is the first, the policy's loss is right.
    """
    says = f"The {first} is {size:.3g} times what it should be: a factor too many or too few."
    if not first.startswith("gradient of the critic"):
        return "unrecognised", says
    weight = recorded().config.vf_coef
    says += f" The value loss is ½ of the mean square, times config.vf_coef = {weight:g}; yours acts as if"
    says += f" that were {size * weight:.3g}. Is a number written in?"
    return "the weight of the value loss", says


def wrong_share(got: Tensor, right: Tensor) -> str:
    """The length of the error of a gradient, in percent of the right one's."""
    percent = float(100 * (got - right).norm() / right.norm())
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
