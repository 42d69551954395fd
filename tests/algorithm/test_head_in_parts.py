"""Logits of a long batch in parts: the same log-probs, losses and gradients, and never all logits at once."""

from types import SimpleNamespace

import pytest
import torch
from conftest import SMALL, strip, tiny_models
from strategies import (
    PROMPTS,
    TOKENS,
    VOCAB,
    close,
    flat,
    largest_made,
    rollout_of,
    small_lm,
    tiny_policy,
    tiny_value_network,
)

from helpers import rollouts
from helpers.config import DirectConfig, RLHFConfig
from helpers.direct import train_direct
from helpers.loop import train_rlhf_loop
from helpers.models import output_head
from helpers.ppo import minibatch_loss
from helpers.rollouts import forward_logprobs
from helpers.state import start_run

COUNTED = int(TOKENS[3].sum())
SIZES = {"vocab_size": VOCAB, "hidden_size": 16, "head_dim": 8, "initializer_range": 0.5}
SIZES |= {"num_hidden_layers": 1, "num_key_value_heads": 1}
OTHERS = {  # an own head; logits capped after the head
    "llama": {"tie_word_embeddings": False},
    "gemma2": {"final_logit_softcapping": 2.0},
}


def policy_of(kind: str):
    return tiny_policy() if kind == "gpt2" else small_lm(kind, **SIZES | OTHERS[kind])


def at_once(monkeypatch, tokens: int, vocabulary: int = VOCAB) -> None:
    monkeypatch.setattr(rollouts, "LOGITS_AT_ONCE", tokens * vocabulary)


def logprobs_and_gradient(policy, temperature: float, half: bool = False) -> tuple:
    policy.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        logprobs = forward_logprobs(policy, *TOKENS, temperature=temperature)
    (logprobs * torch.linspace(-1, 1, logprobs.numel()).view_as(logprobs)).sum().backward()
    grads = [parameter.grad.flatten() for parameter in policy.parameters()]
    return logprobs.detach(), torch.cat(grads)


@pytest.mark.parametrize("kind", ["gpt2", *OTHERS])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("tokens", [1, 4, COUNTED])
def test_values_and_gradients_are_those_of_all_logits(kind, temperature, tokens, monkeypatch):
    policy = policy_of(kind)
    whole = logprobs_and_gradient(policy, temperature)
    at_once(monkeypatch, tokens)
    for part, all_at_once in zip(logprobs_and_gradient(policy, temperature), whole, strict=True):
        close(part, all_at_once, atol=1e-6 * float(all_at_once.abs().max()))
    assert whole[1].norm() > 0.1


@pytest.mark.parametrize("kind, in_parts", [("gpt2", True), ("llama", True), ("gemma2", False)])
def test_the_head_makes_logits_of_counted_tokens_and_few_at_a_time(kind, in_parts, monkeypatch):
    policy, rows = policy_of(kind), []
    head = output_head(policy)
    head.register_forward_hook(lambda layer, given, made: rows.append(made.numel() // VOCAB))
    at_once(monkeypatch, 5)
    forward_logprobs(policy, *TOKENS).sum().backward()
    once = [len(PROMPTS)] * 2  # a position a row: the model's logits, and the head's, to compare
    forward = [5] * (COUNTED // 5) + [COUNTED % 5]
    assert rows == (once + forward + forward[::-1] if in_parts else [*once, TOKENS[3].numel()])


@pytest.mark.parametrize("entropy_coef", [0.0, 0.1])
def test_no_tensor_of_a_loss_and_its_gradient_is_as_large_as_the_logits(entropy_coef, monkeypatch):
    policy, critic, vocabulary = tiny_policy(vocab=400), tiny_value_network(vocab=400), 400
    tokens = [x.repeat(4, 1) for x in TOKENS]
    rollout = rollout_of(policy, policy, critic, *tokens, torch.ones(len(tokens[0])))
    logits, found = tokens[2].numel() * vocabulary, []

    def learn():
        minibatch_loss(policy, None, rollout, RLHFConfig(entropy_coef=entropy_coef))[0].backward()

    for at_most in (10**6, 5):
        at_once(monkeypatch, at_most, vocabulary)
        found.append(largest_made(policy.lm_head.weight, learn)[1])
    assert found[0] == logits and found[1] < logits / 3


def test_a_wrapped_model_has_the_head_of_its_model_and_what_names_none_is_read_whole(monkeypatch):
    policy = tiny_policy()
    whole = forward_logprobs(policy, *TOKENS)
    at_once(monkeypatch, 4)
    assert output_head(SimpleNamespace(wrapped=policy)) is policy.lm_head

    class NoHead(torch.nn.Module):
        config = policy.config

        def forward(self, input_ids, position_ids, **given):
            return policy(input_ids=input_ids, position_ids=position_ids, **given)

    assert output_head(NoHead()) is None
    assert torch.equal(forward_logprobs(NoHead(), *TOKENS), whole)


RUN = SMALL | {"iterations": 2, "device": "cpu", "learning_rate": 1e-3}
IN_LOSS = {"kl_placement": "loss"}
GROUPS = {"method": "grpo", "responses_per_prompt": 4, "kl_loss": "k3", "ratio_level": "sequence"}
SETTINGS = {
    "ppo, entropy bonus": RLHFConfig(**RUN, entropy_coef=0.1),
    "grpo, KL in the loss": RLHFConfig(**RUN, **IN_LOSS, **GROUPS),
    "blocks computed again": RLHFConfig(**RUN, gradient_checkpointing=True),
    "dpo": DirectConfig(**RUN, online=True),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_in_parts_is_the_run(name, monkeypatch):
    config, ends = SETTINGS[name], []
    prompts, train = ["we saw this film", "the soup"], train_rlhf_loop
    if isinstance(config, DirectConfig):
        train = train_direct
    for tokens in (10**6, 7):
        at_once(monkeypatch, tokens, vocabulary=len(tiny_models().tokenizer))
        state = start_run(config, tiny_models(), prompts=prompts)
        start, records = flat(state.models.actor), list(train(state=state))
        ends.append((flat(state.models.actor), *records))
        assert (ends[-1][0] - start).abs().max() > 1e-4
    (whole, *records), (parts, *others) = ends
    close(parts, whole, atol=2e-6)
    for one, other in zip(strip(records), strip(others), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_parts_in_half_precision_are_as_near_as_all_at_once(monkeypatch):
    policy = tiny_policy(width=64)
    exact, found = logprobs_and_gradient(policy, 1.0), []
    for tokens in (10**6, 4):
        at_once(monkeypatch, tokens)
        half = logprobs_and_gradient(policy, 1.0, half=True)
        found.append([float((a - b).norm() / b.norm()) for a, b in zip(half, exact, strict=True)])
    for whole, parts in zip(*found, strict=True):
        assert 1e-4 < parts < 1.5 * whole
