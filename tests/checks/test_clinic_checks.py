"""Exercises of lesson 09: planted wrong repairs and rules are named, right ones pass however written."""

import pytest
import torch
from clinic_answers import (
    END,
    RETURNS,
    RIGHT_REPAIRS,
    RIGHT_RULES,
    WRONG_REPAIRS,
    WRONG_RULES,
    edited,
)

from helpers.checks import check_my_rule, check_steps_5_and_6
from helpers.checks.clinic import own_rule
from helpers.checks.clinic.repair import RESULTS, as_found, expected, observe, right, trainable
from helpers.checks.trainer.inputs import recorded
from helpers.experiments.clinic import load_clinic
from helpers.experiments.diagnose import average, diagnose


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_there_are_enough_of_all():
    assert len(WRONG_REPAIRS) >= 30 and len(RIGHT_REPAIRS) >= 6
    assert len(WRONG_RULES) >= 12 and len(RIGHT_RULES) >= 6


@pytest.mark.parametrize("edits", RIGHT_REPAIRS, ids=range(len(RIGHT_REPAIRS)))
def test_a_right_repair_passes_however_written(edits):
    report = check_steps_5_and_6(edited(*edits))
    assert report.status == "correct", report


@pytest.mark.parametrize(("name", "edits"), WRONG_REPAIRS, ids=range(len(WRONG_REPAIRS)))
def test_a_wrong_repair_is_named(name, edits):
    report = check_steps_5_and_6(edited(*edits))
    assert report.status == "mistake", report
    assert name is None or report.mistake == name, report
    assert "traceback" not in str(report).lower()


def test_the_first_result_that_goes_wrong_is_named():
    wrong_twice = (
        ("last] += scores", "last] = scores"),
        ("    returns = (advantages + values)", "    returns = (rewards + values)"),
    )
    assert "wrong result: the rewards" in check_steps_5_and_6(edited(*wrong_twice)).message
    second = check_steps_5_and_6(edited(wrong_twice[1]))
    assert "Right so far: rewards, advantages." in second.message and second.look


def test_what_was_found_is_not_attempted_yet():
    for answer in (as_found, None, NotImplemented):
        assert check_steps_5_and_6(answer).status == "not attempted"


def test_only_a_function_that_runs_is_trained_with():
    fails = [edits for name, edits in WRONG_REPAIRS if name in ("exception", "wrong type")]
    assert len(fails) >= 3 and all(trainable(edited(*edits)) is as_found for edits in fails)
    for function in (edited(), edited(("last] += scores", "last] = scores"))):
        assert trainable(function) is function  # a wrong one may show its curves


def test_the_parts_give_what_the_course_s_own_steps_give():
    given = recorded()
    course = given.rewards
    assert torch.allclose(expected()["rewards"], course, atol=1e-6)
    wrong = observe(as_found)
    assert all(not torch.allclose(wrong[name], observe(right)[name], atol=1e-3) for name in RESULTS)


@pytest.mark.parametrize("rule", RIGHT_RULES, ids=lambda rule: rule.__name__)
def test_a_right_rule_passes(rule):
    report = check_my_rule(rule)
    assert report.status == "correct" and "0 of 12 healthy runs" in report.message, report


@pytest.mark.parametrize(("name", "rule"), WRONG_RULES, ids=range(len(WRONG_RULES)))
def test_a_wrong_rule_is_named(name, rule):
    report = check_my_rule(rule)
    assert report.status == "mistake", report
    assert name is None or report.mistake == name, report


def test_a_limit_fitted_to_the_seen_seeds_is_told_so():
    seen = [run for run in own_rule.recorded() if run.healthy and run.seed in own_rule.SEEN]
    unseen = [run for run in own_rule.recorded() if run.healthy and run.seed in own_rule.UNSEEN]
    for metric in own_rule.READABLE:
        limit = max(run.history[-1][metric] for run in seen)
        if any(run.history[-1][metric] > limit for run in unseen):
            report = check_my_rule(lambda h, m=metric, x=limit: h[-1][m] > x)
            assert report.mistake == "fitted to the seen seeds", report
            return
    raise AssertionError("the seen seeds bound the unseen ones in every metric")


def test_the_best_kinds_of_rule_are_praised():
    """One fault alone; and the one that `diagnose` misses, by the metric that the lesson's hint names."""
    later = next(rule for rule in RIGHT_RULES if rule.__name__ == "ratio_later")
    assert "One fault alone" in check_my_rule(later).message
    message = check_my_rule(lambda history: average(history, "policy_loss") < -0.0196).message
    assert (
        "what the rules miss: `diagnose` does not find clip_max" in message
        and "One fault alone" not in message
    )
    per_clipped = check_my_rule(
        lambda h: average(h, "approx_kl") / average(h, "clip_fraction") > 0.41
    )
    assert per_clipped.mistake == "fitted to the seen seeds", "the hint may name it now"


def test_what_diagnose_misses_is_named_rightly():
    clinic = load_clinic()
    kinds = {run.kind for run in own_rule.recorded() if not run.healthy}
    missed = [
        kind for kind in kinds if not all(map(diagnose, clinic.histories(kind, own_rule.UNSEEN)))
    ]
    assert sorted(missed) == sorted(own_rule.MISSED)


def test_a_cut_answer_ends_with_dots_and_the_third_mistake_is_not_told():
    assert "…, a list" in check_my_rule(lambda history: [False] * 9).message
    without = edited(
        ("delta = rewards[:, t] + gamma * following", "delta = rewards[:, t] + following")
    )
    message = check_steps_5_and_6(without).message
    assert "γ = 0.97" in message and "curve" not in message and "δ" not in message


def test_what_is_returned_is_said_as_it_is():
    assert "9, an int." in check_my_rule(lambda history: 9).message
    two = check_steps_5_and_6(edited((END, "    return rewards, advantages"))).message
    assert "You return 2 results; 3 are asked." in two
    last = check_steps_5_and_6(edited((END, "    return rewards, advantages, 0"))).message
    assert "Your result 3 is an int, no tensor." in last


def test_words_about_advantages_are_not_said_of_returns():
    """Returns that fit another mistake's advantages, beside right ones."""
    steps = "    far, after = torch.zeros_like(values), torch.zeros(len(values))\n"
    steps += "    for t in reversed(range(values.shape[1])):\n"
    steps += "        later = values[:, t + 1] if t + 1 < values.shape[1] else 0.0\n"
    steps += "        after = rewards[:, t] + gamma * later - values[:, t] + lam * after\n"
    steps += "        far[:, t] = after\n    returns = (far + values) * counted\n"
    report = check_steps_5_and_6(edited((RETURNS, steps)))
    assert report.mistake == "no γ in the sum", report
    assert "They fit other advantages than yours." in report.message


def test_a_rule_sees_no_gold():
    assert not any(set(own_rule.SECRET) & set(run.history[0]) for run in own_rule.recorded())
    assert {run.seed for run in own_rule.recorded()} == set(range(6))


def test_a_zero_is_shown_without_a_sign():
    report = check_steps_5_and_6(edited(("last] += scores", "last] = scores")))
    shown = dict(report.case)["expected"]
    assert ", 0, 0]" in shown and "-0," not in shown and "-0]" not in shown
