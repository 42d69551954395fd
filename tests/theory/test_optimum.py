"""The exact optimum, and its estimates, against enumeration and brute force."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import close, seeded

from helpers.theory.optimum import (
    Estimate,
    effective_sample_size,
    efficiency,
    gibbs_policy,
    gibbs_value,
    importance_weights,
    kl_divergence,
    optimal_value,
    policy_value,
)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def draws(probs, samples, seed=0):
    """[P, V] probabilities -> [P, samples] indices drawn from each row."""
    return torch.multinomial(probs, samples, replacement=True, generator=seeded(seed))


@st.composite
def problems(draw):
    """ref_probs, probs, rewards [2, V], β: some answers impossible under the reference."""
    size, seed = draw(st.integers(2, 8)), draw(st.integers(0, 10_000))
    spread = draw(st.sampled_from([0.1, 1.0, 3.0]))
    possible = torch.rand(2, size, generator=seeded(seed)) < 0.7
    possible[:, 0] = True
    masses = (spread * normal(2, 2, size, seed=seed)).exp() * possible
    ref_probs, probs = masses / masses.sum(-1, keepdim=True)
    kl_coef = draw(st.floats(0.05, 20))
    return ref_probs, probs, 2 * normal(2, size, seed=seed + 1), kl_coef


# --- by enumeration -------------------------------------------------------------------------------


def test_by_hand_the_value_of_two_answers():
    """β = 2, rewards 0 and 2·log 3: J* = 2·log(½·1 + ½·3)."""
    value = gibbs_value(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 2 * math.log(3)]), 2.0)
    close(value, 2 * math.log(2))


@given(problems())
def test_any_policy_falls_short_of_the_value_by_beta_times_its_kl_from_the_optimum(problem):
    ref_probs, probs, rewards, kl_coef = problem
    reached = (probs * rewards).sum(-1) - kl_coef * kl_divergence(probs, ref_probs)
    gap = kl_coef * kl_divergence(probs, gibbs_policy(ref_probs, rewards, kl_coef))
    close(gibbs_value(ref_probs, rewards, kl_coef) - reached, gap, atol=1e-8, rtol=1e-8)


@given(problems(), st.floats(1.05, 5))
def test_the_value_falls_from_the_best_reward_to_the_references_mean_as_beta_grows(problem, more):
    ref_probs, _, rewards, kl_coef = problem
    value = gibbs_value(ref_probs, rewards, kl_coef)
    assert torch.all(gibbs_value(ref_probs, rewards, kl_coef * more) <= value + 1e-9)
    best = rewards.masked_fill(ref_probs == 0, -math.inf).max(-1).values
    close(gibbs_value(ref_probs, rewards, 1e-4), best, atol=1e-2)
    close(gibbs_value(ref_probs, rewards, 1e6), (ref_probs * rewards).sum(-1), atol=1e-4)


def test_a_large_beta_costs_no_digits_in_single_precision():
    ref_probs, rewards = normal(5).softmax(-1).float(), normal(5, seed=1).float()
    value = gibbs_value(ref_probs, rewards, 1e5)
    assert value.dtype == torch.float32
    close(value, (ref_probs * rewards).sum(), atol=1e-2 * rewards.abs().max().item())


def test_by_hand_kl_its_direction_and_its_zeros():
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25])
    close(kl_divergence(p, q), 0.5 * math.log(2))
    assert kl_divergence(q, p) == math.inf  # q says what p never does
    close(kl_divergence(torch.stack([p, q]), torch.stack([p, q])), torch.zeros(2))


# --- J of a policy, from samples ------------------------------------------------------------------

KL_COEF = 0.5
REF_PROBS = normal(3, 12).softmax(-1)  # three prompts, twelve answers
REWARDS = normal(3, 12, seed=1) + torch.tensor([[-3.0], [0.0], [3.0]])  # and far apart
OPTIMUM = gibbs_policy(REF_PROBS, REWARDS, KL_COEF)
VALUE = gibbs_value(REF_PROBS, REWARDS, KL_COEF).mean().item()
KL = kl_divergence(OPTIMUM, REF_PROBS).mean().item()
SCORE = (OPTIMUM * REWARDS).sum(-1).mean().item()


def test_by_hand_the_value_of_a_policy_and_its_error():
    """Values 1, 3, 2 and 5, 9, 7: variances 1 and 4, so √((1 + 4)/3)/2."""
    scores, kl = torch.tensor([[2.0, 3, 3], [5, 11, 8]]), torch.tensor([[2.0, 0, 2], [0, 4, 2]])
    estimate = policy_value(scores, kl, 0.5)
    assert estimate.mean == pytest.approx(4.5)
    assert estimate.stderr == pytest.approx(math.sqrt(5 / 3) / 2)


def test_the_error_of_a_policys_value_is_the_spread_over_fresh_samples_of_the_same_prompts():
    answers = draws(REF_PROBS, 40 * 1000).view(3, 1000, 40)
    estimates = [
        policy_value(REWARDS.gather(1, a), torch.zeros(3, 40), KL_COEF) for a in answers.unbind(1)
    ]
    means = torch.tensor([estimate.mean for estimate in estimates])
    stderr = torch.tensor([estimate.stderr for estimate in estimates]).mean().item()
    assert stderr == pytest.approx(means.std().item(), rel=0.08)
    exact = (REF_PROBS * REWARDS).sum(-1).mean().item()
    assert abs(means.mean().item() - exact) < 4 * stderr / math.sqrt(1000)


# --- J*, from samples -----------------------------------------------------------------------------


def test_by_hand_weights_and_their_effective_sample_size():
    weights = importance_weights(torch.tensor([[0.0, 2 * math.log(3)], [5.0, 5.0]]), 2.0)
    close(weights, torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    close(effective_sample_size(weights), torch.tensor([1.6, 2.0]))
    close(effective_sample_size(torch.eye(3)), torch.ones(3))


NEAR = torch.stack([OPTIMUM[0], *REF_PROBS[1:].flip(1)])  # near π* at one prompt, far elsewhere
MIXTURES = [
    ([REF_PROBS], [60]),
    ([REF_PROBS, NEAR], [60, 60]),
    ([REF_PROBS, NEAR, OPTIMUM], [40, 20, 4]),
]


def sampled(policies, sizes, seed=0, copies=1):
    """`scores`, `log_ratios`, `sizes` of samples of each policy at `copies` of the three prompts."""
    parts = zip(policies, sizes, strict=True)
    drawn = [draws(q.repeat(copies, 1), n, seed + k) for k, (q, n) in enumerate(parts)]
    answers = torch.cat(drawn, dim=1)
    rows = [REWARDS, *((q / REF_PROBS).log() for q in policies)]
    scores, *ratios = (x.repeat(copies, 1).gather(1, answers) for x in rows)
    return {"scores": scores, "log_ratios": torch.stack(ratios), "sizes": sizes}


@pytest.mark.parametrize("policies, sizes", MIXTURES)
def test_by_sampling_the_best_value_is_unbiased_and_its_error_honest(policies, sizes):
    """To take at each prompt the set of the larger effective sample size is off by seven standard errors."""
    found = [
        optimal_value(kl_coef=KL_COEF, min_ess=1.0, **sampled(policies, sizes, 10 * i, copies=8))
        for i in range(1000)
    ]

    def column(name):
        return torch.tensor([getattr(o, name) for o in found], dtype=torch.float64)

    values, stderr = column("value"), column("stderr")
    for name, exact in (("value", VALUE), ("kl", KL), ("score", SCORE)):
        error = column(name).std().item() / math.sqrt(1000)
        assert abs(column(name).mean().item() - exact) < 4 * error, name
    assert VALUE - (values - column("bias")).mean() > 5 * values.std() / math.sqrt(1000)
    assert stderr.mean().item() == pytest.approx(values.std().item(), rel=0.08)
    assert 0.92 < ((values - VALUE).abs() < 2 * stderr).double().mean() < 0.98


def test_every_outcome_counted_the_mean_weight_of_a_mixture_is_exactly_that_of_the_optimum():
    """Σ_k (n_k/N)·Σ_y q_k(y)·w(y) = exp(J*/β): with each answer as often as it is likely, no noise."""
    counts = torch.tensor([[6, 3, 1], [2, 6, 12]])  # 10 and 20 samples of two policies
    ref_probs, rewards = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1.0, 0.0, -1.0])
    answers = torch.arange(3).repeat(2).repeat_interleave(counts.flatten())
    ratios = (counts / counts.sum(1, keepdim=True) / ref_probs).log()
    found = optimal_value(rewards[answers][None], 0.5, 1.0, ratios[:, None, answers], [10, 20])
    exact = gibbs_value(ref_probs, rewards, 0.5).item()
    assert found.value - found.bias == pytest.approx(exact, abs=1e-6)


def test_the_optimum_as_proposal_needs_no_luck():
    optimum = optimal_value(kl_coef=KL_COEF, **sampled([OPTIMUM], [60]))
    assert optimum.value == pytest.approx(VALUE)
    assert optimum.stderr == pytest.approx(0, abs=1e-6)
    assert optimum.ess.min().item() == pytest.approx(60)


def test_too_few_samples_for_this_beta_are_refused_by_prompt():
    scores = torch.zeros(4, 200)
    scores[3, :12] = 100.0
    with pytest.raises(ValueError, match="effective sample size of 12 at prompt 3.*at least 50"):
        optimal_value(scores, 0.1)
    found = optimal_value(scores, 0.1, min_ess=12 - 1e-6)
    assert found.ess.min().item() == pytest.approx(12)
    last = 100 + 0.1 * math.log(12 / 200)  # the logarithm is per prompt: the others' value is 0
    assert found.value - found.bias == pytest.approx(last / 4)


# --- efficiency -----------------------------------------------------------------------------------


def test_efficiency_is_0_for_the_reference_and_1_for_the_optimum():
    reference, best = Estimate(-1.0, 0.1), Estimate(3.0, 0.2)
    assert efficiency(reference, reference, best).mean == 0
    assert efficiency(best, reference, best).mean == 1
    assert efficiency(Estimate(2.0, 0.0), reference, best).mean == 0.75


@pytest.mark.parametrize("errors", [(0.05, 0, 0), (0, 0.05, 0), (0, 0, 0.05), (0.03, 0.06, 0.04)])
def test_the_error_of_the_efficiency_is_its_spread(errors):
    means = (1.5, 0.0, 2.0)
    noisy = torch.tensor(means) + torch.tensor(errors) * normal(20_000, 3)
    spread = ((noisy[:, 0] - noisy[:, 1]) / (noisy[:, 2] - noisy[:, 1])).std().item()
    estimate = efficiency(*(Estimate(m, e) for m, e in zip(means, errors, strict=True)))
    assert estimate.stderr == pytest.approx(spread, rel=0.04)
