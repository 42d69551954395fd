"""Pretrained models: which ones, with what to fall back on, and the four of RLHF made from them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from helpers.config import RLHFConfig
from helpers.lora import lora_models
from helpers.models import (
    check_vocabulary,
    freeze,
    half_precision,
    load_actor,
    load_pretrained,
    load_tokenizer,
    make_critic,
    make_reference,
    quiet_loading,
    resolve_device,
    without_dropout,
)
from helpers.reward_model import RewardModel, load_reward_model
from helpers.state import Models, Reward
from helpers.storage import FileProblem, find_folder
from helpers.validate import require_choice
from helpers.writing import write

ACTOR, ENCODER = "HuggingFaceTB/SmolLM2-135M", "distilbert-base-uncased"
EMBEDDED_ACTOR, EMBEDDED_ENCODER = "data/sft", "data/reward"
QUESTIONS = (  # to look at, not to train on
    "What is the capital of France?",
    "Explain quantum computing in simple terms.",
    "Write a haiku about programming.",
    "What is machine learning?",
)


@dataclass(frozen=True)
class Choice:
    """Which models a run takes, where, and one line that says why."""

    actor: str
    encoder: str
    device: str
    pretrained: bool
    words: str

    @property
    def frozen(self) -> torch.dtype:
        """Type of the frozen models' weights: half precision on a GPU, float32 elsewhere."""
        return frozen_dtype(torch.device(self.device))

    def settings(self) -> dict:
        """Config values that suit the models; a starting point, to be changed at will."""
        if not self.pretrained:
            return {"batch_size": 64, "minibatch_size": 32, "micro_batch_size": 8, "iterations": 10}
        sizes = {"batch_size": 64, "minibatch_size": 32, "micro_batch_size": 8, "iterations": 40}
        rates = {"learning_rate": 1e-5, "critic_learning_rate": 1e-4}
        return sizes | rates | {"response_length": 32, "temperature": 0.7, "kl_coef": 0.05}

    def reward_settings(self) -> dict:
        """How to fit the encoder to pairs: gently when it is pretrained."""
        if self.pretrained:
            return {"optimizer": "adamw", "learning_rate": 5e-5, "batch_size": 32, "epochs": 1}
        return {"optimizer": "muon", "learning_rate": 1e-3, "batch_size": 64, "epochs": 1}


def choose(actor: str = ACTOR, encoder: str = ENCODER, device: str = "auto", patient: bool = False):
    """Pretrained models where they can be had, else the embedded ones; → Choice, its `words` say which.

    Hub models want a GPU, unless you are `patient`, and a hub that answers; a folder is always taken.
    Nothing but the two configurations is loaded here. FileProblem: a path that leads to no folder.
    """
    place = resolve_device(device)
    on_hub = [name for name in (actor, encoder) if find_folder(name) is None]
    if on_hub and place.type == "cpu" and not patient:
        return _embedded(place, "No GPU here")
    try:
        for name in (actor, encoder):
            load_pretrained(AutoConfig, name)
    except FileProblem:
        return _embedded(place, "No hub can be reached from here")
    embedded = (actor, encoder) == (EMBEDDED_ACTOR, EMBEDDED_ENCODER)
    return Choice(
        actor, encoder, place.type, not embedded, f"{actor} and {encoder} on {place.type}."
    )


def _embedded(place: torch.device, reason: str) -> Choice:
    words = f"{reason}: the embedded models of the course stand in, on {place.type}."
    return Choice(EMBEDDED_ACTOR, EMBEDDED_ENCODER, place.type, False, words)


def frozen_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where a GPU computes in it, float16 where not (a T4 only imitates it), float32 elsewhere."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def fresh_reward_model(encoder: str, device: str = "auto", seed: int = 0) -> RewardModel:
    """Any encoder, by folder or hub name, under a head that has not been trained yet."""
    trunk = load_reward_model(encoder, device)
    torch.manual_seed(seed)
    return RewardModel(trunk.encoder, trunk.tokenizer).to(trunk.device).eval()


def make_models(
    actor: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    reward: Reward | RewardModel,
    method: str = "full",
    frozen: torch.dtype = torch.float32,
    **lora,
) -> Models:
    """The four models around an actor: "full" copies it, "lora" adapts it in place (`rank`, `last`).

    `frozen` is the type of the models that are never trained: the reward model, and the reference
    where that is a copy. Whatever is trained stays float32. ValueError: method, `add_lora`'s.
    """
    require_choice("method", method, ("full", "lora"))
    check_vocabulary(actor, tokenizer)
    if isinstance(reward, nn.Module):
        reward = half_precision(freeze(reward), frozen)
    if method == "lora":
        return lora_models(actor, tokenizer, reward, **lora)
    reference = half_precision(make_reference(actor), frozen)
    return Models(actor, make_critic(actor), reward, reference, tokenizer)


def load_gguf(path: str | Path, device: str = "auto") -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """Actor and tokenizer out of a GGUF file, its weights brought back to float32.

    Needs the packages gguf and accelerate. FileProblem: no file, no package, not such a file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileProblem(f"No file {str(path)!r}: wants a GGUF file.")
    found = {"gguf_file": path.name}
    try:
        with quiet_loading():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, **found)
            packed = AutoModelForCausalLM.from_pretrained(path.parent, **found, dtype=torch.float32)
    except Exception as problem:  # noqa: BLE001 (every library below has errors of its own)
        reason = " ".join(str(problem).split())[:200]
        raise FileProblem(f"Could not load {path.name} (gguf, accelerate?): {reason}") from None
    config = without_dropout(packed.config)
    del config.quantization_config  # a model that claims to be quantised cannot be saved
    actor = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    actor.load_state_dict(packed.state_dict())
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return actor.to(resolve_device(device)).eval(), tokenizer


def load_policy_and_tokenizer(choice: Choice) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """The actor of a choice, in float32, and its tokenizer."""
    return load_actor(choice.actor, choice.device), load_tokenizer(choice.actor)


def as_chat(tokenizer: PreTrainedTokenizerBase, question: str) -> str:
    """The question as the model's own chat template puts it; as it is for a model without one."""
    if not tokenizer.chat_template:
        return question
    turns = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)


def ask(
    policy: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    config: RLHFConfig,
    questions: tuple = QUESTIONS,
    seed: int = 0,
) -> list[str]:
    """What a policy writes when asked, without the questions; always with the same random numbers."""
    generator = torch.Generator(device=policy.device).manual_seed(seed)
    prompts = [as_chat(tokenizer, question) for question in questions]
    written = write(policy, tokenizer, prompts, config, generator)
    rows = zip(written.response_tensors, written.response_mask, strict=True)
    ids = [row[counted].tolist() for row, counted in rows]
    return tokenizer.batch_decode(ids, skip_special_tokens=True)
