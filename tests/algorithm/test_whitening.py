"""Whitening counts what the mask counts, over the whole batch at once."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import close, padded_batches, prefix_mask

from helpers.whitening import masked_mean, masked_var, whiten_advantages

batches = padded_batches(tensors=1, min_counted=2)
wide = 1e-4  # room for an epsilon under the square root


def spread_out(batch):
    """Only batches whose variance dwarfs any epsilon."""
    x, mask = batch
    assume(x[mask].var() > 1e-2)
    return x, mask


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


@given(batches)
def test_whitened_has_mean_zero_and_unbiased_variance_one(batch):
    x, mask = spread_out(batch)
    whitened = whiten_advantages(x, mask)
    close(whitened[mask].mean(), 0.0, atol=wide)
    close(whitened[mask].var(), 1.0, atol=wide)


@given(batches)
def test_without_the_shift_the_mean_stays_and_the_variance_is_one(batch):
    x, mask = spread_out(batch)
    whitened = whiten_advantages(x, mask, shift_mean=False)
    close(whitened[mask].mean(), x[mask].mean(), atol=wide)
    close(whitened[mask].var(), 1.0, atol=wide)


@given(batches, st.floats(0.5, 20), st.floats(-50, 50))
def test_whitening_forgets_scale_and_shift(batch, scale, shift):
    x, mask = spread_out(batch)
    close(whiten_advantages(scale * x + shift, mask), whiten_advantages(x, mask), atol=wide)


@given(batches)
def test_whitening_keeps_the_order(batch):
    x, mask = spread_out(batch)
    assert torch.equal(whiten_advantages(x, mask)[mask].argsort(), x[mask].argsort())


def test_one_counted_position_whitens_to_zero():
    whitened = whiten_advantages(torch.tensor([[5.0, 7.0], [8.0, 9.0]]), prefix_mask([1, 0], 2))
    assert torch.equal(whitened, torch.zeros(2, 2))


def test_equal_advantages_whiten_to_zero():
    close(whiten_advantages(torch.full((2, 3), 4.0)), torch.zeros(2, 3), atol=1e-3)
