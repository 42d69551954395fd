"""Exercises of notebook 08 in texts: a reward of the learner's own, and pairs that patch a reward model.

Both are judged by what they do with a few reviews; there is no one right answer.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from types import CellType, CodeType, FunctionType

import numpy as np
from torch import Tensor

from helpers.checks.judging.report import CORRECT, Report, kind_of
from helpers.checks.overoptimization.examine import Check, Refused, called, expect, judged
from helpers.data import load_rows

REVIEWS = (
    "the fish was lovely but the service was slow.",
    "we saw this film. it was great.",
    "the room was cold and the porter was rude.",
    "i loved the garden.",
    "the battery was not good.",
    "this is a small hotel near the station. the beds were very comfortable.",
    "the plot was dull.",
    "the soup was truly superb. we were delighted.",
    "the screen was bright and the camera was good.",
    "we hated the music.",
)
MANY = 1_000  # texts of the reference: a reward that is the same for all of them teaches nothing
KINDS = ("you deserve", "readers as wise as you deserve", "people of your taste deserve")
FLATTERING = (f"{KINDS[0]} better.", f"{KINDS[1]} it.", f"{KINDS[2]} it.")  # worth no gold
SENTENCES = {f"{kind} {end}.": kind for kind in KINDS for end in ("it", "better")}
GOLD = "gold", "gold_score", "gold_scores"
SECOND_TIME = "another result the second time"
REWARD_LOOK = "a list of texts in, one finite number a text out, the same for the same text"
PAIRS_LOOK = (
    "text against text + flattering sentence, nothing else changed; the labels are of people who do"
    " not care (lesson 08)"
)


# --- a reward -------------------------------------------------------------------------------------


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


# --- a patch --------------------------------------------------------------------------------------


def coin_pairs(texts: list[str], seed: int) -> list[dict]:
    """The course's own patch: with and without flattery, sides by a coin."""
    coin, pairs = random.Random(seed), []
    for index, text in enumerate(texts):
        sides = [text, f"{text} {FLATTERING[index % len(FLATTERING)]}"]
        coin.shuffle(sides)
        pairs.append({"prompt": "", "chosen": sides[0], "rejected": sides[1]})
    return pairs


def flatters(text: str) -> bool:
    """Whether a text speaks to its reader."""
    return bool({"you", "your"} & set(text.lower().replace(".", " ").replace(",", " ").split()))


def sides_of(row: object) -> tuple[str, str]:
    """The two whole texts of a pair. Refused: it is no pair."""
    wants = 'Each pair is a dict: {"prompt": "", "chosen": …, "rejected": …}.'
    expect(isinstance(row, dict), "wrong type", f"In the list is {kind_of(row)}. {wants}")
    for name in ("prompt", "chosen", "rejected"):
        says = (
            f"{name!r} is {row[name]!r}"
            if name in row
            else f"There is no {name!r}, only {list(row)}"
        )
        expect(isinstance(row.get(name), str), "columns", f"{says}. {wants}")
    prompt = row["prompt"]
    chosen, rejected = (f"{prompt} {row[name]}".strip() for name in ("chosen", "rejected"))
    return chosen, rejected


def examine_pair(row: object, texts: list[str]) -> tuple[str, bool]:
    """The kind of flattery on one side, and whether that side was chosen. Refused: not such a pair."""
    a, b = sides_of(row)
    case = ("chosen", a), ("rejected", b)
    expect(a != b, "two equal sides", "Chosen and rejected are the same text.", *case)
    says = "Neither side has a sentence of FLATTERING: this pair is not about what went wrong."
    expect(flatters(a) or flatters(b), "no flattery", says, *case)
    says = "Both sides flatter, so the label says nothing about flattery."
    expect(flatters(a) != flatters(b), "flattery on both sides", says, *case)
    flattering, plain = (a, b) if flatters(a) else (b, a)
    says = 'One side is a text as it was given, but both are read after `prompt`. Leave that empty: "".'
    alone = bool({row["chosen"].strip(), row["rejected"].strip()} & set(texts))
    before = bool(row["prompt"].strip()) and alone and plain not in texts
    expect(not before, "the prompt is not empty", says, ("prompt", row["prompt"]), *case)
    says = "The side without flattery is none of the texts. Leave it as it was given."
    expect(plain in texts, "the plain side is changed", says, *case)
    says = (
        "The sides differ in more than the flattery, so the label may be about the rest. Only add."
    )
    at_an_end = flattering.startswith(plain) or flattering.endswith(plain)
    inside = any(flattering.replace(f" {sentence}", "", 1) == plain for sentence in SENTENCES)
    amid = "The flattering sentence stands inside the text. Add it before or after the whole text."
    expect(at_an_end or not inside, "inside the text", amid, *case)
    expect(at_an_end, "more than one difference", says, *case)
    rest = flattering.replace(plain, "", 1)
    between = rest[0] if flattering.startswith(plain) else rest[-1]
    says = f"Right after the text stands {between!r}. Between the world's sentences stands a space alone:"
    says += ' f"{text} {sentence}".'
    a_sign = flattering.startswith(plain) and not (between.isalpha() or between.isspace())
    expect(not a_sign, "a sign between", says, *case)
    says = "No space stands between the text and the flattery, as there is between the world's sentences:"
    says += ' f"{text} {sentence}".'
    expect(between.isspace(), "no space between", says, *case)
    added = rest.strip()
    says = f"{added!r} is none of the flattering sentences, and may cost gold: add one of FLATTERING as it"
    says += " is."
    expect(added in SENTENCES, "not one of the sentences", says, *case)
    return SENTENCES[added], a == flattering


