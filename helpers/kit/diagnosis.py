"""Of what kind a wrong result is: a mistake of the exercise, a small change, a pattern, a dependence."""

import ast
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import NamedTuple

from torch import Tensor

from helpers.kit.dependence import depends_otherwise, other_values, without_effect
from helpers.kit.exercise import Change, Exercise, Seen
from helpers.kit.mutations import mutations
from helpers.kit.patterns import (
    Found,
    as_tensor,
    first_difference,
    form_problem,
    infinite,
    right,
    symptom,
)
from helpers.kit.report import UNKNOWN, show
from helpers.kit.running import TimeLimit, Wrong, copy_of, limited, shown

LOOK_LIMIT = 4.0  # seconds, for each of the looks at what is wrong


def is_gradient(name: str) -> bool:
    """Whether a result is compared as a whole, by the length of its error."""
    return "gradient" in name or "weights" in name


def agrees(name: str, got: object, wanted: object) -> bool:
    """Whether a result is right up to rounding; gradients and weights by the size of their error."""
    if isinstance(wanted, Tensor) and is_gradient(name):
        same = isinstance(got, Tensor) and (got.shape, got.device) == (wanted.shape, wanted.device)
        return same and bool((got - wanted).norm() <= 2e-3 * wanted.norm() + 1e-7)
    if isinstance(wanted, Tensor):
        return right(as_tensor(got, wanted), wanted)
    return not isinstance(got, Tensor) and got == wanted


class Trial(NamedTuple):
    """An answer, what it gave, and the first result that is wrong."""

    exercise: Exercise
    function: Callable
    answers: list[Seen]  # of each probe
    names: list[str]  # of the results, up to the first wrong one
    wrong: list[tuple]  # (probe, the learner's result, the right one) where that is wrong


def diagnosed(trial: Trial) -> tuple[str, str]:
    """Kind and sentence of the mistake in the first wrong result, or unknown."""
    exercise, function, _, names, wrong = trial
    name, probes = names[-1], [probe for probe, *_ in wrong]
    _, mine, right = wrong[0]
    if not isinstance(right, Tensor):
        found = looked(lambda: recognised(trial, exercise.known), LOOK_LIMIT)
        return found or (
            name,
            f"{name.capitalize()}: you have {mine!r:.200}; it should be {right!r:.200}.",
        )
    pairs = [(as_tensor(mine, right), right) for _, mine, right in wrong]
    first = pairs[0]
    usable = all(x is not None and x.shape == w.shape for x, w in pairs)
    masks = [exercise.mask(probe) for probe in probes]
    looks = [
        lambda: recognised(trial, exercise.known),
        lambda: caused(exercise, function),
        lambda: form_problem(*first),
        lambda: exchanged(trial),
        lambda: recognised(trial, mutations(exercise)),
        lambda: infinite(*first),
        lambda: of_gradient(*first) if is_gradient(name) else None,
        lambda: symptom(pairs, masks) if usable else None,
        lambda: depends_otherwise(exercise, function, name, probes) if usable else None,
    ]
    for look in shown(looks, "Looking for the kind of mistake", exercise.seconds):
        found = looked(look, max(LOOK_LIMIT, exercise.seconds / 5))
        if found is not None:
            return found
    return UNKNOWN, f"{numbers(name, *first)}{exercise.advice}"


def numbers(name: str, got: Tensor, wanted: Tensor) -> str:
    """How far a result is from the right one, in numbers."""
    if is_gradient(name):
        return f"Its error is {float((got - wanted).norm() / wanted.norm()):.1%} of its length. "
    if got.shape != wanted.shape:
        return ""
    index = first_difference(got, wanted)
    at = f"At {list(index)} you have" if index else "You have"
    return f"{at} {show(got[index])}; it should be {show(wanted[index])}. "


