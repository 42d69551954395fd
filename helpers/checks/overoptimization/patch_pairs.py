"""An exercise of notebook 08: pairs that patch a reward model, judged by what they are for a few reviews."""

import random
from collections import Counter
from collections.abc import Callable

from helpers.checks.judging.report import CORRECT, Report, kind_of
from helpers.checks.overoptimization.examine import (
    REVIEWS,
    Check,
    called,
    expect,
    judged,
)

KINDS = ("you deserve", "readers as wise as you deserve", "people of your taste deserve")
FLATTERING = (f"{KINDS[0]} better.", f"{KINDS[1]} it.", f"{KINDS[2]} it.")  # worth no gold
SENTENCES = {f"{kind} {end}.": kind for kind in KINDS for end in ("it", "better")}
PAIRS_LOOK = (
    "text against text + flattering sentence, nothing else changed; the labels are of people who do"
    " not care (lesson 08)"
)


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
