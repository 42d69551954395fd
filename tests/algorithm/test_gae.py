"""Generalised advantages against their definition (Schulman et al. 2016, eq. 16), never a recursion."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import close, padded_batches, prefix_mask

from helpers.gae import compute_gae

unit = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


def td_errors(rewards, values, gamma):
    """delta_t of one response; the value after its last token is 0."""
    following = [*values, 0.0][1:]
    return [r + gamma * after - v for r, v, after in zip(rewards, values, following, strict=True)]


def advantages_by_definition(rewards, values, mask, gamma, lam):
    """A_t = sum_l (gamma lam)^l delta_{t+l}, token by token."""
    result = torch.zeros_like(rewards)
    for row, length in enumerate(mask.sum(1).tolist()):
        deltas = td_errors(rewards[row, :length].tolist(), values[row, :length].tolist(), gamma)
        for t in range(length):
            result[row, t] = sum((gamma * lam) ** (s - t) * deltas[s] for s in range(t, length))
    return result


@given(padded_batches(), unit, unit)
def test_advantages_are_the_discounted_sum_of_td_errors(batch, gamma, lam):
    """With γ and λ of 0 and 1 among them; returns are advantages + values."""
    rewards, values, mask = batch
    advantages, returns = compute_gae(rewards, values, gamma, lam, mask)
    close(advantages, advantages_by_definition(rewards, values, mask, gamma, lam))
    close(returns[mask], (advantages + values)[mask])


def test_no_mask_means_everything_counts_and_the_defaults_are_099_and_095():
    rewards, values = torch.arange(10.0).view(2, 5), torch.ones(2, 5)
    mask = torch.ones(2, 5, dtype=torch.bool)
    spelled_out = compute_gae(rewards, values, gamma=0.99, lam=0.95, mask=mask)
    for short, long in zip(compute_gae(rewards, values), spelled_out, strict=True):
        close(short, long)


def test_inputs_are_left_as_they_were():
    rewards, values, mask = torch.ones(1, 3), torch.ones(1, 3), prefix_mask([2], 3)
    compute_gae(rewards, values, 1.0, 0.5, mask)
    assert torch.all(rewards == 1) and torch.all(values == 1)
    assert mask.tolist() == [[True, True, False]]
