"""Of what kind a wrong result is: a mistake of the exercise, a small change, a pattern, a dependence."""

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import combinations

from torch import Tensor

from helpers.kit.dependence import depends_otherwise, other_values, without_effect
from helpers.kit.exercise import Exercise, Mistake, Seen, Wrong
from helpers.kit.mutations import compiled, mutations
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
from helpers.kit.running import TimeLimit, copy_of, limited, shown

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


def diagnosed(
    exercise: Exercise, function: Callable, answers: list[Seen], names: list[str], places: list[int]
) -> tuple[str, str]:
    """Kind and sentence of the mistake in the last of these results, the first wrong one, or unknown.

    `places` are those of the probes in which it is wrong.
    """
    name, probes = names[-1], [exercise.cases[k] for k in places]
    wanted = [exercise.expected(probe)[name] for probe in probes]
    got = [as_tensor(answers[k].get(name), w) for k, w in zip(places, wanted, strict=True)]
    pairs = list(zip(got, wanted, strict=True))
    usable = all(x is not None and x.shape == w.shape for x, w in pairs)
    masks = [exercise.mask(probe) for probe in probes]
    looks = [
        lambda: edited(exercise, function, answers, names),
        lambda: caused(exercise, function),
        lambda: form_problem(got[0], wanted[0]),
        lambda: exchanged(exercise, name, places, got),
        lambda: mutated(exercise, function, answers, names),
        lambda: infinite(got[0], wanted[0]),
        lambda: of_gradient(got[0], wanted[0]) if is_gradient(name) else None,
        lambda: symptom(pairs, masks) if usable else None,
        lambda: depends_otherwise(exercise, function, name, probes) if usable else None,
    ]
    for look in shown(looks, "Looking for the kind of mistake", exercise.seconds):
        found = looked(look, max(LOOK_LIMIT, exercise.seconds / 5))
        if found is not None:
            return found
    return UNKNOWN, f"{numbers(name, got[0], wanted[0])}{exercise.advice}"


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


def edited(exercise: Exercise, function: Callable, answers: list[Seen], names: list[str]) -> Found:
    """The mistake, or the two mistakes in different places, whose results are the learner's."""
    every = [*names, *(x for seen in answers for x in seen if x not in names)]
    there = [names[-1] in exercise.expected(probe) for probe in exercise.cases]
    # to where the wrong result is last seen; before all, one that gives all the same
    first = answers[: len(there) - there[::-1].index(True)]
    ones = [(one,) for one in exercise.known]
    tries = (
        (ones, every, answers),
        (ones, names, first),
        (combinations(exercise.mistakes, 2), names, first),
    )
    for candidates, known, seen in tries:
        for some in candidates:
            if made_alike(seen, made_by(exercise, some), known) and ignores_alike(
                exercise, function, names[-1], exercise.texts(*some)[exercise.name]
            ):
                says = " And: ".join(one.says for one in some)
                kind = ", and ".join(one.name for one in some)
                return kind, f"Two at once. {says}" if len(some) > 1 else says
    return None


def ignores_alike(exercise: Exercise, function: Callable, result: str, source: str) -> bool:
    """Whether what the solution reads and this source does not is without effect in the function, too."""
    read, there = (
        {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        for text in (exercise.solution, source)
    )
    values = exercise.named(exercise.cases[0])
    unread = [name for name in read - there if other_values(values.get(name))]
    return all(without_effect(exercise, function, result, name) for name in unread)


def made_by(exercise: Exercise, mistakes: tuple[Mistake, ...]) -> Iterator[Seen]:
    """What the solution with these mistakes gives on one probe after the other."""
    return (made_on(exercise, mistakes, place) for place in range(len(exercise.cases)))


@cache
def made_on(exercise: Exercise, mistakes: tuple[Mistake, ...], place: int) -> Seen:
    """What it gives on one probe; nothing where it fails."""
    return seen_or_nothing(exercise, lambda: exercise.edited(*mistakes), exercise.cases[place])


def seen_or_nothing(exercise: Exercise, made: Callable[[], Callable], probe: tuple) -> Seen:
    """What the function that is made gives on a probe; nothing where making or trying it fails."""
    try:
        return exercise.seen(made(), probe)
    except Exception:  # noqa: BLE001 (a wrong function may fail, two edits may be of one place)
        return {}


def made_alike(answers: list[Seen], made: Iterable[Seen], names: list[str]) -> bool:
    """Whether all results up to the first wrong one are the same."""
    return all(
        agrees(name, seen.get(name), there.get(name))
        for seen, there in zip(answers, made, strict=False)
        for name in names
        if name in there or name in seen
    )  # it ends at the first that is not


def mutated(exercise: Exercise, function: Callable, answers: list[Seen], names: list[str]) -> Found:
    """The one small change of the solution whose results are the learner's."""
    every = [*names, *(x for seen in answers for x in seen if x not in names)]
    partly = None
    for change in mutations(exercise):
        made = cache(partial(compiled, exercise, change))
        tried = [seen_or_nothing(exercise, made, exercise.cases[0])]
        if not made_alike(answers, tried, names):
            continue
        tried += [seen_or_nothing(exercise, made, probe) for probe in exercise.cases[1:]]
        whole = made_alike(answers, tried, every)
        if not whole and (partly or not made_alike(answers, tried, names)):
            continue
        if change.name != exercise.name or ignores_alike(
            exercise, function, names[-1], change.source
        ):
            partly = change.kind, change.says
            if whole:
                break
    return partly


def exchanged(exercise: Exercise, name: str, places: list[int], got: list) -> Found:
    """Another of the results, where this one belongs."""
    expected = [exercise.expected(exercise.cases[k]) for k in places]
    kind = name.startswith("gradient of")  # where exp is about, values and gradients may be alike
    for other in (x for x in expected[0] if x != name and x.startswith("gradient of") == kind):
        there = [seen.get(other) for seen in expected]
        if all(isinstance(x, Tensor) and right(y, x) for x, y in zip(there, got, strict=True)):
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
        return "a factor", f"It is {size:.4g} times the right one: a factor too many or too few."
    return None
