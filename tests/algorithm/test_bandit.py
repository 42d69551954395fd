"""The whole loop on a problem with a known answer: one token, where pi* = ref * exp(r / beta)."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from strategies import (
    EOS,
    PAD,
    close,
    left_pad,
    ppo_config,
    rollout_of,
    tiny_policy,
    tiny_value_network,
)

from helpers.ppo import ppo_update_step
from helpers.reward_model import bradley_terry_loss
from helpers.rollouts import response_logits
from helpers.sampling import generate
from helpers.whitening import whiten_advantages

VOCAB, BATCH, KL_COEF = 8, 192, 0.5
PROMPTS = [[2], [3, 4, 5]]  # of different lengths, so that left padding is part of it
REWARDS = torch.tensor(
    [[1.0, -0.5, 0.0, 0.6, -1.0, 0.3, 0.8, -0.2], [-1.0, 0.4, 0.9, -0.3, 0.2, 1.0, -0.6, 0.0]]
)  # [prompt, token]


def exact_kl(log_p, log_q):
    """[prompt, vocab] -> the worst prompt's KL(p || q)."""
    return (log_p.exp() * (log_p - log_q)).sum(-1).max().item()


def next_logprobs(policy):
    queries, query_mask = left_pad(PROMPTS)
    one = torch.ones(len(queries), 1, dtype=torch.bool)
    with torch.no_grad():
        return response_logits(policy, queries, query_mask, one.long(), one)[:, 0].log_softmax(-1)


def roll_out(policy, reference, value_network, config, generator):
    which = torch.arange(BATCH) % len(PROMPTS)
    queries, query_mask = (tensor[which] for tensor in left_pad(PROMPTS))
    tokens, mask, logprobs = generate(policy, queries, query_mask, 1, EOS, PAD, generator=generator)
    scores = REWARDS[which, tokens[:, 0]]
    batch = (queries, query_mask, tokens, mask)
    rollout = rollout_of(policy, reference, value_network, *batch, scores, config.kl_coef)
    advantages = rollout.advantages
    if config.whiten_advantages:
        advantages = whiten_advantages(advantages, mask)
    return replace(rollout, logprobs=logprobs, advantages=advantages)


def train(whiten, iterations=70, learning_rate=5e-3):
    sizes = {"minibatch_size": BATCH, "micro_batch_size": BATCH, "vf_coef": 1.0}
    config = ppo_config(kl_coef=KL_COEF, whiten_advantages=whiten, **sizes)
    reference = tiny_policy(seed=5, vocab=VOCAB)
    policy, critic = copy.deepcopy(reference), tiny_value_network(vocab=VOCAB, random_head=False)
    parameters = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, eps=1e-5)
    generator, history = torch.Generator().manual_seed(0), []
    for iteration in range(iterations):
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - iteration / iterations)
        rollout = roll_out(policy, reference, critic, config, generator)
        history.append(ppo_update_step(policy, critic, rollout, optimizer, config, generator))
    return policy, reference, history


@pytest.mark.slow
@pytest.mark.parametrize("whiten", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_ppo_finds_the_exact_optimum(whiten):
    policy, reference, history = train(whiten)
    learned, start = next_logprobs(policy), next_logprobs(reference)
    optimum = (start + REWARDS / KL_COEF).log_softmax(-1)
    # no reward, hardly a penalty, twice the penalty: far enough away to tell them apart
    for kl_coef in (math.inf, 0.05, 2 * KL_COEF):
        assert exact_kl((start + REWARDS / kl_coef).log_softmax(-1), optimum) > 0.05
    assert exact_kl(learned, optimum) < 0.01
    assert max(metrics["first_ratio_error"] for metrics in history) <= 1e-4
    assert abs(history[0]["kl"]) <= 1e-4


def test_bradley_terry_is_minus_log_of_the_chance_of_the_choice():
    chosen, rejected = torch.tensor([1.0, 0.0, -2.0]), torch.tensor([0.0, 0.0, 1.0])
    chances = chosen.exp() / (chosen.exp() + rejected.exp())
    close(bradley_terry_loss(chosen, rejected), -chances.log().mean(), atol=1e-5)
    far, zero = torch.tensor([1e4]), torch.tensor([0.0])  # without overflow, and only gaps count
    close(bradley_terry_loss(far, zero), 0.0)
    close(bradley_terry_loss(zero, far), 1e4)
    close(bradley_terry_loss(zero + 5, zero + 4), bradley_terry_loss(zero + 1, zero))
