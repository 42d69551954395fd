"""Sample responses: encode prompts, generate tokens with a policy, decode."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedTokenizerBase

from helpers.config import RLHFConfig
from helpers.models import autocast, last_logits, model_inputs, stop_tokens
from helpers.rollouts import WithTokens, gather_logprobs, is_stop, position_ids, require_prompts
from helpers.tools.validate import require


class SampledText(str):
    """Prompt + response as one text, and beside it each of the two: what a reward may ask for."""

    def __new__(cls, text: str, prompt: str = "", completion: str = ""):
        sampled = super().__new__(cls, text)
        sampled.prompt, sampled.completion = prompt, completion
        return sampled


@dataclass
class Responses(WithTokens):
    """Sampled responses: prompts [B, P] padded left, responses [B, T] padded right, and as text."""

    logprobs: Tensor  # (B, T) of the policy that sampled, nats
    texts: list[str]  # prompt + response; sampled ones are `SampledText`
    logprob_gap: float = 0.0  # in half precision: largest difference to a full forward, nats
    raw_scores: Tensor | None = None  # (B,) as the reward gave them, once it has

    def in_parts(self, compute: Callable[..., Tensor], size: int = 64) -> Tensor:
        """Call `compute(*tokens)` → [b, t] on rows of similar length without padding; results as [B, T].

        Masked positions are 0: no forward is spent on padding.
        """
        result = torch.zeros_like(self.logprobs)
        for index in self.response_mask.sum(dim=1).argsort(stable=True).split(size):
            part = compute(*self.tokens().rows(index))
            result[index, : part.shape[1]] = part
        return result


def rows_at_once(config: RLHFConfig) -> int:
    """Responses of one forward without gradients: two micro-batches take the memory of an update of one.

    There logits are held twice (with what their log-sum needs), in an update four times.
    """
    return 2 * config.micro_batch_size


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, prompts: list[str], device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Token ids and boolean mask of prompts, padded left: list of B → [B, P], [B, P]."""
    encoded = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left")
    return encoded["input_ids"].to(device), encoded["attention_mask"].bool().to(device)


def decode(tokenizer: PreTrainedTokenizerBase, *tokens: Tensor) -> list[str]:
    """Texts of prompt + response, without padding and special tokens: `Tokens` → list of B."""
    queries, query_mask, responses, mask = tokens
    ids, mask = torch.cat([queries, responses], dim=1), torch.cat([query_mask, mask], dim=1)
    return _decode_counted(tokenizer, ids, mask)


def _decode_counted(tokenizer: PreTrainedTokenizerBase, ids: Tensor, mask: Tensor) -> list[str]:
    """Texts of the counted tokens, without special ones: [B, L], [B, L] → list of B."""
    pairs = zip(ids.tolist(), mask.tolist(), strict=True)
    rows = [[token for token, c in zip(*pair, strict=True) if c] for pair in pairs]
    return tokenizer.batch_decode(rows, skip_special_tokens=True)


