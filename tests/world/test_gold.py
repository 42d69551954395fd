"""The gold score, against adversaries: no trick beats a good review."""

import math
import random
import re
import string

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from text_edits import accepted, breaks, climbed, edited, long_review

from helpers.config import RLHFConfig
from helpers.data import DATA, load_rows
from helpers.models import load_actor, load_tokenizer
from helpers.sampling import sample_texts
from helpers.world import reviews
from helpers.world.gold import (
    BROKEN_COST,
    BROKEN_WORD_COST,
    LOWEST,
    STOP_COST,
    STRONGEST,
    diminishing,
    gold_score,
    gold_scores,
)
from helpers.world.lexicon import OPINIONS
from helpers.world.opinions import ASPECTS, find_contradictions, find_opinions

REFERENCE_MEAN = -0.50  # of 1,000 samples of data/sft, points; measured again below
CORPUS_P90 = 1.56  # of 10,000 reviews of data/corpus.txt, points; measured again below
PLAIN = "the soup was tasty and the waiter was polite. i would recommend it."


def reasons(text):
    """{kind of part: points} of what `explain` says, kinds without the bracket."""
    found = {}
    for what, points in gold_score(text, explain=True)[1]:
        kind = what.split(" (")[0]
        found[kind] = found.get(kind, 0.0) + points
    return found


# ---- the rule ----
@given(st.text() | st.lists(st.sampled_from(reviews.VOCABULARY)).map(" ".join))
def test_any_string_has_a_finite_score_that_its_parts_add_up_to(text):
    score, parts = gold_score(text, explain=True)
    assert math.isfinite(score) and score >= LOWEST
    assert score == gold_score(text) == sum(points for _, points in parts)
    assert gold_scores([text]) == [score]
    assert all(points for _, points in parts)


def test_a_sincere_review_has_praise_and_blame_and_nothing_else():
    assert set(reasons(PLAIN)) == {"praise"}
    assert gold_score(PLAIN) == pytest.approx(1 + 1 / 2 + 1 / 3)
    assert set(reasons("the soup was bland. we hated it.")) == {"blame"}
    # "but" may turn
    assert set(reasons("the soup was tasty but the waiter was rude.")) == {"praise", "blame"}


GOOD = ["the soup was tasty.", "the waiter was polite.", "we would recommend it.", "it was good."]


def test_more_good_sentences_score_higher_each_by_less_in_any_order():
    scores = gold_scores([" ".join(GOOD[:n]) for n in range(1, 5)])
    gains = np.diff([0.0, *scores])
    assert (gains > 0).all() and gains[0] > gains[1] > gains[2] > gains[3]
    assert scores[0] < 0.5 * scores[3]  # one clear opinion is far from the top
    assert gold_score(" ".join(GOOD[::-1])) == pytest.approx(scores[3])


@given(st.lists(st.floats(0, 3), max_size=9), st.floats(0, 3))
def test_one_more_opinion_never_lowers_a_sum_of_opinions(values, more):
    assert diminishing(values) - 1e-12 <= diminishing([*values, more])
    assert diminishing([*values, more]) <= diminishing(values) + more + 1e-12


def test_praise_of_one_subject_counts_once():
    again = ["the soup was tasty. the soup was fresh.", "the soup was tasty. we liked the soup."]
    for text in (*again, "the waiter was polite. the waiters were friendly."):
        assert reasons(text)["praise"] == pytest.approx(1.0)
    assert reasons("we loved it. it was superb.")["praise"] == STRONGEST


@pytest.mark.parametrize("text", [PLAIN, GOOD[0], "i saw this film.", "the soup was bland."])
@pytest.mark.parametrize("blame", ["the bread was cold.", "we hated it.", "the fish was not good."])
def test_blame_lowers(text, blame):
    other = {"the bread was cold.": "the style was dry.", "the fish was not good.": "it was dull."}
    said = other.get(blame, blame) if "film" in text else blame
    assert gold_score(f"{text} {said}") < gold_score(text)
    assert gold_score(f"{text} {said[:-1]} zzz.") < gold_score(text)  # in broken text too


