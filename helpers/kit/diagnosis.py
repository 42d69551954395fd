"""Of what kind a wrong result is: a mistake of the exercise, a small change, a pattern, a dependence."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import combinations

from torch import Tensor

from helpers.kit.dependence import depends_otherwise
from helpers.kit.exercise import Exercise, Mistake, Seen, View, Wrong
from helpers.kit.mutations import compiled, mutations
from helpers.kit.patterns import (
    as_tensor,
    divided,
    first_difference,
    form_problem,
    infinite,
    right,
    symptom,
)
from helpers.kit.report import UNKNOWN, show
from helpers.kit.running import TimeLimit, copy_of, limited

LOOK_LIMIT = 4.0  # seconds, for each of the looks at what is wrong
Found = tuple[str, str] | None  # the kind of mistake, and what to say


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
    view: View, answers, names: list[str], got: Tensor, wanted: Tensor
) -> tuple[str, str]:
    """Kind and sentence of a mistake: the first look that finds something, or unknown."""
    exercise = view.exercise
    pairs = [
        (as_tensor(seen.get(view.name), w), w)
        for seen, probe in zip(answers, exercise.cases, strict=True) if view.has(probe)
        for w in [exercise.expected(probe)[view.name]]
    ]  # fmt: skip
    usable = all(a is not None for a, _ in pairs)
    wrong = [k for k, pair in enumerate(pairs) if not agrees(view.name, *pair)]
    wrong_pairs, cases = [pairs[k] for k in wrong], [view.cases[k] for k in wrong]
    probes = [[p for p in exercise.cases if view.has(p)][k] for k in wrong]
    masks = [exercise.mask(p) for p in probes]
    fits = [m if isinstance(m, Tensor) and m.shape == w.shape else None
            for m, (_, w) in zip(masks, wrong_pairs, strict=True)]  # fmt: skip
    looks = [
        lambda: edited(exercise, answers, names),
        lambda: caused(exercise, view.function),
        lambda: form_problem(got, wanted),
        lambda: exchanged(view, pairs, exercise) if usable else None,
        lambda: mutated(exercise, answers, names),
        lambda: infinite(got, wanted),
        lambda: divided(wrong_pairs, [exercise.counts(p) for p in probes]) if usable else None,
        lambda: of_gradient(got, wanted) if is_gradient(view.name) else None,
        lambda: symptom(wrong_pairs, fits) if usable else None,
        lambda: depends_otherwise(view, cases) if usable else None,
    ]
    for look in looks:
        found = looked(look, max(LOOK_LIMIT, exercise.seconds / 5))
        if found is not None:
            return found
    if is_gradient(view.name):
        share = float((got - wanted).norm() / wanted.norm())
        return UNKNOWN, f"Its error is {share:.1%} of its length. {exercise.advice}"
    if got.shape == wanted.shape:
        index = first_difference(got, wanted)
        at = f"At {list(index)} you have" if index else "You have"
        return (
            UNKNOWN,
            f"{at} {show(got[index])}; it should be {show(wanted[index])}. {exercise.advice}",
        )
    return UNKNOWN, exercise.advice


def looked(look: Callable[[], Found], seconds: float) -> Found:
    """What a look finds; None where it fails or takes too long: a look must not break the notebook."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return limited(look, seconds)
    except (Exception, TimeLimit):  # noqa: BLE001
        return None


def edited(exercise: Exercise, answers: list[Seen], names: list[str]) -> Found:
    """The mistake, or the two mistakes in different places, whose results are the learner's."""
    every = [*names, *(x for seen in answers for x in seen if x not in names)]
    there = [names[-1] in exercise.expected(probe) for probe in exercise.cases]
    # to where the wrong result is last seen; before all, one that gives all the same
    first = answers[: len(there) - there[::-1].index(True)]
    for known, seen in ((every, answers), (names, first)):
        for one in exercise.known:
            if made_alike(seen, made_by(exercise, (one,)), known):
                return one.name, one.says
    for two in combinations(exercise.mistakes, 2):
        if made_alike(first, made_by(exercise, two), names):
            return (
                f"{two[0].name}, and {two[1].name}",
                f"Two at once. {two[0].says} And: {two[1].says}",
            )
    return None


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


def mutated(exercise: Exercise, answers: list[Seen], names: list[str]) -> Found:
    """The one small change of the solution whose results are the learner's."""
    every = [*names, *(x for seen in answers for x in seen if x not in names)]
    partly = None
    for change in mutations(exercise):
        made = cache(partial(compiled, exercise, change))
        tried = [seen_or_nothing(exercise, made, exercise.cases[0])]
        if not made_alike(answers, tried, names):
            continue
        tried += [seen_or_nothing(exercise, made, probe) for probe in exercise.cases[1:]]
        if made_alike(answers, tried, every):
            return change.kind, change.says
        if partly is None and made_alike(answers, tried, names):
            partly = change.kind, change.says
    return partly


def exchanged(view: View, pairs: list, exercise: Exercise) -> Found:
    """Another of the results, where this one belongs."""
    wanted = [exercise.expected(probe) for probe in exercise.cases]
    for name in wanted[0]:
        there = [seen.get(name) for seen in wanted if view.name in seen]
        if name != view.name and all(
            isinstance(x, Tensor) and right(got, x) and not right(x, want)
            for x, (got, want) in zip(there, pairs, strict=True)
        ):
            return (
                f"{name} for {view.name}",
                f"You return the {name} in place of the {view.name}.",
            )
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
        return (
            "no gradient",
            "It is 0: is a part of the loss detached or left out, or zero_grad called after backward?",
        )
    if float((got - size * wanted).norm()) < 2e-3 * float(got.norm()):
        if abs(size + 1) < 5e-3:
            return "wrong sign", "It is the right one with the wrong sign."
        return "a factor", f"It is {size:.4g} times the right one: a factor too many or too few."
    return None
