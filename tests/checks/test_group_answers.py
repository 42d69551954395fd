"""Lesson 10's exercises: planted wrong answers are named, right ones pass however written."""

import pytest
import torch
from group_answers import RIGHT, WRONG

from helpers import checks


def label(value):
    return value if isinstance(value, str) else ""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def report(name, function):
    return getattr(checks, f"check_{name}")(function)


def test_there_are_enough_of_both():
    assert len(WRONG) >= 40 and len(RIGHT) >= 10


@pytest.mark.parametrize(("name", "function"), RIGHT, ids=label)
def test_a_right_answer_passes_however_written(name, function):
    found = report(name, function)
    assert found.status == "correct", found


@pytest.mark.parametrize(("name", "mistake", "function"), WRONG, ids=label)
def test_a_wrong_answer_is_named(name, mistake, function):
    found = report(name, function)
    assert (found.status, found.mistake) == ("mistake", mistake), found
