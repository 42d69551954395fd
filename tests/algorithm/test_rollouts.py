"""Sampling, masks and log-probs, against one unpadded row at a time."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    EOS,
    PAD,
    PROMPTS,
    RESPONSES,
    TOKENS,
    close,
    fixed_policy,
    left_pad,
    prefix_mask,
    seeded,
    tiny_policy,
    tiny_value_network,
    tiny_world,
)

from helpers.rollouts import (
    PER_TOKEN,
    forward_logprobs,
    forward_values,
    gather_logprobs,
    position_ids,
    response_mask,
)
from helpers.sampling import generate


def test_gather_of_half_precision_logits_is_computed_in_full_precision():
    logits = 5 * torch.randn(2, 3, 50, generator=seeded())
    tokens = torch.tensor([[0, 40, 2], [30, 3, 1]])
    logits[0, 0, :2] = torch.tensor([1e4, -1e4])  # and it survives huge ones
    half = logits.to(torch.bfloat16)
    close(gather_logprobs(half, tokens).float(), gather_logprobs(half.float(), tokens), atol=1e-5)


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=5))
def test_response_mask_row_by_row(rows):
    """Up to and including the first stop; a pad before it is an action like any other."""
    lengths = [row.index(EOS) + 1 if EOS in row else 5 for row in rows]
    assert torch.equal(response_mask(torch.tensor(rows), EOS), prefix_mask(lengths, 5))


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_positions_are_never_negative(rows):
    mask = torch.tensor(rows)
    ids = position_ids(mask)
    assert ids.min() >= 0
    for row, keep in zip(ids, mask, strict=True):
        assert row[keep].tolist() == list(range(int(keep.sum())))


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_forward_logprobs_equal_each_row_alone_without_padding(temperature):
    policy = tiny_policy()
    with torch.no_grad():
        batched = forward_logprobs(policy, *TOKENS, temperature=temperature)
        assert batched.shape == (6, 5)
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
            logits = policy(torch.tensor([prompt + response])).logits[0] / temperature
            for t, token in enumerate(response):  # token t is predicted from the position before it
                probs = logits[len(prompt) + t - 1].softmax(-1)
                close(batched[row, t], probs[token].log(), atol=1e-4)


def test_forward_values_equal_each_row_alone_without_padding():
    value_network = tiny_value_network()
    with torch.no_grad():
        batched = forward_values(value_network, *TOKENS)
        assert batched.shape == (6, 5)
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
            tokens = torch.tensor([prompt + response])
            alone = value_network(tokens, torch.ones_like(tokens))[0]
            close(batched[row, : len(response)], alone[len(prompt) - 1 : -1], atol=1e-5)


def sample(policy, prompts, length=6, stop=EOS, **options):
    return generate(policy, *left_pad(prompts), length, stop, PAD, generator=seeded(), **options)


def test_any_of_several_stop_tokens_ends_a_response():
    policy, prompts, stops = tiny_policy(), PROMPTS * 8, [EOS, 3, 5]
    tokens, mask, logprobs = sample(policy, prompts, 12, stops)
    assert tokens.shape == mask.shape == logprobs.shape and (tokens[~mask] == PAD).all()
    assert tokens.dtype == torch.int64 and mask.dtype == torch.bool
    for row, counted in zip(tokens.tolist(), mask.tolist(), strict=True):
        written = [token for token, c in zip(row, counted, strict=True) if c]
        assert not set(written[:-1]) & set(stops)
        assert written[-1] in stops or len(written) == 12
    assert torch.equal(mask, response_mask(tokens, stops) & mask)
    assert {int(row[m][-1]) for row, m in zip(tokens, mask, strict=True)} >= set(stops)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.8])
def test_cached_sampling_logprobs_equal_one_full_forward(temperature):
    policy, prompts = tiny_policy(), PROMPTS * 4
    tokens, mask, logprobs = sample(policy, prompts, temperature=temperature)
    assert not logprobs.requires_grad
    with torch.no_grad():
        full = forward_logprobs(policy, *left_pad(prompts), tokens, mask, temperature=temperature)
    close(logprobs[mask], full[mask], atol=1e-4)


@pytest.mark.parametrize("stop, length", [(60.0, 1), (-60.0, 7)])
def test_sampling_ends_when_every_row_has_stopped_and_else_at_the_cap(stop, length):
    policy = fixed_policy([0.0, stop, 0.0, 0.0])
    tokens, mask, _ = sample(policy, prompts=[[2], [3, 2]], length=7)
    assert tokens.shape == (2, length) and mask.all() and (tokens == EOS).all() == (length == 1)


def numbered_rollout():
    """Six rows, told apart by their scores; the even ones are skipped."""
    scores = torch.arange(6.0)
    return replace(tiny_world(scores).rollout, skipped=scores % 2 == 0)


@pytest.mark.parametrize("size", [1, 2, 5, 6, 100])
def test_minibatches_are_a_partition_of_the_rows_each_whole_in_every_field(size):
    rollout, seen = numbered_rollout(), []
    for minibatch in rollout.minibatches(size, seeded()):
        assert len(minibatch) == min(size, 6 - len(seen))
        for i, row in enumerate(minibatch.scores.long().tolist()):
            seen.append(row)
            for part, whole in (("query", "query_mask"), ("response", "response_mask")):
                here, there = getattr(minibatch, whole)[i], getattr(rollout, whole)[row]
                names = [f"{part}_tensors", *(PER_TOKEN if part == "response" else ())]
                for name in names:
                    mine, theirs = getattr(minibatch, name)[i], getattr(rollout, name)[row]
                    assert torch.equal(mine[here], theirs[there]), name
            assert bool(minibatch.skipped[i]) == (row % 2 == 0)
    assert sorted(seen) == list(range(6))


def test_minibatches_are_reshuffled_each_time_and_repeatable_by_seed():
    rollout, generator = numbered_rollout(), seeded()

    def order(generator) -> list:
        return [x for part in rollout.minibatches(2, generator) for x in part.scores.tolist()]

    orders = [order(generator) for _ in range(5)]
    assert len({tuple(one) for one in orders}) > 1 and orders[0] == order(seeded())
