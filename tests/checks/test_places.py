"""Where wrong numbers stand is told when nothing else is known of them."""

import pytest
import torch

from helpers.checks.judging.places import place_of

MASK = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
RIGHT = torch.arange(12.0).view(3, 4) * MASK
ROWS = torch.arange(3)[:, None]
PLACES = [
    ("every row but the first", (ROWS > 0) & MASK),
    ("the last row", (ROWS == 2) & MASK),
    ("rows without padding", (ROWS == 1) & (torch.arange(4) > 1)),
    ("the first counted token of a row", MASK & (torch.arange(4) == 0)),
    ("all but the first counted token of a row", MASK & (torch.arange(4) > 0)),
]


@pytest.mark.parametrize(("words", "wrong"), PLACES, ids=[words for words, _ in PLACES])
def test_a_place_is_named(words, wrong):
    name, says = place_of([(RIGHT + 0.37 * wrong, RIGHT)], [MASK])
    assert name == f"wrong in {words}" and words in says


def test_a_place_must_be_the_same_in_each_case():
    pairs = [(RIGHT + 1.0 * ((ROWS == k) & MASK), RIGHT) for k in (0, 2)]
    assert place_of(pairs, [MASK, MASK]) is None


def test_numbers_that_are_wrong_everywhere_have_no_place():
    assert place_of([(RIGHT + 1, RIGHT)], [None]) is None
    assert place_of([(torch.ones(3), torch.zeros(3))], [None]) is None
