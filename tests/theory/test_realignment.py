"""Mixing two policies at decoding time: its ends, its algebra, and that the cache changes nothing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.rollouts import forward_logprobs
from helpers.sampling import generate
from helpers.theory.optimum import gibbs_policy
from helpers.theory.realignment import RealignedPolicy, mix_logprobs, mixing_weight


@given(st.integers(0, 10_000), st.floats(0.05, 2.0), st.floats(0.05, 2.0))
def test_for_one_token_mixing_is_exact(seed, trained, wanted):
    generator = torch.Generator().manual_seed(seed)
    reference = torch.rand(7, generator=generator, dtype=torch.float64).softmax(-1)
    rewards = torch.randn(7, generator=generator, dtype=torch.float64)
    policy = gibbs_policy(reference, rewards, trained)
    mixed = mix_logprobs(policy.log(), reference.log(), mixing_weight(trained, wanted))
    torch.testing.assert_close(mixed.exp(), gibbs_policy(reference, rewards, wanted))


def test_weight_0_is_the_reference_and_1_the_policy():
    logprobs, reference = torch.randn(2, 3, 5).log_softmax(-1)
    torch.testing.assert_close(mix_logprobs(logprobs, reference, 0.0), reference)
    torch.testing.assert_close(mix_logprobs(logprobs, reference, 1.0), logprobs)


@pytest.mark.parametrize("trained, wanted", [(0.0, 0.1), (0.1, 0.0), (-1.0, 0.1)])
def test_beta_0_anchors_nothing(trained, wanted):
    with pytest.raises(ValueError, match="kl_coef"):
        mixing_weight(trained, wanted)


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="weight"):
        mix_logprobs(torch.zeros(2), torch.zeros(2), -0.5)


def test_sampling_with_two_caches_agrees_with_full_forwards(models):
    policy, reference = models.actor, models.reference
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    mixed = RealignedPolicy(policy, reference, 0.6).eval()
    queries = torch.tensor([[0, 5, 6], [7, 8, 9]])
    mask = torch.tensor([[False, True, True], [True, True, True]])
    stop, pad = models.tokenizer.eos_token_id, models.tokenizer.pad_token_id
    for _ in range(2):  # the second text must not see the first one's cache
        generator = torch.Generator().manual_seed(3)
        responses, counted, logprobs = generate(
            mixed, queries, mask, 6, stop, pad, generator=generator
        )
        full = forward_logprobs(mixed, queries, mask, responses, counted)
        torch.testing.assert_close(logprobs, full, atol=1e-5, rtol=1e-5)
