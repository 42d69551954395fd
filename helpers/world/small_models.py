"""The embedded world's small models: tokenizer, GPT-2 policy, DistilBERT encoder, and SFT."""

import math
from collections.abc import Callable
from itertools import chain, count, islice

import torch
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor, nn
from transformers import (
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

from helpers.models import without_dropout
from helpers.sft import sft_loss
from helpers.tools.optimizers import Optimizers, warm_cosine

PAD, START, END, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"


def make_tokenizer(vocabulary: list[str]) -> PreTrainedTokenizerFast:
    """Word-level tokenizer: one token per word or punctuation mark.

    `<s>` begins every text: BOS for the policy, [CLS] for the reward model (as in RoBERTa). `</s>`
    is EOS, and PAD differs from it.
    """
    specials = [PAD, START, END, UNKNOWN]
    words = {word: i for i, word in enumerate([*specials, *vocabulary])}
    tokenizer = Tokenizer(WordLevel(words, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, words[START])]
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)  # no space before . , !
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=START,
        cls_token=START,
        eos_token=END,
        sep_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=64,
    )


def make_policy(tokenizer: PreTrainedTokenizerFast, layers: int = 3, width: int = 128) -> nn.Module:
    """A small GPT-2 without dropout, randomly initialised."""
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=64,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return GPT2LMHeadModel(without_dropout(config))


def make_encoder(
    tokenizer: PreTrainedTokenizerFast, layers: int = 2, width: int = 128
) -> nn.Module:
    """A small DistilBERT without dropout, randomly initialised: the reward model's encoder."""
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        dim=width,
        n_layers=layers,
        n_heads=4,
        hidden_dim=4 * width,
        pad_token_id=tokenizer.pad_token_id,
    )
    return DistilBertModel(without_dropout(config))


def encode_corpus(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> tuple[Tensor, Tensor]:
    """Append EOS, tokenise, pad on the right: list of N → ids [N, L], mask [N, L] (bool)."""
    ended = [f"{text} {tokenizer.eos_token}" for text in texts]
    encoded = tokenizer(ended, return_tensors="pt", padding=True, padding_side="right")
    return encoded["input_ids"], encoded["attention_mask"].bool()


def fit_language_model(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerFast,
    texts: list[str],
    steps: int,
    seed: int = 0,
    on_step: Callable[[int, int, float], None] = lambda *_: None,
) -> nn.Module:
    """SFT on whole texts, 128 a step, in place: reshuffled every epoch, cosine with warm-up."""
    ids, mask = encode_corpus(tokenizer, texts)
    generator = torch.Generator().manual_seed(seed)
    optimizers, model = Optimizers(model, learning_rate=6e-3), model.train()
    orders = (torch.randperm(len(ids), generator=generator).split(128) for _ in count())
    for step, rows in enumerate(islice(chain.from_iterable(orders), steps)):
        width = int(mask[rows].any(dim=0).sum())
        counted = mask[rows, :width]
        loss = sft_loss(model, ids[rows, :width], counted, counted)
        optimizers.step(loss, warm_cosine(step, steps, warmup=30))
        on_step(step + 1, steps, float(loss.detach()))
    return model.eval()


@torch.no_grad()
def perplexity(model: nn.Module, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> float:
    """Perplexity per token: EOS counts, the first `<s>` does not."""
    ids, mask = encode_corpus(tokenizer, texts)
    total = sum(
        float(sft_loss(model, ids[rows], mask[rows], mask[rows])) * int(mask[rows, 1:].sum())
        for rows in torch.arange(len(ids)).split(256)
    )
    return math.exp(total / int(mask[:, 1:].sum()))
