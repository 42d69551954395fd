"""The texts of several runs side by side: those of the slider's iteration, escaped, as they were recorded."""

import json

import pytest

from helpers.config import RLHFConfig
from helpers.kit.coloured_words import shaded, token_span
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
    assert "at 0." in page.still() and "at 5." in page.still() and "<details>" not in page.still()


def test_the_last_may_be_folded_there_and_only_there():
    made = SideBySide({"A": run("one"), "B": run("two")}, (0, 5), fold=True)
    before, folded = made.still().split("<details>")
    assert "at 0." in before and "at 5." not in before and "at 5." in folded
    assert "<details>" not in made.message.value and "at 5." not in made.message.value


def test_an_iteration_that_was_not_recorded_is_named():
    with pytest.raises(ValueError, match=r"iterations: got \[3\] of B, wants some of \[0, 5\]"):
        SideBySide({"A": run("one", (0, 3)), "B": run("two")}, (0, 3))
    with pytest.raises(ValueError, match="runs"):
        SideBySide({}, (0,))


def test_the_prompts_may_stand_in_a_column_and_a_text_may_be_shaded():
    """Tokens of a subword tokenizer bring their blanks; colours and dots are the drift's, all is escaped."""
    sample = Sample([" I", "'m", " <b>"], [-0.1, -1.0, -2.0], [-3.1, -1.0, -0.5], "I'm <b>", 0.25)
    shots = [Snapshot(0, {"my <cat>": [sample]}, {})]
    made = SideBySide({"A": Run(RLHFConfig(), snapshots=shots)}, (0,), shaded, asked="said")
    html = made.message.value
    assert "my &lt;cat&gt;" in html and "&lt;b&gt;</span>" in html
    assert "<b>" not in html.split("</thead>")[-1]
    assert html.index("said") < html.index("A: score") and "+0.25" in html
    first, same, less = (
        token_span(*row)
        for row in zip(sample.tokens, sample.logprobs, sample.ref_logprobs, strict=True)
    )
    assert first in html and "+3.00 nats" in first and "word more" in first and ",0.62)" in first
    assert "style" not in same and "word less" in less and "dotted" in less
