"""Trainers with one wrong line are caught, at the right step and by a name that fits; right ones pass.

Only tensors are compared here. The curves of whole runs are tested in tests/experiments.
"""

import inspect
from types import SimpleNamespace

import pytest
import torch
from wrong_trainers import RIGHT, WRONG

from helpers import checks
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED
from helpers.checks.judging.runner import is_stub
from helpers.checks.trainer import inputs as trainer_inputs
from helpers.checks.trainer import step_judge as trainer_judge
from helpers.checks.trainer.course_steps import COURSE, NAMES
from helpers.checks.trainer.steps_and_loop import STEPS, check_trainer, judge, right_ones
from tests.notebooks.exercises import NOTEBOOKS, read, solutions, stub_source

(LESSON,) = (path for path in NOTEBOOKS if path.stem == "06_your_trainer")
SOLUTIONS = solutions(read(LESSON))
NIGHTLY = pytest.mark.nightly  # more of the same
THIRDS = [slice(0, None, 3), *(pytest.param(slice(k, None, 3), marks=NIGHTLY) for k in (1, 2))]


def trainer(step: str = "", text: str = "", instead: str = "") -> dict:
    """The lesson's solution, with one piece of one step replaced."""
    names = {"torch": torch}
    for name in NAMES:
        source = SOLUTIONS[name]
        if name == step:
            assert text in source, f"{name} does not hold {text!r}"
            source = source.replace(text, instead)
        exec(compile(source, name, "exec"), names)
    return {name: names[name] for name in NAMES}


def reports(rows: list) -> list:
    return [judge(step, trainer(step, text, instead)[step]) for step, *_, text, instead in rows]


def test_the_solution_and_the_course_s_own_pass():
    assert check_trainer(trainer()).status == CORRECT
    assert check_trainer(COURSE).status == CORRECT


@pytest.mark.slow
@pytest.mark.parametrize("some", THIRDS)
def test_wrong_lines_are_caught_and_named(some):
    """All are caught; when this was written 9 in 10 were named."""
    assert len(WRONG) >= 40 and {row[0] for row in WRONG[some]} == set(NAMES)
    found = reports(WRONG[some])
    caught = [report.status == MISTAKE for report in found]
    named = [
        row[2] and row[2].lower() in (report.mistake or "").lower()
        for row, report in zip(WRONG[some], found, strict=True)
    ]
    missed = [row[:2] for row, was in zip(WRONG[some], caught, strict=True) if not was]
    assert missed == []
    nameless = [row[:2] for row, was in zip(WRONG[some], named, strict=True) if not was]
    assert len(nameless) <= 0.1 * len(found), nameless


@pytest.mark.slow
@pytest.mark.parametrize("some", THIRDS)
def test_right_trainers_of_another_build_pass(some):
    assert len(RIGHT) >= 20
    found = zip(RIGHT[some], reports(RIGHT[some]), strict=True)
    assert [(row[:2], str(report)) for row, report in found if report.status != CORRECT] == []


STEPS_WRONG = [
    "write_responses",
    *(
        pytest.param(step, marks=NIGHTLY)
        for step in ("total_rewards", "estimate_advantages", "train")
    ),
    "update",
]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS_WRONG)
def test_a_whole_trainer_is_told_the_first_wrong_step(step):
    row = next(row for row in WRONG if row[0] == step)
    report = check_trainer(trainer(step, *row[3:]))
    assert report.status == MISTAKE and report.first.exercise == step
    assert row[2].lower() in report.first.mistake.lower()
    before = [r.status for r in report.reports[: NAMES.index(step)]]
    assert before == [CORRECT] * len(before)


def test_a_step_that_calls_a_wrong_one_is_told_so():
    wrong = trainer("forward_logprobs", "[:, -length - 1 : -1]", "[:, -length:]")
    assert judge("update", wrong["update"]).mistake == "forward_logprobs comes first"
    names = {"torch": torch}
    exec(stub_source(read(LESSON), "forward_logprobs"), names)
    exec(SOLUTIONS["update"], names)
    report = judge("update", names["update"])
    assert report.mistake == "forward_logprobs comes first" and "not written yet" in report.message


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if STEPS[name].mistakes])
def test_each_known_mistake_is_given_its_own_name(name):
    found = [judge(name, mistake.wrong) for mistake in STEPS[name].mistakes]
    assert [r.mistake for r in found] == [mistake.name for mistake in STEPS[name].mistakes]


