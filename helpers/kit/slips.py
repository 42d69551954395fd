"""Slips that any exercise may have: the right formula on inputs read in a wrong way, or changed at the end.

Made from the solution itself, so each sentence says what truly gives the learner's result.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import torch
from torch import Tensor

Slip = tuple[str, str, Callable]  # its name, what to say, the wrong function


def _cut(x: Tensor, step: int) -> Tensor:
    """The row one token on (1) or back (−1), 0 where nothing comes; of a tensor with rows."""
    zero = torch.zeros_like(x.movedim(-1, 1)[:, :1]).movedim(1, -1)
    return torch.cat([x[..., 1:], zero] if step > 0 else [zero, x[..., :-1]], -1)


def _whitened(x: Tensor) -> Tensor:
    return (x - x.mean()) / (x.std() + 1e-8)


MASKS = {  # "You read the mask as if …"
    "padding counted": ("every position counted; only {counted} of {total} do", torch.ones_like),
    "mask upside down": ("False meant that a position counts", torch.logical_not),
    "first token left out": (
        "each row began one token later",
        lambda m: m & (m.long().cumsum(-1) > 1),
    ),
    "last token left out": (
        "each row ended one token earlier",
        lambda m: m & (m.long().flip(-1).cumsum(-1).flip(-1) > 1),
    ),
    "last column left out": (
        "the last column never counted",
        lambda m: torch.cat([m[..., :-1], torch.zeros_like(m[..., -1:])], -1),
    ),
    "first token only": (
        "each row had its first token alone",
        lambda m: m & (m.long().cumsum(-1) == 1),
    ),
    "last token only": (
        "each row had its last token alone",
        lambda m: m & (m.long().flip(-1).cumsum(-1).flip(-1) == 1),
    ),
    "first row's mask for all": (
        "every row had the first one's",
        lambda m: m[:1].expand_as(m).clone(),
    ),
}
# what was done to a tensor before it was used: "Your result is that of `values` …"
TENSORS = {
    "left out": ("left out (0 in its place)", torch.zeros_like),
    "as 1": ("being 1 everywhere", torch.ones_like),
    "with the wrong sign": ("with the opposite sign", torch.neg),
    "without its sign": ("without its sign", torch.abs),
    "cut off at 0": ("cut off at 0", lambda x: x.clamp(min=0)),
    "rounded": ("rounded to whole numbers", torch.trunc),
    "squared": ("squared: is there a square too many, or a root left out?", torch.square),
    "halved": ("halved: where is a factor of 2?", lambda x: x / 2),
    "doubled": ("doubled: where is a factor of 2?", lambda x: 2 * x),
    "its mean": ("with its mean in every place", lambda x: x.mean().expand_as(x).clone()),
    "centred": ("with its mean subtracted", lambda x: x - x.mean()),
    "whitened": ("normalised to mean 0 and standard deviation 1", _whitened),
    "divided by its std": ("divided by its standard deviation", lambda x: x / x.std()),
    "divided by its sum": ("divided by its sum", lambda x: x / x.sum()),
    "softmaxed": ("put through a softmax", lambda x: x.softmax(-1)),
    "sigmoid taken": ("put through a sigmoid", torch.sigmoid),
    "exp taken": ("with exp taken of it", torch.exp),
    "log taken": ("with its logarithm taken", torch.log),
    "cumulated": ("added up along the row (cumsum)", lambda x: x.cumsum(-1)),
    "sorted": ("sorted, so that each number belongs to another entry", lambda x: x.sort(-1).values),
    "reversed": ("in reverse order", lambda x: x.flip(-1)),
    "of the first row": (
        "with the first row in place of every row",
        lambda x: x[:1].expand_as(x).clone(),
    ),
    "of the row after": ("with each row replaced by the one after", lambda x: x.roll(-1, 0)),
    "of the row before": ("with each row replaced by the one before", lambda x: x.roll(1, 0)),
    "centred by row": ("with each row's mean subtracted", lambda x: x - x.mean(-1, True)),
    "of the next token": ("taken at t + 1 instead of t", lambda x: _cut(x, 1)),
    "of the previous token": ("taken at t − 1 instead of t", lambda x: _cut(x, -1)),
    "of the next token, rolled": (
        "taken at t + 1 instead of t, rolled round",
        lambda x: x.roll(-1, -1),
    ),
    "of the previous token, rolled": (
        "taken at t − 1 instead of t, rolled round",
        lambda x: x.roll(1, -1),
    ),
}
NUMBERS = {  # what was done to a number: "Your result is that of `gamma` …"
    "missing": ("being 1", lambda x: 1.0),
    "as 0": ("being 0", lambda x: 0.0),
    "with the wrong sign": ("with the opposite sign", lambda x: -x),
    "subtracted from 1": ("subtracted from 1", lambda x: 1 - x),
    "upside down": ("as a divisor where it is a factor, or the other way round", lambda x: 1 / x),
    "squared": ("squared: is it used twice, or a root left out?", lambda x: x * x),
    "halved": ("halved: where is a factor of 2?", lambda x: x / 2),
    "doubled": ("doubled: where is a factor of 2?", lambda x: 2 * x),
    "root taken": ("with a root too many, or a square left out", lambda x: x**0.5),
    **{
        f"written in as {n:g}": (f"being {n:g}: is a number written in?", lambda x, n=n: n)
        for n in (0.1, 0.2, 0.5, 0.95, 0.99)
    },
}
RESULTS = {  # what was done to the right result: "Your result is the right one, …"
    "sign left out": ("without its sign", torch.abs),
    "cut off at 0": ("cut off at 0; it may be negative", lambda x: x.clamp(min=0)),
    "cut off at 1": ("cut off at 1; it may be larger", lambda x: x.clamp(max=1)),
    "cut off at −1 and 1": ("cut off at −1 and 1", lambda x: x.clamp(-1, 1)),
    "squared": ("squared", torch.square),
    "root taken": ("with a root taken of it", lambda x: x.clamp(min=0).sqrt()),
    "upside down": ("upside down: 1 divided by it", lambda x: 1 / x),
    "subtracted from 1": ("subtracted from 1", lambda x: 1 - x),
    "exp taken": ("with exp taken of it", torch.exp),
    "exp of minus it": ("with its sign turned and exp taken", lambda x: (-x).exp()),
    "logarithm taken": ("with its logarithm taken", torch.log),
    "sigmoid taken": ("put through a sigmoid", torch.sigmoid),
    "in bits": ("in bits; use nats (natural logarithm)", lambda x: x / math.log(2)),
    "rounded": ("rounded: keep the fraction", torch.round),
    "rounded down": ("rounded down (// or int): keep the fraction", torch.floor),
    "sorted": ("sorted", lambda x: x.sort(-1).values),
    "tokens reversed": ("with the tokens in reverse order", lambda x: x.flip(-1)),
    "rows reversed": ("with the rows in reverse order", lambda x: x.flip(0)),
    "first row for all": ("with the first row in place of every row", lambda x: x[:1].expand_as(x)),
    "mean in every place": ("with its mean in every place", lambda x: x.mean().expand_as(x)),
    "cumulated": ("added up along the row (cumsum)", lambda x: x.cumsum(-1)),
    "divided by its sum": ("divided by its sum", lambda x: x / x.sum()),
    "centred": ("with its mean subtracted", lambda x: x - x.mean()),
    "whitened": ("whitened", _whitened),
    "low precision": ("computed in 16 bits", lambda x: x.half().float()),
    "low precision (bfloat16)": (
        "computed in bfloat16, with 3 digits",
        lambda x: x.bfloat16().float(),
    ),
}


COUNTS = {  # what was done to a whole number
    "one too small": ("one smaller than it is", lambda x: x - 1),
    "one too large": ("one larger than it is", lambda x: x + 1),
    **{
        f"written in as {n}": (f"being {n}: is it written in?", lambda x, n=n: n)
        for n in (1, 2, 3, 4)
    },
}
SWITCHES = {  # what was done to a yes or no
    "upside down": ("the other way round", lambda x: not x),
    "taken as True": ("being True", lambda x: True),
    "taken as False": ("being False", lambda x: False),
}
KINDS = {float: NUMBERS, int: COUNTS, bool: SWITCHES}


def slips(
    names: tuple[str, ...],
    probe: tuple,
    right: Callable,
    words: dict[str, set[str]],
    scalar: bool,
) -> Iterator[Slip]:
    """The slips that these arguments allow; `right` is the solution, one tensor of given arguments.

    `words` are the values of arguments that are words; `scalar`: the result is one number.
    """
    given = dict(zip(names, probe, strict=True))
    mask = "mask" if "mask" in given else "counted"

    def on(**changes: Callable) -> Callable:
        def wrong(*inputs):
            named = dict(zip(names, inputs, strict=True))
            return right(
                *(named | {name: change(named) for name, change in changes.items()}).values()
            )

        return wrong

    if mask in given:
        for name, (what, change) in MASKS.items():
            yield (
                name,
                f"You read the mask as if {what}.",
                on(**{mask: lambda n, f=change: f(n[mask])}),
            )
        zeroed = {
            name: lambda n, name=name: torch.where(n[mask], n[name], 0.0)
            for name, x in given.items()
            if isinstance(x, Tensor) and x.is_floating_point() and x.shape == given[mask].shape
        }
        says = "You set padding to 0, but it still counts: {counted} of {total} positions do."
        yield (
            "padding counts as 0",
            says,
            on(**zeroed, **{mask: lambda n: torch.ones_like(n[mask])}),
        )
    for name, values in words.items():
        for value in sorted(values):
            says = f"Your result is that of `{name}` being {value!r}."
            yield f"{name} taken as {value}", says, on(**{name: lambda n, value=value: value})
    yield from _of_rows(right) if scalar else ()
    for name, x in given.items():
        yield from _changed(f"`{name}`", name, KINDS.get(type(x), {}), on)
    for a, b in combinations(names, 2):
        x, y = given[a], given[b]
        tensors = isinstance(x, Tensor) and isinstance(y, Tensor)
        if (tensors and (x.shape, x.dtype) == (y.shape, y.dtype)) or type(x) is type(y) is float:
            swap = on(**{a: lambda n, b=b: n[b], b: lambda n, a=a: n[a]})
            yield f"{a} and {b} exchanged", f"`{a}` and `{b}` are exchanged.", swap
            if tensors and x.is_floating_point() and _of_difference(names, a, b, probe, right):
                yield from _changed(f"`{a} − {b}`", a, TENSORS, on, minus=b)
            for one, other in ((a, b), (b, a)):
                yield (
                    f"{other} for {one}",
                    f"You used `{other}` where `{one}` belongs.",
                    on(**{one: lambda n, other=other: n[other]}),
                )
    for name, x in given.items():
        if isinstance(x, Tensor) and x.is_floating_point():
            yield from _changed(f"`{name}`", name, TENSORS, on)
    for label, (what, change) in RESULTS.items():
        says = f"Your result is the right one, {what}."
        yield f"right, then {label}", says, lambda *given, f=change: f(right(*given))


def _changed(what: str, name: str, kinds: dict, on: Callable, minus: str = "") -> Iterator[Slip]:
    """An argument that was changed before it was used, or its difference to another one, `minus`."""
    for label, (words, change) in kinds.items():

        def changed(n: dict, change=change):
            return n[minus] + change(n[name] - n[minus]) if minus else change(n[name])

        says = f"Your result is that of {what} {words}{'' if words.endswith('?') else '.'}"
        yield f"{what.replace('`', '')} {label}", says, on(**{name: changed})


def _of_difference(names: tuple, a: str, b: str, probe: tuple, right: Callable) -> bool:
    """Whether only the difference of two arguments counts."""
    moved = [x + 1 if name in (a, b) else x for name, x in zip(names, probe, strict=True)]
    return torch.allclose(right(*moved), right(*probe), 1e-4, 1e-5, equal_nan=True)


def _of_rows(right: Callable) -> Iterator[Slip]:
    """Only one row, or the mean of what each row gives: for results that are one number."""

    def rows_of(given: tuple) -> Tensor | None:
        size = max((x.shape[0] for x in given if isinstance(x, Tensor) and x.dim()), default=0)
        each = [
            right(
                *(
                    x[b : b + 1] if isinstance(x, Tensor) and x.dim() and len(x) == size else x
                    for x in given
                )
            )
            for b in range(size)
        ]
        return torch.stack(each) if size and each[0].dim() == 0 else None

    for name, words, pick in (
        ("first row only", "what the first row alone gives", lambda x: x[0]),
        ("last row only", "what the last row alone gives", lambda x: x[-1]),
        ("mean of the rows' results", "the mean of what each row gives by itself", torch.mean),
        ("sum of the rows' results", "the sum of what each row gives by itself", torch.sum),
    ):
        says = f"Your result is {words}; take all rows together."
        yield name, says, lambda *given, pick=pick: pick(rows_of(given))
