"""Answers that have no one right result are examined: the first thing that will not do is reported."""

from collections.abc import Callable
from typing import NamedTuple

from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report
from helpers.checks.judging.runner import MISSING, RAISED, TIMED_OUT, attempt, line_of

TIME_LIMIT = 5.0
REVIEWS = (  # what a reward and a patch are asked about
    "the fish was lovely but the service was slow.",
    "we saw this film. it was great.",
    "the room was cold and the porter was rude.",
    "i loved the garden.",
    "the battery was not good.",
    "this is a small hotel near the station. the beds were very comfortable.",
    "the plot was dull.",
    "the soup was truly superb. we were delighted.",
    "the screen was bright and the camera was good.",
    "we hated the music.",
)


class Refused(Exception):
    """An answer that will not do: the mistake's name, what to say, the case that shows it."""


def expect(fine: bool, name: str, says: str, *case: tuple[str, str]) -> None:
    """Go on if all is fine. Refused: it is not."""
    if not fine:
        raise Refused(name, says, case)


class Check(NamedTuple):
    """What a check of this page needs: a name, the call, where to look, what to do, words at the end."""

    name: str
    call: str
    look: str
    examine: Callable[[Callable], None]
    well: str


def called(function: Callable, *given):
    """The function's answer. NotImplementedError: a stub; Refused: it failed or changed its inputs."""
    texts = list(given[0])
    outcome = attempt(function, (texts, *given[1:]), TIME_LIMIT)
    if outcome.state == MISSING:
        raise NotImplementedError
    says = f"Not finished after {TIME_LIMIT:g} seconds. Is there an endless loop?"
    expect(outcome.state != TIMED_OUT, "endless loop", says)
    if outcome.state == RAISED:
        line, error = line_of(outcome.error, function), outcome.error
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise Refused("exception", f"{words}, in {line}." if line else f"{words}.", ())
    says = "You changed the list of texts; only read it."
    expect(texts == list(given[0]), "inputs changed", says)
    return outcome.value


def judged(check: Check, function: Callable) -> Report:
    """The report on one answer, whatever it does."""
    stub = Report(
        check.name,
        NOT_ATTEMPTED,
        f"Write {check.call} and run the cell again. The notebook works without it, too.",
        look=check.look,
    )
    if function is None or function is Ellipsis or function is NotImplemented:
        return stub
    try:
        got = f"{type(function).__name__} {function!r:.60}"
        expect(callable(function), "not a function", f"Pass the function itself, not the {got}.")
        check.examine(function)
    except NotImplementedError:
        return stub
    except Refused as refused:
        name, says, case = refused.args
        return Report(check.name, MISTAKE, says, name, check.look, tuple(case))
    return Report(check.name, CORRECT, check.well)
