"""Short reviews and prompts: sample them, tokenise them, and compute their exact log-probability."""

import math
import re
from functools import lru_cache

from helpers.world.grammar import ALL_REVIEWS, REVIEWS
from helpers.world.lexicon import DEGREES, NEGATORS, OPINIONS

DOMAINS = tuple(REVIEWS)
VOCABULARY = sorted(ALL_REVIEWS.vocabulary)
KNOWN_WORDS = frozenset(VOCABULARY)
_NO_PROMPT = OPINIONS.keys() | DEGREES.keys() | NEGATORS | {"although", "would"}


def tokenize(text):
    """Lower-case, then split: every word and every punctuation mark is a token."""
    return re.findall(r"[a-z]+|[^\sa-z]", text.lower())


def detokenize(tokens):
    """Join tokens with spaces, but without one before `.`, `,` and `!`."""
    return re.sub(r" (?=[.,!])", "", " ".join(tokens))


def sample_review(rng):
    """Draw one review with a `random.Random`."""
    return detokenize(ALL_REVIEWS.sample(rng))


@lru_cache(maxsize=1 << 16)  # parsing is the slowest part of a score, and texts recur
def log_prob(text):
    """Exact log-probability of a review in nats; `-inf` when the grammar cannot generate it."""
    tokens = tokenize(text)
    if len(tokens) > ALL_REVIEWS.longest or not KNOWN_WORDS.issuperset(tokens):
        return -math.inf
    inside = ALL_REVIEWS.ends(tokens, 0, {}).get(len(tokens), 0.0)
    return math.log(inside) if inside else -math.inf


def perplexity(texts):
    """Perplexity per token of the grammar on these reviews; the end of a review counts as a token."""
    nats = -sum(map(log_prob, texts))
    return math.exp(nats / sum(len(tokenize(text)) + 1 for text in texts))


def is_sentence(text):
    """Whether the grammar can generate this text."""
    return log_prob(text) > -math.inf


def sample_prompts(count, rng):
    """`count` distinct beginnings of reviews, two to eight tokens, before any opinion.

    The domains take turns. ValueError: fewer than `count` distinct prompts found.
    """
    prompts = []
    seen = set()
    for _ in range(200 * count + 1000):
        if len(prompts) == count:
            return prompts
        tokens = REVIEWS[DOMAINS[len(prompts) % len(DOMAINS)]].sample(rng)
        closed = next(i for i, token in enumerate([*tokens, "not"]) if token in _NO_PROMPT)
        length = rng.randint(2, 8)
        prompt = detokenize(tokens[:length])
        if length <= closed and prompt not in seen:
            seen.add(prompt)
            prompts.append(prompt)
    raise ValueError(f"count: got {count}, but only {len(prompts)} distinct prompts were found.")
