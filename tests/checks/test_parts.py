"""Large exercises whose results are looked at one after the other: the first wrong one is named."""

from itertools import product

import pytest
import torch
from gae_answers import walk

from helpers import checks
from helpers.checks import best_of, own_reward
from helpers.checks.compare import alike, right
from helpers.checks.credit import RESULTS
from helpers.world.gold import gold_score
from helpers.world.labelling import flatters

TABLE = [(i, m) for i, part in enumerate(RESULTS.values()) for m in part.mistakes]


@pytest.mark.parametrize(("index", "mistake"), TABLE, ids=lambda x: getattr(x, "name", str(x)))
def test_a_mistake_in_one_result_is_named_and_placed(index, mistake):
    def answer(*given):
        found = list(walk(*given))
        found[index] = mistake.wrong(*given)
        return found

    report = checks.check_credit(answer)
    assert (report.status, report.mistake) == ("mistake", mistake.name), report
    assert f"gives the {list(RESULTS)[index]}" in report.message and "{" not in report.message


@pytest.mark.parametrize("name", RESULTS)
def test_no_two_mistakes_coincide_and_none_is_right(name):
    part = RESULTS[name]
    made = [[m.wrong(*probe) for probe in part.probes] for m in part.mistakes]
    expected = [part.reference(*probe) for probe in part.probes]
    for i, mine in enumerate(made):
        assert not all(map(right, mine, expected)), part.mistakes[i].name
        for k in range(i):
            assert not all(map(alike, mine, made[k])), (
                part.mistakes[i].name,
                part.mistakes[k].name,
            )


def test_a_later_mistake_does_not_hide_an_earlier_one():
    def answer(*given):
        deltas, advantages, returns, to_go = walk(*given, slip="plus")
        return deltas, -advantages, returns, to_go

    assert checks.check_credit(answer).mistake == "V with a plus"


@pytest.mark.parametrize("stub", [None, ..., lambda *given: NotImplemented])
def test_a_stub_is_not_attempted(stub):
    assert checks.check_credit(stub).status == "not attempted"


def test_the_learner_s_own_line_is_told():
    def answer(rewards, values, gamma, lam, mask):
        return rewards + nothing  # noqa: F821

    assert "`return rewards + nothing" in checks.check_credit(answer).message


BEST = [(i, m) for i, part in enumerate(best_of.RESULTS.values()) for m in part.mistakes]


@pytest.mark.parametrize(("index", "mistake"), BEST, ids=lambda x: getattr(x, "name", str(x)))
def test_a_mistake_in_best_of_n_is_named_and_placed(index, mistake):
    def answer(*given):
        found = [part.reference(*given) for part in best_of.RESULTS.values()]
        found[index] = mistake.wrong(*given)
        return found

    report = checks.check_keep_best(answer)
    assert (
        report.status == "mistake" and f"gives the {list(best_of.RESULTS)[index]}" in report.message
    )
    same = [m for _, m in BEST if m.name == report.mistake]
    assert mistake.says.split("{")[0] in report.message or mistake in same, report


def test_flattery_is_a_sentence_of_the_world_and_worth_no_gold():
    for sentence in own_reward.SENTENCES:
        assert flatters(sentence) and own_reward.flatters(sentence)
        for text in own_reward.REVIEWS:
            assert gold_score(f"{text} {sentence}") == pytest.approx(gold_score(text))
            assert not flatters(text) and not own_reward.flatters(text)


def test_best_of_n_agrees_with_all_draws_one_by_one():
    scores, gold, n = best_of.PROBES[2]
    size = scores.shape[1]
    kept = torch.zeros_like(scores)
    for row in range(len(scores)):
        for draw in product(range(size), repeat=n):
            top = max(float(scores[row, i]) for i in draw)
            best = [i for i in range(size) if float(scores[row, i]) == top]
            for i in best:
                kept[row, i] += 1 / len(best) / size**n
    assert torch.allclose(kept, best_of.chances(scores, gold, n), atol=1e-6)
