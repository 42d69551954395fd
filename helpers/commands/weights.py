"""`python -m helpers weights`: a model as a folder that `--actor` takes."""

from dataclasses import MISSING, dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from helpers.models import (
    check_vocabulary,
    count_parameters,
    load_pretrained,
    load_tokenizer,
    quiet_loading,
    stop_tokens,
)
from helpers.scale.pretrained import find_gguf, load_gguf
from helpers.tools.files import FileProblem, atomic_folder
from helpers.tools.flags import command, setting


@dataclass(kw_only=True)
class WeightsOptions:
    """Write a model of a GGUF file, a package or the hub as a folder that --actor takes."""

    source: str = setting(
        MISSING, "a GGUF file, an installed package that holds one, a model folder, or a hub name"
    )
    save: Path = setting(MISSING, "a new folder for model and tokenizer")


def load(source: str) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """Model and tokenizer in their own type; of a GGUF file in bfloat16, which rounds F16 and F32."""
    gguf = find_gguf(source)
    if gguf is not None:
        model, tokenizer = load_gguf(gguf, "cpu")
        return model.to(torch.bfloat16), tokenizer
    tokenizer = load_tokenizer(source)
    return load_pretrained(AutoModelForCausalLM, source, dtype="auto"), tokenizer


@command("helpers weights", WeightsOptions, stopped="Stopped; nothing is written.")
def main(options: WeightsOptions) -> None:
    """Write the folder, and say what is in it."""
    if options.save.exists():
        raise FileProblem(f"{options.save} is there already: wants a new folder.")
    model, tokenizer = load(options.source)
    check_vocabulary(model, tokenizer)
    with atomic_folder(options.save) as temporary, quiet_loading():
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
    stops = tokenizer.convert_ids_to_tokens(stop_tokens(model, tokenizer))
    chat = "a chat template" if tokenizer.chat_template else "no chat template: prompts as texts"
    print(
        f"{count_parameters(model) / 1e6:.0f} million parameters in {str(model.dtype)[6:]}; responses"
        f" end at {' or '.join(stops)}; {chat}.\nTrain it: python -m helpers train --actor {options.save}"
    )
