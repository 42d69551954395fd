"""Answers as learners write them, and the checks' own mistakes: all caught, most named, no right one refused.

`tests/lessons/<word>/answers.py` lists WRONG and RIGHT: (exercise, in a learner's words, text …). Two texts
are an edit of the solution (old, new), four are two edits, one is a whole source. One lesson: `-k whitening`.
"""

import importlib
from functools import cache
from itertools import combinations

import pytest

from helpers.kit.diagnosis import made_alike, made_by
from helpers.kit.exercise import Change, Exercise, Mistake
from helpers.kit.judge import judge
from helpers.kit.mutations import mutations
from helpers.kit.report import CORRECT, MISTAKE, UNKNOWN
from helpers.tools.files import ROOT

ROOMS = sorted(path.parent.name for path in (ROOT / "helpers/lessons").glob("*/checks.py"))
NAMED, PLACED = 0.68, 0.90  # shares: of all wrong answers named; of those to large exercises placed
# small changes of the solutions that give right results, such as the absolute value of a mean of squares
SAME = {"debugging": 14, "gae": 10, "kl_beta": 7, "overoptimization": 6, "ppo_update": 19}
SAME |= {"real_models": 5, "reward_model": 16, "rollouts": 12, "scaling_out": 4, "the_loop": 1}
SAME |= {"whitening": 12, "without_a_critic": 1, "without_a_reward_model": 5, "your_trainer": 22}


@cache
def exercises(room: str) -> dict[str, Exercise]:
    """The exercises of a lesson by name."""
    checks = importlib.import_module(f"helpers.lessons.{room}.checks")
    return {c.exercise.name: c.exercise for c in vars(checks).values() if hasattr(c, "exercise")}


def answers(room: str, kind: str) -> list[tuple]:
    """(exercise, words, function) of the answers of a lesson."""
    source = ROOT / "tests/lessons" / room / "answers.py"
    names = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    return [(exercises(room)[name], words, made(exercises(room)[name], *texts))
            for name, words, *texts in names[kind]]  # fmt: skip


def made(exercise: Exercise, *texts: str):
    """The function of an answer."""
    if len(texts) == 1:
        return exercise.compiled(texts[0])
    edits = zip(texts[::2], texts[1::2], strict=True)
    return exercise.edited(*(Mistake("", "", *edit) for edit in edits))


# every third by day, all at night: a look that fails takes its full time
BY_DAY = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.nightly)])


@BY_DAY
@pytest.mark.parametrize("room", ROOMS)
def test_wrong_answers_are_caught_and_most_are_named(room, every):
    listed = answers(room, "WRONG")
    assert len(listed) >= 4 * len(exercises(room))
    reports = [(exercise, words, judge(exercise, f)) for exercise, words, f in listed[::every]]
    assert [(e.name, words) for e, words, r in reports if r.status != MISTAKE] == []
    vague = [(e.name, words, r.message) for e, words, r in reports if r.mistake == UNKNOWN]
    assert len(vague) <= (0.5 if every > 1 else 1 - NAMED) * len(reports), vague  # by day few
    large = [(e.name, words, r) for e, words, r in reports if len(e.results) > 1 or e.observe]
    unplaced = [x[:2] for x in large if x[2].mistake == UNKNOWN and not x[2].where]
    assert every > 1 or len(unplaced) <= (1 - PLACED) * len(large), unplaced


def test_a_check_says_the_same_the_second_time():
    exercise = exercises("overoptimization")["patch_pairs"]
    seeding = made(exercise, "random.Random(seed), []", "random, random.seed(seed) or []")
    assert [judge(exercise, seeding).status for _ in range(3)] == 3 * [MISTAKE]


@pytest.mark.parametrize("room", ROOMS)
def test_the_solution_and_unusual_right_answers_pass(room):
    unusual, own = answers(room, "RIGHT"), exercises(room).values()
    assert len(unusual) >= len(own)
    for exercise, words, f in [*unusual, *((one, "the solution", one.right) for one in own)]:
        report = judge(exercise, f)
        assert report.status == CORRECT, (exercise.name, words, str(report))


@BY_DAY
@pytest.mark.parametrize("room", ROOMS)
def test_each_mistake_is_an_edit_that_is_told_by_its_own_name(room, every):
    for exercise in exercises(room).values():
        assert len(exercise.mistakes) <= 8, exercise.name
        for one in exercise.mistakes[::every]:
            report = judge(exercise, exercise.edited(one))
            words = exercise.name, one.name, str(report)
            assert (report.status, report.mistake) == (MISTAKE, one.name), words


@pytest.mark.nightly  # finds a blind probe, and no mistake of the course
@pytest.mark.parametrize("room", ROOMS)
def test_nearly_all_small_changes_of_a_solution_give_wrong_results(room):
    own = [(one, c) for one in exercises(room).values() for c in mutations(one) if c.of == one.name]
    same = [(one.name, change.says) for one, change in own if gives_the_right(one, change)]
    assert len(same) <= SAME[room], same


def gives_the_right(exercise: Exercise, change: Change) -> bool:
    """Whether the solution with this change gives all right results."""
    try:  # not `made_by`: where probes have no results, what fails would be as right
        function = exercise.with_change(change)
        seen = [exercise.seen(function, probe) for probe in exercise.cases]
    except Exception:
        return False
    wanted = [exercise.expected(probe) for probe in exercise.cases]
    return all(made_alike([x], [y], list(y)) for x, y in zip(seen, wanted, strict=True))


@pytest.mark.parametrize("room", ROOMS)
def test_no_two_mistakes_give_the_same_results(room):
    for exercise in exercises(room).values():
        own, places = exercise.known[: len(exercise.mistakes)], range(len(exercise.cases))
        given = {one.name: list(map(made_by(exercise, one), places)) for one in own}
        for (a, x), (b, y) in combinations(((n, s) for n, s in given.items() if all(s)), 2):
            names = list(dict.fromkeys(name for seen in x for name in seen))
            assert not made_alike(x, y, names), (exercise.name, a, b)
