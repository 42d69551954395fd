"""Whitening counts what the mask counts, over the whole batch at once."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import close, padded_batches, prefix_mask

from helpers.whitening import masked_mean, masked_var, whiten_advantages

batches = padded_batches(tensors=1, min_counted=2)


@given(padded_batches(tensors=1))
def test_masked_mean_is_the_mean_of_the_counted(batch):
    x, mask = batch
    close(masked_mean(x, mask), x[mask].mean())


@given(batches)
def test_masked_var_is_torchs_variance_of_the_counted(batch):
    x, mask = batch
    for unbiased in (True, False):
        expected = x[mask].var(unbiased=unbiased)
        close(masked_var(x, mask, unbiased=unbiased), expected)


@given(batches, st.booleans())
def test_whitened_is_the_distance_from_the_mean_in_standard_deviations(batch, shift_mean):
    x, mask = batch
    counted = x[mask]
    assume(counted.var() > 1e-2)  # dwarfs any epsilon
    expected = (counted - counted.mean()) / counted.std()
    found = whiten_advantages(x, mask, shift_mean=shift_mean)[mask]
    close(found, expected if shift_mean else expected + counted.mean(), atol=1e-4)


def test_one_counted_position_whitens_to_zero():
    whitened = whiten_advantages(torch.tensor([[5.0, 7.0], [8.0, 9.0]]), prefix_mask([1, 0], 2))
    assert torch.equal(whitened, torch.zeros(2, 2))


def test_equal_advantages_whiten_to_zero():
    close(whiten_advantages(torch.full((2, 3), 4.0)), torch.zeros(2, 3), atol=1e-3)