def test_another_module_s_step_of_the_same_name_is_not_blamed():
    """`course.forward_logprobs` is an attribute, and not the learner's own stub."""
    names = {"torch": torch, "course": SimpleNamespace(**COURSE)}
    exec(stub_source(read(LESSON), "forward_logprobs"), names)
    exec(SOLUTIONS["update"].replace("= forward_logprobs(", "= course.forward_logprobs("), names)
    assert judge("update", names["update"]).status == CORRECT


def test_stubs_are_not_attempted_and_the_course_s_own_stand_in():
    stubs = {}
    for name in NAMES:
        names = {"torch": torch}
        exec(stub_source(read(LESSON), name), names)
        stubs[name] = names[name]
    report = check_trainer(stubs.values())
    assert report.status == NOT_ATTEMPTED and report.missing == list(NAMES)
    assert "not attempted yet" in str(report).lower() and right_ones(stubs) == {}


STUBS = {
    "returns NotImplemented": "return NotImplemented",
    "raises": 'raise NotImplementedError("later")',
    "a comment": "return ...  # here",
    "empty": "pass",
}


@pytest.mark.parametrize("body", STUBS.values(), ids=STUBS)
def test_a_stub_is_named_before_anything_is_loaded(monkeypatch, body):
    def loaded(*given):
        raise AssertionError("models were loaded for a stub")

    monkeypatch.setattr(trainer_judge, "reference", loaded)
    monkeypatch.setattr(trainer_inputs, "trainer_parts", loaded)
    names = {}
    for name in NAMES:
        arguments = ", ".join(inspect.signature(COURSE[name]).parameters)
        exec(f'def {name}({arguments}):\n    """To do."""\n    {body}', names)
        assert judge(name, names[name]).status == NOT_ATTEMPTED
    assert check_trainer([names[name] for name in NAMES]).missing == list(NAMES)


@pytest.mark.parametrize(
    ("function", "stub"),
    [
        (lambda x: NotImplemented, True),
        (lambda *x: NotImplemented, True),
        (lambda x: 5, False),
        (lambda x: x if x else NotImplemented, False),
        (lambda x: print(), False),
        (print, False),
        (3, False),
        (None, True),
        (Ellipsis, True),
    ],
)
def test_what_a_stub_is(function, stub):
    assert is_stub(function) == stub


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "answer",
    [None, 3, lambda *given: None, lambda *given: 1, lambda *given: 1 / 0, lambda: None],
    ids=["None", "a number", "returns None", "returns 1", "raises", "no arguments"],
)
def test_no_answer_breaks_the_check(name, answer):
    report = getattr(checks, f"check_{name}")(answer)
    assert report.status in (MISTAKE, NOT_ATTEMPTED) and report.message
    assert report._repr_html_() and str(report)


def test_an_endless_loop_ends():
    def update(*given):
        while True:
            pass

    assert checks.check_update(update, seconds=0.2).mistake == "endless loop"


def told(step: str, text: str, instead: str) -> tuple[str, str]:
    """Name and words of the mistake in one step, one piece of it replaced."""
    report = judge(step, trainer(step, text, instead)[step])
    return report.mistake, report.message


def test_advantages_in_the_order_of_the_walk_are_told_so():
    line = "    returns = advantages + values\n"
    name, says = told("estimate_advantages", line, f"    advantages = advantages.flip(1)\n{line}")
    assert name == "in the order of the walk" and "turn them round" in says


def test_one_step_is_one_and_the_check_says_that_its_settings_are_its_own():
    says = told("update", "range(config.num_ppo_epochs)", "range(1)")[1]
    assert "1 gradient step;" in says
    says = told("train", ", eps=config.adam_eps", "")[1]
    assert "settings of its own" in says
