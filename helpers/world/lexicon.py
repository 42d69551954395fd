"""The words and templates of the embedded world, from `lexicon.toml`: opinions, sentences, six domains.

`grammar.py` builds sentences from them, and `gold.py` reads the same strengths. Tables of praise and blame
have the sign as key: +1 or -1.
"""

import tomllib
from pathlib import Path
from types import SimpleNamespace

_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_ADJECTIVES, _OPINIONS = _WORDS["adjectives"], _WORDS["opinions"]


def _signed(name):
    """A table of words: those of praise under +1, those of blame under -1."""
    return {+1: _WORDS["praise"][name], -1: _WORDS["blame"][name]}


GRADABLE, UNGRADED = _signed("gradable"), _signed("ungraded")
NEGATABLE, EXTREME = _signed("negatable"), _signed("extreme")
FEELING, LIKING = _signed("feeling"), _signed("liking")
ENJOYING, MOVING = _signed("enjoying"), _signed("moving")
DEGREE, JUDGEMENT, VERDICT = _signed("degree"), _signed("judgement"), _signed("verdict")
TEMPLATES = _WORDS["templates"]  # of sentences, with their weights
WHOLE = _ADJECTIVES["whole"]
VERDICT_WORDS, DEGREES = _OPINIONS["verdict_words"], _OPINIONS["degrees"]
NEGATORS, FLATTERY = frozenset(_OPINIONS["negators"]), frozenset(_OPINIONS["flattery"])
SUPERLATIVES = {w: 1.6 * s for s in (1, -1) for part in EXTREME[s] for w in part.split("/")}
SUPERLATIVES.update(best=1.6, worst=-1.6)


def _opinion_words():
    """Every opinion word -> signed strength."""
    tables = (GRADABLE, UNGRADED, FEELING, LIKING, ENJOYING, MOVING)
    lists = [table[sign] for sign in (1, -1) for table in tables] + [VERDICT_WORDS, SUPERLATIVES]
    found = {word: 1.0 for good, _ in _ADJECTIVES.values() for word in good.split("/")}
    found.update({word: -1.0 for _, bad in _ADJECTIVES.values() for word in bad.split("/")})
    return found | {word: value for words in lists for word, value in words.items()}


OPINIONS = _opinion_words()

SLOTS, SETTINGS = _WORDS["slots"], {}
for domain, words in _WORDS["settings"].items():
    aspects = [  # things that share their adjectives: [praising, blaming]
        SimpleNamespace(singular=one, plural=many, adjectives=_ADJECTIVES[kind])
        for one, many, kind in words["aspects"]
    ]
    SETTINGS[domain] = SimpleNamespace(**words | {"aspects": aspects})
