"""Exercise checks: correct answers pass in any form, wrong ones are named, no check ever raises."""

import signal
import threading
import time

import pytest
import torch
from answer_variants import RIGHT, WRONG, gae_by_definition

from helpers import checks
from helpers.checks.judging.compare import alike, right
from helpers.checks.judging.judge import judge
from helpers.checks.judging.raised import explained
from helpers.checks.judging.runner import copy_of

EXERCISES = checks.EXERCISES
TABLE = [(name, entry) for name, ex in EXERCISES.items() for entry in ex.mistakes]


def of(name, function, seconds=5.0):
    return getattr(checks, f"check_{name}")(function, seconds)


def mean(x, mask):
    return torch.where(mask, x, 0.0).sum() / mask.sum()


def label(value):
    return value if isinstance(value, str) else ""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- right and wrong answers ----------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_the_reference_passes(name):
    report = of(name, EXERCISES[name].reference)
    assert (report.status, report.mistake) == ("correct", None)


@pytest.mark.parametrize(("name", "function"), RIGHT, ids=label)
def test_right_answers_pass_however_written(name, function):
    report = of(name, function)
    assert report.status == "correct", report


@pytest.mark.parametrize(("name", "mistake", "function"), WRONG, ids=label)
def test_wrong_answers_of_learners_are_named(name, mistake, function):
    report = of(name, function)
    assert (report.status, report.mistake) == ("mistake", mistake), report
    what = "gradient, " if mistake in ("NaN gradient", "wrong gradient") else ""
    labels = [line[0] for line in report.case][-2:]
    assert report.look and labels == [f"{what}yours", f"{what}expected"]


@pytest.mark.parametrize(("name", "entry"), TABLE, ids=lambda x: getattr(x, "name", x))
def test_every_mistake_of_the_tables_is_named(name, entry):
    report = of(name, entry.wrong)
    assert (report.status, report.mistake) == ("mistake", entry.name), report
    assert "{" not in report.message


def outputs(exercise, function):
    return [torch.as_tensor(function(*copy_of(probe))) for probe in exercise.probes]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")  # of a wrong deviation of one number
@pytest.mark.parametrize("name", EXERCISES)
def test_no_two_mistakes_coincide_and_none_is_right(name):
    exercise = EXERCISES[name]
    assert len(exercise.mistakes) >= 5
    expected = outputs(exercise, exercise.reference)
    seen = [(m.name, outputs(exercise, m.wrong)) for m in exercise.mistakes]
    for i, (mine, made) in enumerate(seen):
        assert not all(map(right, made, expected)), mine
        for other, theirs in seen[:i]:
            assert mine == other or not all(map(alike, made, theirs)), (mine, other)


@pytest.mark.parametrize("name", EXERCISES)
def test_every_kind_says_something_and_arguments_are_the_reference_s(name):
    """A kind of mistake may have several forms, so names may repeat."""
    exercise = EXERCISES[name]
    assert all(mistake.name and len(mistake.says) > 15 for mistake in exercise.mistakes)
    assert all(len(probe) == len(exercise.names) for probe in exercise.probes)


def test_message_counts_and_the_case_is_the_smallest():
    report = of("masked_mean", lambda x, mask: x.mean())
    assert report.message == "You averaged all 6 positions; only 4 count."
    assert dict(report.case)["expected"] == "1.25"
    assert "expected  1.25" in str(report) and repr(report) == str(report)


def test_a_title_says_the_verdict_first_and_then_the_mistake():
    assert of("masked_mean", lambda x, mask: x.mean()).title.startswith(
        "✗ masked_mean: not right yet ("
    )
    assert of("masked_mean", lambda x, mask: x[0, 0].sin()).title == "✗ masked_mean: not right yet"
    assert of("masked_mean", mean).title == "✓ masked_mean: correct"


# --- not attempted --------------------------------------------------------------------------------


def raises_not_implemented(*arguments):
    raise NotImplementedError


def only_a_docstring(x, mask):
    """To do."""


@pytest.mark.parametrize(
    "stub",
    [
        lambda *a: NotImplemented,
        lambda *a: ...,
        raises_not_implemented,
        only_a_docstring,
        None,
        ...,
    ],
)
def test_a_stub_is_not_attempted(stub):
    report = of("masked_mean", stub)
    assert (report.status, report.mistake) == ("not attempted", None)
    assert "not attempted yet" in str(report)


def test_a_function_half_done_says_what_is_missing():
    report = of("kl_estimate", lambda p, q, e: p - q if e == "k1" else NotImplemented)
    assert (report.status, report.mistake) == ("mistake", "unfinished")
    assert "estimator='k2'" in report.message


# --- nothing raises -------------------------------------------------------------------------------


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


