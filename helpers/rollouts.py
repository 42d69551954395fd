"""Rollouts: let the policy write, and keep everything PPO needs to know about what it wrote."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from helpers.arguments import last_logits, model_inputs
from helpers.inputs import require_prompts, require_responses
from helpers.kl import last_counted
from helpers.validate import (
    require,
    require_count,
    require_finite,
    require_ids,
    require_positive,
    require_shape,
    require_tensor,
)

LARGE_VOCABULARY = 10_000  # tokens
PER_TOKEN = ("logprobs", "ref_logprobs", "values", "rewards", "advantages", "returns")


@dataclass
class RolloutBatch:
    """One rollout of B prompts (P tokens, padded left) and responses (T tokens, padded right).

    Masks are boolean, True = counts. `logprobs[:, t]`, `ref_logprobs[:, t]` and `values[:, t]` come
    from the position *before* response token t: the one that chose it. ValueError: mismatched shapes.
    """

    query_tensors: Tensor  # (B, P) prompt token ids
    query_mask: Tensor  # (B, P) False on the padding; pad may equal EOS in pretrained models
    response_tensors: Tensor  # (B, T) response token ids
    response_mask: Tensor  # (B, T) True up to and including the first EOS
    logprobs: Tensor  # (B, T) of the policy that wrote them, nats
    ref_logprobs: Tensor  # (B, T) of the frozen reference, nats
    values: Tensor  # (B, T) the critic's, before the update
    rewards: Tensor  # (B, T) KL penalty per token, score on the last
    advantages: Tensor  # (B, T)
    returns: Tensor  # (B, T) advantages + values
    scores: Tensor  # (B,) one per response, from the reward model

    def __post_init__(self):
        require_tensor("query_tensors", self.query_tensors, dims=2)
        require_tensor("response_tensors", self.response_tensors, dims=2)
        query_shape, shape = self.query_tensors.shape, self.response_tensors.shape
        require_shape("query_mask", self.query_mask, query_shape, like="query_tensors")
        for name in ("response_mask", *PER_TOKEN):
            require_shape(name, getattr(self, name), shape, like="response_tensors")
        require_shape("scores", self.scores, shape[:1], like="the batch axis of response_tensors")
        require_finite("scores", self.scores)
        same_batch = query_shape[0] == shape[0]
        require(same_batch, "query_tensors", f"{query_shape[0]} rows", f"{shape[0]} rows")
        for name in ("query_mask", "response_mask"):
            dtype = getattr(self, name).dtype
            require(dtype == torch.bool, name, f"dtype {dtype}", "a boolean mask, True = counts")

    def __len__(self) -> int:
        return self.query_tensors.shape[0]

    def to(self, device: torch.device | str) -> "RolloutBatch":
        """The same rollout with every tensor on `device`."""
        moved = {field.name: getattr(self, field.name).to(device) for field in fields(self)}
        return replace(self, **moved)

    def rows(self, index: Tensor) -> "RolloutBatch":
        """Some rows, without the columns of padding that none of them needs."""
        picked = {field.name: getattr(self, field.name)[index] for field in fields(self)}
        first = int(picked["query_mask"].any(dim=0).int().argmax())  # prompts are padded left
        length = int(last_counted(picked["response_mask"]).max()) + 1  # responses right
        for name in ("query_tensors", "query_mask"):
            picked[name] = picked[name][:, first:]
        for name in ("response_tensors", "response_mask", *PER_TOKEN):
            picked[name] = picked[name][:, :length]
        return RolloutBatch(**picked)

    def minibatches(self, size: int, generator: torch.Generator | None = None) -> Iterator:
        """Yield the rows in a fresh random order, `size` at a time (the last may be smaller)."""
        require_count("size", size)
        order = torch.randperm(len(self), generator=generator).to(self.query_tensors.device)
        for index in order.split(size):
            yield self.rows(index)


def gather_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """log softmax(logits)[token] in float32 nats: [B, T, V], [B, T] → [B, T].

    Computed as logit − logsumexp, so that no second [B, T, V] tensor is kept for the backward pass
    of a gather. ValueError: shapes, tokens outside the vocabulary.
    """
    require_tensor("logits", logits, dims=3)
    require_shape("tokens", tokens, logits.shape[:2], like="logits")
    require_ids("tokens", tokens, logits.shape[2])
    logits = logits.float()
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)  # (B, T)
    return chosen - logits.logsumexp(dim=-1)


def response_mask(response_tensors: Tensor, eos_token_id: int) -> Tensor:
    """True up to and including the first EOS: [B, T] → [B, T] bool. Without an EOS all count.

    The stop token is an action like any other: leave it out and the model never learns to stop.
    """
    require_tensor("response_tensors", response_tensors, dims=2)
    require_count("eos_token_id", eos_token_id, low=0)
    is_eos = (response_tensors == eos_token_id).long()
    return is_eos.cumsum(dim=1) - is_eos == 0  # no EOS strictly before


def position_ids(mask: Tensor) -> Tensor:
    """Positions that ignore padding, `cumsum(mask) − mask`: [B, L] → [B, L] int64, never negative."""
    require_tensor("mask", mask, dims=2)
    require(mask.dtype == torch.bool, "mask", f"dtype {mask.dtype}", "a boolean mask")
    mask = mask.long()
    return mask.cumsum(dim=1) - mask


def _sample(logits: Tensor, temperature: float, generator: torch.Generator | None) -> tuple:
    """Draw one token a row from softmax(logits / T): [B, V] → token [B], its log-prob [B]."""
    logits = logits.float() / temperature
    logprobs = logits.log_softmax(dim=-1)
    probs = logprobs.exp()
    # what torch.multinomial does for one draw, without its checks, for which a GPU would have to wait
    waiting = torch.empty_like(probs).exponential_(1.0, generator=generator)
    token = (probs / waiting).argmax(dim=-1, keepdim=True)  # (B, 1)
    if logits.shape[1] > LARGE_VOCABULARY:  # log_softmax on a CPU is 8e-6 nats off there, always up
        return token.squeeze(1), gather_logprobs(logits.unsqueeze(1), token).squeeze(1)
    return token.squeeze(1), logprobs.gather(1, token).squeeze(1)


@torch.no_grad()
def generate(
    policy: nn.Module,
    query_tensors: Tensor,
    query_mask: Tensor,
    response_length: int,
    eos_token_id: int,
    pad_token_id: int,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample responses with a key–value cache; returns (response_tensors, response_mask, logprobs).

    Prompts [B, P] are padded left. All three results are [B, T], T ≤ `response_length`: sampling
    ends when every row has said EOS, which counts; pads after it do not. Log-probs are those of
    the sampling distribution itself, 0 where the mask does not count. ValueError: shapes, an empty
    prompt, response_length < 1, temperature ≤ 0.
    """
    require_count("response_length", response_length)
    require_prompts(policy, query_tensors, query_mask, response_length)
    require_positive("temperature", temperature)
    cache, ids, mask = DynamicCache(config=policy.config), query_tensors, query_mask
    positions, running = position_ids(query_mask), query_mask.any(dim=1)  # (B, P), (B,)
    tokens, logprobs = [], []
    # asking "has every row ended?" waits for a GPU, so there it is asked now and then only
    every = 1 if query_tensors.device.type == "cpu" else 16
    for t in range(response_length):
        inputs = model_inputs(policy, ids, mask, positions)
        logits = policy(
            **inputs, past_key_values=cache, use_cache=True, **last_logits(policy, 1)
        ).logits
        token, logprob = _sample(logits[:, -1], temperature, generator)
        tokens.append(torch.where(running, token, pad_token_id))
        logprobs.append(torch.where(running, logprob, 0.0))
        mask = torch.cat([mask, running.unsqueeze(1)], dim=1)
        running = running & (token != eos_token_id)
        if t % every == every - 1 and not running.any():
            break
        ids, positions = tokens[-1].unsqueeze(1), positions[:, -1:] + 1
    counted = mask[:, query_mask.shape[1] :]  # (B, T)
    length = int(counted.any(dim=0).sum())
    responses = torch.stack(tokens, dim=1)[:, :length]
    drawn = torch.stack(logprobs, dim=1)[:, :length]
    wants = "finite numbers: a smaller learning rate, or a higher temperature"
    require(not bool(drawn.isnan().any()), "logits / temperature", "NaN or infinite", wants)
    return responses, counted[:, :length], drawn


