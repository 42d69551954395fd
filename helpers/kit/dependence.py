"""What a wrong answer depends on: each argument is moved a little, and the result's answer is looked at.

The same is done with the solution. Where the two differ in kind, that says what is wrong without knowing
the formula that the learner wrote: padding that matters, an argument without effect, a token too far.
"""

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from helpers.kit.exercise import Exercise, noise
from helpers.kit.patterns import Found, alike

STEP, LEAST = 0.125, 2e-5  # the move; the smallest effect
FAR = (-1.0, 3.0)  # further moves, before it is said that an entry has no effect
LARGEST, CASES = 40, 4  # entries of an argument; test cases


# --- an argument that nothing depends on -------------------------------------------------------------


def other_values(x: object) -> tuple:
    """Other values that an argument may have, each far from it in another way."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return x + noise(0, *x.shape), x - 3 * noise(1, *x.shape)
    numbers = {
        float: lambda: (0.5 * x + 0.013, 0.3 * x + 0.1, 10 * x + 1),
        int: lambda: (x - 1, x + 1),
    }
    return numbers.get(type(x), tuple)()


def same(exercise: Exercise, function: Callable, result: str, *probes: tuple) -> bool | None:
    """Whether a function gives the same result for two probes; None where it fails: k above n, say."""
    try:
        before, after = (exercise.seen(function, probe)[result] for probe in probes)
        return alike(before, after) if isinstance(before, Tensor) else before == after
    except Exception:  # noqa: BLE001
        return None


def without_effect(exercise: Exercise, function: Callable, result: str, name: str) -> bool:
    """Whether an argument changes a result of the solution and, on every probe, not the function's."""
    course_stays = True
    for probe in exercise.cases:
        for value in other_values(exercise.named(probe, apart=True).get(name)):
            other = exercise.changed(probe, name, value)
            if same(exercise, function, result, probe, other) is False:
                return False
            course_stays &= same(exercise, exercise.right, result, probe, other) is not False
    return not course_stays


# --- entry by entry ----------------------------------------------------------------------------------


class Moved:
    """One argument of one test case, and how its entries move the learner's result and the right one.

    What takes more calls is computed when a look first asks for it.
    """

    def __init__(
        self, exercise: Exercise, function: Callable, result: str, probe: tuple, name: str
    ):
        given = exercise.named(probe, apart=True)[name]
        self.name, self.given = name, torch.as_tensor(given)
        mask = exercise.mask(probe)
        self.mask = mask if mask is not None and mask.shape == self.given.shape else None

        def both(x: Tensor) -> list[Tensor]:
            other = exercise.changed(probe, name, x if isinstance(given, Tensor) else x.item())
            seen = (exercise.seen(f, other)[result] for f in (function, exercise.right))
            return [torch.as_tensor(x).detach().double() for x in seen]

        self.both = both
        self.yours, self.right = self.moves(STEP)

    def moves(self, step: float) -> list[Tensor]:
        """How both results move with each entry: [entries, *result]."""
        each = step * torch.eye(self.given.numel()).view(-1, *self.given.shape)
        start = self.both(self.given)
        found = zip(
            *(self.both(self.given + one.to(self.given.dtype)) for one in each), strict=True
        )
        return [torch.stack(x) - before for x, before in zip(found, start, strict=True)]

    @cached_property
    def reach(self) -> tuple[Tensor, Tensor]:
        """Whether an entry moves the learner's result, and the right one, by any of the moves."""
        every = zip((self.yours, self.right), *map(self.moves, FAR), strict=True)
        return tuple(torch.stack([moves.abs() > LEAST for moves in one]).any(0) for one in every)

    def place(self, at: list[int]) -> tuple[str, str]:
        """An entry of the argument and one of the result in words, from an index of `reach`."""
        entry = [int(i) for i in torch.unravel_index(torch.tensor(at[0]), self.given.shape)]
        where, there = (f" at {index}" if index else "" for index in (entry, at[1:]))
        return f"`{self.name}`{where}", f"your result{there}"


