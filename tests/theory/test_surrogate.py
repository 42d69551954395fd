"""The gradient that old samples give, against definitions: right at home, wrong away from it."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.lessons.ppo_update.surrogate import (
    advantages,
    approx_kl,
    exact_gradient,
    gradient_error,
    moved,
    prefix_probs,
    random_world,
    surrogate_gradient,
)

SEEDS = st.integers(0, 10_000)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ratio", [True, False])
@given(SEEDS)
def test_the_gradient_is_the_mean_over_every_text_of_the_old_policy(ratio, seed):
    world = random_world(seed, vocabulary=3, length=2)
    old, new = world.reference, moved(world.reference, 0.02, seed)
    worth, logits = advantages(world, old), [step.log().requires_grad_() for step in new]
    gain = torch.zeros((), dtype=old[0].dtype)
    for text in product(range(3), repeat=2):
        prefix, chance, terms = 0, 1.0, 0.0
        for t, word in enumerate(text):
            logprob, before = logits[t].log_softmax(-1)[prefix, word], old[t][prefix, word]
            weight = logprob.exp() / before if ratio else logprob
            terms = terms + worth[t][prefix, word] * weight
            chance, prefix = chance * before, 3 * prefix + word
        gain = gain + chance * terms
    expected = torch.cat([each.flatten() for each in torch.autograd.grad(gain, logits)])
    close(surrogate_gradient(world, new, old, ratio), expected)


@given(SEEDS)
def test_the_exact_gradient_is_that_of_finite_differences(seed):
    world = random_world(seed, vocabulary=3, length=2)
    logits, size = [step.log() for step in world.reference], 1e-5
    expected = []
    for t, step in enumerate(logits):
        for place in range(step.numel()):
            ends = []
            for sign in (1, -1):
                changed = [each.clone() for each in logits]
                changed[t].view(-1)[place] += sign * size
                ends.append(prefix_probs([z.softmax(-1) for z in changed])[-1] @ world.rewards)
            expected.append((ends[0] - ends[1]) / (2 * size))
    found = exact_gradient(world, world.reference)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-6, atol=1e-8)


@given(SEEDS)
def test_with_one_token_or_at_the_old_policy_nothing_is_wrong(seed):
    world = random_world(seed, length=1)
    assert gradient_error(world, moved(world.reference, 0.01, seed), world.reference) < 1e-9
    world = random_world(seed, vocabulary=3, length=3)
    for ratio in (True, False):
        assert gradient_error(world, world.reference, world.reference, ratio) < 1e-9


def test_the_error_grows_with_the_length_and_with_the_distance():
    def error(length, distance):
        worlds = [(random_world(seed, length=length), seed) for seed in range(5)]
        pairs = [(w, moved(w.reference, distance, seed), w.reference) for w, seed in worlds]
        return sum(gradient_error(*pair) for pair in pairs) / 5

    by_length = [error(length, 0.01) for length in (2, 3, 4, 5)]
    assert by_length == sorted(by_length) and by_length[0] > 0.03
    assert error(4, 0.0001) < error(4, 0.01) / 5  # of first order: a tenth of the way, a tenth


@given(SEEDS, st.floats(1e-4, 0.05))
def test_a_policy_is_moved_by_the_distance_asked_for(seed, distance):
    world = random_world(seed, vocabulary=3, length=3)
    policy = moved(world.reference, distance, seed)
    assert approx_kl(policy, world.reference) == pytest.approx(distance, rel=1e-3)
    for step in policy:
        close(step.sum(-1), torch.ones_like(step.sum(-1)))


def test_advantages_average_to_0_and_prefixes_to_1():
    world = random_world(3, vocabulary=3, length=3)
    for step, found in zip(world.reference, advantages(world, world.reference), strict=True):
        close((step * found).sum(-1), torch.zeros(len(step), dtype=step.dtype))
    for probs in prefix_probs(world.reference):
        close(probs.sum(), torch.ones((), dtype=probs.dtype))


@given(SEEDS)
def test_rewards_are_centred_and_scaled_under_the_reference(seed):
    world = random_world(seed)
    probs = prefix_probs(world.reference)[-1]
    assert float(probs @ world.rewards) == pytest.approx(0.0, abs=1e-9)
    assert float(probs @ world.rewards.square()) == pytest.approx(1.0)
