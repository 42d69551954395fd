"""The judge: whatever a learner's function does, it is a report, told in three steps."""

import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from helpers.kit.exercise import Exercise, Mistake, floats, mistakes_of, noise, prefix_mask
from helpers.kit.judge import checker, exercise, judge
from helpers.kit.report import TRIES
from helpers.lessons.gae.checks import check_compute_gae
from helpers.lessons.reward_model.fit import check_fit_pairs
from helpers.lessons.rollouts.checks import check_sample_with_cache

check_masked_mean = exercise(
    """\
def masked_mean(x, mask):
    return torch.where(mask, x, 0.0).sum() / mask.sum()
""",
    "the sum of the counted x, divided by how many count: one number for the batch",
    [
        (floats([1.0, 2.0, 6.0], [-4.0, 9.0, 5.0]), prefix_mask(3, 3, 1)),
        (floats([0.0, -2.0, 3.0, 8.0]), prefix_mask(4, 3)),
        (noise(1, 3, 5) + 0.5, prefix_mask(5, 2, 5, 4)),
    ],
    """\
padding in the divisor: You divided by all {total} positions; only {counted} count.
- mask.sum()
+ mask.numel()
padding in the sum: You divided by {counted}, but summed all {total} positions.
- torch.where(mask, x, 0.0)
+ x
""",
    gradient=("x",),
    further=[("one token counts", (floats([3.0, 7.0]), prefix_mask(2, 1)))],
)
MEAN, BOTH = check_masked_mean.exercise, check_compute_gae.exercise
RETURNS = ", torch.where(mask, advantages + values, 0.0)"
ALONE = BOTH.solution.replace(RETURNS, "")
GAE = replace(BOTH, solution=ALONE, results=("result",), mistakes=[])
WEIGHTED = Exercise(
    "def weighted(values, weights, mask, scale):\n"
    "    products = torch.where(mask, values * weights, 0.0)\n"
    "    return scale * products.sum(1)\n",
    "scale · Σ v·w over counted tokens, one number a row",
    [
        (floats([1.0, 2.0, 9.0]), floats([3.0, -1.0, 5.0]), prefix_mask(3, 2), 0.5),
        (noise(1, 3, 4), noise(2, 3, 4), prefix_mask(4, 2, 4, 3), 0.3),
    ],
    "mean for the sum: Add the products up.\n- .sum(1)\n+ .mean(1)\n",
)


def mean(x, mask):
    return torch.where(mask, x, 0.0).sum() / mask.sum()


@pytest.fixture(autouse=True)
def no_tries_before():
    TRIES.clear()


# --- told in three steps ---------------------------------------------------------------------------


def test_a_mistake_is_told_where_then_what_kind_then_the_change_and_the_formula():
    def wrong(rewards, values, gamma, lam, mask):
        advantages, _ = BOTH.right(rewards, values, gamma, lam, mask)
        return advantages, torch.where(mask, rewards, 0.0)

    where, kind, change = (str(check_compute_gae.report(wrong)) for _ in range(3))
    assert "Right so far: advantages. The first that is not: returns." in where
    assert "yours" in where and "expected" in where
    assert "rewards for the returns" not in where and BOTH.look not in where + kind
    assert "rewards for the returns" in kind and "A + V" not in kind.replace(BOTH.look, "")
    assert "The critic's target is A + V" in change and BOTH.look in change


def test_a_right_answer_begins_the_count_anew():
    for function in (lambda x, mask: x.mean(), mean, lambda x, mask: x.mean()):
        last = check_masked_mean.report(function)
    assert last.tries == 1


def test_the_case_that_is_shown_is_the_smallest_and_begins_with_what_differs():
    report = judge(MEAN, lambda x, mask: x.mean())
    assert dict(report.case)["expected"] == "1.25" and "only 4 count" in report.message
    assert [label for label, _ in report.case] == ["yours", "expected", "x", "mask"]


def test_of_several_results_the_wrong_one_is_named_also_where_it_is_the_first():
    report = judge(BOTH, lambda *given: [x + 1.0 for x in BOTH.right(*given)])
    assert report.where == "Wrong in this case: advantages, first at [0, 0]."
    assert [label for label, _ in report.case[:2]] == ["advantages, yours", "advantages, expected"]


def test_of_a_large_input_two_rows_are_shown():
    large = replace(MEAN, probes=[(noise(1, 9, 4), prefix_mask(4, *[3] * 9))])
    shown = dict(judge(large, lambda x, mask: x.mean()).case)
    assert shown["x"].count("\n") == 1 and shown["x"].endswith("]] … 9 rows in all")


