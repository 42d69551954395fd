"""A chat model as small as can be: its tokenizer has the traps of the large ones. For lesson 12.

Pad is EOS, EOS ends every turn (of the prompt too), the template writes a BOS, and so does the tokenizer.
"""

from functools import cache

import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

BOS, EOS, TURN = "<s>", "<end>", "<turn>"
WORDS = (
    "system user assistant be kind my cat dog is ill i am sorry to hear that lost the match and so"
    " you very how are fine thanks what a pity get well soon no why not . ? ,"
    " tool look weather rain sun it"
).split()
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<turn> {{ m['role'] }} {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<turn> assistant{% endif %}"
)


@cache
def chat_tokenizer() -> PreTrainedTokenizerFast:
    """Its words are split at blanks; BOS is put before every text, unless `add_special_tokens=False`."""
    vocabulary = {word: i for i, word in enumerate([BOS, EOS, TURN, "<unknown>", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, vocabulary[BOS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        extra_special_tokens=[TURN],
        chat_template=TEMPLATE,
        padding_side="right",  # as most are saved: a rollout asks for the other side
    )


@cache
def chat_actor() -> nn.Module:
    """A GPT-2 of two small layers with random weights, large enough to have opinions; no dropout."""
    torch.manual_seed(12)
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.4}
    shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    config = GPT2Config(vocab_size=len(chat_tokenizer()), **shape, **ends, **still)
    return GPT2LMHeadModel(config).eval()
