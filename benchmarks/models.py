"""Models of any size with random weights, equal for every trainer, that never generate EOS or pad."""

from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from helpers.config import RLHFConfig
from helpers.models import freeze, make_critic, make_reference, with_fused_gelu
from helpers.reward_model import RewardModel
from helpers.state import Models, RLHFState, start_run
from helpers.world.small_models import make_encoder

LEARNING_RATE = 3e-6  # TRL's default, used for all


@dataclass(frozen=True)
class Size:
    """Size of one benchmark: GPT-2 layers and width; prompts and responses in tokens."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    vocabulary: int = 512
    prompt: int = 8
    response: int = 24
    batch: int = 64


def make_tokenizer(size: Size) -> PreTrainedTokenizerFast:
    """Words t0, t1, …; the last two ids are EOS and pad."""
    words = [*(f"t{i}" for i in range(size.vocabulary - 2)), "<end>", "<pad>"]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"eos_token": "<end>", "pad_token": "<pad>", "padding_side": "left"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def gpt2_config(size: Size, fused: bool = False, **changes) -> GPT2Config:
    """The shape of actor, critic and (for peers) reward model; no dropout; GELU in one kernel if `fused`."""
    shape = {"n_layer": size.layers, "n_embd": size.width, "n_head": size.heads}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    last = size.vocabulary - 1
    tokens = {"bos_token_id": last - 1, "eos_token_id": last - 1, "pad_token_id": last}
    config = GPT2Config(vocab_size=size.vocabulary, **shape, **still, **tokens, **changes)
    return with_fused_gelu(config) if fused else config


def make_actor(size: Size, fused: bool = False) -> GPT2LMHeadModel:
    """A language model with random weights in which EOS and pad have a logit of about −50.

    The first feature of the final layer norm is made a constant 10, which only these two tokens look at.
    """
    torch.manual_seed(0)
    actor = GPT2LMHeadModel(gpt2_config(size, fused)).eval()
    with torch.no_grad():
        norm, embeddings = actor.transformer.ln_f, actor.transformer.wte.weight
        norm.weight[0], norm.bias[0] = 0.0, 10.0
        embeddings[:, 0] = 0.0
        embeddings[-2:, 0] = -5.0
    return actor


def make_llama(config: LlamaConfig) -> LlamaForCausalLM:
    """The same with Llama's architecture; EOS and pad are the last two ids, as in `make_tokenizer`.

    Its norms have no bias: the first feature is 1 in every embedding, and no layer writes to it.
    """
    torch.manual_seed(0)
    last = config.vocab_size - 1
    tokens = {"bos_token_id": last - 1, "eos_token_id": last - 1, "pad_token_id": last}
    actor = LlamaForCausalLM(LlamaConfig(**(config.to_dict() | tokens))).eval()
    with torch.no_grad():
        embeddings = actor.model.embed_tokens.weight  # the head's too
        embeddings[:, 0] = 1.0
        embeddings[-2:, 0] = -50.0
        for layer in actor.model.layers:
            layer.self_attn.o_proj.weight[0] = 0.0
            layer.mlp.down_proj.weight[0] = 0.0
    return actor


def make_models(size: Size) -> Models:
    """Our four models as the course loads them: fused GELU, and a [CLS] reward model of the same size."""
    tokenizer, actor = make_tokenizer(size), make_actor(size, fused=True)
    reward = freeze(RewardModel(make_encoder(tokenizer, size.layers, size.width), tokenizer))
    return Models(actor, make_critic(actor), reward, make_reference(actor), tokenizer)


def prompt_ids(size: Size) -> torch.Tensor:
    """A batch of random prompts of exactly the same length, without EOS or pad: [batch, prompt]."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(size.vocabulary - 2, (size.batch, size.prompt), generator=generator)


def prompt_texts(size: Size) -> list[str]:
    """A batch of prompts as texts."""
    return [" ".join(f"t{i}" for i in row) for row in prompt_ids(size).tolist()]


def run_config(size: Size, minibatch: int, **settings) -> RLHFConfig:
    """Settings of our run at this size; those given go before."""
    shared = {"device": "cpu", "normalize_scores": False, "learning_rate": LEARNING_RATE}
    shared |= {"batch_size": size.batch, "response_length": size.response}
    return RLHFConfig(**shared | {"minibatch_size": minibatch} | settings)


def make_run(size: Size, minibatch: int, **settings) -> RLHFState:
    """The initial state of our PPO; so many iterations that the learning rate hardly falls."""
    settings |= {"iterations": 10_000, "critic_learning_rate": LEARNING_RATE}
    config = run_config(size, minibatch, **settings)
    return start_run(config, make_models(size), prompts=prompt_texts(size))