def test_a_check_that_may_take_long_says_how_far_it_is_in_one_line_that_goes_away(capsys):
    judge(MEAN, mean)
    assert capsys.readouterr().out == ""
    judge(replace(MEAN, seconds=30.0), mean)
    *_, last, cleared, end = capsys.readouterr().out.split("\r")
    assert last.startswith("Checking masked_mean: ") and not cleared.strip() and not end


DRAWN, MASK = "drawn.append(logprobs.gather(1, token)", "torch.cat([mask, running], 1)"
TOLD = [
    (check_sample_with_cache, DRAWN, f"{DRAWN} * config.temperature", "Every number is 0.6 times"),
    (check_sample_with_cache, "        token =", "        logprobs[logprobs < logprobs.topk(9)[0][:, -1:]]"
     " = -1e9\n        logprobs = logprobs.log_softmax(-1)\n        token =", "is a token never drawn"),
    (check_sample_with_cache, MASK, "torch.cat([mask, torch.ones_like(running)], 1)", "and False after it."),
    (check_fit_pairs, "optimizer.step()", "optimizer.step(), optimizer.step()", "you have 10; it should"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "old", "new", "words"), TOLD)
def test_what_is_said_is_true_of_this_mistake(check, old, new, words):
    report = judge(check.exercise, check.exercise.edited(Mistake("", "", old, new)))
    assert words in report.message and "not right: " not in report.title, report


# --- not attempted ---------------------------------------------------------------------------------


def raises(*given):
    raise NotImplementedError


def only_a_docstring(x, mask):
    """To do."""


STUBS = [lambda *a: NotImplemented, lambda *a: ..., raises, only_a_docstring, None, ...]


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_not_attempted_and_no_formula_is_shown(stub):
    report = judge(MEAN, stub)
    assert (report.status, report.mistake) == ("not attempted", None)
    assert "not attempted yet" in str(report) and MEAN.look not in str(report)


def test_what_is_written_is_looked_at_although_the_rest_is_missing():
    def begun(rewards, values, gamma, lam, mask):
        advantages, _ = BOTH.right(rewards, values, gamma, lam, mask)
        return advantages, NotImplemented

    report = judge(BOTH, begun)
    assert report.status == "not attempted"
    assert "Right so far: advantages. Now write what gives the returns." in report.message


# --- nothing raises --------------------------------------------------------------------------------


def broken(x, mask):
    total = x.sum()
    return total / undefined_name  # noqa: F821


def in_place(x, mask):
    x *= mask
    return x.sum() / mask.sum()


def endless(x, mask):
    while True:
        try:
            pass
        except Exception:
            pass


def deep(x, mask):
    return deep(x, mask)


class Odd(BaseException):
    pass


def odd(x, mask):
    raise Odd("<b>odd</b>")


gae = GAE.right
FORMS = [
    (MEAN, "exception", broken),
    (MEAN, "exception", deep),
    (MEAN, "exception", odd),
    (MEAN, "exception", lambda x, mask: exit()),
    (MEAN, "exception", lambda x: x.mean()),
    (MEAN, "inputs changed", in_place),
    (MEAN, "wrong type", lambda x, mask: [float(mean(x, mask))]),
    (MEAN, "wrong type", lambda x, mask: print(end="")),
    (MEAN, "wrong type", lambda x, mask: torch.eye(2).to_sparse()),
    (MEAN, "wrong shape", lambda x, mask: mean(x, mask).view(1, 1)),
    (MEAN, "wrong dtype", lambda x, mask: mean(x, mask).long()),
    (MEAN, "wrong device", lambda x, mask: mean(x, mask).to("meta")),
    (MEAN, "NaN or infinite", lambda x, mask: mean(x, mask) * float("nan")),
    (MEAN, "no gradient", lambda x, mask: mean(x, mask).item()),
    (MEAN, "no gradient", lambda x, mask: mean(x.detach(), mask)),
    (MEAN, "a factor", lambda x, mask: 2 * mean(x, mask) - mean(x.data, mask)),
    (MEAN, "not a function", torch.ones(2)),
    (MEAN, "constant factor", lambda x, mask: 3 * mean(x, mask)),
    (MEAN, "constant offset", lambda x, mask: 3 + mean(x, mask)),
    (GAE, "wrong type", lambda *a: gae(*a).numpy()),
    (GAE, "masked positions", lambda *a: gae(*a) + 9.0 * ~a[4]),
    (GAE, "wrong sign", lambda *a: -gae(*a)),
    (GAE, "constant factor", lambda *a: gae(*a) / 4),
    (GAE, "rewards the wrong way", lambda r, v, *rest: gae(v, r, *rest)),
    (BOTH, "wrong type", lambda *a: (*BOTH.right(*a), 0)),
    (BOTH, "wrong type", lambda *a: BOTH.right(*a)[0].sum()),
    # an exercise that the looks have never seen
    (WEIGHTED, "mean for the sum", lambda v, w, m, s: s * torch.where(m, v * w, 0.0).mean(1)),
    (WEIGHTED, "padding counted", lambda v, w, m, s: s * (v * w).sum(1)),
    (WEIGHTED, "the cases exchanged", lambda v, w, m, s: s * torch.where(m, 0.0, v * w).sum(1)),
    (WEIGHTED, "a factor is missing", lambda v, w, m, s: torch.where(m, v * w, 0.0).sum(1)),
    (
        WEIGHTED,
        "values the wrong way",
        lambda v, w, m, s: s * torch.where(m, (1 - v**3) * w, 0.0).sum(1),
    ),
    (WEIGHTED, "wrong shape", lambda v, w, m, s: s * torch.where(m, v * w, 0.0)),
]


