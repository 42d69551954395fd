"""From prompts in words to responses in words: encode, let a policy write, decode."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from helpers.config import RLHFConfig
from helpers.rollouts import generate
from helpers.validate import require


@dataclass
class Written:
    """What a policy wrote: prompts [B, P] padded left, responses [B, T] padded right, whole texts."""

    query_tensors: Tensor
    query_mask: Tensor
    response_tensors: Tensor
    response_mask: Tensor
    logprobs: Tensor  # (B, T) of the policy that wrote, nats
    texts: list[str]  # prompt + response
    logprob_gap: float = 0.0  # half precision: largest difference to one full forward, nats

    def tokens(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four tensors every forward needs, in the order it takes them."""
        return self.query_tensors, self.query_mask, self.response_tensors, self.response_mask

    def in_parts(self, compute: Callable[..., Tensor], size: int = 64) -> Tensor:
        """`compute(*tokens)` → [b, t] over rows of like length without their padding, as one [B, T].

        Positions left out are 0: a response's padding costs no forward pass.
        """
        result = torch.zeros_like(self.logprobs)
        lengths = self.response_mask.sum(dim=1)
        for index in lengths.argsort(stable=True).split(size):
            queries, query_mask, responses, counted = (tensor[index] for tensor in self.tokens())
            first = int(query_mask.any(dim=0).int().argmax())  # prompts are padded left
            last = int(lengths[index].max())
            prompts = queries[:, first:], query_mask[:, first:]
            result[index, :last] = compute(*prompts, responses[:, :last], counted[:, :last])
        return result


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, prompts: list[str], device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Prompts as token ids and boolean mask, padded left: list of B → [B, P], [B, P]."""
    require(len(prompts) > 0, "prompts", "an empty list", "at least one prompt")
    encoded = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left")
    return encoded["input_ids"].to(device), encoded["attention_mask"].bool().to(device)


def decode(
    tokenizer: PreTrainedTokenizerBase,
    query_tensors: Tensor,
    query_mask: Tensor,
    response_tensors: Tensor,
    response_mask: Tensor,
) -> list[str]:
    """Whole texts, prompt + response, without padding and special tokens: [B, …] → list of B."""
    ids = torch.cat([query_tensors, response_tensors], dim=1).tolist()
    counted = torch.cat([query_mask, response_mask], dim=1).tolist()
    pairs = zip(ids, counted, strict=True)
    rows = [[token for token, c in zip(*pair, strict=True) if c] for pair in pairs]
    return tokenizer.batch_decode(rows, skip_special_tokens=True)


def plain_tokens(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    """Tokens to be shown: subword tokenizers' marks for a blank and a line end written as such."""
    tokens = tokenizer.convert_ids_to_tokens(ids)
    marks = {"Ġ": " ", "▁": " ", "Ċ": "⏎", "\n": "⏎"}
    return ["".join(marks.get(letter, letter) for letter in token) for token in tokens]


def write(
    policy: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[str],
    config: RLHFConfig,
    generator: torch.Generator | None = None,
) -> Written:
    """Let `policy` answer each prompt once, at the config's length limit and temperature."""
    queries = encode_prompts(tokenizer, prompts, policy.device)
    stop, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    length, temperature = config.response_length, config.temperature
    response, mask, logprobs = generate(policy, *queries, length, stop, pad, temperature, generator)
    texts = decode(tokenizer, *queries, response, mask)
    return Written(*queries, response, mask, logprobs, texts)
