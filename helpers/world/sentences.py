"""Judge a text sentence by sentence: is each accepted by the grammar, broken, or unfinished?

The sentences come from the grammar of whole reviews, cut at its stops; `judge` is the entry point.
"""

import re
from functools import lru_cache, reduce
from typing import NamedTuple

from helpers.world.grammar import INTRO, REVIEWS
from helpers.world.nodes import Choice, Sequence, Words

STOPS = frozenset(".!")
ACCEPTED, BROKEN, UNFINISHED = "accepted", "broken", "unfinished"


# ---- the grammar of sentences, from the grammar of reviews ----
class Cut(NamedTuple):
    """What a node yields, cut at stops: lists of nodes that yield no stop."""

    whole: list  # all of it, where it has no stop
    first: list  # what stands before the first stop
    middle: list  # what stands between two stops
    last: list  # what stands after the last stop


def cut(node):
    """Cut a node of the grammar at its stops: node -> `Cut`. Weights are lost."""
    if STOPS.isdisjoint(node.vocabulary):
        return Cut([node], [], [], [])
    if isinstance(node, Words):
        first, *middle, last = map(Words, re.split("[.!]", " ".join(node.tokens)))
        return Cut([], [first], middle, [last])
    if isinstance(node, Choice):
        cuts = [cut(child) for child in node.nodes]
        return Cut(
            *([part for parts in lists for part in parts] for lists in zip(*cuts, strict=True))
        )
    return reduce(_append, map(cut, node.parts))


def _append(a, b):
    """The cut of a sequence of two nodes, from their cuts."""
    return Cut(
        _pairs(a.whole, b.whole),
        a.first + _pairs(a.whole, b.first),
        a.middle + _pairs(a.last, b.first) + b.middle,
        _pairs(a.last, b.whole) + b.last,
    )


def _pairs(left, right):
    """One of the left nodes, then one of the right: a list of nodes."""
    if not left or not right:
        return []
    if all(node.longest == 0 for node in left):  # saves most of the time of parsing
        return right
    if all(node.longest == 0 for node in right):
        return left
    return [Sequence([_any(left), _any(right)])]


def _any(nodes):
    """A choice among the nodes, each once."""
    distinct = list({id(node): node for node in nodes}.values())
    return distinct[0] if len(distinct) == 1 else Choice(distinct)


SENTENCES = {}  # domain -> node of the first sentences, node of the later ones
for domain, review in REVIEWS.items():
    pieces = cut(review)
    SENTENCES[domain] = _any(pieces.first), _any(pieces.middle)


# ---- which domains a sentence belongs to ----
def yields(node, words):
    """Whether the node can yield exactly these words."""
    return len(words) in node.ends(words, 0, {})


def begins(node, words, start=0, memo=None):
    """Whether the node can yield words[start:] and then go on, or end there; `memo` is that of `ends`."""
    memo = {} if memo is None else memo
    if isinstance(node, Words):
        return node.tokens[: len(words) - start] == words[start:]
    if isinstance(node, Choice):
        options = node.options_by_token.get(words[start], node.otherwise) if words[start:] else ()
        return not words[start:] or any(begins(n, words, start, memo) for _, n in options)
    reached = {start}
    for part in node.parts:
        if any(begins(part, words, middle, memo) for middle in reached):
            return True
        reached = {end for middle in reached for end in part.ends(words, middle, memo)}
    return len(words) in reached


@lru_cache(maxsize=1 << 16)  # parsing is the slowest part of a score, and sentences recur
def fitting_domains(words, is_first, is_finished):
    """Domains whose grammar accepts a sentence: tuple of words without the stop -> frozenset.

    The first sentence does not sum up ("in short, ..."), a later one is no opening. An unfinished
    one needs only to be the beginning of a sentence.
    """
    words, fits = list(words), yields if is_finished else begins
    sums_up = max(INTRO.ends(words, 0, {})) > 0
    found = set()
    for domain, (first, later) in SENTENCES.items():
        nodes = [later] if not is_first else [first] if sums_up else [later, first]
        known = [node for node in nodes if words and node.vocabulary.issuperset(words)]
        if any(fits(node, words) for node in known):
            found.add(domain)
    return frozenset(found)


# ---- texts ----
class Sentence(NamedTuple):
    """One sentence of a text: its tokens without the stop, and how it was judged."""

    words: list
    stop: str  # ".", "!" or "" where there is none
    status: str  # ACCEPTED, BROKEN or UNFINISHED


def split(tokens):
    """Cut the tokens of a text at the stops: list of tokens -> list of (words, stop).

    "! !" is one stop. Only the last stop can be missing (""). An empty text is one empty sentence.
    """
    found, words = [], []
    for token in tokens:
        if token not in STOPS:
            words.append(token)
        elif words or token == "." or not found or found[-1][1] != "!":
            found.append((words, token))
            words = []
    return found + [(words, "")] if words or not found else found


def judge(tokens):
    """Judge each sentence of a text: list of tokens -> list of `Sentence`.

    All accepted sentences fit one domain: the first of them decide, as for a reader.
    """
    found, domains = [], frozenset(SENTENCES)
    for words, stop in split(tokens):
        fitting = domains & fitting_domains(tuple(words), not found, bool(stop))
        status = (ACCEPTED if stop else UNFINISHED) if fitting else BROKEN
        domains = fitting or domains
        found.append(Sentence(words, stop, status))
    return found
