"""Predictions: nothing is shown before the reader commits, and nothing can be changed after."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.kit.predict import RIGHT, predict_choice, predict_curve, predict_value

QUESTION, WHY = "What does gold do as β falls?", "It turns <where> the proxy goes on."
CHOICES = {"it rises": "Only at first.", "it turns": RIGHT, "it falls": "Not at first."}


def choice():
    return predict_choice(QUESTION, CHOICES, WHY)


def value(**changes):
    numbers = {"truth": 2.5, "low": 0.0, "high": 10.0, "step": 0.5, "tolerance": 0.5}
    return predict_value(QUESTION, **numbers | changes, explanation=WHY, unit="nats")


def curve(**changes):
    settings = {"x": [0, 1, 2], "truth": [0.0, 2.0, 1.0], "low": 0.0, "high": 2.0}
    return predict_curve(
        QUESTION, **settings | changes, explanation=WHY, remark=lambda y: "No turn."
    )


def words(made) -> str:
    return made.message.value


@pytest.mark.parametrize("make", [choice, value, curve])
def test_nothing_is_told_before_an_answer(make):
    made = make()
    assert made.button.disabled and words(made) == "" and made.committed is None
    made.button.click()
    assert "prediction: got none yet" in words(made) and WHY[:8] not in words(made)


@pytest.mark.parametrize(("picked", "right"), [("it turns", True), ("it rises", False)])
def test_a_choice_is_judged_and_remarked_on(picked, right):
    made = choice()
    made.controls[0].value = picked
    assert words(made) == "" and not made.button.disabled
    made.button.click()
    assert made.committed[0] == right
    assert ("Right." in words(made)) == right and CHOICES[picked] in words(made)
    assert "turns &lt;where&gt;" in words(made)  # a text is never markup
    assert made.button.disabled and made.controls[0].disabled
    before = words(made)
    made.button.click()
    assert words(made) == before


@given(st.integers(0, 20))
def test_a_number_is_right_within_its_tolerance_and_told_the_side_it_is_off(stop):
    made = value()
    guess = stop / 2
    made.controls[0].value = guess
    if made.button.disabled:  # where the slider started: it has to be moved
        assert guess == 5.0
        return
    made.button.click()
    assert made.committed[0] == (abs(guess - 2.5) <= 0.5)
    assert ("It is more" in words(made)) == (guess < 2.0)
    assert ("It is less" in words(made)) == (guess > 3.0)
    assert "It is 2.5 nats." in words(made)


@pytest.mark.parametrize(("truth", "start"), [(2.5, 5.0), (5.0, 0.0), (5.5, 0.0)])
def test_a_slider_does_not_start_on_the_answer(truth, start):
    assert value(truth=truth).controls[0].value == start


def test_a_curve_is_drawn_point_by_point_and_judged_by_its_mean_distance():
    made = curve()
    hidden = made.box.children[2].value
    made.controls[1].value = 2.0
    drawn = made.box.children[2].value
    assert drawn != hidden
    made.controls[0].value = 0.0
    made.button.click()
    assert made.committed[0] and made.box.children[2].value not in (hidden, drawn)
    flat = curve()
    flat.controls[1].value = 0.9
    flat.button.click()
    assert not flat.committed[0] and "No turn." in words(flat)


@pytest.mark.parametrize("make", [choice, value, curve])
def test_without_a_kernel_question_and_folded_answer_stand_there(make):
    page = str(make().folded())
    before, after = page.split("<details>")
    assert QUESTION in before and "&lt;where&gt;" not in before
    assert "&lt;where&gt;" in after and page.count("<summary>") == 1
    choices = make().choices
    assert all(f"<li>{choice}</li>" in before for choice in choices)
    assert len(choices) == {choice: len(CHOICES), value: 1, curve: 0}[make]
    make()._ipython_display_()
