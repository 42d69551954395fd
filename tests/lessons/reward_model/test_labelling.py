"""The human labeller: answers survive, undo works, the file stays training data, texts are escaped."""

import random

import pytest

from helpers.lessons.reward_model.labelling import LABELS, Labeller, fill_in, make_questions
from helpers.tools.files import FileProblem, read_jsonl
from helpers.world.labelling import preference_probability

PAIRS = [
    {"prompt": "the soup", "chosen": f"was good {k}.", "rejected": f"was <b>bad</b> & {k}."}
    for k in range(5)
]


@pytest.fixture
def labeller(tmp_path) -> Labeller:
    return Labeller(make_questions(PAIRS, 4, seed=3), tmp_path)


def test_questions_hide_which_side_was_chosen():
    questions = make_questions(PAIRS * 40, 200)
    first = sum(q["A"].startswith("was good") for q in questions)
    assert 60 < first < 140
    assert questions == make_questions(PAIRS * 40, 200)
    sides = [{question["A"], question["B"]} for question in questions]
    assert sides == [{pair["chosen"], pair["rejected"]} for pair in PAIRS * 40]


def test_equal_responses_are_not_asked_about():
    equal = {"prompt": "a", "chosen": "b", "rejected": "b"}
    assert make_questions([equal, *PAIRS], 1)[0]["A"] != "b"


def test_choices_are_training_rows_and_ties_are_not_kept(labeller, tmp_path):
    asked = [labeller.current]
    for choice in ("A", "B", "tie", "tie"):
        labeller.answer(choice)
        asked.append(labeller.current)
    rows = read_jsonl(tmp_path / LABELS)
    assert rows == labeller.labels
    assert [set(row) for row in rows] == [{"prompt", "chosen", "rejected"}] * 2
    assert rows[0]["chosen"] == asked[0]["A"] and rows[0]["rejected"] == asked[0]["B"]
    assert rows[1]["chosen"] == asked[1]["B"] and rows[1]["rejected"] == asked[1]["A"]
    assert labeller.current is None and "Thank you" in labeller.page.value
    assert all(labeller.buttons[name].disabled for name in ("A", "B", "tie"))


def test_a_later_session_finds_the_choices(labeller, tmp_path):
    labeller.answer("A")
    labeller.answer("B")
    labeller.answer("tie")
    later = Labeller(make_questions(PAIRS, 4, seed=99), tmp_path)  # sides may stand the other way
    assert later.labels == labeller.labels and later.answers.open_questions == [2, 3]
    assert "2 of 4" in later.page.value


def test_undo_takes_back_the_last_answer_of_this_or_an_earlier_session(labeller, tmp_path):
    questions = labeller.answers.questions
    for choice in ("A", "tie", "B"):
        labeller.answer(choice)
    labeller.undo()
    assert labeller.current == questions[2] and len(labeller.labels) == 1
    labeller.undo()
    assert labeller.current == questions[1] and len(labeller.labels) == 1
    later = Labeller(questions, tmp_path)
    later.undo()
    assert later.current == questions[0] and read_jsonl(tmp_path / LABELS) == []
    assert later.buttons["undo"].disabled
    later.undo()
    assert "nothing to undo" in later.message.value


def test_buttons_and_letters_do_the_same(labeller):
    labeller.buttons["A"].click()
    labeller.keys.value = " B "
    labeller.keys.value = "t"
    assert len(labeller.labels) == 2 and len(labeller.answers.open_questions) == 1
    assert labeller.keys.value == ""
    labeller.keys.value = "u"
    assert len(labeller.answers.open_questions) == 2
    labeller.keys.value = "<i>"
    assert len(labeller.answers.open_questions) == 2 and "<i>" not in labeller.message.value


@pytest.mark.parametrize("choice", ["a", "C", "", None, 1])
def test_anything_else_is_refused_and_nothing_kept(labeller, tmp_path, choice):
    with pytest.raises(ValueError, match="choice"):
        labeller.answer(choice)
    assert not (tmp_path / LABELS).exists()


def test_an_answer_that_cannot_be_written_does_not_count(labeller, monkeypatch):
    before = labeller.current

    def full(path, rows):
        raise OSError("disk full")

    monkeypatch.setattr("helpers.lessons.reward_model.labelling.write_jsonl", full)
    labeller.buttons["A"].click()
    assert labeller.current == before and "disk full" in labeller.message.value


def test_two_open_pages_keep_each_other_s_answers(labeller, tmp_path):
    other = Labeller(labeller.answers.questions, tmp_path)
    labeller.answer("A")
    other.answers.add(labeller.answers.questions[1], "B")
    assert len(read_jsonl(tmp_path / LABELS)) == 2


def test_a_broken_file_is_named_and_left_alone(tmp_path):
    (tmp_path / LABELS).write_text('{"prompt": "a", "cho')
    with pytest.raises(FileProblem, match="line 1"):
        Labeller(make_questions(PAIRS, 2), tmp_path)
    assert (tmp_path / LABELS).read_text() == '{"prompt": "a", "cho'


def test_the_answers_go_to_the_learner_s_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path / "mine"))
    Labeller(make_questions(PAIRS, 2)).answer("B")
    assert len((tmp_path / "mine" / LABELS).read_text().splitlines()) == 1


def test_with_nobody_clicking_a_stand_in_answers_and_nothing_is_written(labeller, tmp_path):
    labeller.answer("tie")
    rng = random.Random(0)
    rows, words = fill_in(labeller, lambda a, b: rng.random() < preference_probability(a, b))
    assert len(rows) == 3 and words == "You gave 0 answers; a stand-in gave 3."
    assert not (tmp_path / LABELS).exists()


def test_a_stand_in_s_tie_gives_no_row(labeller):
    rows, who = fill_in(labeller, lambda first, second: None if "2" in first else True)
    ties = sum("2" in question["A"] for question in labeller.answers.questions)
    assert ties == 1 and len(rows) == 3 and who == "You gave 0 answers; a stand-in gave 3; ties: 1."
