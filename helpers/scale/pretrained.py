"""Pretrained models: choose one (with a fallback offline), and make the four models of RLHF."""

import importlib.util
from pathlib import Path

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from helpers.data import find_folder
from helpers.models import (
    HubNotReached,
    check_vocabulary,
    freeze,
    load_actor,
    load_pretrained,
    load_tokenizer,
    make_critic,
    make_reference,
    quiet_loading,
    resolve_device,
    trainable,
    without_dropout,
)
from helpers.reward_model import RewardModel, load_reward_model
from helpers.scale.lora import lora_models
from helpers.state import Models, Reward
from helpers.tools.files import FileProblem
from helpers.tools.validate import require, require_choice

EMBEDDED = "data/sft"


def choose_actor(name: str, device: str = "auto") -> tuple[str, str]:
    """An actor's name if it can be used here, else that of the embedded one; and a sentence that says which.

    A hub model needs a connection and a GPU (or `device="cpu"`); a folder is always used. Only its
    configuration is loaded. FileProblem: a path without a folder, a folder without a model, a wrong hub
    name, a gated model.
    """
    no_gpu = device == "auto" and resolve_device(device).type == "cpu"
    if no_gpu and find_folder(name) is None:
        return EMBEDDED, "No GPU here: using the course's embedded model."
    try:
        load_pretrained(AutoConfig, name)
    except HubNotReached:
        return EMBEDDED, "No hub can be reached: using the course's embedded model."
    return name, f"{name}."


def frozen_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 on a GPU that supports it, float16 on older ones (a T4 only emulates it), else float32."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def half_precision(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Convert a frozen model's weights to this type, in place; a reward model's head stays float32."""
    require(not trainable(model), "model", "trainable parameters", "a frozen model: see `freeze`")
    getattr(model, "encoder", model).to(dtype)
    return model


def make_models(
    actor: str | nn.Module,
    tokenizer: str | PreTrainedTokenizerBase,
    reward: str | Reward | RewardModel,
    method: str = "full",
    frozen: torch.dtype = torch.float32,
    device: str = "auto",
    **lora,
) -> Models:
    """Make the four models from an actor: "full" copies it, "lora" adapts it in place (`rank`, `last`).

    Actor and tokenizer may be names: they are loaded, the actor onto `device`, where a reward model is
    put too. So may the reward: of a model that `RewardModel.save` wrote, loaded beside the actor.
    `frozen` is the type of the models that are not trained: the reward model, and the reference if it is
    a copy. Trained weights stay float32. ValueError: method, a reward model without its head, and as in
    `add_lora`; FileProblem: no such model.
    """
    require_choice("method", method, ("full", "lora"))
    tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    if isinstance(actor, str):
        # as it will be held: in float32 an 8B model would take 32 GB before its half
        held = lora.get("base", torch.float32) if method == "lora" else torch.float32
        actor = load_actor(actor, device, held)
        reward = reward.to(actor.device) if isinstance(reward, nn.Module) else reward
    wants = "a language model of transformers, or its name"
    require(isinstance(actor, nn.Module), "actor", type(actor).__name__, wants)
    check_vocabulary(actor, tokenizer)
    if isinstance(reward, str):
        reward = load_reward_model(reward, "cpu").to(next(actor.parameters()).device)
    if isinstance(reward, nn.Module):
        reward = half_precision(freeze(reward), frozen)
    if method == "lora":
        return lora_models(actor, tokenizer, reward, **lora)
    reference = half_precision(make_reference(actor), frozen)
    return Models(actor, make_critic(actor), reward, reference, tokenizer)


def packaged(package: str, pattern: str) -> list[Path]:
    """Files or folders in an installed package, which is not run; none where it is not installed."""
    found = importlib.util.find_spec(package)
    return sorted(Path(found.origin).parent.glob(pattern)) if found and found.origin else []


def find_gguf(source: str) -> Path | None:
    """The GGUF file that a source is, or that the installed package of this name holds; else None.

    FileProblem: several files in the package.
    """
    path, name = Path(source).expanduser(), source.replace("-", "_")
    if path.suffix == ".gguf":
        return path
    inside = packaged(name, "*.gguf") if name.isidentifier() else []
    if len(inside) > 1:
        raise FileProblem(f"{name} holds several: wants one of {[str(file) for file in inside]}.")
    return inside[0] if inside else None


def load_gguf(path: str | Path, device: str = "auto") -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """Actor and tokenizer from a GGUF file, with weights converted to float32.

    The actor has no name, since nothing loads the file's folder as a model: an adapter that named it as
    its base could not be loaded, so `save_policy` merges LoRA into the weights. Needs the packages gguf
    and accelerate. FileProblem: no file, no package, not a GGUF file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileProblem(f"No file {str(path)!r}: wants a GGUF file.")
    found = {"gguf_file": path.name}
    try:
        with quiet_loading():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, **found)
            packed = AutoModelForCausalLM.from_pretrained(path.parent, **found, dtype=torch.float32)
    except Exception as problem:  # noqa: BLE001 (each library below has its own errors)
        reason = " ".join(str(problem).split())[:200]
        raise FileProblem(f"Could not load {path.name} (gguf, accelerate?): {reason}") from None
    config = without_dropout(packed.config)
    del config.quantization_config  # else transformers takes it for quantised and cannot save it
    config._name_or_path = ""
    actor = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    actor.load_state_dict(packed.state_dict())
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return actor.to(resolve_device(device)).eval(), tokenizer
