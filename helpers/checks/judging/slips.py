"""Slips that any exercise may have: the right formula on inputs that were read in a wrong way.

Made from an exercise's own reference, so each name says what truly gives the learner's numbers.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Exercise, Mistake

LN2 = math.log(2)


@cache
def slips(exercise: Exercise) -> list[Mistake]:
    """The well-known mistakes that this exercise's arguments allow."""
    if any(not isinstance(x, (Tensor, int, float, str)) for x in exercise.probes[0]):
        return []
    found = [*_of_masks(exercise), *_of_rows(exercise), *_exchanged(exercise)]
    for name, given in exercise.named(exercise.probes[0]).items():
        if isinstance(given, Tensor) and given.is_floating_point():
            found += _of_tensor(exercise, name)
        elif isinstance(given, float):
            found += _of_number(exercise, name)
    return [*found, *_of_results(exercise)]


def on_changed(exercise: Exercise, change: Callable[[dict], dict]) -> Callable:
    """The reference on changed arguments: `change` takes and gives them by name."""

    def wrong(*given):
        named = exercise.named(given)
        return exercise.reference(*(named | change(named)).values())

    return wrong


def _of_masks(exercise: Exercise) -> Iterator[Mistake]:
    """A mask that is not used, turned round, or one token too short."""
    if "mask" not in exercise.names:
        return
    for name, says, make in (
        ("padding counted", "You count the padding as well: only {counted} of {total} positions count.",
         torch.ones_like),
        ("mask upside down", "You count the padding and leave out the rest; True means that a position"
         " counts.", torch.logical_not),
        ("first token left out", "The first counted token of a row is left out.",
         lambda m: m & (m.long().cumsum(1) > 1)),
        ("last token left out", "The last counted token of a row is left out.",
         lambda m: m & (m.long().flip(1).cumsum(1).flip(1) > 1)),
        ("last column left out", "The last column is left out; rows without padding need it.",
         lambda m: torch.cat([m[:, :-1], torch.zeros_like(m[:, -1:])], 1)),
        ("first row's mask for all", "You use the first row's mask for every row.",
         lambda m: m[:1].expand_as(m).clone()),
        ("mask down the batch", "You read the mask of the row before: use each row's own.",
         lambda m: m.roll(1, 0)),
    ):  # fmt: skip
        yield Mistake(
            name, says, on_changed(exercise, lambda n, make=make: {"mask": make(n["mask"])})
        )


def _of_rows(exercise: Exercise) -> Iterator[Mistake]:
    """Only one row, or the mean of what each row gives: for results that are one number."""

    def each(given) -> list[Tensor]:
        size = max(x.shape[0] for x in given if isinstance(x, Tensor) and x.dim())
        rows = [[x[b : b + 1] if isinstance(x, Tensor) and x.dim() and len(x) == size else x
                 for x in given] for b in range(size)]  # fmt: skip
        return [exercise.reference(*row) for row in rows]

    def one(pick: Callable) -> Callable:
        def wrong(*given):
            results = each(given)
            return pick(torch.stack(results)) if results[0].dim() == 0 else None

        return wrong

    yield Mistake("first row only", "That is what the first row alone gives; take them all.",
                  one(lambda x: x[0]))  # fmt: skip
    yield Mistake("last row only", "That is what the last row alone gives; take them all.",
                  one(lambda x: x[-1]))  # fmt: skip
    yield Mistake("mean of the rows' results", "You computed each row by itself and averaged the rows;"
                  " take all rows together.", one(torch.mean))  # fmt: skip
    yield Mistake("sum of the rows' results", "You computed each row by itself and added the rows up;"
                  " take all rows together.", one(torch.sum))  # fmt: skip