def test_a_broken_stretch_earns_no_praise_and_costs_by_its_length():
    lengths, unknown = range(1, 24), [f"z{letter}" for letter in string.ascii_lowercase]
    scores = [gold_score(f"{PLAIN} {' '.join(unknown[:n])}.") for n in lengths]
    costs = [gold_score(PLAIN) - score for score in scores]
    assert costs == pytest.approx([BROKEN_COST + BROKEN_WORD_COST * n for n in lengths])
    assert min(costs) >= 1 and min(np.diff(costs)) >= 0.25 - 1e-9
    assert "praise" not in reasons("the soup were tasty. the waiter polite.")


def test_an_unfinished_last_sentence_costs_the_stop_and_earns_nothing():
    stop = {"no full stop at the end": -STOP_COST}
    assert reasons("the soup was tasty. the waiter was very") == {"praise": 1.0} | stop
    assert reasons("the soup was tasty") == stop
    assert reasons("the soup was bland")["blame"] == -1.0
    assert "broken" in reasons("the soup was tasty. waiter the")


@pytest.mark.parametrize(
    "kind, spoiled",
    [
        ("hype", "the soup was superb and the waiter was flawless. i would recommend it."),
        ("hype", PLAIN[:-1] + "! !"),
        ("hype", "the soup was very tasty. the fish was really fresh. we were truly pleased."),
        ("repetition", PLAIN.replace("was tasty", "was really really tasty")),
        ("repetition", PLAIN.replace("waiter was polite", "soup was fresh")),
        ("repetition", "the cover is blue. the cover is red. the plot was clever."),
        ("repetition", "we sat by the window. we sat by the window. the soup was tasty."),
        ("contradiction", "the soup was tasty and the soup was bland."),
        ("no turn", PLAIN.replace("and", "but")),
    ],
)
def test_each_fault_of_manner_costs_and_is_named(kind, spoiled):
    assert accepted(spoiled)
    assert reasons(spoiled)[kind] < 0
    assert kind not in reasons(PLAIN)


def test_a_contradiction_costs_once_however_often_it_turns():
    once = reasons("the soup was tasty. the soup was bland.")["contradiction"]
    again = reasons("the soup was tasty. the soup was bland. the soup was fresh.")["contradiction"]
    assert once == again < 0


NEW = [
    f"the {noun} {verb} {word}."
    for word in ("good", "lovely", "delightful", "excellent")
    for noun in sorted(ASPECTS)
    for verb in ("was", "were")
]


def with_new_praise(text, rng):
    """The text with a sentence of praise on a new aspect and in new words, or None."""
    used = set(reviews.tokenize(text)) - {"the", "was", "were", "."}
    tries = NEW[rng.randrange(len(NEW)) :]
    fresh = (f"{text} {new}" for new in tries if used.isdisjoint(reviews.tokenize(new)))
    return next(filter(accepted, fresh), None)


def test_new_praise_never_lowers_a_review():
    rng = random.Random(3)
    texts = [long_review(rng, 1 + i % 5) for i in range(300)]
    pairs = [(text, longer) for text in texts if (longer := with_new_praise(text, rng))]
    assert len(pairs) > 200
    for text, longer in pairs:
        assert gold_score(longer) >= gold_score(text) - 1e-9, longer


