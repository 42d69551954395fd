"""Importance weights for responses of another policy: exact where nothing is cut, by enumeration."""

import itertools

import torch
from hypothesis import given
from strategies import close, padded_batches

from helpers.off_policy import truncated_importance_weights

ANSWERS = 3
GENERATOR = torch.Generator().manual_seed(5)
# a policy of two tokens: the second's probabilities depend on the first
FIRST, SECOND = (torch.randn(2, *shape, generator=GENERATOR, dtype=torch.float64)
                 for shape in ((ANSWERS,), (ANSWERS, ANSWERS)))  # fmt: skip
REWARDS = torch.randn(ANSWERS, ANSWERS, generator=GENERATOR, dtype=torch.float64)


def all_logprobs(first, second) -> torch.Tensor:
    """Log-probs of both tokens of every response: [9, 2]."""
    one, two = first.log_softmax(0), second.log_softmax(1)
    rows = itertools.product(range(ANSWERS), repeat=2)
    return torch.stack([torch.stack([one[a], two[a, b]]) for a, b in rows])


def expected_gradient(**how) -> torch.Tensor:
    """E over the sampler's responses of Σ_t weight · reward · ∇log π, by the trainer's parameters."""
    first, second = FIRST[0].clone().requires_grad_(), SECOND[0].clone().requires_grad_()
    logprobs, sampler = all_logprobs(first, second), all_logprobs(FIRST[1], SECOND[1])
    mask = torch.ones(len(logprobs), 2, dtype=torch.bool)
    weights = (
        truncated_importance_weights(logprobs, sampler, mask, **how)
        if how
        else torch.ones_like(sampler)
    )
    chances = sampler.sum(dim=1).exp()
    gain = chances @ (weights * logprobs).sum(dim=1).mul(REWARDS.flatten())
    return torch.cat([g.flatten() for g in torch.autograd.grad(gain, (first, second))])


def exact_gradient() -> torch.Tensor:
    first, second = FIRST[0].clone().requires_grad_(), SECOND[0].clone().requires_grad_()
    value = all_logprobs(first, second).sum(dim=1).exp() @ REWARDS.flatten()
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, (first, second))])


def error(**how) -> float:
    exact = exact_gradient()
    return float((expected_gradient(**how) - exact).norm() / exact.norm())


def test_weights_of_whole_responses_give_the_exact_gradient():
    assert error(cap=1e9, level="sequence") < 1e-9


def test_each_step_towards_the_exact_gradient_costs_noise_instead_of_bias():
    """No weights, weights by token, cut weights of responses, uncut ones: all but the last are biased."""
    assert error() > error(cap=1e9) > 1e-3
    assert error() > error(cap=2.0, level="sequence") > 1e-3
    caps = [error(cap=cap, level="sequence") for cap in (1.2, 2.0, 4.0, 1e9)]
    assert caps == sorted(caps, reverse=True)


@given(padded_batches(tensors=2, allow_empty_rows=False))
def test_weights_are_the_capped_ratios(batch):
    logprobs, sampler, mask = batch
    tokens = truncated_importance_weights(logprobs, sampler, mask, cap=1.5)
    whole = truncated_importance_weights(logprobs, sampler, mask, cap=1.5, level="sequence")
    for b in range(len(mask)):
        ratios = [
            (logprobs[b, t] - sampler[b, t]).double().exp() for t in mask[b].nonzero().flatten()
        ]
        product = float(torch.stack(ratios).prod())
        close(tokens[b][mask[b]], torch.stack(ratios).clamp(max=1.5).float(), 1e-4, 1e-5)
        close(whole[b][mask[b]], torch.full((len(ratios),), min(product, 1.5)), 1e-3, 1e-5)
    assert bool((tokens[~mask] == 0).all() and (whole[~mask] == 0).all())


def test_no_gradient_and_no_padding_get_through():
    logprobs = torch.tensor([[-1.0, float("nan")]], requires_grad=True)
    sampler, mask = torch.tensor([[-2.0, float("inf")]]), torch.tensor([[True, False]])
    weights = truncated_importance_weights(logprobs, sampler, mask)
    assert weights.tolist() == [[2.0, 0.0]] and not weights.requires_grad
    huge = truncated_importance_weights(torch.zeros(1, 1), torch.full((1, 1), -500.0), mask[:, :1])
    assert huge.tolist() == [[2.0]]