def looked(look: Callable[[], Found], seconds: float) -> Found:
    """What a look finds; None where it fails or takes too long: a look must not break the notebook."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return limited(look, seconds)
    except (Exception, TimeLimit):  # noqa: BLE001
        return None


def recognised(trial: Trial, changes: Iterable[Change]) -> Found:
    """The change whose results are the learner's: all of them, or else those up to the first wrong one."""
    exercise, answers, names = trial.exercise, trial.answers, trial.names
    places = range(len(exercise.cases))
    last = max(k for k in places if names[-1] in exercise.expected(exercise.cases[k]))
    every = [*names, *(x for seen in answers for x in seen if x not in names)]
    partly = None
    try:
        for change in changes:
            made = made_by(exercise, change)
            alike = made_alike(answers[: last + 1], map(made, places), names)
            if alike and ignores_alike(trial, change):
                if made_alike(answers, map(made, places), every):
                    return change.name, change.says
                partly = partly or (change.name, change.says)
    except TimeLimit:
        pass  # what was found by then
    return partly


def ignores_alike(trial: Trial, change: Change) -> bool:
    """Whether what the change no longer reads is without effect in the learner's function, too."""
    exercise, name = trial.exercise, trial.names[-1]
    if change.of != exercise.name:
        return True
    read, there = (
        {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        for text in (exercise.solution, change.source)
    )
    values = exercise.named(exercise.cases[0])
    unread = [x for x in read - there if other_values(values.get(x))]
    return all(without_effect(exercise, trial.function, name, x) for x in unread)


def made_by(exercise: Exercise, change: Change) -> Callable[[int], Seen]:
    """What the changed solution gives on each probe, by its place, as it is asked; nothing where it fails."""
    function = cache(partial(exercise.with_change, change))

    @cache
    def seen(place: int) -> Seen:
        try:
            return exercise.seen(function(), exercise.cases[place])
        except Exception:  # noqa: BLE001 (a wrong function may fail)
            return {}

    return seen


def made_alike(answers: list[Seen], made: Iterable[Seen], names: list[str]) -> bool:
    """Whether all results up to the first wrong one are the same."""
    return all(
        agrees(name, seen.get(name), there.get(name))
        for seen, there in zip(answers, made, strict=False)
        for name in names
        if name in there or name in seen
    )  # it ends at the first that is not


def exchanged(trial: Trial) -> Found:
    """Another of the results, where this one belongs."""
    name, expected = trial.names[-1], [trial.exercise.expected(probe) for probe, *_ in trial.wrong]
    kind = name.startswith("gradient of")  # where exp is about, values and gradients may be alike
    for other in (x for x in expected[0] if x != name and x.startswith("gradient of") == kind):
        if all(agrees(other, mine, seen.get(other))
               for seen, (_, mine, _) in zip(expected, trial.wrong, strict=True)):  # fmt: skip
            return f"{other} for {name}", f"You return the {other} in place of the {name}."
    return None


def caused(exercise: Exercise, function: Callable) -> Found:
    """What the exercise's own look finds."""
    try:
        for probe in exercise.cases if exercise.cause else ():
            exercise.cause(function, *copy_of(probe))
    except Wrong as found:
        return found.name, found.says
    return None


def of_gradient(got: Tensor, wanted: Tensor) -> Found:
    """Whether a gradient is missing, or the right one times a factor."""
    size = float((got * wanted).sum() / wanted.square().sum())
    if float(got.norm()) <= 1e-6 * float(wanted.norm()):
        says = "It is 0: through it nothing is trained. Is a part left out or detached (.item(), .detach(),"
        return "no gradient", f"{says} no_grad, new tensors), or zero_grad called after backward?"
    if float((got - size * wanted).norm()) < 2e-3 * float(got.norm()):
        if abs(size + 1) < 5e-3:
            return "wrong sign", "It is the right one with the wrong sign."
        return "a factor", f"It is {size:.4g} times the right one: a factor, or gradients added up."
    return None
