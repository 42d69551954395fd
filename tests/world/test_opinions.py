"""Opinions and contradictions found in a text."""

import pytest

from helpers.world.opinions import find_contradictions, find_opinions
from helpers.world.reviews import tokenize


def values(text):
    return [opinion.value for opinion in find_opinions(tokenize(text))]


def test_negation_flips_and_softens():
    (good,), (bad,) = values("the soup was good."), values("the soup was not good.")
    assert bad < 0 < good and abs(bad) < good
    (milder,) = values("the soup was not very good.")
    assert bad < milder < 0
    assert values("the soup was never bad.")[0] > 0
    assert values("i would not recommend it.")[0] < 0


def test_negation_ends_with_its_clause():
    soup, waiter = values("the soup was not good but the waiter was polite.")
    assert soup < 0 < waiter


def test_degrees_order_the_opinion():
    order = ["slightly", "fairly", "quite", "", "very", "extremely"]
    found = [values(f"the soup was {degree} tasty.")[0] for degree in order]
    assert found == sorted(found) and len(set(found)) == len(found)


@pytest.mark.parametrize(
    "text, clashes",
    [
        ("the soup was tasty and the soup was bland.", True),
        ("the soup was tasty and the waiter was rude.", True),
        ("the soup was tasty but the waiter was rude.", False),
        ("we loved it and we hated it.", True),
        ("the soup was tasty. we loved it. we hated it.", True),
        ("the soup was tasty and the waiter was polite.", False),
    ],
)
def test_contradictions(text, clashes):
    assert bool(find_contradictions(find_opinions(tokenize(text)))) == clashes