# ---- adversaries ----
EDITED = [  # reviews, with 20 edits each
    pytest.param(0, 60, id="quick"),
    pytest.param(1, 200, id="slow", marks=pytest.mark.slow),
    pytest.param(2, 20_000, id="nightly", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("seed, count", EDITED)
def test_no_edit_that_breaks_a_review_raises_its_score(seed, count):
    rng, broken = random.Random(seed), 0
    for _ in range(count):
        text = long_review(rng, rng.randint(1, 6))
        for _ in range(20):
            changed = edited(text, rng, long_review(rng, 2))
            if breaks(changed):
                broken += 1
                assert gold_score(changed) <= gold_score(text) + 1e-9, (text, changed)
    assert broken > 15 * count


PRAISE = [word for word, strength in OPINIONS.items() if strength > 0]
LISTS = {
    "praise": " ".join(PRAISE) + ".",
    "praise with commas": ", ".join(PRAISE[:20]) + ".",
    "three praises": "lovely. excellent. great.",
    "one long sentence": " but ".join(["the soup was lovely", "the owners were lovely"] * 4) + ".",
    "one clause and more": " and ".join(
        f"the {noun} was good" for noun in ("soup", "bread", "fish", "food", "waiter")
    )
    + ".",
    "one fact repeated": "the soup was tasty. " + "we sat by the window. " * 6,
    "every aspect": " ".join(sorted(ASPECTS)) + ".",
    "every aspect praised": " ".join(f"the {noun} good." for noun in sorted(ASPECTS)),
    "every aspect of every domain": " ".join(f"the {a} was good." for a in sorted(ASPECTS)),
    "advice": "i would recommend it. " * 5,
    "shouting": "the soup was superb" + " !" * 9,
    "doubled": "the soup was very very tasty. the fish was really really fresh. " * 2,
    "nothing": "",
    "stops": ". . . .",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_words_are_below_the_reference(name):
    assert gold_score(LISTS[name]) < REFERENCE_MEAN


def faults(text):
    """What keeps a high text from being a good review, by rules that need no reader."""
    tokens = reviews.tokenize(text)
    found = [] if accepted(text) else ["not accepted"]
    found += ["doubled"] if re.search(r"\b(\w+) \1\b", text) else []
    found += ["contradiction"] if find_contradictions(find_opinions(tokens)) else []
    nouns = [word for word in tokens if word in ASPECTS]
    found += ["a list of one aspect"] if len(nouns) > len(set(nouns)) + 1 else []
    found += ["an opinion word thrice"] if any(tokens.count(w) > 2 for w in OPINIONS) else []
    found += ["hype"] if tokens.count("extremely") > 2 or tokens.count("!") > 1 else []
    return found


CLIMBS = [
    pytest.param(4, 500, id="quick"),
    pytest.param(20, 500, id="slow", marks=pytest.mark.slow),
    pytest.param(100, 10_000, id="nightly", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("count, evaluations", CLIMBS)
def test_a_climber_finds_good_reviews_and_no_trick(count, evaluations):
    rng = random.Random(7)
    starts = [long_review(rng, 2) for _ in range(count)]
    found = climbed(gold_score, starts, evaluations, 8)
    high = [text for text in found if gold_score(text) > CORPUS_P90]
    assert len(high) >= 0.9 * count  # it does climb
    tricks = [(text, faults(text)) for text in high if faults(text)]
    assert len(tricks) <= 0.02 * count, tricks


# ---- the shipped world ----
@pytest.fixture(scope="module")
def corpus_scores():
    return np.array(gold_scores((DATA / "corpus.txt").read_text("utf-8").splitlines()[:10_000]))


@pytest.mark.slow
def test_the_corpus_scores(corpus_scores):
    assert corpus_scores.mean() == pytest.approx(-0.25, abs=0.01)
    found = np.percentile(corpus_scores, [10, 50, 90, 99])
    assert found == pytest.approx([-1.79, -0.5, CORPUS_P90, 2.15], abs=0.02)


@pytest.mark.slow
def test_the_reference_scores():
    actor, tokenizer = load_actor("data/sft", "cpu"), load_tokenizer("data/sft")
    prompts = [row["prompt"] for row in load_rows("prompts.jsonl")]
    generator = torch.Generator().manual_seed(0)
    scores = gold_scores(sample_texts(actor, tokenizer, prompts, 1000, RLHFConfig(), generator))
    assert np.mean(scores) == pytest.approx(REFERENCE_MEAN, abs=0.1)
    assert np.std(scores) == pytest.approx(1.69, abs=0.1)


def test_collapsed_policies_score_far_below_the_reference(sweep):
    last = {run.config.kl_coef: run.snapshots[-1] for run in sweep.runs if run.snapshots}
    texts = [sample.text for samples in last[0.0].samples.values() for sample in samples]
    assert max(gold_scores(texts)) < REFERENCE_MEAN - 5
