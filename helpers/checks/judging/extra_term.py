"""A right result with a term added to it: a bonus, a penalty, a smoothed label, by any factor."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import Found


def with_a_term(terms: dict[str, Callable]) -> Callable:
    """A look for `right + c·term(*arguments)`, the same c for all inputs; words → term."""

    def look(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
        expected = [exercise.reference(*copy_of(probe)) for probe in exercise.probes]
        if any(a.shape != e.shape for a, e in zip(answers, expected, strict=True)):
            return None
        pairs = zip(answers, expected, strict=True)
        over = torch.cat([(a.double() - e.double()).flatten() for a, e in pairs])
        for words, term in terms.items():
            made = [torch.as_tensor(term(*copy_of(probe))).double() for probe in exercise.probes]
            made = torch.cat(
                [m.expand(e.shape).flatten() for m, e in zip(made, expected, strict=True)]
            )
            if not bool(made.isfinite().all()) or int((made.abs() > 1e-4).sum()) < 2:
                continue
            factor = float(over @ made / (made @ made))
            if abs(factor) > 1e-4 and torch.allclose(over, factor * made, 1e-3, 2e-5):
                return f"{words} added", (
                    f"Your result is the right one plus {factor:.3g} times {words}: leave that out."
                )
        return None

    return look
