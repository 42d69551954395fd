"""The gold score: how much the simulated people like a text, in points.

`gold_score(text, explain=True)` lists every gain and every penalty.
"""

import math
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from helpers.world.lexicon import DEGREES, NEGATORS, OPINIONS, SETTINGS, SUPERLATIVES
from helpers.world.reviews import KNOWN_WORDS, detokenize, is_sentence, tokenize

# gains and penalties, in points
SENTIMENT_SCALE = 2.25  # sentiment saturates at ± this: more praise adds nothing
SENTIMENT_SLOPE = 1.5  # it saturates early: one clear opinion is nearly enough
ASPECT_CREDIT, ASPECT_CAP = 0.2, 3  # for each aspect discussed, up to three
NEGATION = -0.7  # "not good" is bad, but less so than "bad"
HYPE_COST = 0.8  # each superlative beyond the first
EXCLAMATION_COST = 0.5  # each exclamation mark beyond the first
DOUBLE_COST = 0.8  # each word that follows itself, "really really"
REPEAT_COST = 0.3  # second use of a content word; the third costs twice that, and so on
CONTRADICTION_COST = 1.2
GRAMMAR_COST = 2.0
STOP_COST = 1.0
LOWEST = -8.0

ASPECTS = frozenset(
    noun
    for setting in SETTINGS.values()
    for aspects in setting.aspects
    for noun in f"{aspects.singular}/{aspects.plural}".split("/")
)
MARKS = frozenset(".,!")
BREAKS = MARKS | {"but", "and", "although"}  # a negation ends here
_SEPARATES = BREAKS - {"and", ","}
_FREELY_REPEATED = KNOWN_WORDS - ASPECTS - OPINIONS.keys()  # "the", "we", "very", "film" ...


class Opinion(NamedTuple):
    """One opinion word in context: `value` has a sign and includes degree and negation."""

    phrase: str
    value: float
    links: tuple  # the "and", "but", punctuation ... between the previous opinion and this one
    about: str  # the aspect it is about, "it", or "" when neither is next to it


def find_opinions(tokens):
    """All opinions of a text, in order: list of tokens -> list of `Opinion`."""
    found, links, aspect, negated = [], [], "", False
    for i, token in enumerate(tokens):
        if token in BREAKS:
            links.append(token)
            aspect, negated = "", False
        elif token in NEGATORS:
            negated = True
        elif token in ASPECTS:
            aspect = token
        elif token in OPINIONS:
            degree = tokens[i - 1] if i and tokens[i - 1] in DEGREES else ""
            value = _weigh(OPINIONS[token], DEGREES.get(degree, 1.0), negated)
            words = [word for word in ("not" if negated else "", degree, token) if word]
            about = _object(tokens[i + 1 : i + 3]) or aspect
            found.append(Opinion(" ".join(words), value, tuple(links), about))
            links = []
    return found


def _weigh(strength, degree, negated):
    """Value of an opinion: "not perfect" is as bad as "not good", "not very good" is milder."""
    if not negated:
        return strength * degree
    return NEGATION * max(-1.0, min(1.0, strength)) / max(1.0, degree)


def _object(following):
    """What a verb is about: "it" in "loved it", "plot" in "loved the plot", else ""."""
    if following[:1] == ["it"]:
        return "it"
    return following[1] if following[:1] == ["the"] and following[-1] in ASPECTS else ""


def find_contradictions(opinions):
    """Descriptions of contradictions: an aspect praised and blamed, or opposites joined by "and"."""
    found, last_value, before = [], {}, None
    for opinion in opinions:
        known = last_value.get(opinion.about, 0.0) if opinion.about else 0.0
        if known * opinion.value < 0:
            found.append(f"{opinion.about} praised and blamed")
        elif before and "and" in opinion.links and before.value * opinion.value < 0:
            if not _SEPARATES.intersection(opinion.links):
                found.append(f"{before.phrase} and {opinion.phrase}")
        last_value[opinion.about], before = opinion.value, opinion
    return found


def _liked(tokens, opinions):
    """The gains, as (what, points): sentiment, and number of aspects."""
    total = sum(opinion.value for opinion in opinions)
    said = ", ".join(f"{opinion.phrase} {opinion.value:+.2f}" for opinion in opinions)
    yield f"sentiment ({said or 'none'})", SENTIMENT_SCALE * math.tanh(SENTIMENT_SLOPE * total)
    named = sorted(ASPECTS.intersection(tokens))
    yield f"aspects ({', '.join(named) or 'none'})", ASPECT_CREDIT * min(ASPECT_CAP, len(named))


def style_costs(tokens):
    """Hype and repetition, as (what, cost); a cost is 0 where nothing is wrong."""
    supers = sum(token in SUPERLATIVES for token in tokens)
    yield f"hype ({supers} superlatives)", HYPE_COST * max(0, supers - 1)
    shouts = tokens.count("!")
    yield f"hype ({shouts} exclamation marks)", EXCLAMATION_COST * max(0, shouts - 1)
    doubles = sum(a == b and a not in MARKS for a, b in pairwise(tokens))
    yield f"repetition ({doubles} doubled words)", DOUBLE_COST * doubles
    content = Counter(token for token in tokens if token not in _FREELY_REPEATED)
    often = [f"{word} x{n}" for word, n in content.items() if n > 1]
    repeats = sum(n * (n - 1) // 2 for n in content.values())
    yield f"repetition ({', '.join(often)})", REPEAT_COST * repeats


def _disliked(tokens, opinions):
    """The penalties, as (what, cost); a cost is 0 where nothing is wrong."""
    yield from style_costs(tokens)
    clashes = find_contradictions(opinions)
    yield f"contradiction ({'; '.join(clashes)})", CONTRADICTION_COST * len(clashes)
    yield "broken grammar", 0.0 if is_sentence(detokenize(tokens)) else GRAMMAR_COST
    yield "no full stop at the end", 0.0 if tokens[-1:] in (["."], ["!"]) else STOP_COST


def gold_score(text, explain=False):
    """Gold score of any string, in points: from -8 (junk) to about +3 (sincere praise).

    With `explain`, returns (score, [(what, points), ...]): the points sum to the score, and
    penalties of 0 are left out.
    """
    tokens = tokenize(text)
    opinions = find_opinions(tokens)
    parts = list(_liked(tokens, opinions))
    parts += [(what, -cost) for what, cost in _disliked(tokens, opinions) if cost]
    total = sum(points for _, points in parts)
    if total < LOWEST:
        parts.append(("no text is worse than this", LOWEST - total))
    score = sum(points for _, points in parts)
    return (score, parts) if explain else score


def gold_scores(texts):
    """Gold score of each text: list of str -> list of float."""
    return [gold_score(text) for text in texts]