def _exchanged(exercise: Exercise) -> Iterator[Mistake]:
    """Two arguments of the same kind in each other's place."""
    first = exercise.named(exercise.probes[0])
    for a, b in combinations(exercise.names, 2):
        x, y = first[a], first[b]
        tensors = isinstance(x, Tensor) and isinstance(y, Tensor)
        if (tensors and (x.shape, x.dtype) == (y.shape, y.dtype)) or type(x) is type(y) is float:
            says = f"`{a}` and `{b}` are exchanged."
            yield Mistake(
                f"{a} and {b} exchanged",
                says,
                on_changed(exercise, lambda n, a=a, b=b: {a: n[b], b: n[a]}),
            )


def _cut(x: Tensor, step: int) -> Tensor:
    """The row one token on (1) or back (−1), 0 where nothing comes."""
    zero = torch.zeros_like(x[:, :1])
    return torch.cat([x[:, 1:], zero] if step > 0 else [zero, x[:, :-1]], 1)


def _of_tensor(exercise: Exercise, name: str) -> Iterator[Mistake]:
    """One tensor that was left out, turned, shifted, or put through another function."""
    kinds = [
        (f"{name} left out", f"`{name}` has no effect: your result is that of zeros there.",
         torch.zeros_like),
        (f"sign of {name}", f"`{name}` has the wrong sign.", torch.neg),
        (f"absolute {name}", f"You took |{name}|; keep the sign.", torch.abs),
        (f"{name} clamped at 0", f"You cut `{name}` off at 0; negative numbers count as they are.",
         lambda x: x.clamp(min=0)),
        (f"{name} rounded", f"You made `{name}` whole numbers; keep the fractions.", torch.trunc),
        (f"{name} squared", f"Your result is that of `{name}` squared: squared, or a root left out?",
         torch.square),
        (f"{name} halved", f"Your result is that of half of `{name}`: where is a factor of 2?",
         lambda x: x / 2),
        (f"{name} doubled", f"Your result is that of twice `{name}`: where is a factor of 2?",
         lambda x: 2 * x),
        (f"mean of {name}", f"You put the mean of `{name}` in the place of each.",
         lambda x: x.mean().expand_as(x).clone()),
        (f"{name} centred", f"You subtracted the mean of `{name}`; take it as it is.",
         lambda x: x - x.mean()),
        (f"{name} normalised", f"You normalised `{name}` to mean 0 and deviation 1; take it as it is.",
         lambda x: (x - x.mean()) / (x.std() + 1e-8)),
        (f"first row's {name}", f"You use the first row of `{name}` for all rows.",
         lambda x: x[:1].expand_as(x).clone()),
        (f"{name} of another row", f"You use `{name}` of the row after; take each row's own.",
         lambda x: x.roll(-1, 0)),
        (f"{name} of another row", f"You use `{name}` of the row before; take each row's own.",
         lambda x: x.roll(1, 0)),
        (f"{name} of the next token", f"At t you use `{name}` of t + 1.", lambda x: _cut(x, 1)),
        (f"{name} of the previous token", f"At t you use `{name}` of t − 1.", lambda x: _cut(x, -1)),
        (f"{name} of the next token", f"At t you use `{name}` of t + 1, rolled round at the end.",
         lambda x: x.roll(-1, 1)),
        (f"{name} of the previous token", f"At t you use `{name}` of t − 1, rolled round at the start.",
         lambda x: x.roll(1, 1)),
    ]  # fmt: skip
    if "logp" in name:
        kinds += [
            (f"exp of {name}", f"You took exp({name}), the probabilities; take the logarithms.",
             torch.exp),
            (f"log of {name}", f"`{name}` are logarithms already; you took another logarithm.",
             torch.log),
        ]  # fmt: skip
    for label, says, change in kinds:
        work = on_changed(exercise, lambda n, change=change: {name: change(n[name])})
        yield Mistake(label, says, work)


