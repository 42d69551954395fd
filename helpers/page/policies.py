"""Models for the drift page: weights in half precision, as scripts that a page from the disk may load."""

import base64
import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from helpers.data import load_rows
from helpers.models import load_actor, load_tokenizer
from helpers.reward_model import RewardModel, load_reward_model
from helpers.sampling import plain_tokens
from helpers.studies.beta_sweep import beta_kind, load_policy
from helpers.tools.files import write_text
from helpers.tools.validate import require

REFERENCE, REWARD = "reference", "reward"
PREFIX = "transformer."
TANH_GELU = ("gelu_new", "gelu_pytorch_tanh")  # the same function

ENCODER_LAYER = {  # GPT-2's names of a DistilBERT layer's parts
    "attn.c_proj": "attention.out_lin",
    "ln_1": "sa_layer_norm",
    "mlp.c_fc": "ffn.lin1",
    "mlp.c_proj": "ffn.lin2",
    "ln_2": "output_layer_norm",
}


def as_script(name: str, facts: dict) -> str:
    """A model as a script: `POLICY_FILES[name] = {...}`."""
    written = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return f"POLICY_FILES[{json.dumps(name)}] = {written};\n"


def with_weights(facts: dict, tensors: dict[str, Tensor]) -> dict:
    """A model's facts, and its weights as half floats."""
    weights = b"".join(x.half().cpu().contiguous().numpy().tobytes() for x in tensors.values())
    return facts | {
        "tensors": [[name, tensor.numel()] for name, tensor in tensors.items()],
        "weights": base64.b64encode(weights).decode(),
    }


def policy_facts(actor: nn.Module, words: list[str]) -> dict:
    """A policy as plain values. ValueError: not a GPT-2 of the course's kind."""
    config = actor.config
    got = f"{config.model_type}, {config.activation_function}"
    plain = config.model_type == "gpt2" and config.activation_function in TANH_GELU
    wants = "a GPT-2 with tied embeddings and the GELU by tanh"
    require(plain and config.tie_word_embeddings, "actor", got, wants)
    weights = {name.removeprefix(PREFIX): x for name, x in actor.state_dict().items()}
    weights.pop("lm_head.weight")  # tied to the word embeddings
    # the page's script calls the two embeddings wte and wpe
    tensors = {re.sub(r"^(w[tp]e)\.weight$", r"\1", name): x for name, x in weights.items()}
    sizes = {
        "layers": config.n_layer,
        "heads": config.n_head,
        "width": config.n_embd,
        "positions": config.n_positions,
        "epsilon": config.layer_norm_epsilon,
    }
    return with_weights({"config": sizes, "words": words}, tensors)


def reward_tensors(model: RewardModel) -> dict[str, Tensor]:
    """A DistilBERT and its head, by GPT-2's names: turned to [inputs, outputs]; q, k and v in one."""
    weights = model.encoder.state_dict()
    tensors = {
        "wte": weights["embeddings.word_embeddings.weight"],
        "wpe": weights["embeddings.position_embeddings.weight"],
        "ln_0.weight": weights["embeddings.LayerNorm.weight"],
        "ln_0.bias": weights["embeddings.LayerNorm.bias"],
    }
    for layer, kind in product(range(model.encoder.config.n_layers), ("weight", "bias")):
        of = f"transformer.layer.{layer}"
        qkv = [weights[f"{of}.attention.{name}_lin.{kind}"] for name in "qkv"]
        tensors[f"h.{layer}.attn.c_attn.{kind}"] = torch.cat(qkv).t()
        for name, part in ENCODER_LAYER.items():
            tensors[f"h.{layer}.{name}.{kind}"] = weights[f"{of}.{part}.{kind}"].t()
    return tensors | {
        "head.weight": model.head.weight.detach(),
        "head.bias": model.head.bias.detach(),
    }


def reward_facts(model: RewardModel, prompts: list[str]) -> dict:
    """The reward model as plain values, with the prompts to train on. ValueError: not a DistilBERT."""
    config = model.encoder.config
    require(config.model_type == "distilbert", "model", config.model_type, "a DistilBERT")
    facts = {
        "layers": config.n_layers,
        "heads": config.n_heads,
        "width": config.dim,
        "positions": config.max_position_embeddings,
        "epsilon": 1e-12,  # DistilBERT's own
        "scoreMean": float(model.score_mean),
        "scoreStd": float(model.score_std),
        "prompts": prompts,
    }
    return with_weights({"config": facts, "words": []}, reward_tensors(model))


def shipped_words() -> list[str]:
    """The tokens of the course's own policy, by id."""
    tokenizer = load_tokenizer("data/sft")
    return plain_tokens(tokenizer, list(range(len(tokenizer))))


def model_facts() -> dict[str, Callable[[], dict]]:
    """What training in the page needs, by name: functions that give the reference and the reward model."""
    prompts = [row["prompt"] for row in load_rows("prompts.jsonl", ("prompt",))]
    return {
        REFERENCE: lambda: policy_facts(load_actor("data/sft", "cpu"), shipped_words()),
        REWARD: lambda: reward_facts(load_reward_model(device="cpu"), prompts),
    }


def export_policies(folder: Path, betas: list[float]) -> list[str]:
    """Write the reference, the reward model and the sweep's policies at these β; names of the latter."""
    actor, words = load_actor("data/sft", "cpu"), shipped_words()
    models = {name: make() for name, make in model_facts().items()}
    trained = {beta_kind(b): policy_facts(load_policy(actor, b), words) for b in betas}
    for name, facts in (models | trained).items():
        write_text(folder / f"{name}.js", as_script(name, facts))
    return list(trained)
