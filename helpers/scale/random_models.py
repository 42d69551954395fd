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

from helpers.models import ValueNetwork, freeze, make_reference, resolve_device, without_dropout
from helpers.reward_model import RewardModel
from helpers.state import Models

VOCABULARY_SIZE, PROMPT_TOKENS = 50_257, 64


def word_tokenizer(
    size: int = VOCABULARY_SIZE, special: tuple[str, ...] = ("<end>",)
) -> PreTrainedTokenizerFast:
    """A tokenizer of so many words `t0`, `t1`, …; of the special ones the first is EOS, the last is pad."""
    words = [*(f"t{i}" for i in range(size - len(special))), *special]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=special[-1]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=special[0], pad_token=special[-1], padding_side="left"
    )


def random_gpt2_models(seed: int, device: str = "auto") -> Models:
    """Random actor and reference with GPT-2 small's architecture (124 M), smaller critic and reward."""
    torch.manual_seed(seed)
    place, tokenizer = resolve_device(device), word_tokenizer()
    small = GPT2Config(n_embd=256, n_layer=4, n_head=4)
    layers = {"dim": 256, "n_layers": 2, "n_heads": 4, "hidden_dim": 1024}
    actor = GPT2LMHeadModel(without_dropout(GPT2Config())).to(place).eval()
    critic = ValueNetwork(GPT2Model(without_dropout(small)))
    judge = DistilBertConfig(vocab_size=VOCABULARY_SIZE, **layers)
    encoder = DistilBertModel(without_dropout(judge))
    reward = freeze(RewardModel(encoder, tokenizer).to(place))
    return Models(actor, critic.to(place).eval(), reward, make_reference(actor), tokenizer)


def random_prompts(count: int, seed: int) -> list[str]:
    """Prompts of 64 random tokens each."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY_SIZE - 1, (count, PROMPT_TOKENS), generator=generator)
    return [" ".join(f"t{i}" for i in row) for row in ids.tolist()]
