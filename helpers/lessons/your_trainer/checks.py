"""Lesson 06's eight checks, one by one and of a whole trainer."""

from collections.abc import Callable

from IPython.display import display

from helpers.kit.exercise import Exercise
from helpers.kit.judge import judge
from helpers.kit.places import course_version
from helpers.kit.recorded import sample_responses
from helpers.kit.report import CORRECT, MISTAKE
from helpers.lessons.your_trainer.loop import check_train
from helpers.lessons.your_trainer.steps import (  # noqa: F401 (the lesson takes all from here)
    STEPS,
    check_draw_prompts,
    check_estimate_advantages,
    check_forward_logprobs,
    check_generate_responses,
    check_score_responses,
    check_total_rewards,
    check_update,
)

EXERCISES: dict[str, Exercise] = {**STEPS, "train": check_train.exercise}
NAMES = tuple(EXERCISES)
# what the checks hand back; the sampler is replaced by one that has a cache and draws the same
COURSE = {name: course_version(exercise) for name, exercise in EXERCISES.items()}
COURSE["generate_responses"] = sample_responses
forward_logprobs = COURSE["forward_logprobs"]


def as_functions(functions: object) -> dict[str, Callable]:
    """A trainer as a dict: from a dict, or from functions in a list, by their names."""
    if not isinstance(functions, dict):
        functions = {getattr(f, "__name__", ""): f for f in functions}
    return {name: functions[name] for name in NAMES if name in functions}


def own_ones(functions: dict[str, Callable]) -> dict[str, Callable]:
    """Those that are not the course's."""
    course = [*COURSE.values(), EXERCISES["generate_responses"].right]
    return {name: f for name, f in functions.items() if f not in course}


def check_trainer(functions: object) -> dict[str, Callable]:
    """Check a trainer's functions, explain the first wrong one; → all eight, the course's where not right."""
    own = own_ones(as_functions(functions))
    reports = [judge(EXERCISES[name], function) for name, function in own.items()]
    right = {one.exercise: own[one.exercise] for one in reports if one.status == CORRECT}
    print("yours:", ", ".join(right) or "none yet")
    print("the course's:", ", ".join(name for name in NAMES if name not in right) or "none")
    wrong = [report for report in reports if report.status == MISTAKE]
    if wrong:
        display(wrong[0])
    return COURSE | right
