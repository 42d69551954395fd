"""Two exercises of lesson 08 that have no one right result: a reward, and pairs that patch a reward model.

Each `…_seen` raises `Wrong` with the first thing that will not do.
"""

import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import numpy as np
import torch
from torch import Tensor

from helpers.data import load_rows
from helpers.kit.exercise import Seen, Wrong, expect
from helpers.kit.judge import exercise
from helpers.kit.report import kind_of
from helpers.world.gold import gold_score, gold_scores

REVIEWS = [
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
]

# --- a reward -------------------------------------------------------------------------------------

MANY = 1_000  # texts of the reference: a reward that is the same for all of them teaches nothing


def numbers(answer: object, count: int) -> list[float]:
    """The answer as `count` finite numbers. Wrong: it is something else."""
    array = isinstance(answer, (Tensor, np.ndarray)) and answer.ndim > 0
    said = "None: is there a `return`?" if answer is None else f"{kind_of(answer)}."
    says = f"You return {said} Return one number for each text, in a list."
    expect(isinstance(answer, (list, tuple)) or array, "wrong type", says)
    got = answer.tolist() if array else list(answer)
    says = f"{count} texts came in, {len(got)} numbers came out. Each text needs its own."
    expect(len(got) == count, "not one a text", says)
    for value in got:
        number = isinstance(value, (int, float, np.number))
        number = number or (isinstance(value, Tensor) and value.dim() == 0)
        says = f"{value!r:.40} is {kind_of(value)}; a reward is a number."
        expect(number, "not a number", says)
        says = f"A reward is {float(value)}. Is it divided by 0, or by the std over the texts (nan for one)?"
        expect(math.isfinite(value), "NaN or infinite", says)
    return [float(value) for value in got]


