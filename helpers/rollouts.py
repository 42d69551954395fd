"""Rollouts: the batch of one iteration, its masks and positions, and log-probs of its tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

from helpers.kl import last_counted
from helpers.models import last_logits, model_inputs
from helpers.tools.parallel import rows_here, world_size
from helpers.tools.validate import (
    require,
    require_finite,
    require_ids,
    require_mask,
    require_shape,
    require_tensor,
)


class Tokens(NamedTuple):
    """What a forward needs: B prompts of P tokens, padded left, and responses of T, padded right."""

    query_tensors: Tensor  # (B, P) prompt token ids
    query_mask: Tensor  # (B, P) False on the padding; pad may equal EOS in pretrained models
    response_tensors: Tensor  # (B, T) response token ids
    response_mask: Tensor  # (B, T) True up to and including the first EOS

    def rows(self, index: Tensor) -> "Tokens":
        """Some rows (or none), without columns that are padding in all of them."""
        queries, query_mask, responses, mask = (tensor[index] for tensor in self)
        first = int(query_mask.any(dim=0).int().argmax())  # prompts are padded left
        length = int(last_counted(mask.any(dim=0, keepdim=True))) + 1  # responses right
        return Tokens(
            queries[:, first:], query_mask[:, first:], responses[:, :length], mask[:, :length]
        )


PER_TOKEN = ("logprobs", "ref_logprobs", "values", "rewards", "advantages", "returns")


@dataclass
class RolloutBatch:
    """One rollout of B prompts (P tokens, padded left) and responses (T tokens, padded right).

    Masks are boolean, True = counts. `logprobs[:, t]`, `ref_logprobs[:, t]` and `values[:, t]` come
    from the position *before* response token t, which predicts it. ValueError: shapes, masks that are
    not boolean, a score or a counted number that is not finite.
    """

    query_tensors: Tensor  # (B, P) prompt token ids
    query_mask: Tensor  # (B, P) False on the padding; pad may equal EOS in pretrained models
    response_tensors: Tensor  # (B, T) response token ids
    response_mask: Tensor  # (B, T) True up to and including the first EOS
    logprobs: Tensor  # (B, T) of the policy that sampled them, nats
    ref_logprobs: Tensor  # (B, T) of the frozen reference, nats
    values: Tensor  # (B, T) of the critic before the update
    rewards: Tensor  # (B, T) KL penalty per token, score on the last
    advantages: Tensor  # (B, T)
    returns: Tensor  # (B, T) advantages + values
    scores: Tensor  # (B,) one per response, from the reward model
    skipped: Tensor | None = None  # (B,) True: left out of the loss; if not given, none is

    def __post_init__(self):
        require_tensor("query_tensors", self.query_tensors, dims=2)
        require_shape("query_mask", self.query_mask, self.query_tensors.shape, "query_tensors")
        require_tensor("response_tensors", self.response_tensors, dims=2)
        shape, queries = self.response_tensors.shape, len(self.query_tensors)
        for name in ("response_mask", *PER_TOKEN):
            require_shape(name, getattr(self, name), shape, like="response_tensors")
        rows = shape[0]
        require(queries == rows, "query_tensors", f"{queries} rows", f"{rows} rows")
        if self.skipped is None:
            self.skipped = self.response_mask.new_zeros(rows, dtype=torch.bool)
        for name in ("scores", "skipped"):
            require_shape(name, getattr(self, name), (rows,), "the batch axis of response_tensors")
        for name in ("query_mask", "response_mask", "skipped"):
            dtype = getattr(self, name).dtype
            require(dtype == torch.bool, name, f"dtype {dtype}", "a boolean mask")
        require_finite("scores", self.scores)
        for name in PER_TOKEN:
            require_finite(name, getattr(self, name), self.response_mask)

    def __len__(self) -> int:
        return self.query_tensors.shape[0]

    def to(self, device: torch.device | str) -> "RolloutBatch":
        """The same rollout with every tensor on `device`."""
        moved = {field.name: getattr(self, field.name).to(device) for field in fields(self)}
        return replace(self, **moved)

    def tokens(self) -> Tokens:
        """The four tensors that a forward needs."""
        return Tokens(*(getattr(self, name) for name in Tokens._fields))

    def rows(self, index: Tensor) -> "RolloutBatch":
        """Some rows (or none), without columns that are padding in all of them."""
        tokens = self.tokens().rows(index)
        length = tokens.response_mask.shape[1]
        per_token = (getattr(self, name)[index, :length] for name in PER_TOKEN)
        return RolloutBatch(*tokens, *per_token, self.scores[index], self.skipped[index])

    def minibatches(self, size: int, generator: torch.Generator | None = None) -> Iterator:
        """Yield the rows in a new random order, `size` at a time (the last may be smaller).

        Several processes draw the same order of all rows, so the minibatches do not depend on their
        number; each process gets its own rows of a minibatch, possibly none.
        """
        rows, device = len(self), self.query_tensors.device
        order = torch.randperm(rows * world_size(), generator=generator)
        for index in order.split(size):
            yield self.rows(rows_here(index, rows).to(device))


def gather_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """log softmax(logits)[token] in float32 nats: [B, T, V], [B, T] → [B, T].

    Computed as logit − logsumexp, which needs no second [B, T, V] tensor for the backward pass.
    """
    logits = logits.float()
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)  # (B, T)
    return chosen - logits.logsumexp(dim=-1)


def is_stop(tokens: Tensor, eos_token_id: int | Sequence[int]) -> Tensor:
    """Whether each token ends a response: bool, of the same shape. A chat model may have several ids."""
    ids = eos_token_id if isinstance(eos_token_id, Sequence) else [eos_token_id]
    return reduce(torch.logical_or, (tokens == one for one in ids))


def response_mask(response_tensors: Tensor, eos_token_id: int | Sequence[int]) -> Tensor:
    """True up to and including the first EOS: [B, T] → [B, T] bool; all True without an EOS.

    The EOS is an action like any other token: if it were masked, the model would not learn to stop.
    """
    is_eos = is_stop(response_tensors, eos_token_id).long()
    return is_eos.cumsum(dim=1) - is_eos == 0  # no EOS strictly before


def position_ids(mask: Tensor) -> Tensor:
    """Positions that ignore padding, `cumsum(mask) − mask`: [B, L] → [B, L] int64, never negative."""
    mask = mask.long()
    return mask.cumsum(dim=1) - mask


# --- one full forward -----------------------------------------------------------------------------


def require_known(model: nn.Module, kind: str, ids: Tensor, mask: Tensor, every_row: bool) -> None:
    """Require a mask of the ids' shape, and ids that have an embedding: a GPU would not survive others."""
    require_tensor(f"{kind}_tensors", ids, dims=2)
    require_mask(f"{kind}_mask", mask, ids.shape, every_row)
    embeddings = getattr(model, "get_input_embeddings", lambda: None)()
    if isinstance(embeddings, nn.Embedding):
        require_ids(f"{kind}_tensors", ids, embeddings.num_embeddings)