FORMS = [
    ("masked_mean", "exception", broken),
    ("masked_mean", "exception", deep),
    ("masked_mean", "exception", odd),
    ("masked_mean", "exception", lambda x, mask: exit()),
    ("masked_mean", "exception", lambda x: x.mean()),
    ("masked_mean", "exception", lambda x, mask: x @ mask),
    ("masked_mean", "inputs changed", in_place),
    ("masked_mean", "wrong type", lambda x, mask: [float(mean(x, mask))]),
    ("masked_mean", "wrong type", lambda x, mask: (mean(x, mask), {})),
    ("masked_mean", "wrong type", lambda x, mask: print(end="")),
    ("masked_mean", "wrong type", lambda x, mask: "1.25"),
    ("masked_mean", "wrong shape", lambda x, mask: mean(x, mask).view(1, 1)),
    ("masked_mean", "wrong dtype", lambda x, mask: mean(x, mask).long()),
    ("masked_mean", "wrong dtype", lambda x, mask: mean(x, mask) + 0j),
    ("masked_mean", "wrong device", lambda x, mask: mean(x, mask).to("meta")),
    ("masked_mean", "wrong type", lambda x, mask: torch.eye(2).to_sparse()),
    ("masked_mean", "NaN or infinite", lambda x, mask: mean(x, mask) * float("nan")),
    ("masked_mean", "detached", lambda x, mask: mean(x, mask).item()),
    ("masked_mean", "detached", lambda x, mask: mean(x.detach(), mask)),
    ("masked_mean", "wrong gradient", lambda x, mask: 2 * mean(x, mask) - mean(x.data, mask)),
    ("masked_mean", "not a function", torch.ones(2)),
    ("masked_mean", "constant factor", lambda x, mask: 3 * mean(x, mask)),
    ("masked_mean", "constant offset", lambda x, mask: 3 + mean(x, mask)),
    ("masked_mean", "unrecognised", lambda x, mask: mean(x.sin(), mask)),
    ("gae", "wrong type", lambda *a: (gae_by_definition(*a), gae_by_definition(*a))),
    ("gae", "wrong type", lambda *a: gae_by_definition(*a).numpy()),
    ("gae", "transposed", lambda *a: gae_by_definition(*a).T),
    ("gae", "masked positions", lambda *a: gae_by_definition(*a) + 9.0 * ~a[4]),
    ("gae", "last counted position", lambda *a: gae_by_definition(*a) + 9 * last(a[4])),
    ("gae", "shifted in time", lambda *a: gae_by_definition(*a).roll(-1, 1)),
    ("gae", "constant factor", lambda *a: gae_by_definition(*a) / 4),
    ("gae", "forward recursion, and sign flipped", lambda *a: -wrong_of("gae", 8)(*a)),
    ("gae", "no decay, and masked positions", lambda *a: wrong_of("gae", 5)(*a) + 9.0 * ~a[4]),
    ("response_mask", "wrong dtype", lambda x, e: EXERCISES["response_mask"].reference(x, e) * 1.0),
    ("position_ids", "wrong dtype", lambda m: EXERCISES["position_ids"].reference(m).float()),
    ("policy_loss", "detached", lambda p, *rest: EXERCISES["policy_loss"].reference(p.data, *rest)),
    ("gather_logprobs", "detached", lambda x, k: x.detach().log_softmax(-1).gather(
        -1, k[..., None])[..., 0]),
    ("pair_accuracy", "all or nothing", lambda c, r: EXERCISES["pair_accuracy"].reference(c, r).int()),
]  # fmt: skip


def last(mask):
    return mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1))


def wrong_of(name, index):
    return EXERCISES[name].mistakes[index].wrong


@pytest.mark.parametrize(("name", "mistake", "function"), FORMS, ids=label)
def test_bad_behaviour_is_reported_never_raised(name, mistake, function):
    report = of(name, function)
    assert (report.status, report.mistake) == ("mistake", mistake), report
    assert str(report) and report._repr_html_()


def test_an_exercise_that_is_called_and_not_written_yet_is_told_as_that():
    def masked_mean(x, mask):
        return NotImplemented

    def masked_var(x, mask):
        return ((x - masked_mean(x, mask)) ** 2)[mask].sum() / (mask.sum() - 1)

    says = of("masked_var", masked_var).message
    assert "A function called there is not written yet" in says


def test_an_exception_is_told_with_the_learner_s_own_line():
    message = of("masked_mean", broken).message
    assert "NameError" in message and "`return total / undefined_name" in message


def in_this_thread(work):
    return work()


def in_another_thread(work):
    box = []
    thread = threading.Thread(target=lambda: box.append(work()))
    thread.start()
    thread.join(10)
    return box[0]


@pytest.mark.parametrize("where", [in_this_thread, in_another_thread])
def test_an_endless_loop_ends(where):
    started = time.monotonic()
    report = where(lambda: of("masked_mean", endless, seconds=0.3))
    assert report.mistake == "endless loop" and "0.3 seconds" in report.message
    assert time.monotonic() - started < 30


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this system")
def test_whoever_used_the_timer_gets_it_back():
    handler = signal.getsignal(signal.SIGALRM)
    of("masked_mean", mean)
    assert signal.getsignal(signal.SIGALRM) is handler


def test_right_in_another_thread():
    assert in_another_thread(lambda: of("masked_mean", mean)).status == "correct"


def test_the_probes_survive_a_learner_who_changes_them():
    of("masked_mean", in_place)
    assert of("masked_mean", mean).status == "correct"


def test_gradients_are_wanted_even_under_no_grad():
    with torch.no_grad():
        assert of("masked_mean", mean).status == "correct"


def test_html_is_escaped():
    html = of("masked_mean", odd)._repr_html_()
    assert "<b>odd" not in html and "&lt;b&gt;odd" in html


@pytest.mark.parametrize("name", EXERCISES)
def test_a_check_is_quick(name):
    started = time.process_time()
    judge(EXERCISES[name], lambda *arguments: torch.zeros(()))
    assert time.process_time() - started < 2


def test_what_comes_first_is_outside_the_time_limit():
    slow = explained(checks.check_ratio, first=lambda: time.sleep(1.2))
    assert slow(EXERCISES["ratio"].reference, 1.0).status == "correct"