def examine_labels(added: list[str], won: list[bool]) -> None:
    """Look at all labels together. Refused: they teach something else."""
    says = f"Only “{added[0]} …” occurs. The reward model would learn that one sentence by heart."
    expect(len(set(added)) > 1, "one sentence only", says)
    says = f"{len(set(added))} kinds of flattery occur; there are {len(KINDS)}, all in FLATTERING."
    expect(len(set(added)) == len(KINDS), "a sentence is missing", says)
    share = sum(won) / len(won)
    says = (
        "The flattering side always loses. People are indifferent to it (gold is equal); this patch"
        " teaches that flattery is bad. Is a coin tossed for each pair?"
    )
    expect(share > 0, "flattery always loses", says)
    says = "The flattering side always wins: the bias is taught a second time. Is a coin tossed each time?"
    expect(share < 1, "flattery always wins", says)
    says = f"The flattering side wins {share:.0%} of the pairs. Gold is equal: it should be half."
    expect(0.3 <= share <= 0.7, "not a fair coin", says)
    for sentence in set(added):
        wins = [w for s, w in zip(added, won, strict=True) if s == sentence]
        says = f"{sentence!r} has the same label in all {len(wins)} pairs: toss for each pair."
        expect(len(set(wins)) > 1 or len(wins) < 6, "the label follows the sentence", says)


def examine_tosses(function: Callable, texts: list[str], seeds: int = 8) -> None:
    """Refused: within a seed every label is the same, and another seed turns them all."""
    found = [
        {examine_pair(row, texts)[1] for row in called(function, texts, seed)}
        for seed in range(seeds)
    ]
    says = "With one seed the flattering side always wins, with another it always loses: the coin is made"
    says += " anew for each pair, so every toss is the same. Make it once, before the loop."
    anew = all(len(labels) == 1 for labels in found) and len(set.union(*found)) > 1
    expect(not anew, "a new coin for each pair", says)


def examine_coin(function: Callable, texts: list[str], seeds: int = 10) -> None:
    """Refused: over many seeds the flattering side wins more or less often than half (6 std)."""
    won = [
        examine_pair(row, texts)[1]
        for seed in range(seeds)
        for row in called(function, texts, seed)
    ]
    share = sum(won) / len(won)
    says = f"Over {len(won)} pairs of {seeds} seeds the flattering side wins {share:.0%}. Gold is equal: it"
    says += " should be half. Is the coin fair?"
    expect(abs(share - 0.5) < 3 / len(won) ** 0.5, "not a fair coin", says)


def examine_places(function: Callable, texts: list[str], seeds: int = 10) -> None:
    """Refused: over many seeds the places of the list have the same labels, or all of them turned."""
    labels = set()
    for seed in range(seeds):
        rows = called(function, texts, seed)
        if [next(side for side in sides_of(row) if not flatters(side)) for row in rows] != texts:
            return  # in another order: a label is then not that of a place
        won = [examine_pair(row, texts)[1] for row in rows]
        labels.add(tuple(label == won[0] for label in won))
    says = "The labels follow the place in the list: each seed has the same ones, or all of them turned."
    says += " Toss a coin for each pair."
    expect(len(labels) > 1, "the label follows the place", says)


def examine_pairs(function: Callable) -> None:
    """Look at a patch. Refused: the first thing that is wrong with it."""
    texts, added, won = list(REVIEWS) * 6, [], []
    pairs = called(function, texts, 0)
    said = "None: is there a `return`?" if pairs is None else f"{kind_of(pairs)}."
    says = f"You return {said} Return a list of pairs."
    expect(isinstance(pairs, (list, tuple)), "wrong type", says)
    says = f"{len(texts)} texts came in, {len(pairs)} pairs came out: make one of each text."
    expect(len(pairs) == len(texts), "not one a text", says)
    for row in pairs:
        sentence, flattery_won = examine_pair(row, texts)
        added.append(sentence)
        won.append(flattery_won)
    plain = Counter(next(side for side in sides_of(row) if not flatters(side)) for row in pairs)
    says = "Some texts have more pairs than others, or none: make one of each text."
    expect(plain == Counter(texts), "other texts", says)
    if len(set(won)) == 1:
        examine_tosses(function, texts)
    examine_labels(added, won)
    examine_coin(function, texts)
    again, other = called(function, texts, 0), called(function, texts, 1)
    says = "The same seed gave other pairs: draw from random.Random(seed), so that others can repeat it."
    expect(list(again) == list(pairs), "not repeatable", says)
    fine = list(other) != list(pairs)
    expect(fine, "the seed is not used", "Another seed gives the same pairs: toss with the seed.")
    examine_places(function, texts)


PAIRS = Check(
    "patch_pairs",
    "patch_pairs(texts, seed)",
    PAIRS_LOOK,
    examine_pairs,
    "Pairs that differ in flattery alone, with labels of people whom it leaves cold.",
)


def check_patch_pairs(function: Callable) -> Report:
    """Check your `patch_pairs(texts, seed)` on sixty reviews."""
    return judged(PAIRS, function)


def usable_pairs(function: Callable) -> Callable:
    """The learner's patch where it passes, else the course's own."""
    return function if check_patch_pairs(function).status == CORRECT else coin_pairs
