"""What a wrong answer depends on: each argument is moved a little, and the result's answer is looked at.

The same is done with the reference. Where the two differ in kind, that says what is wrong without knowing
the formula that the learner wrote: padding that matters, an argument without effect, a token too far.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from helpers.kit.exercise import View
from helpers.kit.running import copy_of

STEP, LEAST = 0.125, 2e-5  # the move; the smallest effect
LARGEST, CASES = 40, 4  # entries of an argument; test cases
FAR = (-1.0, 3.0)  # further moves, before it is said that something has no effect
LN2 = math.log(2)


def effects(function: Callable, given: tuple, place: int, step: float) -> Tensor | None:
    """How the result moves with each entry of one argument: [entries, *result]; None if it cannot be."""
    with torch.no_grad():
        start = torch.as_tensor(function(*copy_of(given))).double()
        found = []
        for k in range(given[place].numel()):
            moved = list(copy_of(given))
            moved[place] = moved[place].clone()
            moved[place].view(-1)[k] += step
            found.append(torch.as_tensor(function(*moved)).double() - start)
    found = torch.stack(found)
    return found if bool(found.isfinite().all()) else None


@dataclass
class Moved:
    """One argument of one test case, and how it moves the learner's result and the right one.

    What takes more calls is computed when a look first asks for it.
    """

    name: str
    given: Tensor
    mask: Tensor | None  # of the argument's shape
    yours: Tensor  # [entries, *result]
    right: Tensor
    again: Callable[[float], list[Tensor | None]]  # both once more, for another step
    whole: Callable[[Callable], list[Tensor]]  # both results when all of the argument is changed

    @cached_property
    def far(self) -> list[list[Tensor]]:
        """Both for all moves, of which there are numbers."""
        more = [self.again(step) for step in FAR]
        return [
            [self.yours, self.right],
            *(pair for pair in more if not any(x is None for x in pair)),
        ]

    @cached_property
    def reach(self) -> Tensor:
        """Whether an entry moves the learner's result by any of the moves."""
        return torch.stack([_seen(yours) for yours, _ in self.far]).any(0)

    @cached_property
    def wanted(self) -> Tensor:
        """Whether it moves the right one."""
        return torch.stack([_seen(right) for _, right in self.far]).any(0)

    @cached_property
    def linear(self) -> bool:
        """Both results are linear in it: a move back, and one twice as far, are those of a straight line."""
        there = (self.yours, self.right)
        return all(
            x is not None and torch.allclose(x, times * once, 1e-3, 2e-5)
            for times in (-1, 2)
            for x, once in zip(self.again(times * STEP), there, strict=True)
        )


def tame(given: tuple) -> tuple:
    """The arguments with finite numbers only, so that differences are numbers too."""
    return tuple(
        torch.nan_to_num(x, 0.0, 0.0, 0.0) if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in given
    )


def moved_by(view: View, given: tuple) -> dict[str, Moved]:
    """Each float argument of one test case that can be moved."""
    found, mask = {}, view.mask(given)
    for place, name in enumerate(view.names):
        x = given[place]
        if not isinstance(x, Tensor) or not x.is_floating_point():
            continue

        def again(step, place=place):
            return [effects(f, given, place, step) for f in (view.mine, view.right)]

        def whole(change, place=place):
            other = (*given[:place], change(given[place]), *given[place + 1 :])
            with torch.no_grad():
                return [
                    torch.as_tensor(f(*copy_of(other))).double() for f in (view.mine, view.right)
                ]

        yours, right = again(STEP)
        if yours is None or right is None or yours.shape != right.shape:
            continue
        own = mask if mask is not None and mask.shape == x.shape else None
        found[name] = Moved(name, x, own, yours, right, again, whole)
    return found


def depends_otherwise(view: View, probes: list) -> tuple | None:
    """Name and message of the first way in which the answer depends on its arguments wrongly, or None.

    It must show in each of the smallest test cases in which it can.
    """
    cases = sorted((tame(probe) for probe in probes), key=_size)
    number = _number_without_effect(view, cases)
    if number is not None:
        return number
    small = [given for given in cases if _size(given) <= LARGEST]
    moved = [moved_by(view, given) for given in small[:CASES]]
    for can, look in LOOKS:
        for name in view.names:
            shown = [case[name] for case in moved if name in case and can(case[name])]
            found = [look(one) for one in shown]
            if found and all(found) and len({x[0] for x in found}) == 1:
                # of the smallest case, which is the one that is shown
                return found[0] if look is not _weight else _weights(shown)
    return None


def _size(given: tuple) -> int:
    return max((x.numel() for x in given if isinstance(x, Tensor)), default=0)


