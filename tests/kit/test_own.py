"""The learner's own functions: the loop with them is the course's, and they outlive their notebook."""

import linecache
from dataclasses import replace

import pytest
import torch
from conftest import length_reward, tiny_models

from helpers import gae, groups, steps, whitening
from helpers.kit import own
from helpers.kit.places import PLACES, course_version, in_place
from helpers.lessons.gae.checks import check_compute_gae
from helpers.lessons.ppo_update import checks as ppo
from helpers.lessons.rollouts import checks as rollouts
from helpers.lessons.whitening.checks import check_masked_var, check_whiten_advantages
from helpers.state import start_run

CHECKS = (
    check_compute_gae, check_masked_var, check_whiten_advantages,
    ppo.check_policy_loss, ppo.check_ppo_update_step, ppo.check_value_loss,
    rollouts.check_forward_logprobs, rollouts.check_position_ids, rollouts.check_sample_with_cache,
)  # fmt: skip
SOLUTIONS = {check.exercise.name: check.exercise.right for check in CHECKS}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path))
    monkeypatch.setattr(own, "RIGHT", {})


def first_iteration(config, functions: dict) -> tuple[list, dict]:
    with in_place(functions) as calls:
        return own.watched(start_run(config, tiny_models())), calls


@pytest.mark.parametrize("name", [*SOLUTIONS, "all"])
def test_a_right_function_in_the_loop_gives_the_courses_numbers(config, name):
    # the solutions of others call their own losses and variance
    inner = ("masked_var", "policy_loss", "value_loss")
    every = {k: function for k, function in SOLUTIONS.items() if k not in inner}
    functions = every if name == "all" else {name: SOLUTIONS[name]}
    mine, calls = first_iteration(config, functions)
    assert own.first_apart(mine, first_iteration(config, {})[0]) == ""
    assert all(calls[name] for name in functions), calls


def test_the_first_step_that_parts_is_named_and_afterwards_the_course_is_back(config):
    def half(rewards, values, gamma, lam, mask):
        advantages, returns = SOLUTIONS["compute_gae"](rewards, values, gamma, lam, mask)
        return 0.5 * advantages, returns + 1.0

    mine, _ = first_iteration(config, {"compute_gae": half})
    assert own.first_apart(mine, first_iteration(config, {})[0]) == "step 6, returns"
    assert steps.compute_gae is gae.compute_gae and "half" not in gae.compute_gae.__name__


def test_an_option_that_a_function_lacks_is_left_to_the_courses():
    x, mask = torch.tensor([[1.0, 5.0]]), torch.ones(1, 2, dtype=torch.bool)
    course = whitening.whiten_advantages
    stand_in = PLACES["whiten_advantages"].stand_in(lambda advantages, mask: 0 * mask, course)
    assert torch.equal(stand_in(x, mask), 0 * mask)
    assert torch.equal(stand_in(x, mask, shift_mean=False), course(x, mask, False))


@pytest.mark.parametrize("check", [c for c in CHECKS if c is not rollouts.check_sample_with_cache])
def test_the_courses_version_passes_the_check(check):
    function = course_version(check.exercise)
    use, report = own.taken(check, function, check.report(function))
    assert report.status == "correct" and use is function


def cell(source: str, name: str, **known: object):
    """A function as a notebook's cell makes it: in __main__, with its source at hand."""
    file = f"<cell {name}>"
    names = {"__name__": "__main__", "torch": torch, **known}
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), names)
    return names[name]


VARIANCE = """\
def counted_only(x, mask):
    return F.pad(torch.where(mask, x, 0.0), (0, 1))


def masked_var(x, mask):
    mean = counted_only(x, mask).sum() / mask.sum()
    return counted_only((x - mean).square(), mask).sum() / (mask.sum() - 1).clamp(min=1)
"""


def kept(tmp_path):
    function = cell(VARIANCE, "masked_var", F=torch.nn.functional)
    return own.keep(check_masked_var, function), tmp_path / own.FOLDER / "masked_var.py"


