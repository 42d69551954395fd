"""What a wrong answer depends on: each argument is moved a little, and the result's answer is looked at.

The same is done with the solution. Where the two differ in kind, that says what is wrong without knowing
the formula that the learner wrote: padding that matters, an argument without effect, a token too far.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.kit.exercise import Exercise, noise
from helpers.kit.patterns import Found, alike, constant

STEP, LEAST = 0.125, 2e-5  # the move; the smallest effect
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
    """An argument of a test case, and how both results move with each of its entries: [entries, *result]."""

    def __init__(
        self, exercise: Exercise, function: Callable, result: str, probe: tuple, name: str
    ):
        given = exercise.named(probe, apart=True)[name]
        self.name, self.given = name, torch.as_tensor(given)
        mask, width = exercise.mask(probe), self.given.shape[-1:].numel()
        mask = mask if mask is None else mask[..., -width:]  # of a response after its prompt
        self.mask = mask if mask is not None and mask.shape == self.given.shape else None

        def both(x: Tensor) -> list[Tensor]:
            other = exercise.changed(probe, name, x if isinstance(given, Tensor) else x.item())
            seen = (exercise.seen(f, other)[result] for f in (function, exercise.right))
            return [torch.as_tensor(x).detach().double() for x in seen]

        each = STEP * torch.eye(self.given.numel()).view(-1, *self.given.shape)
        raised = zip(*(both(self.given + one.to(self.given.dtype)) for one in each), strict=True)
        self.both, self.before = both, both(self.given)
        self.yours, self.right = (
            torch.stack(x) - before for x, before in zip(raised, self.before, strict=True)
        )

    def says(self, at: list[int], does: str, should: str) -> str:
        """What raising an entry does to an entry of the result, both from an index of the moves."""
        entry = [int(i) for i in torch.unravel_index(torch.tensor(at[0]), self.given.shape)]
        where, there = (f" at {index}" if index else "" for index in (entry, at[1:]))
        raised = f"Raise `{self.name}`{where} by {STEP}"
        return f"{raised}, and your result{there} {does}; it should {should}."


def other_places(m: Moved) -> Found:
    """Entries that move the result where they should not, or do not where they should."""
    mine, wanted = (~(x.abs() <= LEAST) for x in (m.yours, m.right))  # NaN is another result, too
    more, less = mine & ~wanted, wanted & ~mine
    if m.mask is not None:
        less[~m.mask.reshape(-1)] = False  # what the solution does with padding is no example
        pads = more[~m.mask.reshape(-1)]
        # what stands on padding itself is no reason
        if bool(pads[..., m.mask].any() if pads.shape[1:] == m.mask.shape else pads.any()):
            says = f"What `{m.name}` holds on padding changes your result: nothing there may count."
            return f"padding of {m.name} counted", says
    ways = (more, "changes", "stay the same"), (less, "stays the same", "change")
    said = [m.says(x.nonzero()[0].tolist(), *words) for x, *words in ways if bool(x.any())]
    return (f"{m.name} at other places", " And: ".join(said)) if said else None


def too_strongly(m: Moved) -> Found:
    """A constant factor on all that an argument does."""
    there = m.right.abs() > LEAST
    if not bool(there.any()) or bool((m.yours[~there].abs() > LEAST).any()):
        return None
    factor = constant((m.yours / m.right)[there], 1e-3)
    if not factor or factor < 1e-3 or abs(factor - 1) < 5e-3:
        return None
    times = f"{factor:.4g}" if factor > 1 else f"1/{1 / factor:.4g}"
    says = f"In this case, `{m.name}` counts {times} times as much as it should."
    return f"weight of {m.name}", says


def shifted(m: Moved) -> Found:
    """The learner's result changes when 1 is added to all of an argument, and the right one does not."""
    after = m.both(m.given + 1.0)
    mine, right = ((x - y).abs().max() for x, y in zip(after, m.before, strict=True))
    if not float(right) <= LEAST or float(mine) < 0.01 * float(m.before[0].abs().max()):
        return None
    says = f"Adding 1 to all of `{m.name}` changes your result, and should not: is a mean, or a reference,"
    return f"{m.name} shifted", f"{says} not subtracted?"


def the_wrong_way(m: Moved) -> Found:
    """Where the learner's result goes the other way on the whole: the moves have a cosine below −0.5."""
    products = m.yours * m.right
    if not float(products.sum()) < -0.5 * float(m.yours.norm() * m.right.norm()):
        return None
    at = [int(i) for i in torch.unravel_index(products.argmin(), products.shape)]
    does, should = ("grows", "fall") if m.yours[tuple(at)] > 0 else ("falls", "grow")
    return f"{m.name} the wrong way", m.says(at, does, should)


LOOKS = (other_places, too_strongly, shifted, the_wrong_way)


def depends_otherwise(
    exercise: Exercise, function: Callable, result: str, wrong: list[tuple]
) -> Found:
    """Kind and message of the first way in which a result depends on the arguments wrongly, or None.

    `wrong`: the probes in which it is wrong. It is told of the first, and must show in the smallest too.
    """
    names = exercise.named(wrong[0], apart=True)
    for name in names:
        if without_effect(exercise, function, result, name):
            says = f"Whatever `{name}` is, your result stays the same; it should not."
            return f"{name} without effect", says

    def size(probe: tuple) -> int:
        return max((x.numel() for x in probe if isinstance(x, Tensor)), default=0)

    small = [x for x in (wrong[0], *sorted(wrong[1:], key=size)) if size(x) <= LARGEST][:CASES]
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
