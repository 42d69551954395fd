"""Right numbers, changed afterwards: squared, sorted, cumulated, their share, one of them for all …"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.altered import informative
from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import Found

# the words fit into "You return … the right result"
ONE = {
    "the square of": lambda e: e * e,
    "the square root of": lambda e: e.sqrt(),
    "the exponential of": lambda e: e.exp(),
    "the exponential of minus": lambda e: (-e).exp(),
    "the logarithm of": lambda e: e.log(),
    "minus the logarithm of": lambda e: -e.log(),
    "1 minus": lambda e: 1 - e,
    "1 divided by": lambda e: 1 / e,
    "the absolute value of": lambda e: e.abs(),
    "1 plus": lambda e: 1 + e,
    "1 less than": lambda e: e - 1,
    "twice and 1 less than": lambda e: 2 * e - 1,
    "the sigmoid of": lambda e: e.sigmoid(),
    "the tanh of": lambda e: e.tanh(),
    "the positive part of": lambda e: e.clamp(min=0),
    "the rounded value of": lambda e: e.round(),
    "the value rounded down of": lambda e: e.floor(),
    "what is above one half, else 1 minus, of": lambda e: torch.maximum(e, 1 - e),
    "the odds x/(1 − x) of": lambda e: e / (1 - e),
}
# the words fit into "Your numbers are the right ones, …"
MANY = {
    "sorted": lambda e: e.sort().values,
    "in reverse order": lambda e: e.flip(-1),
    "moved by one place": lambda e: e.roll(1, -1),
    "moved back by one place": lambda e: e.roll(-1, -1),
    "added up so far (cumulated)": lambda e: e.cumsum(-1),
    "averaged so far (a running mean)": lambda e: (
        e.cumsum(-1) / torch.arange(1, e.shape[-1] + 1, dtype=e.dtype)
    ),
    "divided by their sum": lambda e: e / e.sum(),
    "with their mean subtracted": lambda e: e - e.mean(),
    "whitened": lambda e: (e - e.mean()) / e.std(),
    "softmaxed": lambda e: e.softmax(-1),
    "subtracted from their sum": lambda e: e.sum() - e,
    "their mean in every place": lambda e: e.mean().expand_as(e),
    "their sum in every place": lambda e: e.sum().expand_as(e),
    "the first in every place": lambda e: e.flatten()[0].expand_as(e),
    "the last in every place": lambda e: e.flatten()[-1].expand_as(e),
    "times how many there are": lambda e: e * len(e),
    "divided by how many there are": lambda e: e / len(e),
}


def result_changed(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
    """A look for right numbers that were changed at the end."""
    expected = [exercise.reference(*copy_of(probe)) for probe in exercise.probes]
    shapes = [a.shape == e.shape for a, e in zip(answers, expected, strict=True)]
    if not all(shapes) or not informative(exercise, answers):
        return None
    for words, change in MANY.items():
        if all(e.dim() for e in expected) and _all(answers, expected, change):
            return f"right, then {words.split(' (')[0]}", (
                f"Your numbers are the right ones, {words}. Return them as they are."
            )
    for words, change in ONE.items():
        if _all(answers, expected, change):
            return f"{words} the right result", (
                f"You return {words} the right result: leave out that last step."
            )
    return _clamped(answers, expected)


def _all(answers: list[Tensor], expected: list[Tensor], change: Callable) -> bool:
    return all(alike(a, change(e.double())) for a, e in zip(answers, expected, strict=True))


def _clamped(answers: list[Tensor], expected: list[Tensor]) -> Found:
    """Right up to a limit, and the limit beyond it."""
    got = torch.cat([a.double().flatten() for a in answers])
    want = torch.cat([e.double().flatten() for e in expected])
    wrong = ~torch.isclose(got, want, 1e-4, 1e-5)
    if int(wrong.sum()) in (0, len(got)) or len(got) < 3:
        return None
    if all(e.dim() == 0 for e in expected) and int(wrong.sum()) < 2:
        return None  # one number that is wrong may be the largest by chance
    low, high = float(got.min()), float(got.max())
    if alike(want.clamp(low, high), got):
        ends = [
            f"{x:.4g}" for x, cut in ((low, want.min() < low), (high, want.max() > high)) if cut
        ]
        return "clamped", (
            f"Your results never pass {' and '.join(ends)}, and are right otherwise. Is there a clamp, or a"
            " minimum or maximum, that does not belong there?"
        )
    return None
