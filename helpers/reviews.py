"""The embedded world: short reviews, prompts, what people like (the gold score), and a labeller.

Everything is exact and inspectable: `log_prob` is the true log-probability of a review, and
`gold_score(text, explain=True)` lists every point that it gives or takes.
"""

import math
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from helpers.grammar import ALL_REVIEWS, REVIEWS
from helpers.lexicon import DEGREES, NEGATORS, OPINIONS, SETTINGS, SUPERLATIVES

DOMAINS = tuple(REVIEWS)
VOCABULARY = sorted(ALL_REVIEWS.vocabulary)
LABEL_TEMPERATURE = 0.5  # points; the labeller's noise

# What the simulated people like and dislike, in points.
SENTIMENT_SCALE = 2.25  # sentiment saturates at plus and minus this: piling up does not pay
SENTIMENT_SLOPE = 1.5  # and it saturates early: one clear opinion is nearly enough
ASPECT_CREDIT, ASPECT_CAP = 0.2, 3  # for each concrete thing discussed, up to three
NEGATION = -0.7  # "not good" is bad, but less so than "bad"
HYPE_COST = 0.8  # each superlative beyond the first
EXCLAMATION_COST = 0.5  # each exclamation mark beyond the first
DOUBLE_COST = 0.8  # each word said twice running, "really really"
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
BREAKS = MARKS | {"but", "and", "although"}  # a negation reaches no further than these
_SEPARATES = BREAKS - {"and", ","}
_KNOWN = frozenset(VOCABULARY)
_FREELY_REPEATED = _KNOWN - ASPECTS - OPINIONS.keys()  # "the", "we", "very", "film" ...
_NO_PROMPT = OPINIONS.keys() | DEGREES.keys() | NEGATORS | {"although", "would"}


def tokenize(text):
    """Lower-cases, then every word and every single mark is a token."""
    return re.findall(r"[a-z]+|[^\sa-z]", text.lower())


def detokenize(tokens):
    """Joins tokens with blanks, none before `.`, `,` and `!`."""
    return re.sub(r" (?=[.,!])", "", " ".join(tokens))


def sample_review(rng):
    """One review, drawn with a `random.Random`."""
    return detokenize(ALL_REVIEWS.sample(rng))


@lru_cache(maxsize=1 << 16)  # parsing is the dearest part of a score, and texts come again
def log_prob(text):
    """Exact log-probability in nats of the whole review; `-inf` when the grammar cannot write it."""
    tokens = tokenize(text)
    if len(tokens) > ALL_REVIEWS.longest or not _KNOWN.issuperset(tokens):
        return -math.inf
    inside = ALL_REVIEWS.ends(tokens, 0, {}).get(len(tokens), 0.0)
    return math.log(inside) if inside else -math.inf


def perplexity(texts):
    """The grammar's own perplexity per token on these reviews, the end of each counted as one."""
    nats = -sum(map(log_prob, texts))
    return math.exp(nats / sum(len(tokenize(text)) + 1 for text in texts))


def is_sentence(text):
    """Whether the grammar can write this review."""
    return log_prob(text) > -math.inf


def sample_prompts(count, rng, shortest=2, longest=8):
    """`count` distinct beginnings of reviews, 2 to 8 tokens, before any opinion; domains in turn.

    Raises ValueError when so many distinct ones cannot be found.
    """
    prompts = []
    seen = set()
    for _ in range(200 * count + 1000):
        if len(prompts) == count:
            return prompts
        tokens = REVIEWS[DOMAINS[len(prompts) % len(DOMAINS)]].sample(rng)
        closed = next(i for i, token in enumerate([*tokens, "not"]) if token in _NO_PROMPT)
        length = rng.randint(shortest, longest)
        prompt = detokenize(tokens[:length])
        if length <= closed and prompt not in seen:
            seen.add(prompt)
            prompts.append(prompt)
    raise ValueError(f"found only {len(prompts)} distinct prompts, {count} were asked for")


