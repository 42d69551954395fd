"""The large exercise of lesson 04: wrong updates are caught and named, right ones pass however written."""

import pytest
import torch
from ppo_update_answers import RIGHT, WRONG

from helpers import ppo
from helpers.checks import check_entropy, check_ppo_update_step, check_ratio, check_reinforce_loss
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED
from tests.notebooks.exercises import NOTEBOOKS, read, solutions

(LESSON,) = (path for path in NOTEBOOKS if path.stem == "04_ppo_update")
SOLUTIONS = solutions(read(LESSON))
MINIBATCHES = "torch.randperm(len(rollout)).split(config.minibatch_size)"


def answer(text: str = "", instead: str = "", **names):
    """The lesson's solution, with one piece of it replaced."""
    names = {"torch": torch, "ppo": ppo} | names
    for name in ("policy_loss", "value_loss"):
        if name not in names:
            exec(compile(SOLUTIONS[name], name, "exec"), names)
    source = SOLUTIONS["ppo_update_step"]
    assert text in source, text
    source = source.replace(text, instead) if text else source
    if instead == "            batch = rows\n":
        source = source.replace(MINIBATCHES, "rollout.minibatches(config.minibatch_size)")
    exec(compile(source, "answer", "exec"), names)
    return names["ppo_update_step"]


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_wrong_updates_are_caught_and_named(start):
    rows = WRONG[start::2]
    assert len(WRONG) >= 20
    found = [check_ppo_update_step(answer(text, instead)) for *_, text, instead in rows]
    pairs = list(zip(rows, found, strict=True))
    assert [row[0] for row, report in pairs if report.status != MISTAKE] == []
    named = [row[1].lower() in (report.mistake or "").lower() for row, report in pairs]
    missed = [
        (row[:2], report.mistake) for (row, report), ok in zip(pairs, named, strict=True) if not ok
    ]
    assert missed == []


@pytest.mark.slow
@pytest.mark.parametrize(("what", "text", "instead"), RIGHT, ids=[row[0] for row in RIGHT])
def test_right_updates_of_another_build_pass(what, text, instead):
    report = check_ppo_update_step(answer(text, instead))
    assert report.status == CORRECT, report


def test_a_stub_and_a_call_of_a_stub_are_told_so():
    assert check_ppo_update_step(lambda *given: NotImplemented).status == NOT_ATTEMPTED
    report = check_ppo_update_step(answer(policy_loss=lambda a, b, c, d, e: NotImplemented))
    assert (report.status, report.mistake) == (MISTAKE, "policy_loss comes first")


def test_a_single_step_is_counted_in_the_singular():
    report = check_ppo_update_step(answer("range(config.num_ppo_epochs)", "range(1)"))
    assert report.status == MISTAKE and "1 gradient step;" in report.message


def test_an_error_is_told_with_the_learner_s_call():
    report = check_ppo_update_step(lambda policy, critic: policy.trunk)
    assert report.exercise == "ppo_update_step"
    assert report.status == MISTAKE and "ppo_update_step(policy, value_network" in report.message


def test_a_ratio_whose_gradient_is_nan_with_garbage_in_the_padding_is_told_so():
    late = lambda p, old, mask: torch.where(mask, (p - old).exp(), 1.0)  # noqa: E731
    report = check_ratio(late)
    assert report.mistake == "NaN gradient"
    assert [label for label, _ in report.case][-2:] == ["gradient, yours", "gradient, expected"]
    early = lambda p, old, mask: torch.where(mask, p - old, 0.0).exp()  # noqa: E731
    assert check_ratio(early).status == CORRECT


def test_known_errors_of_python_have_names():
    picked = lambda z, w, a: -(z.log_softmax(-1)[w] * a[w]).mean()  # noqa: E731
    assert check_reinforce_loss(picked).mistake == "advantages indexed by the words"

    def terms(logits):
        return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(1)

    over_tokens = (
        lambda logits, mask: terms(logits)[mask].mean(),
        lambda logits, mask: torch.where(mask, terms(logits), 0.0).sum() / mask.sum(),
    )
    for function in over_tokens:
        assert check_entropy(function).mistake == "not one number per token"