def other_places(m: Moved) -> Found:
    """Entries that move the result where they should not, or do not where they should."""
    mine, wanted = m.reach
    more, less = mine & ~wanted, wanted & ~mine
    if m.mask is not None:
        pads = more[~m.mask.reshape(-1)]
        # what stands on padding itself is no reason
        if bool(pads[..., m.mask].any() if pads.shape[1:] == m.mask.shape else pads.any()):
            says = f"What `{m.name}` holds on padding changes your result: nothing there may count."
            return f"padding of {m.name} counted", says
    said = []
    if bool(more.any()):
        said.append("{} changes {}; it should not.".format(*m.place(more.nonzero()[0].tolist())))
    if bool(less.any()):
        said.append(
            "{} does not change {}; it should.".format(*m.place(less.nonzero()[0].tolist()))
        )
    return (f"{m.name} at other places", f"In this case, {' And '.join(said)}") if said else None


def too_strongly(m: Moved) -> Found:
    """A constant factor on all that an argument does, in which both results are linear."""
    linear = all(
        torch.allclose(x, times * once, 1e-3, 2e-5)
        for times in (-1, 2)
        for x, once in zip(m.moves(times * STEP), (m.yours, m.right), strict=True)
    )
    there = m.right.abs() > LEAST
    if not linear or not bool(there.any()) or bool((m.yours[~there].abs() > LEAST).any()):
        return None
    ratio = (m.yours / m.right)[there]
    factor = float(ratio.median())
    even = len(ratio) > 1 and torch.allclose(ratio, torch.full_like(ratio, factor), 5e-3, 1e-3)
    if not even or abs(factor - 1) < 5e-3 or abs(factor) < 1e-3:
        return None
    times = f"{factor:.4g}" if not 1e-3 < abs(factor) < 1 else f"1/{1 / factor:.4g}"
    return (
        f"weight of {m.name}",
        f"In this case, `{m.name}` counts {times} times as much as it should.",
    )


def shifted(m: Moved) -> Found:
    """The learner's result changes when 1 is added to all of an argument, and the right one does not."""
    before, after = m.both(m.given), m.both(m.given + 1.0)
    mine, right = ((x - y).abs().max() for x, y in zip(after, before, strict=True))
    if float(right) > LEAST or float(mine) < 0.01 * float(before[0].abs().max()):
        return None
    says = f"Adding 1 to all of `{m.name}` changes your result, and should not: is a mean, or a reference,"
    return f"{m.name} shifted", f"{says} not subtracted?"


def the_wrong_way(m: Moved) -> Found:
    """Where the learner's result goes the other way."""
    against = (m.yours.abs() > LEAST) & (m.right.abs() > LEAST) & (m.yours.sign() != m.right.sign())
    if not bool(against.any()):
        return None
    at = against.nonzero()[0].tolist()
    entry, result = m.place(at)
    grows, should = ("grows", "fall") if m.yours[tuple(at)] > 0 else ("falls", "grow")
    return (
        f"{m.name} the wrong way",
        f"Raise {entry} by {STEP}, and {result} {grows}; it should {should}.",
    )


LOOKS = (other_places, too_strongly, shifted, the_wrong_way)


def depends_otherwise(
    exercise: Exercise, function: Callable, result: str, wrong: list[tuple]
) -> Found:
    """Kind and message of the first way in which a result depends on the arguments wrongly, or None.

    `wrong`: the probes in which it is wrong. It must show in each of the smallest, and is told of the first.
    """
    names = exercise.named(wrong[0], apart=True)
    for name in names:
        if without_effect(exercise, function, result, name):
            says = f"Whatever `{name}` is, your result stays the same; it should not."
            return f"{name} without effect", says

    def size(probe: tuple) -> int:
        return max((x.numel() for x in probe if isinstance(x, Tensor)), default=0)

    small = [probe for probe in sorted(wrong, key=size) if size(probe) <= LARGEST][:CASES]
    floats = [
        name
        for name, x in names.items()
        if isinstance(x, float) or (isinstance(x, Tensor) and x.is_floating_point())
    ]
    moved = {
        name: [Moved(exercise, function, result, probe, name) for probe in small] for name in floats
    }
    for look in LOOKS:
        for cases in moved.values():
            found = [look(m) for m in cases]
            if found and all(found) and len({kind for kind, _ in found}) == 1:
                return found[0]
    return None
