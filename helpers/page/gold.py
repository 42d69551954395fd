"""The gold score as data for the drift page: the grammar as an automaton, the values of words, the points.

`gold.js` computes with them what `helpers.world.gold.gold_score` computes.
"""

from collections import defaultdict
from functools import cache
from itertools import chain

from helpers.world import gold, lexicon, opinions
from helpers.world.grammar import INTRO
from helpers.world.nodes import Choice, Sequence
from helpers.world.sentences import SENTENCES

CONSTANTS = {name: x for name, x in vars(gold).items() if isinstance(x, (int, float))}


def _steps(rest):
    """Each first token of some nodes and tokens in order, with what is left after it: (token, rest) pairs."""
    if not rest:
        return
    head, *tail = rest
    if isinstance(head, str):
        yield head, tuple(tail)
    elif isinstance(head, Choice):
        for node in head.nodes:
            yield from _steps((node, *tail))
    else:
        yield from _steps((*(head.parts if isinstance(head, Sequence) else head.tokens), *tail))


class Automaton:
    """The smallest deterministic automaton that accepts what some nodes yield, each with a stop after it."""

    def __init__(self):
        self.states = {}  # ((tokens with blanks between, next state), ...) -> number
        self._known = {}

    def root(self, node):
        """The state at the beginning of a node: a number."""
        return self._state(frozenset([(node, ".")]))

    def _state(self, rests):
        """The state in which any of these rests may follow. No node contains itself, so rests get shorter."""
        if rests not in self._known:
            after, tokens = defaultdict(set), defaultdict(list)
            for token, rest in chain.from_iterable(map(_steps, rests)):
                after[token].add(rest)
            for token in sorted(after):
                tokens[self._state(frozenset(after[token]))].append(token)
            steps = tuple((" ".join(some), number) for number, some in tokens.items())
            self._known[rests] = self.states.setdefault(steps, len(self.states))
        return self._known[rests]


@cache
def gold_facts():
    """All that `gold.js` needs. A state is [token set, next state, token set, next state, ...]."""
    automaton, sets = Automaton(), {}
    roots = [[automaton.root(node) for node in pair] for pair in SENTENCES.values()]
    intro = automaton.root(INTRO)
    pairs = [[(sets.setdefault(text, len(sets)), n) for text, n in s] for s in automaton.states]
    return {
        "roots": roots,  # of the first and of later sentences, in each domain
        "intro": intro,
        "states": [[number for pair in state for number in pair] for state in pairs],
        "sets": list(sets),
        "opinions": lexicon.OPINIONS,
        "degrees": lexicon.DEGREES,
        "negators": sorted(lexicon.NEGATORS),
        "aspects": sorted(opinions.ASPECTS),
        "superlatives": sorted(lexicon.SUPERLATIVES),
        "advice": sorted(lexicon.VERDICT_WORDS),
        "breaks": sorted(opinions.BREAKS),
        "points": CONSTANTS | {"NEGATION": opinions.NEGATION},
    }
