"""Preference pairs as tensors: those of a data set, or two new responses to each prompt, labelled."""

import hashlib
import json
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from helpers.reward_model import pair_texts
from helpers.sampling import Responses, encode_prompts
from helpers.state import LARGE_PRIME, RLHFState
from helpers.steps import reference_logprobs
from helpers.tools.parallel import share
from helpers.tools.validate import require


@dataclass
class PairBatch:
    """B pairs of responses, each to one prompt.

    Rows 0 … B − 1 of `responses` and `ref_logprobs` are the first of each pair (the chosen one of a
    data set), rows B … 2B − 1 the second: one forward takes both.
    """

    responses: Responses  # 2B rows: prompts [2B, P], responses [2B, T]
    ref_logprobs: Tensor  # (2B,) of whole responses under the reference, nats
    probabilities: Tensor  # (B,) P(the first is preferred): 1 where it was chosen

    def __len__(self) -> int:
        return len(self.probabilities)

    def both(self, index: Tensor) -> Tensor:
        """Rows of the responses of some pairs: [b] → [2b]."""
        return torch.cat([index, index + len(self)])

    def lengths(self) -> Tensor:
        """Counted tokens of the longer response of each pair: [B]."""
        return self.responses.response_mask.sum(dim=1).view(2, -1).amax(dim=0)


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase,
    pairs: list[dict],
    response_length: int,
    device: torch.device | str = "cpu",
) -> Responses:
    """Token ids of `{prompt, chosen, rejected}` rows: N pairs → 2N responses, all the chosen first.

    Each ends with EOS, which is trained like any other token. One that is longer than
    `response_length` with its EOS is cut there and has none, as if it had been sampled. `logprobs`
    are 0: which policy sampled the responses is not known.
    """
    prompts = 2 * [pair["prompt"] for pair in pairs]
    texts = [text for side in pair_texts(pairs) for text in side]
    # what is joined to the prompt, a space included, as a subword tokenizer wants it
    endings = [text[len(prompt) :] for prompt, text in zip(prompts, texts, strict=True)]
    ids = tokenizer(endings, add_special_tokens=False)["input_ids"]
    rows = [(row + [tokenizer.eos_token_id])[:response_length] for row in ids]
    lengths = torch.tensor([len(row) for row in rows]).unsqueeze(1)
    mask = torch.arange(int(lengths.max())) < lengths  # (2N, T); PAD may be EOS
    tokens = torch.full(mask.shape, tokenizer.pad_token_id)
    tokens[mask] = torch.tensor([token for row in rows for token in row])
    queries = encode_prompts(tokenizer, prompts, device)
    logprobs = torch.zeros(mask.shape, device=device)
    return Responses(*queries, tokens.to(device), mask.to(device), logprobs, texts)


def encode_batch(state: RLHFState, pairs: list[dict]) -> PairBatch:
    """Pairs of a data set as tensors, the reference's log-probs still to come (NaN): N rows → N."""
    models, length = state.models, state.config.response_length
    responses = encode_pairs(models.tokenizer, pairs, length, models.device)
    ref_logprobs = torch.full((2 * len(pairs),), torch.nan, device=models.device)
    return PairBatch(responses, ref_logprobs, torch.ones(len(pairs), device=models.device))


def fill_reference(state: RLHFState, batch: PairBatch, rows: Tensor) -> None:
    """Compute the reference's log-probs of these pairs where they are missing, and keep them.

    Always for whole blocks of `batch_size` pairs: a run that resumes rounds as the uninterrupted one.
    """
    size = state.config.batch_size
    for block in (rows // size).unique().tolist():
        pairs = torch.arange(len(batch))[block * size : (block + 1) * size]
        both = batch.both(pairs).to(batch.ref_logprobs.device)
        if bool(batch.ref_logprobs[both].isnan().any()):
            tokens = batch.responses.tokens().rows(both)
            part = Responses(*tokens, torch.zeros(tokens[2].shape, device=both.device), [])
            batch.ref_logprobs[both] = reference_logprobs(state, part).sum(dim=1)


def load_data(state: RLHFState, pairs: list[dict]) -> PairBatch:
    """The data set of a run, shuffled: of N pairs those that the run will use.

    ValueError: other pairs than the run was started with.
    """
    digest = hashlib.sha256(json.dumps(pairs, sort_keys=True).encode()).hexdigest()
    same = state.pairs in (None, digest)
    require(same, "pairs", "other ones", "those that the run was started with")
    state.pairs = digest
    used = state.config.iterations * state.config.batch_size
    order = torch.randperm(len(pairs), generator=_generator(state, 0))[:used]
    return encode_batch(state, [pairs[i] for i in order.tolist()])


def _generator(state: RLHFState, epoch: int) -> torch.Generator:
    """One for each pass, so that a resumed run needs nothing but the number of its iteration."""
    return torch.Generator().manual_seed(LARGE_PRIME * (epoch + 1) + state.config.seed)


def draw_pairs(state: RLHFState, count: int) -> Tensor:
    """Numbers of this iteration's pairs, [batch_size] of `count`: each in turn, each pass reshuffled."""
    size = state.config.batch_size
    first = state.iteration * size
    epochs = range(first // count, (first + size - 1) // count + 1)
    orders = [  # the first pass is in the order of `load_data`, which has shuffled
        torch.randperm(count, generator=_generator(state, epoch)) if epoch else torch.arange(count)
        for epoch in epochs
    ]
    here = first - epochs[0] * count
    return torch.tensor(share(torch.cat(orders)[here : here + size].tolist()))


def label_pairs(scores: Tensor) -> Tensor:
    """P(the first response of each pair is preferred), from the scores of both: [2B] → [B].

    sigmoid(score difference), as Bradley and Terry have it.
    """
    first, second = scores.chunk(2)
    return torch.sigmoid(first - second)
