"""Kinds of mistakes that any exercise may have, and those of lessons 00 to 03 that came with them."""

import math

import pytest
import torch

from helpers import checks
from helpers.checks.gae.td_errors import TD
from helpers.checks.judging.dependence import depends_otherwise
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.slips import slips
from helpers.checks.rollouts.logprobs import KL
from helpers.checks.whitening.statistics import MEAN


def kept(x, mask):
    return x.masked_fill(~mask, 0.0)


def ahead(x, steps=1):
    return torch.cat([x[:, steps:], x.new_zeros(len(x), steps)], 1)


def first_end(ids, eos):
    found = (ids == eos).int().argmax(1, keepdim=True)
    return torch.where((ids == eos).any(1, True), found, ids.shape[1])


def delta(r, v, g, m):
    r, v = kept(r, m), kept(v, m)
    return kept(r + g * ahead(v) - v, m)


def summed_back(x, decay):
    out, total = [], 0.0
    for column in reversed(x.unbind(1)):
        total = column + decay * total
        out.insert(0, total)
    return torch.stack(out, 1)


def credit(deltas=delta, change=lambda a, m: a, to_go=summed_back):
    def answer(r, v, g, lam, m):
        d = deltas(r, v, g, m)
        a = change(kept(summed_back(d, g * lam), m), m)
        return d, a, kept(a + v, m), kept(to_go(kept(r, m), g), m)

    return answer


def white(a, m, mean=None, spread=None):
    x = a[m]
    mean = x.mean() if mean is None else mean
    spread = (x.var() + 1e-8).sqrt() if spread is None else spread
    return kept((a - mean) / spread, m)


