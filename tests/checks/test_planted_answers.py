"""Planted wrong answers are named, right ones pass however written: 00, 02, 05, 07, 08 and 10–13."""

import chat_answers
import direct_answers
import further_answers
import gae_answers
import group_answers
import group_step_answers
import loop_answers
import optimum_answers
import overoptimization_answers
import pytest
import reward_answers
import scaling_answers
import torch

from helpers import checks

PLANTED = (
    loop_answers,
    gae_answers,
    group_answers,
    group_step_answers,
    direct_answers,
    reward_answers,
    scaling_answers,
    chat_answers,
    overoptimization_answers,
    optimum_answers,
)
ALL = (*PLANTED, further_answers)  # the last: right on ordinary inputs and wrong further out
RIGHT = [answer for module in ALL for answer in module.RIGHT]
WRONG = [answer for module in ALL for answer in module.WRONG]


def label(value):
    return value if isinstance(value, str) else ""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("module", PLANTED)
def test_there_are_enough_of_both(module):
    exercises = len({name for name, *_ in module.WRONG})
    assert len(module.WRONG) >= 10 * exercises and len(module.RIGHT) >= 6


@pytest.mark.parametrize(("name", "function"), RIGHT, ids=label)
def test_a_right_answer_passes_however_written(name, function):
    found = getattr(checks, f"check_{name}")(function)
    assert found.status == "correct", found


@pytest.mark.parametrize(("name", "mistake", "function"), WRONG, ids=label)
def test_a_wrong_answer_is_named(name, mistake, function):
    found = getattr(checks, f"check_{name}")(function)
    assert (found.status, found.mistake) == ("mistake", mistake), found


def test_a_function_that_remembers_its_calls_is_named():
    made = []

    def mean(x, mask):
        made.append(0)
        return x[mask].mean() + (len(made) == len(checks.EXERCISES["masked_mean"].probes) * 2 + 1)

    assert checks.check_masked_mean(mean).mistake == "another result the second time"
