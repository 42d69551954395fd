"""Texts of a grammar by brute force; reviews, edits of their words and sentences, hill climbing by them."""

import itertools
import math
import random

from helpers.world import reviews
from helpers.world.grammar import REVIEWS
from helpers.world.nodes import Choice, Words
from helpers.world.sentences import ACCEPTED, BROKEN, fitting_domains, judge, split

WORDS = [word for word in reviews.VOCABULARY if word not in ".!"] + [".", "!"]
TRIES = 20  # changes of which one must respect the limit of length


def derivations(node):
    """Every (tokens, probability) by brute force, one per derivation: independent of `ends`."""
    if isinstance(node, Words):
        return [(tuple(node.tokens), 1.0)]
    if isinstance(node, Choice):
        return [
            (tokens, share * probability)
            for share, child in zip(node.probabilities, node.nodes, strict=True)
            for tokens, probability in derivations(child)
        ]
    ways = itertools.product(*(derivations(part) for part in node.parts))
    return [(sum((t for t, _ in way), ()), math.prod(p for _, p in way)) for way in ways]


def accepted(text):
    """Whether every sentence of the text is accepted."""
    return all(sentence.status == ACCEPTED for sentence in judge(reviews.tokenize(text)))


def breaks(text):
    """Whether the text has a broken stretch."""
    return any(sentence.status == BROKEN for sentence in judge(reviews.tokenize(text)))


def long_review(rng, sentences):
    """A review of one domain with about this many sentences, all of them accepted."""
    domain = rng.choice(list(REVIEWS))
    tokens = REVIEWS[domain].sample(rng)
    while len(split(tokens)) < sentences:
        for words, stop in split(REVIEWS[domain].sample(rng)):
            if fitting_domains(tuple(words), False, True):  # no opening
                tokens = [*tokens, *words, stop]
    return reviews.detokenize(tokens)


def sentences_of(tokens):
    """The sentences of a text with their stops: list of tokens -> list of lists of tokens."""
    return [[*words, *stop] for words, stop in split(tokens)]


def change_a_word(tokens, rng):
    """Insert, replace, delete or swap one word."""
    i, kind = rng.randrange(len(tokens) + 1), rng.randrange(4)
    if kind == 0 or i == len(tokens):
        return tokens[:i] + [rng.choice(WORDS)] + tokens[i:]
    if kind == 1:
        return tokens[:i] + [rng.choice(WORDS)] + tokens[i + 1 :]
    if kind == 2:
        return tokens[:i] + tokens[i + 1 :]
    return tokens[:i] + tokens[i : i + 2][::-1] + tokens[i + 2 :]


def edited(text, rng, spare):
    """One edit of words: of one word, or a stretch of the text `spare` put in."""
    tokens, other = reviews.tokenize(text), reviews.tokenize(spare)
    if rng.random() < 0.8:
        return reviews.detokenize(change_a_word(tokens, rng))
    i, j = rng.randrange(len(tokens)), rng.randrange(len(other))
    return reviews.detokenize(tokens[:i] + other[j : j + rng.randint(2, 8)] + tokens[i:])


def change_a_sentence(tokens, rng, others):
    """Insert, replace, delete or move a sentence; the new ones are of other texts."""
    own, new = sentences_of(tokens), rng.choice(sentences_of(rng.choice(others)))
    i, kind = rng.randrange(len(own)), rng.randrange(4)
    if kind == 0:
        own.insert(rng.randint(0, len(own)), new)
    elif kind == 1:
        own[i] = new
    else:
        moved = own.pop(i)
        if kind == 2:
            own.insert(rng.randint(0, len(own)), moved)
    return [token for sentence in own for token in sentence]


def splice(tokens, rng, others):
    """The beginning of a text and the end of another; or a part of another, put into it."""
    other = rng.choice(others)
    i, j = rng.randint(0, len(tokens)), rng.randint(0, len(other))
    if rng.random() < 0.5:
        return tokens[:i] + other[j:]
    k = min(len(tokens), i + rng.randint(0, 4))
    return tokens[:i] + other[j : j + rng.randint(1, 8)] + tokens[k:]


def change(tokens, rng, others, limit):
    """One random change that keeps the text within `limit` tokens, else the text itself."""
    for _ in range(TRIES):
        kind = rng.random()
        if kind < 0.5:
            changed = change_a_word(tokens, rng)
        elif kind < 0.8:
            changed = change_a_sentence(tokens, rng, others)
        else:
            changed = splice(tokens, rng, others)
        if 0 < len(changed) <= limit:
            return changed
    return tokens


def climb(text, score, evaluations, rng, others, limit):
    """The text after `evaluations` random changes, each kept when the score does not fall."""
    tokens = reviews.tokenize(text)[:limit]
    best = score(reviews.detokenize(tokens))
    for _ in range(evaluations):
        changed = change(tokens, rng, others, limit)
        found = score(reviews.detokenize(changed))
        if found >= best:
            tokens, best = changed, found
    return reviews.detokenize(tokens)


def climbed(score, starts, evaluations, seed):
    """Climb from each start, with three limits of length in turn: list of texts -> list of texts."""
    rng = random.Random(seed)
    others = [reviews.tokenize(reviews.sample_review(rng)) for _ in range(2000)]
    lengths = zip(starts, itertools.cycle((24, 32, 60)), strict=False)
    return [climb(text, score, evaluations, rng, others, limit) for text, limit in lengths]
