"""Opinions of a text: which words praise or blame, how strongly, what about, and contradictions."""

from typing import NamedTuple

from helpers.world.lexicon import DEGREES, NEGATORS, OPINIONS, SETTINGS

NEGATION = -0.7  # "not good" is bad, but less so than "bad"
ASPECTS = frozenset(
    noun
    for setting in SETTINGS.values()
    for aspects in setting.aspects
    for noun in f"{aspects.singular}/{aspects.plural}".split("/")
)
MARKS = frozenset(".,!")
BREAKS = MARKS | {"but", "and", "although"}  # a negation ends here
_SEPARATES = BREAKS - {"and", ","}


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
