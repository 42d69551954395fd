"""The sentences of the embedded world: the grammar of reviews, cut at its stops."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_edits import accepted, breaks, derivations, long_review

from helpers.world import reviews
from helpers.world.grammar import ALL_REVIEWS, REVIEWS
from helpers.world.nodes import Words, maybe, one_of, phrase
from helpers.world.sentences import (
    ACCEPTED,
    BROKEN,
    SENTENCES,
    STOPS,
    UNFINISHED,
    begins,
    cut,
    judge,
    split,
    yields,
)

PARTS = {"j": one_of("and/./but"), "m": maybe(0.5, Words("c")), "d": one_of("d/e")}
SMALL = phrase("a {j} b {m} . {d} {j} {d}", **PARTS)


def texts_of(node):
    """Every text of a small node: set of tuples of tokens."""
    return {tokens for tokens, _ in derivations(node)}


def pieces_of(text):
    """The pieces of one text between its stops: list of tuples."""
    pieces = [[]]
    for token in text:
        pieces.append([]) if token in STOPS else pieces[-1].append(token)
    return list(map(tuple, pieces))


def test_cutting_a_grammar_is_cutting_its_texts():
    pieces = [pieces_of(text) for text in texts_of(SMALL)]
    wanted = [
        {p[0] for p in pieces if len(p) == 1},
        {p[0] for p in pieces if len(p) > 1},
        {piece for p in pieces for piece in p[1:-1]},
        {p[-1] for p in pieces if len(p) > 1},
    ]
    assert [set().union(*map(texts_of, nodes)) for nodes in cut(SMALL)] == wanted


@pytest.mark.parametrize("node", cut(SMALL).first + cut(SMALL).middle + cut(SMALL).last)
def test_begins_and_yields_agree_with_all_texts(node):
    texts = texts_of(node)
    beginnings = {text[:n] for text in texts for n in range(len(text) + 1)}
    for length in range(5):
        for words in itertools.product("a b c d e and but".split(), repeat=length):
            assert yields(node, list(words)) == (words in texts)
            assert begins(node, list(words)) == (words in beginnings)


def test_no_sentence_contains_a_stop():
    for first, later in SENTENCES.values():
        assert STOPS.isdisjoint(first.vocabulary | later.vocabulary)
    assert set(SENTENCES) == set(REVIEWS)


# ---- texts ----
@pytest.mark.parametrize("count", [1000, pytest.param(40_000, marks=pytest.mark.nightly)])
def test_every_review_of_the_grammar_is_accepted(count):
    rng = random.Random(count)
    texts = (reviews.detokenize(ALL_REVIEWS.sample(rng)) for _ in range(count))
    assert [text for text in texts if not accepted(text)] == []


def test_every_beginning_of_a_review_is_unbroken():
    rng = random.Random(1)
    for _ in range(150):
        tokens = ALL_REVIEWS.sample(rng)
        for n in range(1, len(tokens)):
            assert not breaks(reviews.detokenize(tokens[:n])), tokens[:n]


def test_reviews_of_many_sentences_are_accepted():
    rng = random.Random(2)
    assert all(accepted(long_review(rng, 1 + i % 8)) for i in range(400))


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("the soup was tasty. the waiter was polite. the bread was fresh.", [ACCEPTED] * 3),
        ("the soup was tasty. in short, we loved it.", [ACCEPTED] * 2),
        ("in short, we loved it. the soup was tasty.", [BROKEN, ACCEPTED]),  # it sums up nothing
        ("i watched this film. i watched this film.", [ACCEPTED, BROKEN]),  # opens once
        ("i watched this film. the soup was tasty.", [ACCEPTED, BROKEN]),  # two domains
        ("we loved it. the room was clean. the plot was clever.", [ACCEPTED, ACCEPTED, BROKEN]),
        # "plot" is of films and books: a sentence of either may follow, and then it is decided
        ("the plot was clever. the acting was good. the style was dry.", [ACCEPTED] * 2 + [BROKEN]),
        ("the plot was clever. the style was dry.", [ACCEPTED] * 2),
        ("the soup was tasty. the waiter was", [ACCEPTED, UNFINISHED]),
        ("the soup was tasty. waiter the", [ACCEPTED, BROKEN]),
        ("the soup was tasty. the plot was", [ACCEPTED, BROKEN]),  # unfinished, of another domain
        ("the soup was. tasty.", [BROKEN, BROKEN]),
        ("the soup was tasty! !", [ACCEPTED]),
        ("the soup was tasty..", [ACCEPTED, BROKEN]),
        ("", [BROKEN]),
        ("!", [BROKEN]),
    ],
)
def test_each_sentence_is_judged(text, wanted):
    assert [sentence.status for sentence in judge(reviews.tokenize(text))] == wanted


@given(st.lists(st.sampled_from([".", "!", "a", "b"])))
def test_splitting_keeps_every_word_in_order(tokens):
    found = split(tokens)
    assert [w for words, _ in found for w in words] == [t for t in tokens if t not in STOPS]
    assert all(stop in STOPS for _, stop in found[:-1])
    assert len(found) <= 1 + len([t for t in tokens if t in STOPS])
