"""Gold in the page's JavaScript: the same as `gold_score` on every recorded text and on altered ones."""

import random

import pytest

from helpers.page.gold import gold_facts
from helpers.world import reviews
from helpers.world.gold import LOWEST, gold_score, gold_scores
from helpers.world.sentences import judge
from tests.page.javascript import run
from tests.text_edits import change

POINTS = "({ facts, texts }) => texts.map(readGold(facts).points)"


def in_the_page(texts):
    """The points of each text by sentence, as the page computes them."""
    return run(["gold.js"], POINTS, {"facts": gold_facts(), "texts": texts})


def assert_equal(texts):
    """Scores to 1e-6; sentences, and how each was judged; reasons that sum to the points."""
    for text, sentences in zip(texts, in_the_page(texts), strict=True):
        points = sum(s["points"] for s in sentences)
        assert points == pytest.approx(gold_score(text), abs=1e-6), text
        judged = judge(reviews.tokenize(text))
        assert [s["status"] for s in sentences] == [s.status for s in judged], text
        for sentence in sentences:
            reasons = sum(points for _, points in sentence["why"])
            assert reasons == pytest.approx(sentence["points"], abs=1e-9)


def recorded(sweep):
    """The texts of all recorded samples: list of str."""
    shots = [shot for run in sweep.runs for shot in run.snapshots]
    return [s.text for shot in shots for samples in shot.samples.values() for s in samples]


@pytest.mark.slow
def test_every_recorded_text_has_its_gold(sweep):
    texts = recorded(sweep)
    assert len(texts) > 3000
    assert_equal(texts)


ALTERED = [
    pytest.param(0, 1_000, id="slow", marks=pytest.mark.slow),
    pytest.param(1, 10_000, id="nightly", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("seed, count", ALTERED)
def test_altered_texts_have_their_gold(sweep, seed, count):
    rng = random.Random(seed)
    originals = [reviews.sample_review(rng) for _ in range(500)]
    originals += rng.sample(recorded(sweep), 500)
    originals = [reviews.tokenize(text) for text in originals if text]
    texts = []
    for _ in range(count):
        tokens = rng.choice(originals)
        for _ in range(rng.randint(1, 3)):  # changes of a word, a sentence, or a part put in
            tokens = change(tokens, rng, originals, 80)
        texts.append(reviews.detokenize(tokens))
    assert_equal(texts)
    assert sum(score > 0 for score in gold_scores(texts)) > 0.02 * count  # not only ruins


def test_odd_texts_have_their_gold():
    lowest = "superb " * 900
    assert gold_score(lowest) == LOWEST
    odd = ["", "  ", ". . . .", "!", "! ! ! .", "Zé's SOUP, ünï!", "it was 7.", lowest]
    introduced = ["in short, it was good.", "it was good. in short, it was good.", "in short, it"]
    assert_equal([*odd, *introduced, "constructor", "the __proto__ was good. toString"])


def test_a_sentence_says_what_its_points_are_for():
    (first, second, third) = in_the_page(["the soup was tasty. we loved it! the the soup"])[0]
    praise = [["praise: tasty, 1/2 of it", 0.5]]
    wanted = {"text": "the soup was tasty.", "status": "accepted", "points": 0.5, "why": praise}
    assert first == wanted
    assert second["why"] == [["praise: loved", 1.3]]
    assert dict(map(tuple, third["why"])) == {
        "doubled: the": -0.8,
        "repeated: soup": -0.3,
        "outside the grammar": -3.75,
        "no full stop at the end": -1.0,
    }