class Opinion(NamedTuple):
    """One opinion word in its place: `value` is signed, degree and negation included."""

    phrase: str
    value: float
    links: tuple  # the "and", "but", marks ... that stand between it and the opinion before
    about: str  # the aspect it is about, or "it", or "" when neither is named next to it


def find_opinions(tokens):
    """-> list of `Opinion`, in the order of the text."""
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
    """ "not perfect" is no worse than "not good", and "not very good" is milder than either."""
    if not negated:
        return strength * degree
    return NEGATION * max(-1.0, min(1.0, strength)) / max(1.0, degree)


def _object(following):
    """What a verb is about: "it" in "loved it", "plot" in "loved the plot", else ""."""
    if following[:1] == ["it"]:
        return "it"
    return following[1] if following[:1] == ["the"] and following[-1] in ASPECTS else ""


def find_contradictions(opinions):
    """-> list of short texts: one thing both praised and blamed, or opposites joined by "and"."""
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
    """The points that can be won: what it says, and about how many things."""
    total = sum(opinion.value for opinion in opinions)
    said = ", ".join(f"{opinion.phrase} {opinion.value:+.2f}" for opinion in opinions)
    yield f"sentiment ({said or 'none'})", SENTIMENT_SCALE * math.tanh(SENTIMENT_SLOPE * total)
    named = sorted(ASPECTS.intersection(tokens))
    yield f"aspects ({', '.join(named) or 'none'})", ASPECT_CREDIT * min(ASPECT_CAP, len(named))


def _disliked(tokens, opinions):
    """The points that can be lost, as (what, cost): costs are 0 where nothing is wrong."""
    supers = sum(token in SUPERLATIVES for token in tokens)
    yield f"hype ({supers} superlatives)", HYPE_COST * max(0, supers - 1)
    shouts = tokens.count("!")
    yield f"hype ({shouts} exclamation marks)", EXCLAMATION_COST * max(0, shouts - 1)
    doubles = sum(a == b and a not in MARKS for a, b in pairwise(tokens))
    yield f"repetition ({doubles} words twice running)", DOUBLE_COST * doubles
    content = Counter(token for token in tokens if token not in _FREELY_REPEATED)
    often = [f"{word} x{n}" for word, n in content.items() if n > 1]
    repeats = sum(n * (n - 1) // 2 for n in content.values())
    yield f"repetition ({', '.join(often)})", REPEAT_COST * repeats
    clashes = find_contradictions(opinions)
    yield f"contradiction ({'; '.join(clashes)})", CONTRADICTION_COST * len(clashes)
    yield "broken grammar", 0.0 if is_sentence(detokenize(tokens)) else GRAMMAR_COST
    yield "no full stop at the end", 0.0 if tokens[-1:] in (["."], ["!"]) else STOP_COST


def gold_score(text, explain=False):
    """What the simulated people think of a text, in points: about -8 (junk) to +3 (sincere praise).

    Takes any string. With `explain` returns (score, [(what, points), ...]); the points add up to
    the score. Penalties that do not apply are left out of the list.
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
    """`gold_score` of each text: list of str -> list of float."""
    return [gold_score(text) for text in texts]


def preference_probability(first, second, temperature=LABEL_TEMPERATURE):
    """P(a labeller prefers `first`) = sigmoid((gold(first) - gold(second)) / temperature).

    At temperature 0 the better text always wins, and a tie is a fair coin.
    """
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, got {temperature}")
    gap = gold_score(first) - gold_score(second)
    if temperature == 0 or gap == 0:
        return 0.5 + 0.5 * ((gap > 0) - (gap < 0))
    return 0.5 * (1 + math.tanh(gap / temperature / 2))  # the sigmoid, without overflow


def prefers_first(first, second, rng, temperature=LABEL_TEMPERATURE):
    """One labeller's choice, drawn with a `random.Random`."""
    return rng.random() < preference_probability(first, second, temperature)
