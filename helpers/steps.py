"""One iteration of RLHF in seven steps: draw, sample, score, compare, reward, credit, update."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from helpers.gae import compute_gae
from helpers.groups import group_advantages, skipped_rows
from helpers.kl import AdaptiveKLController, kl_estimate, shape_rewards
from helpers.models import autocast, stop_tokens
from helpers.ppo import ppo_update_step
from helpers.rewards import score_texts
from helpers.rollouts import RolloutBatch, forward_logprobs, forward_values, is_stop
from helpers.sampling import Responses, rows_at_once, sample_batches, sample_responses
from helpers.state import RLHFState
from helpers.tools.parallel import gather, share, total, world_size
from helpers.whitening import whiten_advantages


def draw_prompts(state: RLHFState) -> list[str]:
    """Step 1: draw a batch of prompts at random, without repeats until all have been drawn.

    With several responses per prompt, each prompt stands that many times in a row.
    """
    count, group = len(state.prompts), state.config.responses_per_prompt
    size = state.config.batch_size // group
    generator, order = state.generators["prompts"], []
    while len(order) < size:
        order += torch.randperm(count, generator=generator).tolist()
    return [state.prompts[i] for i in share(order[:size]) for _ in range(group)]


@torch.no_grad()
def generate_responses(state: RLHFState, prompts: list[str]) -> Responses:
    """Step 2: the actor samples a response to each prompt, with log-probs."""
    models, config, generator = state.models, state.config, state.generators["samples"]
    responses = sample_responses(models.actor, models.tokenizer, prompts, config, generator)
    if state.in_half_precision:
        # cached decoding and a full forward differ there, so PPO compares with the latter
        logprobs = full_logprobs(models.actor, state, responses)
        responses.logprob_gap = float((logprobs - responses.logprobs).abs().max())
        responses.logprobs = logprobs
    return responses


def score_responses(state: RLHFState, responses: Responses) -> Tensor:
    """Step 3: one score per response from the reward model, minus a penalty without EOS: [B]."""
    responses.raw_scores = score_texts(state.models.reward, responses.texts)
    scores = state.normalize(responses.raw_scores).to(responses.logprobs.device)
    return scores - state.config.missing_eos_penalty * (~stopped(state, responses))


def stopped(state: RLHFState, responses: Responses) -> Tensor:
    """Whether each response ended with a stop token, not at the maximum length: [B] bool."""
    ids = stop_tokens(state.models.actor, state.models.tokenizer)
    stops = is_stop(responses.response_tensors, ids)
    return (stops & responses.response_mask).any(dim=1)


@torch.no_grad()
def full_logprobs(policy, state: RLHFState, responses: Responses) -> Tensor:
    """Log-probs of the responses under a policy, by full forwards: [B, T] nats."""
    config = state.config
    forward = partial(forward_logprobs, policy, temperature=config.temperature)
    with autocast(state.models.device, config.mixed_precision):
        return responses.in_parts(forward, rows_at_once(config))


def reference_logprobs(state: RLHFState, responses: Responses) -> Tensor:
    """Step 4: log-probs of the same tokens under the frozen reference: [B, T] nats."""
    return full_logprobs(state.models.reference, state, responses)


def total_rewards(
    state: RLHFState, responses: Responses, scores: Tensor, ref_logprobs: Tensor
) -> Tensor:
    """Step 5: −β·KL on every token, the score on the last: [B, T]. With KL in the loss, no KL here."""
    config = state.config
    kl_coef = state.kl_coef if config.kl_placement == "reward" else 0.0
    mask = responses.response_mask
    rewards = shape_rewards(scores, responses.logprobs, ref_logprobs, mask, kl_coef)
    if not config.whiten_rewards:
        return rewards
    return whiten_advantages(rewards, mask, shift_mean=False)


@torch.no_grad()
def estimate_advantages(
    state: RLHFState, responses: Responses, rewards: Tensor, skipped: Tensor | None = None
) -> tuple:
    """Step 6: the critic's values, then GAE: values, advantages, returns, all [B, T].

    Returns are computed before the advantages are whitened: they are targets in reward units. Without
    a critic the values are 0, and advantages come from groups, or are the plain returns (reinforce).
    Those of `skipped` responses ([B] bool) are 0, and whitening does not see them.
    """
    config, mask = state.config, responses.response_mask
    if config.method == "ppo":
        forward = partial(forward_values, state.models.critic)
        values = responses.in_parts(forward, rows_at_once(config))
        advantages, returns = compute_gae(rewards, values, config.gamma, config.lam, mask)
    else:
        values = torch.zeros_like(rewards)
        advantages, returns = compute_gae(rewards, values, config.gamma, 1.0, mask)
    if skipped is not None:
        mask = mask & ~skipped.unsqueeze(1)
    if config.method in ("rloo", "grpo"):
        advantages = group_advantages(rewards, mask, config)
    if config.whiten_advantages and config.method != "grpo" and total(mask) > 0:
        advantages = whiten_advantages(advantages, mask)
    return values, advantages, returns


def update(state: RLHFState, rollout: RolloutBatch) -> dict:
    """Step 7: PPO update on this rollout with the annealed learning rate; then adapt β if wanted."""
    models, optimizer, shuffles = state.models, state.optimizer, state.generators["minibatches"]
    config, rate = replace(state.config, kl_coef=state.kl_coef), anneal(state)  # β as it is now
    metrics = ppo_update_step(models.actor, models.critic, rollout, optimizer, config, shuffles)
    metrics |= {"kl_coef": state.kl_coef, "learning_rate": rate}
    if config.kl_target is not None:
        controller = AdaptiveKLController(state.kl_coef, config.kl_target, config.kl_horizon)
        state.kl_coef = controller.update(metrics["kl"], len(rollout) * world_size())
    return metrics


def anneal(state: RLHFState) -> float:
    """Set the learning rates of this iteration, annealed linearly to 0; → the actor's."""
    left = 1.0 - state.iteration / state.config.iterations
    groups = state.models.trained_parameters(state.config)
    for group, start in zip(state.optimizer.param_groups, groups, strict=True):
        group["lr"] = start["lr"] * left
    return state.config.learning_rate * left


