"""Policies for the drift page: weights in half precision, as scripts that a page from the disk may load."""

import base64
import json
import re
from pathlib import Path

from torch import nn

from helpers.models import load_actor, load_tokenizer
from helpers.sampling import plain_tokens
from helpers.studies.beta_sweep import FOLDER, beta_kind, load_policy
from helpers.tools.files import write_text
from helpers.tools.validate import require

REFERENCE = "reference"
PREFIX = "transformer."
TANH_GELU = ("gelu_new", "gelu_pytorch_tanh")  # the same function


def policy_file(name: str, actor: nn.Module, words: list[str]) -> str:
    """A policy as a script: `POLICY_FILES[name] = {...}`. ValueError: not a GPT-2 of the course's kind."""
    config = actor.config
    got = f"{config.model_type}, {config.activation_function}"
    plain = config.model_type == "gpt2" and config.activation_function in TANH_GELU
    wants = "a GPT-2 with tied embeddings and the GELU by tanh"
    require(plain and config.tie_word_embeddings, "actor", got, wants)
    weights = {name.removeprefix(PREFIX): x.half().cpu() for name, x in actor.state_dict().items()}
    weights.pop("lm_head.weight")  # tied to the word embeddings
    # the page's script calls the two embeddings wte and wpe
    tensors = {re.sub(r"^(w[tp]e)\.weight$", r"\1", name): x for name, x in weights.items()}
    weights = b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors.values())
    facts = {
        "config": {
            "layers": config.n_layer,
            "heads": config.n_head,
            "width": config.n_embd,
            "positions": config.n_positions,
            "epsilon": config.layer_norm_epsilon,
        },
        "words": words,
        "tensors": [[name, tensor.numel()] for name, tensor in tensors.items()],
        "weights": base64.b64encode(weights).decode(),
    }
    written = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return f"POLICY_FILES[{json.dumps(name)}] = {written};\n"


def export_policies(folder: Path, betas: list[float], sweep: Path = FOLDER) -> list[str]:
    """Write the reference and the sweep's policies at these β to a folder; names of the latter."""
    tokenizer = load_tokenizer("data/sft")
    actor = load_actor("data/sft", "cpu")
    words = plain_tokens(tokenizer, list(range(actor.config.vocab_size)))
    write_text(folder / f"{REFERENCE}.js", policy_file(REFERENCE, actor, words))
    for beta in betas:
        name = beta_kind(beta)
        write_text(folder / f"{name}.js", policy_file(name, load_policy(actor, beta, sweep), words))
    return [beta_kind(beta) for beta in betas]
