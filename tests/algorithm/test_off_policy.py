"""Importance weights for responses of another policy, by their definition."""

import torch
from hypothesis import given
from strategies import close, padded_batches

from helpers.off_policy import truncated_importance_weights


@given(padded_batches(tensors=2, allow_empty_rows=False))
def test_weights_are_the_capped_ratios(batch):
    logprobs, sampler, mask = batch
    tokens = truncated_importance_weights(logprobs, sampler, mask, cap=1.5)
    whole = truncated_importance_weights(logprobs, sampler, mask, cap=1.5, level="sequence")
    for b in range(len(mask)):
        ratios = (logprobs - sampler)[b][mask[b]].exp()
        close(tokens[b][mask[b]], ratios.clamp(max=1.5), 1e-4, 1e-5)
        product = float(ratios.prod().clamp(max=1.5))
        close(whole[b][mask[b]], torch.full_like(ratios, product), 1e-3, 1e-5)
    assert bool((tokens[~mask] == 0).all() and (whole[~mask] == 0).all())


def test_no_gradient_and_no_padding_get_through():
    logprobs = torch.tensor([[-1.0, float("nan")]], requires_grad=True)
    sampler, mask = torch.tensor([[-2.0, float("inf")]]), torch.tensor([[True, False]])
    weights = truncated_importance_weights(logprobs, sampler, mask)
    assert weights.tolist() == [[2.0, 0.0]] and not weights.requires_grad
    huge = truncated_importance_weights(torch.zeros(1, 1), torch.full((1, 1), -500.0), mask[:, :1])
    assert huge.tolist() == [[2.0]]