def _other_numbers(x: object) -> tuple:
    """Two other values of a number; none of anything else."""
    return {float: lambda: (x * 0.5 + 0.013, x * 0.3 + 0.1), int: lambda: (x - 1, x + 1)}.get(
        type(x), tuple
    )()


def _number_without_effect(view: View, cases: list) -> tuple | None:
    for place, name in enumerate(view.names):
        changes = []
        for given in cases:
            for number in _other_numbers(given[place]):
                other = (*given[:place], number, *given[place + 1 :])
                changes.append([_change(f, given, other) for f in (view.mine, view.right)])
        known = [pair for pair in changes if None not in pair]
        if known and all(yours == 0 for yours, _ in known) and any(y > LEAST for _, y in known):
            says = f"Whatever `{name}` is, your result stays the same; it should not."
            return f"{name} without effect", says
    return None


def _change(function: Callable, given: tuple, other: tuple) -> float | None:
    """The largest change of the result from one input to another; None if it cannot be had."""
    try:
        with torch.no_grad():
            a, b = (torch.as_tensor(function(*copy_of(x))).double() for x in (given, other))
        return float((a - b).abs().max())
    except Exception:  # noqa: BLE001 (a number may be impossible: k above n)
        return None


def _seen(x: Tensor) -> Tensor:
    """Which effects are more than rounding."""
    return x.abs() > LEAST


def _has_padding(m: Moved) -> bool:
    return m.mask is not None and not bool(m.mask.all())


def _padding(m: Moved) -> tuple | None:
    pads = ~m.mask.reshape(-1)
    result = m.yours[pads]
    if result.shape[1:] == m.mask.shape:
        result = torch.where(m.mask, result, 0.0)  # what stands on padding itself is no reason
    if bool(_seen(result).any()) and not bool(_seen(m.right[pads]).any()):
        says = f"What `{m.name}` holds on padding changes your result: nothing there may count."
        return f"padding of {m.name} counted", says
    return None


def _no_effect(m: Moved) -> tuple | None:
    if bool(m.wanted.any()) and not bool(m.reach.any()):
        says = f"`{m.name}` was moved a little and by 3, and your result stayed the same."
        return f"{m.name} without effect", says
    return None


def _by_row(m: Moved, moves: Tensor) -> Tensor | None:
    """[B of the argument, B of the result]: whether a row of the one moves a row of the other."""
    if moves.dim() < 2 or moves.shape[1] != len(m.given):
        return None
    B = len(m.given)
    return moves.reshape(B, -1, B, moves[0, 0].numel()).any(3).any(1)


def _rows(m: Moved) -> tuple | None:
    """Rows that move each other's results where they should not, or the other way round."""
    mine, wanted = _by_row(m, m.reach), _by_row(m, m.wanted)
    if mine is None or wanted is None or torch.equal(mine, wanted):
        return None
    alone = torch.eye(len(mine), dtype=torch.bool)
    if bool((mine & ~alone & ~wanted).any()):
        a, b = (mine & ~alone & ~wanted).nonzero()[0].tolist()
        says = f"`{m.name}` in row {a} changes your result in row {b}"
        if not bool((wanted & ~alone).any()):
            return "rows mixed", f"{says}: rows have nothing to do with each other."
        may = ", ".join(map(str, wanted[a].nonzero().flatten().tolist()))
        return "rows mixed", f"{says}, which it should not: here it belongs to rows {may} alone."
    if bool((wanted & ~alone).any()) and not bool((mine & ~alone).any()):
        own = "entry" if m.given.dim() == 1 else "row"
        says = (
            f"Each of your results depends on its own {own} of `{m.name}` alone; it should depend on the"
            " others, too: take what you need of all."
        )
        return "each row by itself", says
    if bool((wanted & ~mine).any()):
        a, b = (wanted & ~mine).nonzero()[0].tolist()
        return (
            "rows left out",
            f"`{m.name}` in row {a} does not change your result in row {b}; it should.",
        )
    return None


def _one_row(m: Moved) -> tuple | None:
    """Only the first row, or only the last, has an effect, and all that it should have."""
    mine, wanted = (x.reshape(len(m.given), -1) for x in (m.reach, m.wanted))
    rows = mine.any(1).nonzero().flatten().tolist()
    for row, where in ((0, "first"), (len(m.given) - 1, "last")):
        if rows == [row] and torch.equal(mine[row], wanted[row]) and bool(wanted.any(1).all()):
            says = f"Your result changes with the {where} row of `{m.name}` alone; all rows count."
            return f"{where} row only", says
    return None


