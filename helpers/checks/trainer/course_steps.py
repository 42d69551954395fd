"""Notebook 06: what a trainer written from scratch consists of, made from the course's own functions.

Seven steps and `train`, under the signatures that the learner's functions have. They hold no algorithm:
each calls the helper that does. Log-probs, values, rewards, advantages and returns are [B, T], ids and
mask [B, P + T]: prompts padded left, responses padded right.
"""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from helpers import ppo, rollouts
from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.gae import compute_gae
from helpers.kl import shape_rewards
from helpers.models import quiet_loading
from helpers.one_page import score_texts
from helpers.rollouts import RolloutBatch, forward_values
from helpers.sampling import decode, encode_prompts, generate
from helpers.whitening import whiten_advantages


def load_parts(data: Path) -> SimpleNamespace:
    """Everything a trainer is given: four models, the tokenizer and the prompts."""
    tokenizer = AutoTokenizer.from_pretrained(data / "sft")
    actor = AutoModelForCausalLM.from_pretrained(data / "sft")
    reference, critic = copy.deepcopy(actor), copy.deepcopy(actor)
    critic.lm_head = nn.Linear(actor.config.n_embd, 1)  # the reward to come, one number a token
    nn.init.zeros_(critic.lm_head.weight), nn.init.zeros_(critic.lm_head.bias)
    encoder = AutoModel.from_pretrained(data / "reward")
    head = load_file(data / "reward" / "reward_head.safetensors")
    reward = partial(score_texts, encoder, head, tokenizer)  # list of B texts → [B]
    prompts = [json.loads(line)["prompt"] for line in (data / "prompts.jsonl").open()]
    parts = {"actor": actor, "critic": critic, "reference": reference, "reward": reward}
    return SimpleNamespace(**parts, tokenizer=tokenizer, prompts=prompts)


def trainer_parts() -> SimpleNamespace:
    """`load_parts` of the course's `data/`, without progress bars."""
    with quiet_loading():
        return load_parts(DATA)


def trainer_config(**changes) -> RLHFConfig:
    """The settings of lesson 06: small enough to train in seconds."""
    sizes = {"iterations": 20, "batch_size": 32, "minibatch_size": 16, "response_length": 16}
    rates = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    return RLHFConfig(**{"num_ppo_epochs": 2, "device": "cpu"} | sizes | rates | changes)


class ValueModel:
    """A critic with one logit a token, as the value network that the helpers call."""

    def __init__(self, critic: nn.Module):
        self.trunk = critic

    def __call__(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        """Values after each token: [B, L] → [B, L]."""
        return self.trunk(ids, attention_mask=mask, position_ids=positions).logits.squeeze(-1)


def split(ids: Tensor, mask: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Prompts, their mask, responses, their mask: of [B, P + T] the last T are the response."""
    mask = mask.bool()
    return ids[:, :-length], mask[:, :-length], ids[:, -length:], mask[:, -length:]


def draw_prompts(prompts: list[str], batch_size: int) -> list[str]:
    """Step 1: `batch_size` different prompts, at random."""
    return [prompts[i] for i in torch.randperm(len(prompts))[:batch_size]]


def write_responses(actor, tokenizer, prompts: list[str], config) -> tuple[Tensor, Tensor, Tensor]:
    """Step 2: one sampled response to each prompt: ids and mask [B, P + T], log-probs [B, T]."""
    queries, query_mask = encode_prompts(tokenizer, prompts)
    limit, stop, pad = config.response_length, tokenizer.eos_token_id, tokenizer.pad_token_id
    what = (actor, queries, query_mask, limit, stop, pad, config.temperature)
    responses, counted, logprobs = generate(*what)
    ids, mask = torch.cat([queries, responses], 1), torch.cat([query_mask, counted], 1)
    return ids, mask, logprobs


def score_responses(reward: Callable, tokenizer, ids: Tensor, mask: Tensor) -> Tensor:
    """Step 3: the reward model's score of each whole text: [B]."""
    return reward(decode(tokenizer, *split(ids, mask, 1)))


def forward_logprobs(policy, ids: Tensor, mask: Tensor, length: int, temperature: float) -> Tensor:
    """Step 4: log-probs of the last `length` tokens under a policy: [B, T] nats."""
    return rollouts.forward_logprobs(policy, *split(ids, mask, length), temperature)


def total_rewards(
    scores: Tensor, logprobs: Tensor, ref_logprobs: Tensor, counted: Tensor, kl_coef: float
) -> Tensor:
    """Step 5: −β·KL on each counted token, the score on the last: [B, T]."""
    return shape_rewards(scores, logprobs, ref_logprobs, counted, kl_coef)


@torch.no_grad()
def estimate_advantages(
    critic, ids: Tensor, mask: Tensor, rewards: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Step 6: values, whitened advantages, returns: [B, T] each."""
    parts = split(ids, mask, rewards.shape[1])
    values = forward_values(ValueModel(critic), *parts)
    advantages, returns = compute_gae(rewards, values, gamma, lam, parts[-1])
    return values, whiten_advantages(advantages, parts[-1]), returns


def update(actor, critic, optimizer, rollout: tuple, config) -> None:
    """Step 7: PPO over one rollout, `(ids, mask, logprobs, values, advantages, returns)`."""
    ids, mask, logprobs, values, advantages, returns = rollout
    unused = torch.zeros_like(logprobs)
    per_token = (logprobs, unused, values, unused, advantages, returns)
    batch = RolloutBatch(*split(ids, mask, logprobs.shape[1]), *per_token, unused[:, 0])
    ppo.ppo_update_step(actor, ValueModel(critic), batch, optimizer, config)


def train(parts: SimpleNamespace, config) -> Iterator[tuple[float, float]]:
    """The loop: yields mean score and mean KL (nats per response) of each iteration's rollout."""
    actor, critic, tokenizer = parts.actor, parts.critic, parts.tokenizer
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate, eps=config.adam_eps)
    for iteration in range(config.iterations):
        prompts = draw_prompts(parts.prompts, config.batch_size)
        ids, mask, logprobs = write_responses(actor, tokenizer, prompts, config)
        length = logprobs.shape[1]
        counted = mask[:, -length:]
        scores = score_responses(parts.reward, tokenizer, ids, mask)
        with torch.no_grad():
            ref_logprobs = forward_logprobs(parts.reference, ids, mask, length, config.temperature)
        rewards = total_rewards(scores, logprobs, ref_logprobs, counted, config.kl_coef)
        values, advantages, returns = estimate_advantages(
            critic, ids, mask, rewards, config.gamma, config.lam
        )
        rollout = ids, mask, logprobs, values, advantages, returns
        optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - iteration / config.iterations)
        update(actor, critic, optimizer, rollout, config)
        kl = ((logprobs - ref_logprobs) * counted).sum(1)
        yield scores.mean().item(), kl.mean().item()


STEPS = (
    draw_prompts, write_responses, score_responses, forward_logprobs, total_rewards,
    estimate_advantages, update,
)  # fmt: skip
NAMES = (*(step.__name__ for step in STEPS), "train")
COURSE = dict(zip(NAMES, (*STEPS, train), strict=True))


@contextmanager
def in_place(functions: dict[str, Callable]):
    """While it holds, `train` finds these seven steps under their names, wherever it was written."""
    names = functions["train"].__globals__
    before = {name: names[name] for name in NAMES if name in names}
    names.update({name: f for name, f in functions.items() if name != "train"})
    try:
        yield
    finally:
        for name in NAMES:
            names.pop(name, None)
        names.update(before)