def no_observer(step: int, **tensors) -> None:
    """Default observer: does nothing."""


def iterate(state: RLHFState, observe: Callable = no_observer) -> dict:
    """One iteration of seven steps; calls `observe(step, **tensors)` after each. Returns the record."""
    started = time.perf_counter()
    prompts = draw_prompts(state)
    observe(1, prompts=prompts)
    responses = generate_responses(state, prompts)
    observe(2, responses=responses)
    scores = score_responses(state, responses)
    observe(3, responses=responses, scores=scores)
    ref_logprobs = reference_logprobs(state, responses)
    observe(4, responses=responses, ref_logprobs=ref_logprobs)
    rewards = total_rewards(state, responses, scores, ref_logprobs)
    observe(5, rewards=rewards, mask=responses.response_mask)
    skipped = skipped_rows(scores, state.config)
    values, advantages, returns = estimate_advantages(state, responses, rewards, skipped)
    observe(6, values=values, advantages=advantages, returns=returns, mask=responses.response_mask)
    per_token = (responses.logprobs, ref_logprobs, values, rewards, advantages, returns)
    rollout = RolloutBatch(*responses.tokens(), *per_token, scores, skipped)
    metrics = update(state, rollout)
    observe(7, rollout=rollout, metrics=metrics)
    return record_iteration(state, describe(state, responses, scores) | metrics, started)


def record_iteration(state: RLHFState, metrics: dict, started: float) -> dict:
    """Count the iteration, and add its record to the history; → the record."""
    state.iteration += 1
    record = {"iteration": state.iteration} | metrics
    record["seconds"] = time.perf_counter() - started
    state.history.append(record)
    return record


def describe(state: RLHFState, responses: Responses, scores: Tensor) -> dict:
    """Metrics of a rollout before the update: means over its responses."""
    ended, lengths = stopped(state, responses), responses.response_mask.sum(dim=1)
    scores, ended, lengths = gather(scores), gather(ended), gather(lengths)
    record = {
        "score": float(scores.mean()),
        "score_std": float(scores.std()) if len(scores) > 1 else 0.0,
        "response_length": float(lengths.float().mean()),
        "ended": float(ended.float().mean()),
    }
    if state.keeps_raw_scores:
        record["raw_score"] = float(gather(responses.raw_scores).mean())
    if state.in_half_precision:
        record["logprob_gap"] = float(gather(torch.tensor([responses.logprob_gap])).max())
    for name, measure in state.measures.items():
        values = torch.as_tensor(measure(responses.texts)).float()
        record[name] = float(gather(values).mean())
    return record


def evaluate(
    policy,
    state: RLHFState,
    count: int = 2000,
    seed: int = 12345,
    progress: Callable[[Iterable], Iterable] = iter,
    batch_size: int = 256,
) -> tuple[dict, list[str]]:
    """Evaluate `policy` on `count` new responses, prompts in turn: tensors [count] by name, and texts.

    Names: `score` (normalised proxy), `kl` (Σ k1 against the reference, nats per response),
    `raw_score` (as the reward gave it) where that is another, and each of the state's measures.
    `progress` may wrap the batches in a bar; `batch_size` responses are sampled at once.
    """
    models, config, texts, kl = state.models, state.config, [], []
    generator = torch.Generator(device=models.device).manual_seed(seed)
    what = (policy, models.tokenizer, state.prompts, count, config, generator)
    for responses in sample_batches(*what, batch_size, progress):
        ref_logprobs = reference_logprobs(state, responses)
        logprobs = responses.logprobs  # in half precision cached decoding differs, as above
        if state.in_half_precision:
            logprobs = full_logprobs(policy, state, responses)
        kl.append(kl_estimate(logprobs, ref_logprobs).sum(dim=1).cpu())
        texts += responses.texts
    raw = score_texts(models.reward, texts)
    found = {"score": state.normalize(raw), "kl": torch.cat(kl)}
    if state.keeps_raw_scores:
        found["raw_score"] = raw
    measured = {name: torch.as_tensor(f(texts)).float() for name, f in state.measures.items()}
    return found | measured, texts
