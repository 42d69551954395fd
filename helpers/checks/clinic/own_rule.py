"""Exercise of notebook 09: a rule of the learner's own, judged on recorded runs it was not made on."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import numpy
import torch

from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report, kind_of
from helpers.checks.judging.runner import MISSING, RAISED, TIMED_OUT, attempt, line_of
from helpers.data import DATA, verify
from helpers.state import History
from helpers.tools.files import read_json

FOLDER = DATA / "clinic"
SEEN, UNSEEN = (0, 1, 2), (3, 4, 5)
SECRET = ("gold", "grammatical", "flattery")  # what people wanted: no run of real life records it
READABLE = (
    "score kl response_length ended entropy first_ratio_error approx_kl clip_fraction policy_loss "
    "value_loss explained_variance grad_norm"
).split()
LOOK = (
    "True for what looks wrong: no alarm for a healthy run, and one fault found on all three seeds"
)
MISSED = ("clip_max",)  # what `diagnose` does not flag on all unseen seeds; a test holds it
TIME_LIMIT = 10.0  # seconds for all runs together


class Recorded(NamedTuple):
    """One run as a rule sees it."""

    kind: str
    seed: int
    history: History

    @property
    def healthy(self) -> bool:
        return self.kind.startswith("healthy")


@cache
def recorded() -> list[Recorded]:
    """The clinic's runs, with the metrics that a rule may read. FileProblem: missing or damaged."""
    verify(FOLDER / "study.json")
    found = []
    for name, entry in read_json(FOLDER / "study.json", ("runs",))["runs"].items():
        run = read_json(FOLDER / name / "run.json") if entry.get("whole") else entry
        rows = zip(*(run["history"][metric] for metric in READABLE), strict=True)
        history = [dict(zip(READABLE, row, strict=True)) for row in rows]
        found.append(Recorded(entry["kind"], run["config"]["seed"], history))
    return found


class Refused(Exception):
    """An answer that is no rule: the mistake's name, and what to say."""


def as_bool(answer: object) -> bool:
    """True or False, also as a tensor or number of numpy's. Refused: anything else."""
    if isinstance(answer, torch.Tensor) and answer.numel() == 1 and answer.dtype == torch.bool:
        return bool(answer)
    if isinstance(answer, (bool, numpy.bool_)):
        return bool(answer)
    if answer is None:
        raise Refused("wrong type", "You return None: is there a `return` on every path?")
    shown = repr(answer)
    shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
    raise Refused(
        "wrong type",
        f"You return {shown}, {kind_of(answer)}. Return True or False: compare the number.",
    )


def apply(rule: Callable, run: Recorded, seconds: float) -> bool:
    """What the rule says of one run. Refused: it fails; NotImplementedError: it is a stub."""
    copied = [dict(record) for record in run.history]
    outcome = attempt(rule, (copied,), seconds)
    if outcome.state == MISSING:
        raise NotImplementedError
    if outcome.state == TIMED_OUT:
        says = f"Not finished after {TIME_LIMIT:g} seconds. Is there an endless loop?"
        raise Refused("endless loop", says)
    if copied != run.history:
        raise Refused("inputs changed", "You changed the history; only read it.")
    if outcome.state == RAISED:
        error, words = outcome.error, " ".join(str(outcome.error).split())[:200]
        if any(repr(name) in words for name in SECRET):
            says = "A rule may not use what people wanted; no run of real life records it."
            raise Refused("the gold score", says)
        line = line_of(error, rule)
        raise Refused(
            "exception", f"{type(error).__name__}: {words}" + (f", in {line}." if line else ".")
        )
    return as_bool(outcome.value)


def all_said(rule: Callable, seconds: float) -> list[tuple[Recorded, bool]]:
    """What the rule says of each run; [] if it is a stub. Refused: it fails, or is one on some runs."""
    said, runs = [], recorded()
    for run in runs:
        with suppress(NotImplementedError):
            said.append((run, apply(rule, run, seconds)))
    if said and len(said) < len(runs):
        says = "Some runs still reach the `return NotImplemented` of the stub. Return True or False there."
        raise Refused("half a stub", says)
    return said


def check_my_rule(function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """Check your `my_rule(history)` on seeds 3 to 5 of the clinic."""
    if function is None or function is Ellipsis or function is NotImplemented:
        return _not_attempted()
    if not callable(function):
        got = f"{type(function).__name__} {function!r:.60}"
        return _mistake("not a function", f"Pass the function itself, not the {got}.")
    try:
        said = all_said(function, seconds)
    except Refused as refused:
        return _mistake(*refused.args)
    return _judged(said) if said else _not_attempted()


def _not_attempted() -> Report:
    says = "Write my_rule(history) and run the cell again. The notebook works without it, too."
    return Report("my_rule", NOT_ATTEMPTED, says, look=LOOK)


def _mistake(name: str, says: str, alarms: tuple = ()) -> Report:
    return Report("my_rule", MISTAKE, says, name, LOOK, alarms)


def _judged(said: list[tuple[Recorded, bool]]) -> Report:
    """The verdict on a rule that runs, from what it said of each run."""
    unseen = [(run, alarm) for run, alarm in said if run.seed in UNSEEN]
    well = [(run, alarm) for run, alarm in unseen if run.healthy]
    ill = [(run, alarm) for run, alarm in unseen if not run.healthy]
    false = [run for run, alarm in well if alarm]
    if all(alarm for _, alarm in unseen):
        return _mistake(
            "always an alarm", "It says True of every run on seeds 3 to 5, the healthy ones too."
        )
    if not any(alarm for _, alarm in unseen):
        return _mistake(
            "never an alarm", "It says True of no run on seeds 3 to 5: no fault is found."
        )
    if len(false) == len(well) and not any(alarm for _, alarm in ill):
        return _mistake(
            "upside down", "On seeds 3 to 5 it says True of the healthy runs alone: turn it round."
        )
    if false:
        return _false_alarms(said, false, len(well))
    kinds = list(dict.fromkeys(run.kind for run, _ in ill))
    found = [kind for kind in kinds if all(alarm for run, alarm in ill if run.kind == kind)]
    if not found:
        some = sorted({run.kind for run, alarm in ill if alarm})
        says = (
            f"No fault is found on all three unseen seeds, only on some of them: {', '.join(some)}."
        )
        return _mistake("not on every seed", says)
    says = (
        f"False alarms: 0 of {len(well)} healthy runs on seeds 3 to 5. Found on all three of them: "
    )
    return Report("my_rule", CORRECT, says + ", ".join(found) + "." + _praise(found))


def _praise(found: list[str]) -> str:
    """What is said of the best kinds of rule."""
    alone = " One fault alone: the sharpest kind." if len(found) == 1 else ""
    missed = ", ".join(kind for kind in found if kind in MISSED)
    more = f" You found what the rules miss: `diagnose` does not find {missed} on all three."
    return alone + (more if missed else "")


def _false_alarms(said: list, false: list[Recorded], total: int) -> Report:
    """The report of a rule that calls healthy runs ill."""
    names = ", ".join(f"{run.kind} on seed {run.seed}" for run in false[:3])
    says = f"False alarms: {len(false)} of {total} healthy runs on seeds 3 to 5, such as {names}."
    before = any(alarm for run, alarm in said if run.healthy and run.seed in SEEN)
    if before:
        return _mistake("false alarms", f"{says} There are some on seeds 0 to 2, too: look there.")
    says += (
        " There is none on seeds 0 to 2: does a limit lie too near to the runs it was chosen on?"
        " A limit at exactly 0 may: rounding crosses it."
    )
    return _mistake("fitted to the seen seeds", says)