def test_a_right_function_is_kept_with_all_that_it_needs(tmp_path, capsys):
    says, path = kept(tmp_path)
    assert says.startswith("Kept in") and "import torch.nn.functional as F" in path.read_text()
    again = own.own(whitening.masked_var)
    assert "your own is in use" in capsys.readouterr().out
    x, mask = torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]])
    assert float(again(x, mask)) == 2.0 and again is not whitening.masked_var


CHANGES = (
    (".sum() / mask.sum()", ".mean()"),
    ("def masked", "def other"),
    ("import torch\n", "import no_such_module\n"),
    (" checks it again", ""),
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_kept_function_that_is_wrong_or_does_not_load_is_named(tmp_path, capsys, change):
    _, path = kept(tmp_path)
    path.write_text(path.read_text().replace(*change))
    assert own.own(whitening.masked_var) is whitening.masked_var
    assert "masked_var.py is not used, the course's is:" in capsys.readouterr().out


def test_one_that_calls_another_exercise_is_kept_with_the_courses_version_of_it(tmp_path):
    source = "def masked_var(x, mask):\n    return variance_of(x, mask)\n"
    function = cell(source, "masked_var", variance_of=SOLUTIONS["masked_var"])
    assert own.keep(check_masked_var, function).startswith("Kept in")
    assert own.own(whitening.masked_var) is not whitening.masked_var


def test_what_needs_a_value_of_the_notebook_is_not_kept_and_says_why():
    source = "def masked_var(x, mask):\n    return (x * mask).sum() / count\n"
    says = own.keep(check_masked_var, cell(source, "masked_var", count=torch.tensor(3)))
    assert says.startswith("Not kept for later lessons: it uses `count` of this notebook; give it")


def test_a_wrong_answer_is_replaced_by_the_courses_also_where_an_earlier_one_was_right():
    right = SOLUTIONS["masked_var"]
    use, report = own.taken(check_masked_var, right, check_masked_var.report(right))
    assert use is right and own.RIGHT == {"masked_var": right}
    wrong = check_masked_var.report(lambda x, mask: x.var())
    use, _ = own.taken(check_masked_var, lambda x, mask: x.var(), wrong)
    assert use is whitening.masked_var and own.RIGHT == {}


@pytest.fixture
def tiny(monkeypatch):
    """A milestone trains the tiny models, on scores as they are."""

    def start(config, reward):
        models = tiny_models(reward=reward or length_reward)
        return start_run(replace(config, normalize_scores=False), models)

    monkeypatch.setattr(own, "start_run", start)


def test_the_milestone_says_whose_functions_ran(tiny, capsys):
    own.milestone(iterations=1, batch_size=4)
    said = capsys.readouterr().out
    assert "Yours in this loop, 0 of 12 parts: none yet." in said
    assert "compute_gae" in said and "1e-4" not in said
    own.RIGHT.update(compute_gae=SOLUTIONS["compute_gae"], pass_at_k=groups.pass_at_k)
    own.milestone(iterations=9, batch_size=4, kl_coef=0.5)
    mine, course, idle, same, *curve = capsys.readouterr().out.splitlines()
    assert mine == "Yours in this loop, 1 of 12 parts: compute_gae." and "to 1e-4" in same
    assert idle.startswith("Not listed: pass_at_k: yours, too") and "Not listed" not in said
    assert "policy_loss" in course and "compute_gae" not in course and "pass_at_k" not in course
    assert [line.split()[1] for line in curve[:5]] == ["1", "3", "5", "7", "9"]


def test_a_milestone_takes_another_reward_and_another_method(tiny, capsys):
    own.RIGHT.update(ppo_update_step=SOLUTIONS["ppo_update_step"])
    given = {"method": "rloo", "responses_per_prompt": 2, "batch_size": 4, "iterations": 1}
    own.milestone(lambda texts: torch.tensor([7.0] * len(texts)), **given)
    said = capsys.readouterr().out
    assert "score +7.00" in said and "rloo_advantages" in said and "0 of 11 parts" in said
