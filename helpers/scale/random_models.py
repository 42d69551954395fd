"""GPT-2-sized models with random weights: the loop at full scale without a download."""

import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import (
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    PreTrainedTokenizerFast,
)

from helpers.models import ValueNetwork, freeze, make_reference, resolve_device
from helpers.reward_model import RewardModel
from helpers.state import Models

VOCABULARY_SIZE, PROMPT_TOKENS = 50_257, 64


def gpt2_sized_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with GPT-2's vocabulary size: words `t0`, `t1`, …; the last token is EOS and pad."""
    words = {f"t{i}": i for i in range(VOCABULARY_SIZE - 1)} | {"<end>": VOCABULARY_SIZE - 1}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", padding_side="left"
    )


def random_gpt2_models(seed: int, device: str = "auto") -> Models:
    """Random actor and reference with GPT-2 small's architecture (124 M), smaller critic and reward."""
    torch.manual_seed(seed)
    place, tokenizer = resolve_device(device), gpt2_sized_tokenizer()
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    actor = GPT2LMHeadModel(GPT2Config(**still)).to(place).eval()
    critic = ValueNetwork(GPT2Model(GPT2Config(n_embd=256, n_layer=4, n_head=4, **still)))
    encoder = DistilBertModel(
        DistilBertConfig(
            vocab_size=VOCABULARY_SIZE,
            dim=256,
            n_layers=2,
            n_heads=4,
            hidden_dim=1024,
            dropout=0.0,
            attention_dropout=0.0,
        )
    )
    reward = freeze(RewardModel(encoder, tokenizer).to(place))
    return Models(actor, critic.to(place).eval(), reward, make_reference(actor), tokenizer)


def random_prompts(count: int, seed: int) -> list[str]:
    """Prompts of 64 random tokens each."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY_SIZE - 1, (count, PROMPT_TOKENS), generator=generator)
    return [" ".join(f"t{i}" for i in row) for row in ids.tolist()]