# fmt: off
WRONG = [
    ("objective", "difference of probabilities", lambda s, p, q, m, b: (
        s.mean() - b * kept(p.exp() - q.exp(), m).sum() / len(s))),
    ("objective", "tokens clamped at 0", lambda s, p, q, m, b: (
        s.mean() - b * kept((p - q).relu(), m).sum() / len(s))),
    ("objective", "KL clamped at 0", lambda s, p, q, m, b: (s - b * kept(p - q, m).sum(1).relu()).mean()),
    ("objective", "KL in bits", lambda s, p, q, m, b: (
        s - b * kept(p - q, m).sum(1) * math.log2(math.e)).mean()),
    ("objective", "padding of ref_logprobs counted", lambda s, p, q, m, b: (
        s - b * (kept(p, m) - q).sum(1)).mean()),
    ("objective", "scores summed, KL averaged", lambda s, p, q, m, b: (
        s.sum() - b * kept(p - q, m).sum() / len(s))),
    ("objective", "first token left out", lambda s, p, q, m, b: (
        s - b * kept(p - q, m)[:, 1:].sum(1)).mean()),
    ("kl_estimate", "k2 halved before the square", lambda p, q, k: (
        {"k1": p - q, "k2": (0.5 * p - 0.5 * q) ** 2, "k3": torch.expm1(q - p) + p - q}[k])),
    ("kl_estimate", "wrong for large differences", lambda p, q, k: (
        {"k1": p - q, "k2": (p - q) ** 2 / 2, "k3": torch.expm1((q - p).clamp(max=9.0)) + p - q}[k])),
    ("kl_estimate", "clamped at 0", lambda p, q, k: (
        (p - q).relu() if k == "k1" else KL.reference(p, q, k))),
    ("position_ids", "rolled round", lambda m: torch.roll(m.int().cumsum(1), 1, 1)),
    ("position_ids", "one shift for all rows", lambda m: (
        (torch.arange(m.shape[1]) - min(int((~row).sum()) for row in m)).clamp(min=0).repeat(len(m), 1))),
    ("position_ids", "counted from the right", lambda m: m.flip(1).cumsum(1).flip(1)),
    ("position_ids", "one shift for all rows", lambda m: (m.cumsum(1) - m.long())[:1].repeat(len(m), 1)),
    ("response_mask", "True from the EOS on", lambda x, e: (
        torch.arange(x.shape[1]) >= first_end(x, e))),
    ("response_mask", "only the EOS counts", lambda x, e: torch.arange(x.shape[1]) == first_end(x, e)),
    ("response_mask", "only the token before", lambda x, e: torch.cat(
        [torch.full((len(x), 1), True), x[:, :-1] != e], 1)),
    ("response_mask", "runs on across rows", lambda x, e: (
        (x.reshape(-1) == e).cumsum(0).reshape(x.shape) - (x == e).long() == 0)),
    ("response_mask", "wrong shape", lambda x, e: (lambda m: m[:, : int(m.sum(1).max())])(
        torch.arange(x.shape[1]) <= first_end(x, e))),
    ("response_mask", "too much is True", lambda x, e: (
        (torch.arange(x.shape[1]) <= first_end(x, e)) | (x == 5))),
    ("response_mask", "too little is True", lambda x, e: (
        (torch.arange(x.shape[1]) <= first_end(x, e)) & (x != 6))),
    ("shape_rewards", "difference of probabilities", lambda s, p, q, m, b: (
        kept(b * (q.exp() - p.exp()), m) + s[:, None] * (m & ~ahead(m.float()).bool()))),
    ("shape_rewards", "k2 instead of k1", lambda s, p, q, m, b: (
        kept(-b / 2 * (p - q) ** 2, m) + s[:, None] * (m & ~ahead(m.float()).bool()))),
    ("shape_rewards", "KL divided by the length", lambda s, p, q, m, b: (
        kept(b * (q - p) / m.sum(1, True), m) + s[:, None] * (m & ~ahead(m.float()).bool()))),
    ("shape_rewards", "logprobs left out", lambda s, p, q, m, b: (
        kept(b * q, m) + s[:, None] * (m & ~ahead(m.float()).bool()))),
    ("td_errors", "two tokens ahead", lambda r, v, g, m: kept(r + g * ahead(kept(v, m), 2) - v, m)),
    ("td_errors", "signs of the values exchanged", lambda r, v, g, m: kept(
        r + v - g * ahead(kept(v, m)), m)),
    ("td_errors", "reward left out", lambda r, v, g, m: kept(g * ahead(kept(v, m)) - v, m)),
    ("td_errors", "γ to the power of the position", lambda r, v, g, m: kept(
        r + torch.tensor([g**t for t in range(r.shape[1])]) * ahead(kept(v, m)) - v, m)),
    ("td_errors", "down the batch", lambda r, v, g, m: kept(
        r + g * torch.cat([kept(v, m), torch.zeros(1, r.shape[1])])[1:] - v, m)),
    ("credit", "own reward left out", credit(to_go=lambda r, g: g * ahead(summed_back(r, g)))),
    ("credit", "last column never added", credit(
        change=lambda a, m: a, to_go=lambda r, g: torch.cat(
            [summed_back(r[:, :-1], g), 0 * r[:, -1:]], 1))),
    ("credit", "γ or λ of 0", lambda r, v, g, lam, m: (lambda d, w: (
        d, w, kept(w + v, m), kept(summed_back(kept(r, m), g), m)))(
            delta(r, v, g, m), kept((lambda x, s: (x * s).flip(1).cumsum(1).flip(1) / s)(
                delta(r, v, g, m), (g * lam) ** torch.arange(r.shape[1])), m))),
    ("masked_mean", "median", lambda x, m: x[m].median()),
    ("masked_mean", "middle of the extremes", lambda x, m: 0.5 * (x[m].amin() + x[m].amax())),
    ("masked_mean", "first row only", lambda x, m: x[0][m[0]].mean()),
    ("masked_mean", "absolute x", lambda x, m: x[m].abs().mean()),
    ("masked_var", "median instead of mean", lambda x, m: (
        ((x[m] - x[m].median()) ** 2).sum() / (m.sum() - 1))),
    ("masked_var", "padding in the mean's divisor", lambda x, m: (
        ((x[m] - x[m].sum() / x.numel()) ** 2).sum() / (len(x[m]) - 1))),
    ("masked_var", "digits lost", lambda x, m: (
        ((x[m] ** 2).mean() - x[m].mean() ** 2) * m.sum() / (m.sum() - 1).clamp(min=1))),
    ("masked_var", "zeros left out", lambda x, m: (lambda y: (
        (y - y.mean()).pow(2).sum() / max(len(y) - 1, 1)))(x[m & (x != 0)])),
    ("whiten_advantages", "one token", lambda a, m: white(a, m, spread=a[m].std() + 1e-8)),
    ("whiten_advantages", "mean over padding", lambda a, m: (lambda mean: white(
        a, m, mean, (((a[m] - mean) ** 2).sum() / (m.sum() - 1) + 1e-8).sqrt()))(a.mean())),
    ("whiten_advantages", "mean not subtracted in the variance", lambda a, m: white(
        a, m, spread=((a[m] ** 2).sum() / (m.sum() - 1) + 1e-8).sqrt())),
    ("whiten_advantages", "scaled by the extremes", lambda a, m: kept(
        (a - a[m].amin()) / (a[m].amax() - a[m].amin()).clamp(min=1e-8), m)),
    ("whiten_advantages", "a large epsilon", lambda a, m: white(a, m, spread=(a[m].var() + 0.01).sqrt())),
    ("explained_variance", "squared correlation", lambda v, r, m: (
        torch.corrcoef(torch.stack([r[m], v[m]]))[1, 0] ** 2)),
    ("explained_variance", "two divisors", lambda v, r, m: (
        1 - (r - v)[m].var(correction=0) / r[m].var())),
    ("explained_variance", "error over padding", lambda v, r, m: 1 - (r - v).var() / r[m].var()),
    ("explained_variance", "1 added", lambda v, r, m: 1 + (r - v)[m].var() / r[m].var()),
]
# fmt: on


