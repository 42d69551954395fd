"""Formulas in pieces: each slip changes one piece, and two slips at once are recognised too."""

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import Found, equals


class Slip(NamedTuple):
    """A wrong piece of a formula: its name, what to say, and the pieces that it changes."""

    name: str
    says: str
    change: dict


def alone(build: Callable, slips: list[Slip]) -> list[tuple]:
    """Each slip by itself, as the mistakes of an exercise; `build(**pieces)` makes the function."""
    return [(slip.name, slip.says, build(**slip.change)) for slip in slips]


def two_at_once(build: Callable, slips: list[Slip]) -> Callable:
    """A look for two slips in different pieces: both are named."""

    def look(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
        right = [exercise.reference(*copy_of(probe)) for probe in exercise.probes]
        if all(map(alike, answers, right)) or degenerate(answers):
            return None
        last = exercise.probes[-1]
        for first, second in combinations(kinds(slips), 2):
            if first.change.keys() & second.change.keys():
                continue
            wrong = build(**first.change, **second.change)
            if equals(answers[-1:], wrong, [last]) and equals(answers, wrong, exercise.probes):
                facts = exercise.facts(exercise.probes[0])
                says = f"Two slips at once. {first.says} And: {second.says}".format_map(facts)
                return f"{first.name}, and {second.name}", says
        return None

    return look


def kinds(slips: list[Slip]) -> list[Slip]:
    """The first slip of each name."""
    return list({slip.name: slip for slip in reversed(slips)}.values())[::-1]


def degenerate(answers: list[Tensor]) -> bool:
    """Whether the answers are 0, or not finite, throughout: many slips at once give that."""
    return all(bool((a == 0).all()) or not bool(torch.isfinite(a).any()) for a in answers)
