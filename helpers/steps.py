"""One iteration of RLHF in seven steps: write, score, compare, reward, credit, update."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from helpers.gae import compute_gae
from helpers.kl import kl_estimate, shape_rewards
from helpers.ppo import ppo_update_step
from helpers.rollouts import RolloutBatch, forward_logprobs, forward_values
from helpers.state import RLHFState
from helpers.whitening import whiten_advantages
from helpers.writing import Written, write


def draw_prompts(state: RLHFState) -> list[str]:
    """Step 1: a batch of prompts, each equally likely; without repeats until all have been drawn."""
    count, size = len(state.prompts), state.config.batch_size
    generator, order = state.generators["prompts"], []
    while len(order) < size:
        order += torch.randperm(count, generator=generator).tolist()
    return state.processes.mine([state.prompts[i] for i in order[:size]])


@torch.no_grad()
def write_responses(state: RLHFState, prompts: list[str]) -> Written:
    """Step 2: the actor answers each prompt, and its log-probs are kept."""
    models, generator = state.models, state.generators["samples"]
    written = write(models.actor, models.tokenizer, prompts, state.config, generator)
    if models.actor.dtype != torch.float32 or state.processes.mixed:
        # half precision: cached decoding and a full forward differ, so PPO compares with the latter
        temperature = state.config.temperature
        with state.processes.autocast():
            logprobs = forward_logprobs(models.actor, *written.tokens(), temperature)
        written.logprob_gap = float((logprobs - written.logprobs).abs().max())
        written.logprobs = logprobs
    return written


def score_responses(state: RLHFState, written: Written) -> Tensor:
    """Step 3: one score per response from the reward model, less a penalty if it never stopped: [B]."""
    scores = state.score(written.texts).to(written.logprobs.device)
    tokens, stop = written.response_tensors, state.models.tokenizer.eos_token_id
    stopped = ((tokens == stop) & written.response_mask).any(dim=1)
    return scores - state.config.missing_eos_penalty * (~stopped)


@torch.no_grad()
def reference_logprobs(state: RLHFState, written: Written) -> Tensor:
    """Step 4: what the frozen reference thinks of the same tokens: [B, T] nats."""
    reference, temperature = state.models.reference, state.config.temperature
    with state.processes.autocast():
        return written.in_parts(lambda *tokens: forward_logprobs(reference, *tokens, temperature))


def total_rewards(
    state: RLHFState, written: Written, scores: Tensor, ref_logprobs: Tensor
) -> Tensor:
    """Step 5: −β·KL on every token, the score on the last: [B, T]. With KL in the loss, no KL here."""
    config = state.config
    kl_coef = state.kl_coef if config.kl_placement == "reward" else 0.0
    mask = written.response_mask
    rewards = shape_rewards(scores, written.logprobs, ref_logprobs, mask, kl_coef)
    if not config.whiten_rewards:
        return rewards
    return whiten_advantages(rewards, mask, shift_mean=False, add=state.processes.add)


@torch.no_grad()
def estimate_advantages(state: RLHFState, written: Written, rewards: Tensor) -> tuple:
    """Step 6: the critic's values, then GAE: values, advantages, returns, all [B, T].

    Returns are formed before the advantages are whitened: they are targets in reward units.
    """
    config, mask = state.config, written.response_mask
    values = written.in_parts(lambda *tokens: forward_values(state.models.critic, *tokens))
    advantages, returns = compute_gae(rewards, values, config.gamma, config.lam, mask)
    if config.whiten_advantages:
        advantages = whiten_advantages(advantages, mask, add=state.processes.add)
    return values, advantages, returns


def update(state: RLHFState, rollout: RolloutBatch) -> dict:
    """Step 7: PPO on this rollout, at the annealed learning rate; then β moves if it is adaptive."""
    config, models = state.config, state.models
    left = 1.0 - state.iteration / config.iterations
    rates = (config.learning_rate, config.critic_learning_rate)
    for group, rate in zip(state.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * left
    metrics = ppo_update_step(
        models.actor,
        models.critic,
        rollout,
        state.optimizer,
        config_with_beta(state),
        state.generators["minibatches"],
        models.reference,
        state.processes,
    )
    metrics |= {"kl_coef": state.kl_coef, "learning_rate": config.learning_rate * left}
    controller = state.controller()
    if controller is not None:
        state.kl_coef = controller.update(metrics["kl"], len(rollout) * state.processes.count)
    return metrics


def config_with_beta(state: RLHFState):
    """The config with β as it stands now, for a KL in the loss."""
    return replace(state.config, kl_coef=state.kl_coef)


def ignore(step: int, **tensors) -> None:
    """An observer that looks away."""


def iterate(state: RLHFState, observe: Callable = ignore) -> dict:
    """The seven steps once; `observe(step, **tensors)` is told after each. Returns the record."""
    started = time.perf_counter()
    prompts = draw_prompts(state)
    observe(1, prompts=prompts)
    written = write_responses(state, prompts)
    observe(2, written=written)
    scores = score_responses(state, written)
    observe(3, written=written, scores=scores)
    ref_logprobs = reference_logprobs(state, written)
    observe(4, written=written, ref_logprobs=ref_logprobs)
    rewards = total_rewards(state, written, scores, ref_logprobs)
    observe(5, rewards=rewards, mask=written.response_mask)
    values, advantages, returns = estimate_advantages(state, written, rewards)
    observe(6, values=values, advantages=advantages, returns=returns, mask=written.response_mask)
    per_token = (written.logprobs, ref_logprobs, values, rewards, advantages, returns)
    rollout = RolloutBatch(*written.tokens(), *per_token, scores)
    metrics = update(state, rollout)
    observe(7, rollout=rollout, metrics=metrics)
    state.iteration += 1
    record = {"iteration": state.iteration} | describe(state, written, scores) | metrics
    record["seconds"] = time.perf_counter() - started
    state.history.append(record)
    return record


def describe(state: RLHFState, written: Written, scores: Tensor) -> dict:
    """What a rollout looks like from outside, before the update: means over its responses."""
    mask, stop = written.response_mask, state.models.tokenizer.eos_token_id
    ended = ((written.response_tensors == stop) & mask).any(dim=1)
    every = state.processes.gather
    scores, ended, lengths = every(scores), every(ended), every(mask.sum(dim=1))
    record = {
        "score": float(scores.mean()),
        "score_std": float(scores.std()) if len(scores) > 1 else 0.0,
        "response_length": float(lengths.float().mean()),
        "ended": float(ended.float().mean()),
    }
    if state.models.actor.dtype != torch.float32 or state.processes.mixed:
        record["logprob_gap"] = written.logprob_gap
    for name, measure in state.measures.items():
        values = torch.as_tensor(measure(written.texts)).float()
        record[name] = float(every(values).mean())
    return record


def evaluate(
    policy, state: RLHFState, count: int = 2000, seed: int = 12345
) -> tuple[dict, list[str]]:
    """`count` fresh responses of `policy`, the prompts in turn: tensors [count] by name, and texts.

    Names: `score` (normalised proxy), `kl` (Σ k1 against the reference, nats per response), and each
    of the state's measures.
    """
    models, size = state.models, 256
    generator = torch.Generator(device=models.device).manual_seed(seed)
    prompts = [state.prompts[i % len(state.prompts)] for i in range(count)]
    texts, kl = [], []
    for start in range(0, count, size):
        some = prompts[start : start + size]
        written = write(policy, models.tokenizer, some, state.config, generator)
        ref_logprobs = reference_logprobs(state, written)
        kl.append(kl_estimate(written.logprobs, ref_logprobs).sum(dim=1).cpu())
        texts += written.texts
    found = {"score": state.score(texts), "kl": torch.cat(kl)}
    measured = {name: torch.as_tensor(f(texts)).float() for name, f in state.measures.items()}
    return found | measured, texts
