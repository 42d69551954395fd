"""Direct preference optimisation: the policy learns from pairs of responses, without a reward model.

DPO (Rafailov et al. 2023) and IPO (Azar et al. 2024). There is no critic, no advantage and no clip; not
included: DPO's later relatives (KTO, ORPO, SimPO), and a loss on the chosen response alone.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from helpers.config import DirectConfig
from helpers.data import as_pairs, check_pairs, load_pairs
from helpers.kl import kl_estimate
from helpers.loop import run_iterations
from helpers.models import autocast, gradient_checkpointing, load_tokenizer, trainable
from helpers.pairs import (
    PairBatch,
    draw_pairs,
    encode_batch,
    fill_reference,
    label_pairs,
    load_data,
)
from helpers.ppo import gradient_step, mean_stats
from helpers.rollouts import forward_logprobs
from helpers.sampling import Responses
from helpers.state import Models, Reward, RLHFState, start_run
from helpers.steps import (
    anneal,
    describe,
    draw_prompts,
    full_logprobs,
    generate_responses,
    record_iteration,
    reference_logprobs,
    score_responses,
)
from helpers.tools.parallel import gather, total, world_size
from helpers.tools.validate import require

# --- the losses -----------------------------------------------------------------------------------


def sequence_logprobs(policy: nn.Module, *tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """log π(y|x) of whole responses: the sum over their tokens, EOS included: `Tokens` → [B] nats."""
    return forward_logprobs(policy, *tokens, temperature=temperature).sum(dim=1)


def implicit_reward(logprobs: Tensor, ref_logprobs: Tensor, kl_coef: float) -> Tensor:
    """β·(log π(y|x) − log π_ref(y|x)): the reward for which π is optimal: [B], [B] → [B].

    Up to a constant per prompt, which no comparison of two responses sees (Rafailov et al. 2023,
    eq. 5). In units of the labels' log-odds. No gradient flows into the reference.
    """
    return kl_coef * (logprobs - ref_logprobs.detach())


def dpo_loss(
    chosen: Tensor,
    rejected: Tensor,
    ref_chosen: Tensor,
    ref_rejected: Tensor,
    kl_coef: float,
    probabilities: Tensor | None = None,
) -> tuple[Tensor, dict]:
    """Mean of −log sigmoid(margin), margin = difference of the implicit rewards; and `pair_stats`.

    Log-probs of whole responses, all [B] nats (Rafailov et al. 2023, eq. 7). `probabilities` [B]
    are P(`chosen` is preferred), 1 if not given: the loss is then its mean over the labels (1 − ε
    everywhere is label smoothing).
    """
    chosen_reward = implicit_reward(chosen, ref_chosen, kl_coef)
    rejected_reward = implicit_reward(rejected, ref_rejected, kl_coef)
    margin = chosen_reward - rejected_reward
    loss = -_expected(logsigmoid(margin), logsigmoid(-margin), probabilities)
    return loss, pair_stats(chosen, rejected, chosen_reward, rejected_reward, probabilities)


def ipo_loss(
    chosen: Tensor,
    rejected: Tensor,
    ref_chosen: Tensor,
    ref_rejected: Tensor,
    kl_coef: float,
    probabilities: Tensor | None = None,
) -> tuple[Tensor, dict]:
    """Mean of (h − 1/(2τ))², h = margin/β in nats, τ = β; arguments and stats as for `dpo_loss`.

    Azar et al. 2024, eq. 17. It pulls each log-ratio to a number, where DPO pushes it to infinity if
    all labels agree. h is of whole responses, as in the paper: its optimum π_ref·exp(E[p(y ≻ y′)]/τ)
    holds for probabilities of responses. TRL divides by the number of tokens, which makes τ another
    one for each length.
    """
    chosen_reward = implicit_reward(chosen, ref_chosen, kl_coef)
    rejected_reward = implicit_reward(rejected, ref_rejected, kl_coef)
    log_ratio, target = (chosen_reward - rejected_reward) / kl_coef, 1 / (2 * kl_coef)
    loss = _expected((log_ratio - target).square(), (-log_ratio - target).square(), probabilities)
    return loss, pair_stats(chosen, rejected, chosen_reward, rejected_reward, probabilities)


LOSSES = {"dpo": dpo_loss, "ipo": ipo_loss}


def _expected(first: Tensor, second: Tensor, probabilities: Tensor | None) -> Tensor:
    """Mean over pairs and labels, of `first` where the first is preferred, else of `second`."""
    if probabilities is None:
        return first.mean()
    return (probabilities * first + (1 - probabilities) * second).mean()


@torch.no_grad()
def pair_stats(
    chosen: Tensor,
    rejected: Tensor,
    chosen_reward: Tensor,
    rejected_reward: Tensor,
    probabilities: Tensor | None,
) -> dict:
    """Means over pairs (and over the labels): how far the policy prefers the preferred response.

    `accuracy`: share of pairs whose preferred response has the higher implicit reward, a tie counts
    half; `margin`: by how much; `chosen_reward`, `rejected_reward`; `chosen_logprobs`,
    `rejected_logprobs`: nats per response. Both of these may fall while the margin grows.
    """
    margin = chosen_reward - rejected_reward
    right = 0.5 * (1 + margin.sign())
    both = {
        "accuracy": (right, 1 - right),
        "margin": (margin, -margin),
        "chosen_reward": (chosen_reward, rejected_reward),
        "rejected_reward": (rejected_reward, chosen_reward),
        "chosen_logprobs": (chosen, rejected),
        "rejected_logprobs": (rejected, chosen),
    }
    return {name: _expected(*pair, probabilities) for name, pair in both.items()}


# --- the update -----------------------------------------------------------------------------------


def batch_loss(logprobs: Tensor, batch: PairBatch, index: Tensor, config: DirectConfig) -> tuple:
    """The config's loss, and its stats, of some pairs of a batch with log-probs [2b] of the policy."""
    ref_logprobs = batch.ref_logprobs[batch.both(index)]
    sides = (*logprobs.chunk(2), *ref_logprobs.chunk(2))
    return LOSSES[config.loss](*sides, config.kl_coef, batch.probabilities[index])