def _of_number(exercise: Exercise, name: str) -> Iterator[Mistake]:
    """One number that was left out, turned, or used twice."""
    for label, says, change in (
        (f"{name} missing", f"`{name}` = {{{name}}} has no effect: your result is that of 1.",
         lambda x: 1.0),
        (f"{name} as 0", f"`{name}` = {{{name}}} has no effect: your result is that of 0.",
         lambda x: 0.0),
        (f"sign of {name}", f"`{name}` has the wrong sign.", lambda x: -x),
        (f"1 − {name}", f"You used 1 − {name}; use {name}.", lambda x: 1 - x),
        (f"divided by {name}", f"Your result is that of 1/`{name}`: is something multiplied where it divides,"
         " or the other way round?", lambda x: 1 / x),
        (f"{name} squared", f"Your result is that of `{name}`²: is it squared, used twice, or is a root of it"
         " left out?", lambda x: x * x),
        (f"{name} halved", f"Your result is that of half of `{name}`: where is a factor of 2?",
         lambda x: x / 2),
        (f"{name} doubled", f"Your result is that of twice `{name}`: where is a factor of 2?",
         lambda x: 2 * x),
        (f"root of {name}", f"Your result is that of the root of `{name}`: a root too many, or a square"
         " left out?", lambda x: x**0.5),
        *((f"{n:g} for {name}", f"Your result is that of {n:g} for `{name}`, which is {{{name}}}: is a number"
           " written in?", lambda x, n=n: n) for n in (0.1, 0.2, 0.5, 0.99, 0.95)),
    ):  # fmt: skip
        yield Mistake(
            label, says, on_changed(exercise, lambda n, change=change: {name: change(n[name])})
        )


def _of_results(exercise: Exercise) -> Iterator[Mistake]:
    """The right result, put through another function."""
    for label, says, change in (
        ("absolute value", "Your result is the right one without its sign.", torch.abs),
        ("clamped at 0", "You cut your result off at 0; it may be negative.",
         lambda x: x.clamp(min=0)),
        ("clamped at 1", "You cut your result off at 1; it may be larger.",
         lambda x: x.clamp(max=1)),
        ("clamped between 0 and 1", "You cut your result off below 0 and above 1.",
         lambda x: x.clamp(0, 1)),
        ("clamped between −1 and 1", "You cut your result off below −1 and above 1.",
         lambda x: x.clamp(-1, 1)),
        ("squared", "That is the square of the right result.", torch.square),
        ("root taken", "That is the square root of the right result.", lambda x: x.clamp(min=0).sqrt()),
        ("1 over it", "That is 1 over the right result: a fraction is upside down.", lambda x: 1 / x),
        ("1 minus it", "That is 1 minus the right result.", lambda x: 1 - x),
        ("exp taken", "You took exp of the right result; it is a logarithm.", torch.exp),
        ("logarithm taken", "You took the logarithm of the right result.", torch.log),
        ("in bits", "Your result is in bits; use nats (natural logarithm).", lambda x: x / LN2),
        *[("rounded", "Your result is a whole number: something rounds (round, // or int); keep the"
           " fraction.", change) for change in (torch.round, torch.trunc, torch.floor)],
        ("turned round", "Your tokens stand in reverse order.", lambda x: x.flip(1)),
        ("rows in another order", "Your rows stand in reverse order.", lambda x: x.flip(0)),
        ("first row for all", "You give every row the numbers of the first.",
         lambda x: x[:1].expand_as(x)),
        ("mean in every place", "You give the mean of the right result in every place.",
         lambda x: x.mean().expand_as(x)),
        ("added up along the row", "You added the right numbers up along the row (cumsum).",
         lambda x: x.cumsum(1)),
        ("low precision", "The formula is right, but computed in bfloat16, with 3 digits.",
         lambda x: x.bfloat16().float()),
        ("low precision", "The formula is right, but computed in float16.",
         lambda x: x.half().float()),
    ):  # fmt: skip
        yield Mistake(label, says, lambda *given, change=change: change(exercise.reference(*given)))
