"""The texts of several runs side by side: those of the slider's iteration, escaped, as they were recorded."""

import json

import pytest

from helpers.config import RLHFConfig
from helpers.kit.two_policies import SideBySide
from helpers.studies.runs import Run, Sample, Snapshot


def run(name: str, iterations: tuple = (0, 5)) -> Run:
    shots = [
        Snapshot(i, {"the soup": [Sample([], [], [], f"the soup of <{name}> at {i}.", i / 10)]}, {})
        for i in iterations
    ]
    return Run(RLHFConfig(), snapshots=shots)


@pytest.fixture
def page() -> SideBySide:
    return SideBySide({"A": run("one"), "B": run("two")}, (0, 5))


def test_each_run_s_text_and_score_at_the_slider_s_iteration(page):
    assert "&lt;one&gt; at 5." in page.message.value and "&lt;two&gt; at 5." in page.message.value
    page.controls["iteration"].value = 0
    assert "&lt;one&gt; at 0." in page.message.value and "at 5." not in page.message.value
    assert "+0.00" in page.message.value
    drawn = page.message.value.split('data-drawn-for="')[1].split('"')[0].replace("&#34;", '"')
    assert json.loads(drawn) == {"iteration": "0"}


def test_without_a_kernel_the_first_and_the_last_stand_there(page):
    assert "at 0." in page.still() and "at 5." in page.still()


def test_an_iteration_that_was_not_recorded_is_named():
    with pytest.raises(ValueError, match=r"iterations: got \[3\] of B, wants some of \[0, 5\]"):
        SideBySide({"A": run("one", (0, 3)), "B": run("two")}, (0, 3))