@pytest.mark.parametrize(("exercise", "mistake", "function"), FORMS)
def test_bad_behaviour_is_reported_never_raised(exercise, mistake, function):
    report = judge(exercise, function)
    assert (report.status, report.mistake) == ("mistake", mistake), report
    assert str(report) and report._repr_html_()


def test_an_exercise_that_is_called_and_not_written_yet_is_told_as_that():
    report = judge(MEAN, lambda x, mask: STUBS[0](x, mask) / mask.sum())
    assert "A function called there is not written yet" in report.message


def test_an_exception_is_told_with_the_learner_s_own_line():
    message = judge(MEAN, broken).message
    assert "NameError" in message and "`return total / undefined_name" in message


needs_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")


@needs_timer
def test_an_endless_loop_ends():
    report = judge(replace(MEAN, seconds=0.3), endless)
    assert report.mistake == "endless loop" and "0.3 seconds" in report.message


@needs_timer
def test_a_limit_counts_computing_and_much_waiting():
    def late(x, mask):
        time.sleep(0.3)  # as on a busy machine: the clock's time, not this thread's
        return mean(x, mask)

    def waiting(x, mask):
        while True:
            time.sleep(0.01)

    assert judge(replace(MEAN, seconds=0.2), late).status == "correct"
    assert judge(replace(MEAN, seconds=0.1), waiting).mistake == "endless loop"


@needs_timer
def test_a_limit_does_not_cut_an_import(tmp_path, monkeypatch):
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.5)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def importing(x, mask):
        import slow_module

        while slow_module.whole:
            pass

    report = judge(replace(MEAN, seconds=0.2), importing)
    assert report.mistake == "endless loop" and sys.modules["slow_module"].whole


@needs_timer
def test_whoever_used_the_timer_gets_it_back():
    handler = signal.getsignal(signal.SIGALRM)
    judge(MEAN, mean)
    assert signal.getsignal(signal.SIGALRM) is handler


def test_right_in_another_thread_under_no_grad_and_after_one_who_changes_the_probes():
    judge(MEAN, in_place)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(judge, MEAN, mean).result(10).status == "correct"
    with torch.no_grad():
        assert judge(MEAN, mean).status == "correct"


def test_html_is_escaped():
    html = judge(MEAN, odd)._repr_html_()
    assert "<b>odd" not in html and "&lt;b&gt;odd" in html


def test_a_function_that_remembers_its_calls_is_named():
    made = []

    def remembers(x, mask):
        made.append(time.monotonic())
        return mean(x, mask) + (len(made) > len(MEAN.cases) + len(MEAN.edges))

    assert judge(MEAN, remembers).mistake == "wrong where it is called once more"


# --- what an exercise is made of ---------------------------------------------------------------------


def test_an_argument_that_is_used_is_never_said_to_be_without_effect():
    """Although all probes' results are those of the solution without it."""
    none = "no scale: `scale` has no effect.\n- scale * products\n+ products\n"
    known = replace(WEIGHTED, mistakes=none)
    ignores = known.edited(*known.mistakes)

    def uses(v, w, m, s):
        return (s if s > 2 else 1) * ignores(v, w, m, s)

    assert judge(known, ignores).mistake == "no scale"
    assert "effect" not in str(judge(known, uses))


def test_a_mistake_is_read_from_its_difference_and_must_fit_the_solution():
    (one,) = mistakes_of("a name: A sentence: it\n goes on.\n- old\n-   more\n+ new\n")
    assert one[:4] == ("a name", "A sentence: it goes on.", "old\n  more", "new")
    with pytest.raises(ValueError, match="stands 0 times"):
        WEIGHTED.edited(one)


def test_a_check_has_its_exercise_s_name():
    check = checker(WEIGHTED)
    assert check.__name__ == "check_weighted"
    assert "weighted(values, weights, mask, scale)" in check.__doc__