def _one_entry(m: Moved) -> tuple | None:
    """One number of an argument alone has an effect, where several should."""
    counted = slice(None) if m.mask is None else m.mask.reshape(-1)
    wanted = _seen(m.right)[counted]
    if int(_seen(m.yours).sum()) != 1 or len(wanted) < 2 or not bool(wanted.all()):
        return None
    says = f"Your result changes with one number of `{m.name}` alone. Is it a maximum, a minimum, a median?"
    return f"one number of {m.name} only", f"{says} All that count should."


def _offsets(m: Moved, moves: Tensor) -> Tensor:
    """[T, T] over all rows: whether the argument's token moves the result's token of the same row."""
    B, T = m.given.shape
    effect = moves.reshape(B, T, B, T)
    return torch.stack([effect[b, :, b] for b in range(B)]).any(0)


def _has_tokens(m: Moved) -> bool:
    """Both are [B, T], and the right result in a row comes from that row alone."""
    if m.given.dim() != 2 or m.right.dim() != 3 or m.right.shape[1:] != m.given.shape:
        return False
    alone = torch.eye(len(m.given), dtype=torch.bool)
    return len(m.given) > 1 and not bool((_by_row(m, m.wanted) & ~alone).any())


def _distance(step: int) -> str:
    return "t" if step == 0 else f"t {'+' if step > 0 else '−'} {abs(step)}"


def _tokens(m: Moved) -> tuple | None:
    """Tokens that move the result at another token where they should not, or the other way round."""
    mine, wanted = _offsets(m, m.reach), _offsets(m, m.wanted)
    steps = range(-len(mine) + 1, len(mine))
    # the diagonal −k holds the effect of token t + k on the result at t
    has, needs = ({k for k in steps if bool(x.diagonal(-k).any())} for x in (mine, wanted))
    more, less = sorted(has - needs, key=abs), sorted(needs - has, key=abs)
    parts = []
    if more:
        parts.append(f"changes with `{m.name}` at {_distance(more[0])}, which it should not")
    if less:
        parts.append(f"does not change with `{m.name}` at {_distance(less[0])}, which it should")
    if not parts:
        return None
    return f"{m.name} of other tokens", f"Your result at token t {'; it '.join(parts)}."


def _factor(m: Moved) -> float | None:
    """By how much too strongly a linear argument comes in, the same for all that it does; None if not."""
    there = _seen(m.right)
    if not bool(there.any()) or bool(_seen(torch.where(there, 0.0, m.yours)).any()):
        return None
    ratio = (m.yours / m.right)[there]
    factor = float(ratio.median())
    if not torch.allclose(ratio, torch.full_like(ratio, factor), 5e-3, 1e-3):
        return None
    # no factor, or an effect that is flat here
    return None if abs(factor - 1) < 5e-3 or abs(factor) < 1e-3 else factor


def _weight(m: Moved) -> tuple | None:
    """A constant factor on all that a linear argument does."""
    factor = _factor(m)
    if factor is None:
        return None
    if abs(factor + 1) < 5e-3:
        return f"sign of {m.name}", f"`{m.name}` comes in with the wrong sign."
    bits = " That is 1/ln 2: bits, not nats." if abs(factor * LN2 - 1) < 2e-3 else ""
    size = f" There are {len(m.given)} rows here." if abs(factor - len(m.given)) < 1e-2 else ""
    says = f"`{m.name}` comes in {_times(factor)} times as strongly as it should.{bits}{size}"
    return f"weight of {m.name}", says


def _times(factor: float) -> str:
    return f"{factor:.4g}" if not 1e-3 < abs(factor) < 1 else f"1/{1 / factor:.4g}"


def _weights(cases: list[Moved]) -> tuple:
    """The weight of an argument, in words that hold in each of these test cases."""
    factors = [_factor(m) for m in cases]
    rows = all(abs(x - len(m.given)) < 1e-2 for x, m in zip(factors, cases, strict=True))
    name, says = _weight(cases[-1])
    if rows or max(factors) - min(factors) < 1e-2 * max(map(abs, factors)):
        return name, says
    each = ", ".join(dict.fromkeys(map(_times, factors)))
    return name, (
        f"`{cases[0].name}` comes in too strongly or too weakly, by a factor that is another one in each"
        f" test case ({each}): is there a sum for a mean, or another divisor?"
    )


