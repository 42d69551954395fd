"""What stands in the padding changes no result and no gradient, and comes back as 0."""

import pytest
import torch
from hypothesis import given
from strategies import close, garbage_outside, padded_batches
from torch.utils._pytree import tree_leaves

from helpers.gae import compute_gae
from helpers.groups import mean_of_means, mean_over_length, sequence_log_ratio
from helpers.kl import shape_rewards
from helpers.off_policy import truncated_importance_weights
from helpers.ppo import explained_variance, policy_loss, value_loss
from helpers.whitening import masked_mean, masked_var, whiten_advantages

SCORES = torch.linspace(-2, 2, 4, dtype=torch.float64)
OF_X = {  # of one tensor and the mask
    masked_mean: {},
    masked_var: {},
    whiten_advantages: {"shift_mean": False},
    mean_of_means: {},
    mean_over_length: {"length": 7},
}
FUNCTIONS = {
    "compute_gae": lambda x, y, z, mask: compute_gae(x, y, 0.97, 0.9, mask),
    "shape_rewards": lambda x, y, z, mask: shape_rewards(SCORES[: len(x)], x, y, mask, 0.3),
    "whitening with the mean": lambda x, y, z, mask: whiten_advantages(x, mask),
    "policy_loss": policy_loss,
    "value_loss": value_loss,
    "explained_variance": lambda x, y, z, mask: explained_variance(x, y, mask),
    "sequence_log_ratio": lambda x, y, z, mask: sequence_log_ratio(x, y, mask),
    "importance weights": lambda x, y, z, mask: truncated_importance_weights(x, y, mask),
} | {
    function.__name__: lambda x, y, z, mask, function=function, more=more: function(x, mask, **more)
    for function, more in OF_X.items()
}


def results(name: str, tensors: list, mask) -> list[torch.Tensor]:
    """What a function returns, as a flat list, and the gradient of its first result by its first tensor."""
    x = tensors[0].clone().requires_grad_()
    given = FUNCTIONS[name](x, *tensors[1:], mask)
    first, *more = given if isinstance(given, tuple) else (given,)
    if first.requires_grad:
        (first * torch.arange(1, first.numel() + 1).view(first.shape)).sum().backward()
    gradient = torch.zeros_like(x) if x.grad is None else x.grad
    return [gradient, first.detach(), *(found.detach() for found in tree_leaves(more))]


@pytest.mark.parametrize("name", FUNCTIONS)
@given(padded_batches(tensors=3, allow_empty_rows=False))
def test_garbage_in_the_padding_changes_nothing(name, batch):
    *tensors, mask = batch
    clean = results(name, tensors, mask)
    fillers = zip(tensors, (1e6, -1e6, 3e6), strict=True)
    dirty = results(name, [garbage_outside(x, mask, filler) for x, filler in fillers], mask)
    for mine, theirs in zip(clean, dirty, strict=True):
        close(theirs, mine)
    assert all(bool((x[~mask] == 0).all()) for x in dirty[:2] if x.shape == mask.shape)