def _joined(model, query_tensors, query_mask, response_tensors, response_mask) -> tuple:
    """Prompt and response in one row, without the last token: nothing follows it."""
    require_responses(model, response_tensors, response_mask)
    longest = int(response_mask.sum(dim=1).max())
    require_prompts(model, query_tensors, query_mask, longest)
    ids = torch.cat([query_tensors, response_tensors[:, :-1]], dim=1)  # (B, P + T − 1)
    mask = torch.cat([query_mask, response_mask[:, :-1]], dim=1)
    return ids, mask, position_ids(mask)


def response_logits(
    policy: nn.Module,
    query_tensors: Tensor,
    query_mask: Tensor,
    response_tensors: Tensor,
    response_mask: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """Logits / temperature that chose each response token, in one full forward: [B, T, V].

    Position t holds the distribution *over* response token t, computed from everything before it.
    """
    require_positive("temperature", temperature)
    rollout = (query_tensors, query_mask, response_tensors, response_mask)
    ids, mask, positions = _joined(policy, *rollout)
    length = response_tensors.shape[1]
    inputs = model_inputs(policy, ids, mask, positions)
    logits = policy(**inputs, use_cache=False, **last_logits(policy, length)).logits
    logits = logits[:, -length:].float()
    return logits if temperature == 1.0 else logits / temperature


def forward_logprobs(
    policy: nn.Module,
    query_tensors: Tensor,
    query_mask: Tensor,
    response_tensors: Tensor,
    response_mask: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """Log-probs of the response tokens under any policy: [B, T] nats, 0 where the mask is False."""
    rollout = (query_tensors, query_mask, response_tensors, response_mask)
    logits = response_logits(policy, *rollout, temperature)
    return torch.where(response_mask, gather_logprobs(logits, response_tensors), 0.0)


def forward_values(
    value_network: nn.Module,
    query_tensors: Tensor,
    query_mask: Tensor,
    response_tensors: Tensor,
    response_mask: Tensor,
) -> Tensor:
    """Values before each response token: [B, T] in reward units, 0 where the mask is False."""
    rollout = (query_tensors, query_mask, response_tensors, response_mask)
    ids, mask, positions = _joined(getattr(value_network, "trunk", value_network), *rollout)
    values = value_network(ids, mask, positions)[:, -response_tensors.shape[1] :]
    return torch.where(response_mask, values.float(), 0.0)
