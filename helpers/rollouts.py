"""Rollouts: the batch of one iteration, its masks and positions, and log-probs of its tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.kl import last_counted
from helpers.models import last_logits, model_inputs, output_head
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


@dataclass
class WithTokens:
    """The fields of `Tokens`, and what belongs to the same B rows."""

    query_tensors: Tensor  # (B, P) prompt token ids
    query_mask: Tensor  # (B, P) False on the padding; pad may equal EOS in pretrained models
    response_tensors: Tensor  # (B, T) response token ids
    response_mask: Tensor  # (B, T) True up to and including the first EOS

    def tokens(self) -> Tokens:
        """The four tensors that a forward needs."""
        return Tokens(*(getattr(self, name) for name in Tokens._fields))


PER_TOKEN = ("logprobs", "ref_logprobs", "values", "rewards", "advantages", "returns")


@dataclass
class RolloutBatch(WithTokens):
    """One rollout of B prompts (P tokens, padded left) and responses (T tokens, padded right).

    Masks are boolean, True = counts. `logprobs[:, t]`, `ref_logprobs[:, t]` and `values[:, t]` come
    from the position *before* response token t, which predicts it. ValueError: shapes, masks that are
    not boolean, a score or a counted number that is not finite.
    """

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

    The EOS is an action like any other token: if it were masked, no gradient would come from there.
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


def _model_logits(policy: nn.Module, tokens: Tokens) -> Tensor:
    """The model's own logits in one full forward, of the last T positions where it can."""
    inputs = model_inputs(policy, *_joined(policy, tokens))
    inputs |= last_logits(policy, tokens.response_mask.shape[1])
    return policy(**inputs, use_cache=False).logits


def _at_temperature(logits: Tensor, temperature: float) -> Tensor:
    logits = logits.float()
    return logits if temperature == 1.0 else logits / temperature


def response_logits(policy: nn.Module, *tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """Logits / temperature of each response token, in one full forward: `Tokens` → [B, T, V].

    Position t has the distribution *of* response token t, given everything before it.
    """
    tokens = Tokens(*tokens)
    logits = _model_logits(policy, tokens)[:, -tokens.response_mask.shape[1] :]
    return _at_temperature(logits, temperature)


LOGITS_AT_ONCE = 2**24  # 64 MiB in float32, of which a backward pass holds four


def tokens_at_once(vocabulary: int) -> int:
    """Tokens whose logits are held at once: at least one."""
    return max(1, LOGITS_AT_ONCE // vocabulary)


def head_inputs(policy: nn.Module, head: nn.Module, tokens: Tokens) -> Tensor | None:
    """Hidden states that the head reads before each response token: [B, T, d].

    One full forward, in which only one position a row goes through the head. None if the model changes
    its logits after the head (Gemma 2 caps them).
    """
    states = []

    def keep_one(module: nn.Module, given: tuple) -> Tensor:
        states.append(given[0])
        return given[0][:, -1:]

    handle = head.register_forward_pre_hook(keep_one)
    try:
        logits = _model_logits(policy, tokens).float()  # (B, 1, V)
    finally:
        handle.remove()
    with torch.no_grad():
        unchanged = torch.allclose(head(states[0][:, -1:]).float(), logits)
    return states[0][:, -tokens.response_mask.shape[1] :] if unchanged else None


def per_token(
    function: Callable, policy: nn.Module, *tokens: Tensor, temperature: float = 1.0
) -> tuple[Tensor, ...]:
    """What `function(logits, tokens)` returns, a tuple of one number a token: `Tokens` → [B, T] each.

    Where the logits [B, T, V] would be more than LOGITS_AT_ONCE numbers, they are never held whole: the
    head runs on a part of the counted tokens at a time, and again in the backward pass (Chen et al.
    2016, arXiv 1604.06174). Then the result is 0 where the mask is False.
    """
    tokens = Tokens(*tokens)
    ids, mask, head = tokens.response_tensors, tokens.response_mask, output_head(policy)
    require_tensor("response_tensors", ids, dims=2)
    size = ids.numel() if head is None else tokens_at_once(len(head.weight))
    states = head_inputs(policy, head, tokens) if ids.numel() > size else None
    if states is None:
        return function(response_logits(policy, *tokens, temperature=temperature), ids)

    def of_part(states: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        return function(_at_temperature(head(states), temperature), ids)

    pairs = zip(states[mask].split(size), ids[mask].split(size), strict=True)
    how = {"use_reentrant": False, "preserve_rng_state": False}
    parts = [checkpoint(of_part, *pair, **how) for pair in pairs]
    zeros = torch.zeros(mask.shape, device=mask.device)
    return tuple(zeros.masked_scatter(mask, torch.cat(part)) for part in zip(*parts, strict=True))


def forward_logprobs(policy: nn.Module, *tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probs of the response tokens: `Tokens` → [B, T] nats, 0 where the mask is False."""

    def alone(logits: Tensor, ids: Tensor) -> tuple[Tensor]:
        return (gather_logprobs(logits, ids),)

    (logprobs,) = per_token(alone, policy, *tokens, temperature=temperature)
    return torch.where(Tokens(*tokens).response_mask, logprobs, 0.0)


def forward_values(value_network: nn.Module, *tokens: Tensor) -> Tensor:
    """Critic's values before each response token: `Tokens` → [B, T] reward units, 0 where masked."""
    tokens = Tokens(*tokens)
    inputs = _joined(getattr(value_network, "trunk", value_network), tokens)
    values = value_network(*inputs)[:, -tokens.response_mask.shape[1] :]
    return torch.where(tokens.response_mask, values.float(), 0.0)