def accumulate_gradients(
    policy: nn.Module, batch: PairBatch, index: Tensor, config: DirectConfig
) -> dict:
    """Sum the gradient of one minibatch of pairs over its micro-batches; returns loss and stats.

    The loss is a mean over pairs, so micro-batches weighted by their share of the pairs give the
    gradient of the whole minibatch. Both responses of a pair are in the same one.
    """
    means: dict[str, Tensor] = {}
    pairs = total(torch.ones_like(batch.probabilities[index]))
    recompute = partial(gradient_checkpointing, on=config.gradient_checkpointing)
    for part in index[batch.lengths()[index].argsort(stable=True)].split(config.micro_batch_size):
        tokens = batch.responses.tokens().rows(batch.both(part))
        with autocast(policy.device, config.mixed_precision), recompute(policy):
            logprobs = sequence_logprobs(policy, *tokens, temperature=config.temperature)  # (2b,)
        loss, stats = batch_loss(logprobs, batch, part, config)
        share = len(part) / pairs
        (loss * share).backward()
        stats = {"loss": loss.detach()} | stats
        means = {name: means.get(name, 0.0) + share * value for name, value in stats.items()}
    return {name: total(value) for name, value in means.items()}


def update(state: RLHFState, batch: PairBatch, rows: Tensor) -> dict:
    """A gradient step for each minibatch of these rows of a batch; returns means, weighted by pairs."""
    config, policy, rate = state.config, state.models.actor, anneal(state)
    parameters, history, weights = trainable(policy), [], []
    for index in rows.to(policy.device).split(max(1, config.minibatch_size // world_size())):
        state.optimizer.zero_grad(set_to_none=True)
        stats = accumulate_gradients(policy, batch, index, config)
        stats["grad_norm"] = gradient_step(parameters, state.optimizer, config.max_grad_norm)
        history.append(stats)
        weights.append(len(index))
    return mean_stats(history, weights) | {"learning_rate": rate}


# --- the loop -------------------------------------------------------------------------------------


def unscored(texts: list[str]) -> list[float]:
    """A reward that scores nothing, and is not recorded: what is learnt from are pairs."""
    return [0.0] * len(texts)


def iterate_direct(state: RLHFState, data: PairBatch | None = None) -> dict:
    """One iteration: responses of the policy for the record, a batch of pairs, an update. → record.

    Online the responses themselves are the pairs, two to a prompt; else the next ones of `data` are.
    """
    started = time.perf_counter()
    prompts = draw_prompts(state)
    responses = generate_responses(state, 2 * prompts if data is None else prompts)
    scores = score_responses(state, responses)
    ref_logprobs = reference_logprobs(state, responses)
    if data is None:
        batch = PairBatch(responses, ref_logprobs.sum(dim=1), label_pairs(scores))
        rows = torch.arange(len(batch))
    else:
        batch, rows = data, draw_pairs(state, len(data))
        fill_reference(state, batch, rows)
    metrics = describe(state, responses, scores) | compare(responses, ref_logprobs)
    if state.models.reward is unscored:
        del metrics["score"], metrics["score_std"]
    metrics |= update(state, batch, rows) | {"kl_coef": state.config.kl_coef}
    return record_iteration(state, metrics, started)


def compare(responses: Responses, ref_logprobs: Tensor) -> dict:
    """`kl` (nats per response, mean of Σ_t k1) and `entropy` (nats per token) of sampled responses."""
    logprobs, mask = responses.logprobs, responses.response_mask
    kl = kl_estimate(logprobs, ref_logprobs).sum(dim=1)
    return {"kl": float(gather(kl).mean()), "entropy": float(-total(logprobs) / total(mask))}


def counted(config: DirectConfig, pairs: list[dict] | None) -> DirectConfig:
    """The config with a number of iterations: if not given, enough for its passes over the pairs."""
    if config.iterations is not None:
        return config
    return replace(config, iterations=-(-config.epochs * len(pairs) // config.batch_size))


def train_direct(
    config: DirectConfig | None = None,
    models: Models | None = None,
    reward: Reward | None = None,
    prompts: list[str | dict] | None = None,
    measures: dict[str, Callable] | None = None,
    save_dir: str | Path | None = None,
    state: RLHFState | None = None,
    pairs: list[dict] | None = None,
) -> Iterator[dict]:
    """Run DPO or IPO; yields one record per iteration, with the loop's names (`train_rlhf_loop`).

    Learns from `pairs` (`{prompt, chosen, rejected}` rows of texts or messages, see `as_pairs`; if not
    given, those the config names), or online from pairs that the policy samples, labelled by the reward.
    `prompts` are those of the records, and online also of the pairs. With a data set the reward is only
    watched: `score` is in the record, the loss does not see it.
    Saves and resumes as `train_rlhf_loop`; give `pairs` again. The critic of `models` is not used.
    """
    config = state.config if state is not None else config or DirectConfig()
    if config.online:
        require(pairs is None, "pairs", "a list with online=True", "none: the policy samples them")
    else:
        known = models if state is None else state.models
        tokenizer = load_tokenizer(config.actor) if known is None else known.tokenizer
        if pairs is None:
            pairs = load_pairs(config.pairs, tokenizer=tokenizer)
        else:
            pairs = check_pairs(as_pairs(pairs, tokenizer), "pairs")
    if state is None:
        config = counted(config, pairs)
        state = start_run(config, models, reward, prompts, measures)
    data = None if pairs is None else load_data(state, pairs)
    yield from run_iterations(state, partial(iterate_direct, data=data), save_dir)


@torch.no_grad()
def evaluate_pairs(state: RLHFState, pairs: list[dict]) -> dict:
    """`loss` and `pair_stats` of the actor as it is, as floats, on pairs it need not have seen."""
    batch = encode_batch(state, pairs)
    rows = torch.arange(len(batch))
    fill_reference(state, batch, rows)
    logprobs = full_logprobs(state.models.actor, state, batch.responses).sum(dim=1)
    loss, stats = batch_loss(logprobs, batch, rows, state.config)
    return {name: float(value) for name, value in ({"loss": loss} | stats).items()}
