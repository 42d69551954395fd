"""What is right on ordinary inputs and wrong further out is named; right ones pass there too."""

import pytest
from further_answers import RIGHT, WRONG

from helpers import checks


def label(value):
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("name", "function"), RIGHT, ids=label)
def test_a_right_answer_passes_further_out(name, function):
    found = getattr(checks, f"check_{name}")(function)
    assert found.status == "correct", found


@pytest.mark.parametrize(("name", "mistake", "function"), WRONG, ids=label)
def test_a_wrong_answer_is_named_further_out(name, mistake, function):
    found = getattr(checks, f"check_{name}")(function)
    assert (found.status, found.mistake) == ("mistake", mistake), found


def test_a_function_that_remembers_its_calls_is_named():
    made = []

    def mean(x, mask):
        made.append(0)
        return x[mask].mean() + (len(made) == len(checks.EXERCISES["masked_mean"].probes) * 2 + 1)

    assert checks.check_masked_mean(mean).mistake == "another result the second time"
