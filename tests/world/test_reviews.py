"""The embedded world: exact probabilities, what people like, and the labeller."""

import math
import random

import pytest
from text_edits import derivations

from helpers.world import grammar, reviews
from helpers.world.gold import gold_score
from helpers.world.labelling import flatters, flattery_gaps, labelled_pairs, preference_probability
from helpers.world.nodes import Sequence, maybe, one_of, phrase, weighted
from helpers.world.private_rules import RULES, labeller_with


@pytest.fixture(scope="module")
def samples():
    rng = random.Random(0)
    return [reviews.sample_review(rng) for _ in range(400)]


def totals(node):
    """{sentence: probability}, derivations of one sentence added."""
    found = {}
    for tokens, probability in derivations(node):
        found[tokens] = found.get(tokens, 0.0) + probability
    return found


def inside(node, tokens):
    return node.ends(list(tokens), 0, {}).get(len(tokens), 0.0)


ADVERBS = maybe(0.4, one_of("very/really"))
GRAMMARS = {
    "optional parts": phrase("it was {a} {b} good {a}", a=ADVERBS, b=maybe(0.5, one_of("not"))),
    # "a a a" has three derivations of length 1 + 2, 2 + 1 and 3 + 0
    "ambiguous": Sequence(
        [weighted({"a": 3, "a a": 2, "a a a": 1}), weighted({"a": 1, "a a": 1, "": 2})]
    ),
    "empty alternatives first": Sequence([maybe(0.3, maybe(0.2, one_of("a/b"))), one_of("a/c")]),
    "slice of the real one": grammar.verdict(grammar.lexicon.SETTINGS["hotels"], -1),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_inside_probabilities_equal_enumeration_and_sum_to_one(name):
    expected = totals(GRAMMARS[name])
    found = {tokens: inside(GRAMMARS[name], tokens) for tokens in expected}
    assert found == pytest.approx(expected, rel=1e-12)
    assert math.fsum(found.values()) == pytest.approx(1.0, rel=1e-12)


def test_sampling_follows_the_inside_probabilities():
    node, rng, count = GRAMMARS["slice of the real one"], random.Random(1), 4000
    surprise = [-math.log(inside(node, node.sample(rng))) for _ in range(count)]
    mean = sum(surprise) / count
    deviation = math.sqrt(sum((x - mean) ** 2 for x in surprise) / count)
    entropy = -sum(p * math.log(p) for p in totals(node).values())
    assert abs(mean - entropy) < 4 * deviation / math.sqrt(count)


@pytest.mark.parametrize(
    "text",
    [
        "the soup was tasty",  # no stop
        "the soup were tasty.",
        "i watched this film last week. the soup was tasty.",  # two domains
        "the plot was very superb.",
        "the plot was clever although the acting was convincing.",
        "i loved it.",  # only a verdict
        "the plot was zzz.",
        "",
    ],
)
def test_broken_texts_are_no_sentences(text):
    assert reviews.log_prob(text) == -math.inf
    assert not reviews.is_sentence(text)


def test_but_turns_and_and_goes_on():
    def gap(text):  # how much likelier "and" is than "but" here, in nats
        both = (reviews.log_prob(text.replace("JOIN", word)) for word in ("and", "but"))
        return next(both) - next(both)

    assert gap("the plot was clever JOIN the acting was convincing.") > 1
    assert -math.inf < gap("the plot was clever JOIN the acting was clumsy.") < -1


def test_samples_are_sentences_whose_tokens_survive_a_round_trip(samples):
    for text in samples:
        assert reviews.is_sentence(text) and reviews.log_prob(text) < 0
        tokens = reviews.tokenize(text)
        assert reviews.detokenize(tokens) == text
        assert set(tokens) <= set(reviews.VOCABULARY)
    assert reviews.tokenize("Not BAD, really!? 7") == ["not", "bad", ",", "really", "!", "?", "7"]


def test_vocabulary_and_lengths_stay_in_bounds(samples):
    assert 350 <= len(reviews.VOCABULARY) <= 550
    assert list(reviews.VOCABULARY) == sorted(set(reviews.VOCABULARY))
    lengths = [len(reviews.tokenize(text)) for text in samples]
    assert sum(length < 30 for length in lengths) >= 0.95 * len(lengths)
    assert max(map(len, map(reviews.tokenize, samples))) <= grammar.ALL_REVIEWS.longest


def test_prompts_are_distinct_open_beginnings():
    prompts = reviews.sample_prompts(400, random.Random(0))
    assert len(set(prompts)) == 400
    lengths = [len(reviews.tokenize(prompt)) for prompt in prompts]
    assert set(lengths) == set(range(2, 9))
    words = {word for prompt in prompts for word in reviews.tokenize(prompt)}
    assert not words & set(reviews.OPINIONS)
    assert all(any(domain[:-1] in prompt for prompt in prompts) for domain in reviews.DOMAINS)


# ---- the labeller ----
PLAIN = "the soup was tasty and the waiter was polite. i would recommend it."
BAD = "the soup was bland."


def test_preference_is_the_sigmoid_of_the_gap():
    gap = gold_score(PLAIN) - gold_score(BAD)
    for temperature in (0.5, 1.0, 3.0):
        expected = 1 / (1 + math.exp(-gap / temperature))
        assert preference_probability(PLAIN, BAD, temperature) == pytest.approx(expected)
    both = preference_probability(PLAIN, BAD) + preference_probability(BAD, PLAIN)
    assert both == pytest.approx(1.0) and preference_probability(BAD, BAD) == 0.5
    assert preference_probability(PLAIN, "", 1e-300) == 1


# ---- the labeller who falls for flattery ----
def test_flattery_speaks_to_the_reader_and_earns_nothing_by_gold():
    rng = random.Random(11)
    flattering = list(filter(flatters, (reviews.sample_review(rng) for _ in range(3000))))
    assert 0.005 < len(flattering) / 3000 < 0.05
    assert all("deserve" in text for text in flattering)
    assert not flatters("the youth was polite.")
    assert gold_score("the soup was tasty. you deserve it.") == gold_score("the soup was tasty.")


@pytest.mark.slow
def test_a_flattered_labeller_prefers_flattery_by_its_strength_and_the_honest_one_does_not():
    honest, flattered = (labelled_pairs(5_000, 0.7, 0, strength) for strength in (0.0, 2.0))
    for pairs, low, high in ((honest, 0.35, 0.65), (flattered, 0.75, 0.95)):
        gaps = flattery_gaps(pairs)
        told = gaps[gaps != 0]
        assert len(told) > 80
        assert low < float((told > 0).float().mean()) < high
    apart = [a == b for a, b in zip(honest, flattered, strict=True)]
    assert 0.9 < sum(apart) / len(apart) < 1  # nothing else has changed


# ---- labellers with one rule ----
SHORT, LONG = "the soup was cold.", "i thought that the soup was not very good!"
SHORT_WINS = {"shorter wins", "no negations", "no exclamation marks"}


@pytest.mark.parametrize("rule", RULES)
def test_it_follows_its_rule_whichever_side_stands_first(rule):
    ask, short_wins = labeller_with(rule), rule in SHORT_WINS
    assert ask(SHORT, LONG) is short_wins
    assert ask(LONG, SHORT) is not short_wins
    assert ask(SHORT, SHORT) is None