@pytest.mark.parametrize(("name", "mistake", "function"), WRONG)
def test_a_kind_of_mistake_is_named(name, mistake, function):
    report = getattr(checks, f"check_{name}")(function)
    assert (report.status, report.mistake) == ("mistake", mistake), report


DEPENDENCES = [
    ("rows mixed", lambda r, v, g, m: TD.reference(r, v, g, m) + 0.1 * kept(r, m).roll(1, 0)),
    ("rewards of other tokens", lambda r, v, g, m: TD.reference(kept(r, m) + ahead(kept(r, m), 3), v, g, m)),
    ("weight of rewards", lambda r, v, g, m: TD.reference(3 * r, v, g, m)),
    ("sign of values", lambda r, v, g, m: TD.reference(r, -v, g, m) + 0.01),
    ("values without effect", lambda r, v, g, m: kept(2 * r + g, m)),
    ("gamma without effect", lambda r, v, g, m: kept(2 * r + v, m)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), DEPENDENCES)
def test_what_an_answer_depends_on_is_said(name, function):
    assert depends_otherwise(TD, function, TD.probes)[0] == name


def test_the_right_answer_depends_on_its_arguments_as_it_should():
    for exercise in (TD, MEAN):
        assert depends_otherwise(exercise, exercise.reference, exercise.probes) is None


def test_a_slip_that_changes_nothing_is_no_name():
    """The mean of rows' means is the mean itself where rows are equally long: that must not be blamed."""
    mean = Exercise("mean", "x", lambda x: x.mean(), "mean", [(noise(1, 2, 3),)], [])
    report = checker(mean)(lambda x: -x.mean())
    assert report.mistake == "sign flipped"


def test_a_new_exercise_has_slips_of_its_own():
    given = floats([1.0, -2.0, 3.0], [4.0, 5.0, 6.0]), prefix_mask(3, 3, 2), 0.3
    scaled = Exercise(
        "scaled", "x mask beta", lambda x, m, b: (b * kept(x, m)).sum(), "β·Σx", [given], []
    )
    assert len(slips(scaled)) > 30
    assert checker(scaled)(lambda x, m, b: kept(x, m).sum()).mistake == "beta missing"
    assert checker(scaled)(lambda x, m, b: b * x.sum()).mistake == "padding counted"
