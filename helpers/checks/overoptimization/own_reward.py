"""An exercise of notebook 08: a reward of the learner's own, judged by what it does with a few reviews."""

import math
from collections.abc import Callable, Iterator
from functools import cache
from types import CellType, CodeType, FunctionType

import numpy as np
from torch import Tensor

from helpers.checks.judging.report import CORRECT, Report, kind_of
from helpers.checks.overoptimization.examine import (
    REVIEWS,
    Check,
    Refused,
    called,
    expect,
    judged,
)
from helpers.data import load_rows

MANY = 1_000  # texts of the reference: a reward that is the same for all of them teaches nothing
GOLD = "gold", "gold_score", "gold_scores"
SECOND_TIME = "another result the second time"
REWARD_LOOK = "a list of texts in, one finite number a text out, the same for the same text"


def liked_words(texts: list[str]) -> list[float]:
    """The course's own: a point for each liked word."""
    return [float(sum(text.count(word) for word in ("lovely", "great", "loved"))) for text in texts]


def numbers(answer: object, count: int) -> list[float]:
    """The answer as `count` finite numbers. Refused: it is something else."""
    said = "None: is there a `return`?" if answer is None else f"{kind_of(answer)}."
    says = f"You return {said} Return one number for each text, in a list."
    array = isinstance(answer, (Tensor, np.ndarray)) and answer.ndim > 0
    many = isinstance(answer, (list, tuple)) or array
    expect(many, "wrong type", says)
    got = answer.tolist() if array else list(answer)
    says = f"{count} texts came in, {len(got)} numbers came out. Each text needs its own."
    expect(len(got) == count, "not one a text", says)
    for value in got:
        says = f"{value!r:.40} is {kind_of(value)}; a reward is a number."
        number = isinstance(value, (int, float, np.number)) or (
            isinstance(value, Tensor) and value.dim() == 0
        )
        expect(number, "not a number", says)
        says = f"A reward is {float(value)}: training would never recover. Did you divide by 0?"
        expect(math.isfinite(float(value)), "NaN or infinite", says)
    return [float(value) for value in got]


@cache
def reference_texts() -> tuple[str, ...]:
    """Stored samples of the reference: two of each prompt's."""
    rows = load_rows("pairs_test.jsonl")[: MANY // 2]
    return tuple(f"{row['prompt']} {row[side]}" for row in rows for side in ("chosen", "rejected"))


def examine_spread(function: Callable, together: list[float]) -> None:
    """Refused: these reviews, and many samples of the reference, all get the same reward."""
    if len(set(together)) > 1:
        return
    many = list(reference_texts())
    found = numbers(called(function, many), len(many))
    says = f"All {len(many):,} reviews of the reference get {found[0]:g}: there is nothing to learn from."
    says += " Does it look for words that are not in this world's reviews, or for capital letters?"
    expect(len({*found, *together}) > 1, "the same for all", says)


def examine_bare(function: Callable) -> None:
    """Refused: a text with nothing in it, or hardly anything, has no reward."""
    for text in ("", "."):
        try:
            numbers(called(function, [text]), 1)
        except Refused as refused:
            name, says, _ = refused.args
            says = f'For the text "{text}": {says} A policy may write that, too.'
            raise Refused(name, says, (("text", f'"{text}"'),)) from refused


def uses_gold(function: object, seen: tuple = ()) -> bool:
    """Whether the learner's code asks the gold score, under any name, also in functions that it calls."""
    if not isinstance(function, FunctionType) or function in seen:
        return False
    # the course's own, under whatever name
    if (function.__module__ or "").startswith("helpers."):
        return function.__name__ in GOLD
    names = set(code_names(function.__code__))
    used = [function.__globals__.get(name) for name in names]
    used += [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    named = bool(names & set(GOLD))  # imported within, or of a module
    return named or any(uses_gold(other, (*seen, function)) for other in used)


def code_names(code: CodeType) -> Iterator[str]:
    """Names that a function's code looks up, those of its comprehensions and inner functions too."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from code_names(inner)


def alone_as_among(function: Callable, text: str) -> float:
    """The reward of a text by itself. Refused: it has one among others and none alone."""
    try:
        return numbers(called(function, [text]), 1)[0]
    except Refused as refused:
        name, says, _ = refused.args
        if name == "NaN or infinite":
            says = "A text that has a reward among ten has none alone: it depends on those beside it (is the"
            says += " batch's mean or spread in it?). Judge each by itself."
            name = "depends on the batch"
        raise Refused(name, says, (("text", text),)) from refused


def examine_reward(function: Callable) -> None:
    """Look at a reward. Refused: the first thing that is wrong with it."""
    texts = list(REVIEWS)
    says = "That asks the gold score. Nobody has one: say in your own words what is good."
    expect(not uses_gold(function), "the gold score", says)
    together = numbers(called(function, texts), len(texts))
    says = "The same texts got other numbers the second time: is something drawn at random, or kept from"
    says += " one call"
    says += " to the next? A text has one reward."
    expect(numbers(called(function, texts), len(texts)) == together, SECOND_TIME, says)
    alone = [alone_as_among(function, text) for text in texts]
    differs = next((i for i, x in enumerate(alone) if abs(x - together[i]) > 1e-6), None)
    if differs is not None:
        case = ("text", texts[differs]), ("alone", f"{alone[differs]:g}")
        case += (("among ten", f"{together[differs]:g}"),)
        says = "A text's reward depends on the texts beside it, or its place. Judge each by itself."
        raise Refused("depends on the batch", says, case)
    longer = [*texts[::-1], *texts, *texts, *texts]
    again = numbers(called(function, longer), len(longer))
    wants = [*alone[::-1], *alone, *alone, *alone]
    differs = next((i for i, x in enumerate(again) if abs(x - wants[i]) > 1e-6), None)
    if differs is not None:
        case = ("text", longer[differs]), ("alone", f"{wants[differs]:g}")
        case += ((f"among {len(longer)}, some of them equal", f"{again[differs]:g}"),)
        says = "A text's reward depends on those beside it, its place, or what came before. Judge each by"
        says += " itself."
        raise Refused("depends on the batch", says, case)
    examine_spread(function, together)
    examine_bare(function)


REWARD = Check(
    "my_reward",
    "my_reward(texts)",
    REWARD_LOOK,
    examine_reward,
    "A reward that can be trained on. Is it also what you meant? Train on it and see.",
)


def check_my_reward(function: Callable) -> Report:
    """Check your `my_reward(texts)`: whether it can be trained on."""
    return judged(REWARD, function)


def usable_reward(function: Callable) -> Callable:
    """The learner's reward where it can be trained on, else the course's own."""
    return function if check_my_reward(function).status == CORRECT else liked_words