def require_prompts(model: nn.Module, ids: Tensor, mask: Tensor, response_length: int) -> None:
    """Require known ids, and space for prompt and response (the last token is not an input)."""
    require_known(model, "query", ids, mask, every_row=True)
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    longest = int(mask.sum(dim=1).max())
    fits = limit is None or longest + response_length - 1 <= limit
    got = f"{longest} tokens and {response_length} of response"
    require(fits, "query_tensors", got, f"at most {limit} in all")


def _joined(model: nn.Module, tokens: Tokens) -> tuple:
    """Concatenate prompt and response, without the last token, which predicts nothing."""
    queries, query_mask, responses, mask = tokens
    require_known(model, "response", responses, mask, every_row=False)
    require_prompts(model, queries, query_mask, int(mask.sum(dim=1).max()))
    ids = torch.cat([queries, responses[:, :-1]], dim=1)  # (B, P + T − 1)
    mask = torch.cat([query_mask, mask[:, :-1]], dim=1)
    return ids, mask, position_ids(mask)


def response_logits(policy: nn.Module, *tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """Logits / temperature of each response token, in one full forward: `Tokens` → [B, T, V].

    Position t has the distribution *of* response token t, given everything before it.
    """
    tokens = Tokens(*tokens)
    joined, length = _joined(policy, tokens), tokens.response_mask.shape[1]
    inputs = model_inputs(policy, *joined) | last_logits(policy, length)
    logits = policy(**inputs, use_cache=False).logits
    logits = logits[:, -length:].float()
    return logits if temperature == 1.0 else logits / temperature


def forward_logprobs(policy: nn.Module, *tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probs of the response tokens: `Tokens` → [B, T] nats, 0 where the mask is False."""
    _, _, response_tensors, mask = tokens
    logits = response_logits(policy, *tokens, temperature=temperature)
    return torch.where(mask, gather_logprobs(logits, response_tensors), 0.0)


def forward_values(value_network: nn.Module, *tokens: Tensor) -> Tensor:
    """Critic's values before each response token: `Tokens` → [B, T] reward units, 0 where masked."""
    tokens = Tokens(*tokens)
    inputs = _joined(getattr(value_network, "trunk", value_network), tokens)
    values = value_network(*inputs)[:, -tokens.response_mask.shape[1] :]
    return torch.where(tokens.response_mask, values.float(), 0.0)
