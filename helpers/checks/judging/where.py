"""Where an answer is right and where it is wrong: case by case, argument by argument, token by token."""

from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.report import show
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import Found, answers_of


def case_by_case(*cases: tuple[str, tuple]) -> Callable:
    """A look at small inputs, each with words that say what is special about it: (words, arguments).

    Something is found where some are right and others wrong.
    """

    def look(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
        right, wrong = [], []
        for words, given in cases:
            expected = exercise.reference(*copy_of(given))
            found = answers_of(exercise, function, [given])
            if found is None:
                return None
            entry = words, found[0], expected, given
            (right if alike(found[0], expected) else wrong).append(entry)
        if not right or not wrong:
            return None
        words, got, want, given = wrong[0]
        also = f" (and {', '.join(w for w, *_ in wrong[1:])})" if wrong[1:] else ""
        named = ", ".join(f"{k} {show(x)}" for k, x in exercise.named(given).items())
        says = f"In cases that were made small: right where {', '.join(w for w, *_ in right)}; wrong where"
        return f"wrong where {words}", (
            f"{says} {words}{also}. With {named} you have {show(got)}, it should be {show(want)}."
        )

    return look


def without_effect(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
    """A look for an argument that changes nothing, though it should."""
    expected = [exercise.reference(*copy_of(probe)) for probe in exercise.probes]
    for place, name in enumerate(exercise.names):
        moved = [_moved(probe, place, back) for back in (False, True) for probe in exercise.probes]
        if any(m is None for m in moved):
            continue
        there = [exercise.reference(*copy_of(given)) for given in moved]
        if all(
            a.shape == b.shape and alike(a, b) for a, b in zip(there, 2 * expected, strict=True)
        ):
            continue
        again = answers_of(exercise, function, moved)
        if again is not None and all(map(alike, again, 2 * answers)):
            says = f"Your result stays the same when `{name}` changes. Is a number written in its place, or"
            return f"{name} has no effect", f"{says} does it cancel?"
    return None


def _moved(probe: tuple, place: int, back: bool) -> tuple | None:
    """The probe with other numbers in one argument, in two ways; None for one that holds no floats."""
    x = probe[place]
    if isinstance(x, Tensor) and x.is_floating_point():
        slope = torch.linspace(1.0, 2.0, max(x.numel(), 1)).view(x.shape)
        other = x * 0.4 + 2.3 * slope.flip(0) if back and x.dim() else x * 1.3 + 0.37 * slope
    elif isinstance(x, Real) and isinstance(x, float):
        other = 0.6 * x + 0.03 if back else 1.37 * x + 0.11
    else:
        return None
    return (*probe[:place], other, *probe[place + 1 :])


def token_by_token(argument: str, by: float = 3.0) -> Callable:
    """A look at how much each token counts, by a change of `argument` [B, T] at one token at a time."""

    def look(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
        place = exercise.names.index(argument)
        probe = max(exercise.probes, key=lambda p: p[place].numel() + 100 * len(p[place]))
        mask = exercise.named(probe)["mask"]
        pulls = _pulls(exercise, function, probe, place, by)
        if pulls is None:
            return None
        return _uncounted(*pulls, mask) or _weights(*pulls, mask)

    return look


def _pulls(exercise, function, probe, place, by) -> tuple[Tensor, Tensor] | None:
    """How the learner's and the right result move with each token: two tensors of the mask's shape."""
    mask = exercise.named(probe)["mask"]
    moved = []
    for b, t in mask.new_ones(mask.shape).nonzero().tolist():
        other = probe[place].clone()
        other[b, t] += by * (1.0 if other.dim() == 2 else torch.linspace(0, 1, other.shape[-1]))
        moved.append((*probe[:place], other, *probe[place + 1 :]))
    got = answers_of(exercise, function, [probe, *moved])
    if got is None or any(g.dim() for g in got):
        return None
    want = [exercise.reference(*copy_of(given)) for given in [probe, *moved]]
    mine, right = (torch.stack([y.double() - x[0].double() for y in x[1:]]) for x in (got, want))
    return mine.view(mask.shape), right.view(mask.shape)


def _uncounted(mine: Tensor, right: Tensor, mask: Tensor) -> Found:
    """Masked tokens that count, and counted ones that do not."""
    moves, should = mine.abs() > 1e-6, right.abs() > 1e-6
    if not bool(moves.any()):
        return None
    extra, missing = moves & ~mask, should & ~moves & mask
    if bool(extra.any()) and not bool(missing.any()):
        b, t = extra.nonzero()[0].tolist()
        return "padding counts", (
            f"Your result depends on masked positions, such as [{b}, {t}]: only tokens whose mask is True"
            " count."
        )
    if not bool(missing.any()):
        return None
    order = mask.long().cumsum(1)
    places = {
        "the first token of each response": mask & (order == 1),
        "the last counted token of each response": mask & (order == mask.long().sum(1, True)),
        "the last column of the window": _column(mask, -1),
        "the last response": _row(mask, -1),
        "the first response": _row(mask, 0),
        "all but the first token of each response": mask & (order > 1),
        "all but the first response": mask & ~_row(mask, 0),
    }
    for words, where in places.items():
        if torch.equal(missing, where & should):
            return f"{words} left out", f"You leave out {words}; all counted tokens count."
    return None


def _column(mask: Tensor, index: int) -> Tensor:
    where = torch.zeros_like(mask)
    where[:, index] = True
    return where & mask


def _row(mask: Tensor, index: int) -> Tensor:
    where = torch.zeros_like(mask)
    where[index] = True
    return where & mask


def _weights(mine: Tensor, right: Tensor, mask: Tensor) -> Found:
    """Tokens that weigh more or less than they should: all alike, or row by row."""
    used = right.abs() > 1e-6
    share = torch.where(used, mine / right, torch.nan)
    rows = [r[~r.isnan()] for r in share]
    if any(len(r) == 0 or not torch.allclose(r, r[0].expand_as(r), 1e-3, 1e-4) for r in rows):
        return None
    weights = torch.stack([r[0] for r in rows])
    if torch.allclose(weights, weights[0].expand_as(weights), 1e-3, 1e-4):
        return _divisor(float(weights[0]), mask)
    listed = ", ".join(f"{float(w):.3g}" for w in weights)
    return "responses weigh unlike", (
        "All counted tokens should weigh the same. In yours, the tokens of the responses weigh"
        f" {listed} times what they should, row by row."
    )


def _divisor(weight: float, mask: Tensor) -> Found:
    """What the sum was divided by, if every token's weight is wrong by the same factor."""
    count, (B, T) = int(mask.sum()), mask.shape
    if abs(weight - 1) < 1e-3 or abs(weight) < 1e-6:
        return None
    known = {
        B: f"the number of responses, {B}", T: f"the width of the window, {T}",
        count - 1: f"n − 1 = {count - 1}", count + 1: f"n + 1 = {count + 1}",
        B * count: f"{count} tokens and once more by {B} responses",
        T * count: f"{count} tokens and once more by the width {T}",
        2 * count: f"twice the {count} counted tokens",
        int(mask.sum(1).max()): "the longest response's length",
    }  # fmt: skip
    for number, words in known.items():
        if number and abs(abs(weight) * number / count - 1) < 1e-3:
            return "divided by another number", (
                f"The sum over the tokens is right, but you divide it by {words}; divide it by the"
                f" {count} counted tokens."
            )
    return "divided by another number", (
        f"Every counted token weighs {weight:.3g} times what it should: the sum is to be divided by the"
        f" {count} counted tokens."
    )