def plain_tokens(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    """Tokens for display: a subword tokenizer's signs for space and line end are replaced."""
    tokens = tokenizer.convert_ids_to_tokens(ids)
    marks = {"Ġ": " ", "▁": " ", "Ċ": "⏎", "\n": "⏎"}
    return ["".join(marks.get(letter, letter) for letter in token) for token in tokens]


def sample_responses(
    policy: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[str],
    config: RLHFConfig,
    generator: torch.Generator | None = None,
    copies: int = 1,
) -> Responses:
    """Sample `copies` responses to each prompt, in a row, with the config's length and temperature."""
    queries = encode_prompts(tokenizer, prompts, policy.device)
    stop, pad = stop_tokens(policy, tokenizer), tokenizer.pad_token_id
    length, temperature = config.response_length, config.temperature
    # autocast keeps its copies of trained weights, but would convert frozen ones again at every token
    kept = all(parameter.requires_grad for parameter in policy.parameters())
    with autocast(policy.device, config.mixed_precision if kept else "no"):
        response, mask, logprobs = generate(
            policy, *queries, length, stop, pad, temperature, generator, copies
        )
    queries = [x.repeat_interleave(copies, dim=0) for x in queries]
    prompts = [prompt for prompt in prompts for _ in range(copies)]
    whole = decode(tokenizer, *queries, response, mask)
    completions = _decode_counted(tokenizer, response, mask)
    texts = list(map(SampledText, whole, prompts, completions))
    return Responses(*queries, response, mask, logprobs, texts)


def sample_batches(
    policy: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[str],
    count: int,
    config: RLHFConfig,
    generator: torch.Generator | None = None,
    batch_size: int = 256,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Iterator[Responses]:
    """`count` responses, `batch_size` at a time, the prompts in turn; `progress` may wrap a bar."""
    asked = list(islice(cycle(prompts), count))
    for start in progress(range(0, count, batch_size)):
        some = asked[start : start + batch_size]
        yield sample_responses(policy, tokenizer, some, config, generator)


def sample_texts(*arguments, **more) -> list[str]:
    """The texts (prompt + response) of `sample_batches`, which takes the same arguments."""
    return [text for written in sample_batches(*arguments, **more) for text in written.texts]


LARGE_VOCABULARY = 10_000  # tokens
# tokens: finished rows leave the batch then, which waits for a GPU and copies the cache
LEAVE_EVERY = 32


def _sample(logits: Tensor, temperature: float, generator: torch.Generator | None) -> tuple:
    """Draw one token a row from softmax(logits / T): [B, V] → token [B], its log-prob [B]."""
    logits = logits.float() / temperature
    logprobs = logits.log_softmax(dim=-1)
    probs = logprobs.exp()
    # one draw as in torch.multinomial, but without its checks, which make a GPU wait
    waiting = torch.empty_like(probs).exponential_(1.0, generator=generator)
    token = (probs / waiting).argmax(dim=-1, keepdim=True)  # (B, 1)
    if logits.shape[1] > LARGE_VOCABULARY:  # there, log_softmax on a CPU is 8e-6 nats too high
        return token.squeeze(1), gather_logprobs(logits.unsqueeze(1), token).squeeze(1)
    return token.squeeze(1), logprobs.gather(1, token).squeeze(1)


@torch.no_grad()
def generate(
    policy: nn.Module,
    query_tensors: Tensor,
    query_mask: Tensor,
    response_length: int,
    eos_token_id: int | Sequence[int],
    pad_token_id: int,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
    copies: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample responses with a key–value cache; returns (response_tensors, response_mask, logprobs).

    Prompts [B, P] are padded left. The results are [B, T], T ≤ `response_length`: sampling ends when
    every row has an EOS (one of `eos_token_id`). It counts, the padding after it does not. `logprobs`
    are those of the sampling distribution (at this temperature), 0 where masked. With `copies` each prompt
    is read once and answered so many times, [B · copies, T]. ValueError: shapes, ids, an empty prompt,
    one too long.
    """
    require_prompts(policy, query_tensors, query_mask, response_length)
    cache, ids, mask = DynamicCache(config=policy.config), query_tensors, query_mask
    positions, running = position_ids(query_mask), query_mask.any(dim=1)  # (B, P), (B,)
    rows = slice(None)  # in the batch; tokens are drawn for all, so none depends on who has left
    tokens, logprobs = [], []
    # testing "has every row ended?" waits for the GPU, so it is done only every 16 tokens there
    every = 1 if query_tensors.device.type == "cpu" else 16
    for t in range(response_length):
        inputs = model_inputs(policy, ids[rows], mask[rows], positions[rows])
        logits = policy(
            **inputs, past_key_values=cache, use_cache=True, **last_logits(policy, 1)
        ).logits[:, -1]
        if t == 0 and copies > 1:  # the prompts have been read
            cache.batch_repeat_interleave(copies)
            logits, mask, positions, running = (
                x.repeat_interleave(copies, dim=0) for x in (logits, mask, positions, running)
            )
        if len(logits) < len(running):
            logits = logits.new_zeros(len(running), logits.shape[1]).index_copy(0, rows, logits)
        token, logprob = _sample(logits, temperature, generator)
        tokens.append(torch.where(running, token, pad_token_id))
        logprobs.append(torch.where(running, logprob, 0.0))
        mask = torch.cat([mask, running.unsqueeze(1)], dim=1)
        running = running & ~is_stop(token, eos_token_id)
        if t % every == every - 1 and not running.any():
            break
        if t % LEAVE_EVERY == LEAVE_EVERY - 1:
            cache.batch_select_indices(running[rows].nonzero().squeeze(1))
            rows = running.nonzero().squeeze(1)
        ids, positions = tokens[-1].unsqueeze(1), positions[:, -1:] + 1
    counted = mask[:, query_mask.shape[1] :]  # (B, T)
    length = int(counted.any(dim=0).sum())
    responses = torch.stack(tokens, dim=1)[:, :length]
    drawn = torch.stack(logprobs, dim=1)[:, :length]
    wants = "finite numbers: a smaller learning rate, or a higher temperature"
    require(not bool(drawn.isnan().any()), "logits / temperature", "NaN or infinite", wants)
    return responses, counted[:, :length], drawn
