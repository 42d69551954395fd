"""Longer reviews that the sentence grammar accepts, and random edits of words in them."""

from helpers.world import reviews
from helpers.world.grammar import REVIEWS
from helpers.world.sentences import ACCEPTED, BROKEN, fitting_domains, judge, split


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


def edited(text, rng, spare):
    """One edit of words: deletion, swap, insertion of a word, or of a stretch of the text `spare`."""
    tokens, other = reviews.tokenize(text), reviews.tokenize(spare)
    i, kind = rng.randrange(len(tokens)), rng.randrange(5)
    if kind == 0:
        tokens = tokens[:i] + tokens[i + 1 :]
    elif kind == 1:
        tokens = tokens[:i] + tokens[i : i + 2][::-1] + tokens[i + 2 :]
    elif kind == 2:
        tokens = tokens[:i] + [rng.choice(reviews.VOCABULARY)] + tokens[i:]
    elif kind == 3:
        tokens = tokens[:i] + [rng.choice(reviews.VOCABULARY)] + tokens[i + 1 :]
    else:
        j = rng.randrange(len(other))
        tokens = tokens[:i] + other[j : j + rng.randint(2, 8)] + tokens[i:]
    return reviews.detokenize(tokens)