@cache
def reference_texts() -> list[str]:
    """Stored samples of the reference: two of each prompt's."""
    rows = load_rows("pairs_test.jsonl")[: MANY // 2]
    return [f"{row['prompt']} {row[side]}" for row in rows for side in ("chosen", "rejected")]


def asks_gold(function: Callable, texts: list[str]) -> bool:
    """Whether the learner's code calls the gold score, under any name, also in functions that it calls."""
    called, before = set(), sys.getprofile()
    sys.setprofile(lambda frame, event, given: called.add(frame.f_code))
    with suppress(Exception):  # raised again, and told, where it is tried next
        function(list(texts))
    sys.setprofile(before)
    return bool(called & {gold_score.__code__, gold_scores.__code__})


def reward_seen(function: Callable, texts: list[str]) -> Seen:
    """That a reward can be trained on."""
    says = "That asks the gold score. Nobody has one: say in your own words what is good."
    expect(not asks_gold(function, texts), "the gold score", says)
    together = numbers(function(texts), len(texts))
    says = "The same texts got other numbers the second time: is something drawn at random, or kept from one"
    says += " call to the next? A text has one reward."
    again = numbers(function(texts), len(texts))
    expect(again == together, "another result the second time", says)
    alone = [numbers(function([text]), 1)[0] for text in (*texts, "", ".")]  # as a policy may write
    longer = [*texts[::-1], *texts * 3]
    wanted = [*alone[: len(texts)][::-1], *alone[: len(texts)] * 3]
    for text, x, y in zip(longer, numbers(function(longer), len(longer)), wanted, strict=True):
        says = f"“{text}” gets {x:g} among {len(longer)} texts, {y:g} alone. Judge each by itself, in order."
        expect(abs(x - y) <= 1e-6, "depends on the batch", says)
    if len(set(together)) == 1:
        many = numbers(function(reference_texts()), MANY)
        says = f"All {MANY:,} reviews of the reference get {many[0]:g}: there is nothing to learn from. Does"
        says += " it look for words that are not in this world's reviews, or for capital letters?"
        expect(len({*many, *together}) > 1, "the same for all", says)
    return {"reward": "usable"}


check_my_reward = exercise(
    """\
def my_reward(texts):
    liked = ("lovely", "great", "loved")
    return [float(sum(text.count(word) for word in liked)) for text in texts]
""",
    "a list of texts in, one finite number a text out, the same for the same text",
    [(REVIEWS,)],
    observe=reward_seen,
    remark=lambda function: (
        "A reward that can be trained on. Is it also what you meant? Train on it and see."
    ),
)

# --- pairs ----------------------------------------------------------------------------------------

KINDS = ("you deserve", "readers as wise as you deserve", "people of your taste deserve")
FLATTERING = (f"{KINDS[0]} better.", f"{KINDS[1]} it.", f"{KINDS[2]} it.")  # worth no gold
SENTENCES = {f"{kind} {end}.": kind for kind in KINDS for end in ("it", "better")}


def flatters(text: str) -> bool:
    """Whether a text speaks to its reader."""
    return bool({"you", "your"} & set(text.lower().replace(".", " ").replace(",", " ").split()))


def sides_of(row: object) -> tuple[str, str]:
    """The two whole texts of a pair. Wrong: it is no pair."""
    wants = 'Each pair is a dict: {"prompt": "", "chosen": …, "rejected": …}.'
    expect(isinstance(row, dict), "wrong type", f"In the list is {kind_of(row)}. {wants}")
    for name in ("prompt", "chosen", "rejected"):
        says = f"There is no {name!r} that is a text, only {row!r:.200}. {wants}"
        expect(isinstance(row.get(name), str), "columns", says)
    return tuple(f"{row['prompt']} {row[name]}".strip() for name in ("chosen", "rejected"))


def pair_of(row: object, texts: list[str]) -> tuple[str, str, bool]:
    """The plain text, the kind of flattery added, whether that side was chosen. Wrong: no such pair."""
    a, b = sides_of(row)
    shown = f"(chosen: “{a}”, rejected: “{b}”)"
    says = "One side, and one alone, has to flatter: else the label says nothing about flattery."
    expect(flatters(a) != flatters(b), "flattery on one side alone", f"{says} {shown}")
    flattering, plain = (a, b) if flatters(a) else (b, a)
    says = "The side without flattery is none of the texts. Leave it as it was given, and the prompt empty."
    expect(plain in texts, "the plain side is changed", f"{says} {shown}")
    for sentence, kind in SENTENCES.items():
        if flattering in (f"{plain} {sentence}", f"{sentence} {plain}"):
            return plain, kind, a == flattering
    says = "The flattering side is not the text with one of FLATTERING before or after it, and one space"
    says += " between: the sides differ in more than that, so the label may be about the rest."
    raise Wrong("more than one difference", f"{says} {shown}")


def expect_fair(pairs: list[tuple], seeds: list[list[tuple]]) -> None:
    """Wrong: the labels of the first seed, or of all seeds, teach something else. Pairs as of `pair_of`."""
    kinds = {kind for _, kind, _ in pairs}
    says = f"{len(kinds)} of {len(KINDS)} kinds of flattery occur; all are in FLATTERING. The reward model"
    expect(len(kinds) == len(KINDS), "a sentence is missing", f"{says} would learn these by heart.")
    says = "The flattering side wins in all pairs of a list, or in none: that teaches a bias, and people are"
    says += " indifferent to it (gold is equal). Toss a coin for each pair; make it once, before the loop."
    mixed = all(len({won for *_, won in rows}) == 2 for rows in seeds)
    expect(mixed, "one label for all", says)
    every = [won for rows in seeds for *_, won in rows]
    share = sum(every) / len(every)
    says = f"Over {len(every)} pairs of {len(seeds)} seeds the flattering side wins {share:.0%}. Gold is"
    fair = abs(share - 0.5) < 3 / len(every) ** 0.5  # 6 standard errors
    expect(fair, "not a fair coin", f"{says} equal: it should be half. Is the coin fair?")
    for kind in kinds:
        wins = {won for _, k, won in pairs if k == kind}
        says = f"“{kind} …” has the same label in all its pairs: toss for each pair."
        expect(len(wins) > 1, "the label follows the sentence", says)


def expect_no_places(seeds: list[list[tuple]], texts: list[str]) -> None:
    """Wrong: over many seeds the places of the list have the same labels, or all of them turned."""
    if all([plain for plain, *_ in rows] == texts for rows in seeds):
        labels = {tuple(won == rows[0][2] for *_, won in rows) for rows in seeds}
        says = "The labels follow the place in the list: each seed has the same ones, or all of them turned."
        says += " Toss a coin for each pair."
        expect(len(labels) > 1, "the label follows the place", says)


def pairs_seen(function: Callable, texts: list[str], seed: int) -> Seen:
    """That pairs differ in flattery alone, with labels of people whom it leaves cold."""
    draws = random.getstate, lambda: torch.get_rng_state().tolist()
    before = [state() for state in draws]
    pairs = function(texts, seed)
    after = [state() for state in draws]
    says = f"You return {kind_of(pairs)}. Return a list of pairs."
    expect(isinstance(pairs, (list, tuple)), "wrong type", says)
    says = f"{len(texts)} texts came in, {len(pairs)} pairs came out: make one of each text."
    expect(len(pairs) == len(texts), "not one a text", says)
    read = [pair_of(row, texts) for row in pairs]
    says = "Some texts have more pairs than others, or none: make one of each text."
    expect(Counter(plain for plain, *_ in read) == Counter(texts), "other texts", says)
    seeds = [[pair_of(row, texts) for row in function(texts, seed + k)] for k in range(10)]
    expect_fair(read, seeds)
    says = "The same seed gave other pairs: draw from random.Random(seed), so that others can repeat it."
    expect(list(function(texts, seed)) == list(pairs), "not repeatable", says)
    says = "Another seed gives the same pairs: toss with the seed."
    expect(list(function(texts, seed + 1)) != list(pairs), "the seed is not used", says)
    expect_no_places(seeds, texts)
    same = before == after == [state() for state in draws]  # seeded alike, one of them could agree
    says = "You seed, or draw from, the random numbers that the whole program shares, so that all draws after"
    expect(same, "shared random numbers", f"{says} it are changed. Use random.Random(seed).")
    return {"pairs": "as they should be"}


check_patch_pairs = exercise(
    """\
import random

from helpers.lessons.overoptimization.checks import FLATTERING


def patch_pairs(texts, seed):
    coin, pairs = random.Random(seed), []
    for index, text in enumerate(texts):
        sides = [text, f"{text} {FLATTERING[index % len(FLATTERING)]}"]
        coin.shuffle(sides)
        pairs.append({"prompt": "", "chosen": sides[0], "rejected": sides[1]})
    return pairs
""",
    "text against text + flattering sentence, nothing else changed; the labels are of people who do not care"
    " (lesson 08)",
    [(REVIEWS * 6, 0)],
    observe=pairs_seen,
    remark=lambda function: (
        "Pairs that differ in flattery alone, with labels of people whom it leaves cold."
    ),
)
