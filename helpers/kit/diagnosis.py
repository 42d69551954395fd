"""Of what kind a wrong result is: an edit of the solution, a wrong form, a slip, a pattern, a dependence."""

import warnings
from collections.abc import Callable
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from helpers.kit.dependence import depends_otherwise
from helpers.kit.exercise import Exercise, Mistake, Seen, View
from helpers.kit.patterns import (
    alike,
    as_tensor,
    first_difference,
    form_problem,
    infinite,
    kind,
    right,
    symptom,
)
from helpers.kit.places import place_of
from helpers.kit.report import UNKNOWN, show
from helpers.kit.running import TimeLimit, copy_of, limited
from helpers.kit.slips import slips

LOOK_LIMIT = 4.0  # seconds, for each of the looks at what is wrong
Found = tuple[str, str] | None  # the kind of mistake, and what to say


def agrees(name: str, got: object, wanted: object) -> bool:
    """Whether a result is right up to rounding; gradients and weights by the size of their error."""
    if isinstance(wanted, Tensor) and ("gradient" in name or "weights" in name):
        same = isinstance(got, Tensor) and got.shape == wanted.shape
        return same and bool((got - wanted).norm() <= 2e-3 * wanted.norm() + 1e-7)
    if isinstance(wanted, Tensor):
        return right(as_tensor(got, wanted), wanted)
    return got == wanted


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
    cases = [view.cases[k] for k in wrong]
    masks = [view.mask(given) for given in cases]
    fits = [m if isinstance(m, Tensor) and m.shape == pairs[k][1].shape else None
            for m, k in zip(masks, wrong, strict=True)]  # fmt: skip
    looks = [
        lambda: edited(exercise, answers, names),
        lambda: form_problem(got, wanted),
        lambda: another_time(view, got) if usable else None,
        lambda: exchanged(exercise, answers, view.name),
        lambda: slipped(view, pairs) if usable else None,
        lambda: infinite(got, wanted),
        lambda: symptom([pairs[k] for k in wrong], fits) if usable else None,
        lambda: depends_otherwise(view, cases) if usable else None,
        lambda: place_of([pairs[k] for k in wrong], fits) if usable else None,
    ]
    for look in looks:
        found = looked(look)
        if found is not None:
            return found
    if got.shape == wanted.shape:
        index = first_difference(got, wanted)
        at = f"At {list(index)} you have" if index else "You have"
        return (
            UNKNOWN,
            f"{at} {show(got[index])}; it should be {show(wanted[index])}. {exercise.advice}",
        )
    return UNKNOWN, exercise.advice


def looked(look: Callable[[], Found]) -> Found:
    """What a look finds; None where it fails or takes too long: a look must not break the notebook."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return limited(look, LOOK_LIMIT)
    except (Exception, TimeLimit):  # noqa: BLE001
        return None


def edited(exercise: Exercise, answers: list[Seen], names: list[str]) -> Found:
    """The mistake, or the two mistakes in different places, whose results are the learner's."""
    for one in exercise.known:
        if made_alike(answers, made_by(exercise, (one,)), names):
            return one.name, one.says
    for two in combinations(exercise.known, 2):
        if made_alike(answers, made_by(exercise, two), names):
            return (
                f"{two[0].name}, and {two[1].name}",
                f"Two at once. {two[0].says} And: {two[1].says}",
            )
    return None


@cache
def made_by(exercise: Exercise, mistakes: tuple[Mistake, ...]) -> list[Seen] | None:
    """What the solution with these mistakes gives on all probes; None where it fails."""
    try:
        function = exercise.edited(*mistakes)
        return [exercise.seen(function, probe) for probe in exercise.cases]
    except Exception:  # noqa: BLE001 (a wrong function may fail, two edits may be of one place)
        return None


def made_alike(answers: list[Seen], made: list[Seen] | None, names: list[str]) -> bool:
    """Whether all results up to the first wrong one are the same."""
    return made is not None and all(
        agrees(name, seen.get(name), there.get(name))
        for seen, there in zip(answers, made, strict=True)
        for name in names
        if name in there or name in seen
    )


def another_time(view: View, got: Tensor) -> Found:
    """Whether the same inputs give another wrong result when they are given again."""
    first, again = view.mine(*view.cases[0]), view.mine(*view.cases[0])
    if alike(first, again):
        return None
    return "another result the second time", (
        "Called once more with the same inputs you return something else: is something drawn at random, or"
        " kept from one call to the next?"
    )


def stretched(probe: tuple, generator: torch.Generator) -> tuple:
    """The probe with every float times 0.6 to 1.4 at random; of a vector the entries change places."""

    def change(x: object) -> object:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        x = x.roll(1) if x.dim() == 1 else x
        return x * (0.6 + 0.8 * torch.rand(x.shape, generator=generator)).to(x.dtype)

    return tuple(map(change, probe))


def slipped(view: View, pairs: list[tuple[Tensor, Tensor]]) -> Found:
    """The slip that gives the learner's results, on these inputs and on stretched ones."""
    answers, wanted = zip(*pairs, strict=True)
    cases, generator = view.cases, torch.Generator().manual_seed(0)
    named = [view.exercise.named(p, apart=True) for p in view.exercise.cases]
    words = {name: {x[name] for x in named} for name, x in named[0].items() if isinstance(x, str)}
    further = [stretched(p, generator) for p in cases]
    there = None
    for name, says, wrong in slips(view.names, cases[0], view.right, words, wanted[0].dim() == 0):
        made = results(wrong, cases, answers)
        if made is None or all(map(alike, made, wanted)):
            continue
        there = there or results(view.mine, further)
        if there is None:
            return None
        if results(wrong, further, there) is not None and informative(answers, wanted):
            return name, says
    return None


def results(function: Callable, cases: list[tuple], like: list | None = None) -> list | None:
    """A function's results on these inputs; None if it fails on one, or gives others than those `like` it."""
    found = []
    try:
        for k, given in enumerate(cases):
            found.append(torch.as_tensor(function(*copy_of(given))).detach())
            if like is not None and not same(like[k], found[k]):
                return None
    except Exception:  # noqa: BLE001 (a wrong formula may fail on some inputs)
        return None
    return found


def exchanged(exercise: Exercise, answers: list[Seen], name: str) -> Found:
    """Whether a result is what another one should be."""
    for other in dict.fromkeys(name for p in exercise.cases for name in exercise.expected(p)):
        there = [
            (seen.get(name), wanted[other])
            for seen, wanted in zip(answers, map(exercise.expected, exercise.cases), strict=True)
            if name in wanted and other in wanted
        ]
        if there and other != name and all(agrees(name, *pair) for pair in there):
            return f"{other} for {name}", f"Where the {name} should be, you return the {other}."
    return None


def same(one: Tensor, other: Tensor) -> bool:
    """Alike, of one kind, and not only because both are tiny."""
    if kind(one) != kind(other) or not alike(one, other):
        return False
    one, other = one.double().nan_to_num(), other.double().nan_to_num()
    return (
        bool((one - other).abs().max() <= 0.01 * other.abs().max() + 1e-12) if one.numel() else True
    )


def informative(answers: list[Tensor], wanted: list[Tensor]) -> bool:
    """Whether results say something: not 0 throughout, not infinite throughout, no single number alone."""
    got = torch.cat([a.double().flatten() for a in answers])
    finite = got[got.isfinite()]
    return bool((finite != 0).any()) and (len(wanted) > 1 or finite.numel() > 1)