def _strengths(m: Moved) -> tuple | None:
    """By how much a linear argument at another token comes in, where it should come in otherwise."""
    for k in sorted(range(-len(m.given[0]) + 1, len(m.given[0])), key=abs):
        yours, right = (_along(m, effect, k) for effect in (m.yours, m.right))
        if yours is None or right is None or abs(yours - right) < 1e-3 * max(1.0, abs(right)):
            continue
        says = f"In your result at t, `{m.name}` at {_distance(k)} counts {yours / STEP:.4g} times; it should"
        return f"{m.name} at {_distance(k)}", f"{says} count {right / STEP:.4g} times."
    return None


def _along(m: Moved, effect: Tensor, k: int) -> float | None:
    """The effect of the argument at t + k on the result at t, if it is one number wherever there is any."""
    B, T = m.given.shape
    effect = effect.reshape(B, T, B, T)
    found = torch.cat([effect[b, :, b].diagonal(-k) for b in range(B)])
    found = found[_seen(found)]
    if not len(found):
        return 0.0
    return float(found[0]) if torch.allclose(found, found[0].expand_as(found), 1e-3, 1e-5) else None


def _columns(m: Moved) -> tuple | None:
    """Where one number a row comes in: at which tokens of its row."""
    mine, wanted = ({tuple(x) for x in moves.nonzero().tolist()} for moves in (m.reach, m.wanted))
    if mine == wanted:
        return None
    row = min(x[0] for x in mine ^ wanted)
    places = [sorted(t for b, r, t in found if b == r == row) for found in (mine, wanted)]
    got, want = (", ".join(map(str, x)) or "none" for x in places)
    says = f"`{m.name}` of row {row} changes your result at token {got} of that row; it should at {want}."
    return f"{m.name} at other tokens", says


def _shifted(m: Moved) -> tuple | None:
    """The learner's result changes when 1 is added to all of an argument, and the right one does not."""
    before, after = m.whole(lambda x: x), m.whole(lambda x: x + 1.0)
    if float((after[0] - before[0]).abs().max()) < 0.01 * float(before[0].abs().max()):
        return None
    says = f"Adding 1 to all of `{m.name}` changes your result, and should not: is a mean, or a reference,"
    return f"{m.name} shifted", f"{says} not subtracted?"


def _stays(m: Moved) -> bool:
    """Whether the right result stays the same when 1 is added to all of an argument."""
    return not bool(_seen(m.whole(lambda x: x + 1.0)[1] - m.whole(lambda x: x)[1]).any())


POWERS = {0.25: "a fourth of", 0.5: "half", 1.0: "the same as", 2.0: "2 times", 4.0: "4 times"}


def _powers(m: Moved) -> list[float | None]:
    """What the learner's result and the right one are multiplied by when all of an argument is doubled."""
    found = []
    for before, after in zip(m.whole(lambda x: x), m.whole(lambda x: 2 * x), strict=True):
        fit = [p for p in POWERS if torch.allclose(after, p * before, 5e-3, 1e-6)]
        found.append(fit[0] if len(fit) == 1 else None)
    return found


def _doubled(m: Moved) -> tuple | None:
    """Doubling all of an argument does something else to the learner's result."""
    mine, right = _powers(m)
    if mine is None or mine == right:
        return None
    return f"{m.name} doubled", (
        f"With all of `{m.name}` doubled your result is {POWERS[mine]} what it was; it should be"
        f" {POWERS[right]} it."
    )


def _direction(m: Moved) -> tuple | None:
    """Where the learner's result goes the other way."""
    against = _seen(m.yours) & _seen(m.right) & (m.yours.sign() != m.right.sign())
    if not bool(against.any()):
        return None
    entry, *at = against.nonzero()[0].tolist()
    index = [int(i) for i in torch.unravel_index(torch.tensor(entry), m.given.shape)]
    grows, should = ("grows", "fall") if m.yours[entry, *at] > 0 else ("falls", "grow")
    says = f"Raise `{m.name}` at {index} by {STEP}, and your result{f' at {at}' if at else ''} {grows}; it"
    return f"{m.name} the wrong way", f"{says} should {should}."


LOOKS = (
    (_has_padding, _padding),
    (lambda m: True, _no_effect),
    (lambda m: m.given.dim() > 0 and len(m.given) > 1, _rows),
    (lambda m: m.given.dim() > 0 and len(m.given) > 1, _one_row),
    (lambda m: m.right.dim() == 1, _one_entry),
    (_has_tokens, _tokens),
    (lambda m: m.given.dim() == 1 and m.right.dim() == 3, _columns),
    (lambda m: m.linear, _weight),
    (lambda m: _has_tokens(m) and m.linear, _strengths),
    (_stays, _shifted),
    (lambda m: _powers(m)[1] is not None, _doubled),
    (lambda m: True, _direction),
)
