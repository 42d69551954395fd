"""KL(policy || reference): estimators by exact enumeration, shaped rewards, Ziegler's controller."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import close, padded_batches, seeded

from helpers.kl import AdaptiveKLController, full_kl, kl_estimate, shape_rewards


def exact_kl(p, q):
    return (p * (p / q).log()).sum()


def expected_estimate(p, q, estimator):
    """E_{y ~ p} of the estimator, over every token of the vocabulary."""
    return (p * kl_estimate(p.log()[None], q.log()[None], estimator)[0]).sum()


@st.composite
def distributions(draw):
    generator, scale = seeded(draw(st.integers(0, 10_000))), draw(st.sampled_from([0.1, 1.0, 3.0]))
    logits = torch.randn(2, draw(st.integers(2, 7)), generator=generator, dtype=torch.float64)
    return (scale * logits).softmax(-1)


@given(distributions())
def test_each_estimate_is_its_formula_and_k1_and_k3_are_unbiased(pair):
    log_ratio = (pair[0] / pair[1]).log()
    formulas = {"k1": log_ratio, "k2": log_ratio**2 / 2, "k3": (-log_ratio).exp() - 1 + log_ratio}
    for estimator, formula in formulas.items():
        found = kl_estimate(pair[0].log(), pair[1].log(), estimator)
        close(found, formula, atol=1e-9)
        close(kl_estimate(pair[0], pair[0], estimator), torch.zeros(len(pair[0])))
        assert estimator == "k1" or found.min() >= -1e-12
        if estimator != "k2":
            close(expected_estimate(*pair, estimator), exact_kl(*pair), atol=1e-8)
    assert torch.equal(kl_estimate(*pair), kl_estimate(*pair, "k1"))  # the default


@given(distributions())
def test_the_full_kl_is_the_sum_over_the_vocabulary_of_any_logits(pair):
    p, q = pair
    p = torch.cat([torch.zeros(1), p[1:] / p[1:].sum()])  # 0·log 0 is 0
    close(full_kl(p.log() + 3.0, q.log() - 1.0), exact_kl(p[1:], q[1:]), atol=1e-5)


@given(padded_batches(allow_empty_rows=False), st.floats(0, 3))
def test_each_counted_token_pays_beta_k1_and_only_the_last_is_scored(batch, kl_coef):
    logprobs, ref_logprobs, mask = batch
    scores = torch.linspace(1, 2, len(mask), dtype=torch.float64)
    surplus = shape_rewards(scores, logprobs, ref_logprobs, mask, kl_coef)
    surplus = surplus + (kl_coef * (logprobs - ref_logprobs)).masked_fill(~mask, 0)
    for row, length in enumerate(mask.sum(1).tolist()):
        expected = [0.0] * mask.shape[1]
        expected[length - 1] = scores[row].item()
        close(surplus[row], torch.tensor(expected, dtype=torch.float64))


def test_the_last_counted_token_is_found_by_position_and_not_by_counting():
    mask = torch.tensor([[False, True, True, False]])
    zeros = torch.zeros(1, 4)
    assert shape_rewards(torch.tensor([3.0]), zeros, zeros, mask, 0.1).tolist() == [[0, 0, 3, 0]]


@pytest.mark.parametrize(
    "observed, expected",
    [(6.0, 0.2), (6.6, 0.2 * 1.01), (5.4, 0.2 * 0.99), (600.0, 0.2 * 1.02), (0.0, 0.2 * 0.98)],
)  # on target, 10 % above and below, and the error clipped at 20 % both ways; 100 / 1000 samples
def test_controller_moves_beta_in_proportion_and_clips(observed, expected):
    controller = AdaptiveKLController(kl_coef=0.2, target=6.0, horizon=1000)
    controller.update(observed, num_samples=100)
    assert controller.kl_coef == pytest.approx(expected)
    controller.update(observed, num_samples=100)
    assert controller.kl_coef == pytest.approx(expected**2 / 0.2)  # it compounds
