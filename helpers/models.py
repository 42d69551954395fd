"""The language models: actor, critic, reference. Loaded from a folder or a hub name, never from pickle."""

import copy
import hashlib
import logging
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BatchEncoding,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from helpers.arguments import model_inputs
from helpers.storage import FileProblem, find_folder, verify
from helpers.validate import require


def resolve_device(device: str = "auto") -> torch.device:
    """`auto` is CUDA, then MPS, then CPU; a device that is not there raises ValueError."""
    if device == "auto":
        has_mps = torch.backends.mps.is_available()
        device = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        reason = str(problem).splitlines()[0]
        raise ValueError(f"device: got {device!r}, wants one that is here ({reason}).") from None
    return torch.device(device)


_quiet = ContextVar("quiet", default=False)


def _heard(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR or not _quiet.get()


@contextmanager
def quiet_loading():
    """No progress bars or load reports of transformers: a course page is no place for them.

    A filter, since a change of a logger's level takes logging's lock, and a Ctrl-C just then would
    keep it for ever (Python 3.11): the next thread that loads a model would wait.
    """
    for handler in logging.getLogger("transformers").handlers:
        handler.addFilter(_heard)
    bars, token = transformers_logging.is_progress_bar_enabled(), _quiet.set(True)
    try:
        transformers_logging.disable_progress_bar()
        yield
    finally:
        _quiet.reset(token)
        if bars:
            transformers_logging.enable_progress_bar()


def load_pretrained(auto_class: type, name: str, **arguments):
    """`auto_class.from_pretrained` on a folder or a hub name, with problems told in one sentence."""
    folder = find_folder(name)
    if folder is not None:
        verify(folder)
    if auto_class is not AutoTokenizer and auto_class is not AutoConfig:
        arguments["use_safetensors"] = True
    arguments["trust_remote_code"] = False  # said aloud, or transformers asks at the keyboard
    try:
        with quiet_loading():
            return auto_class.from_pretrained(str(folder or name), **arguments)
    except Exception as problem:  # noqa: BLE001 (every library below has errors of its own)
        reason = " ".join(str(problem).split())[:200]
        where = f"folder {name}" if folder else f"hub name {name!r} (offline?)"
        raise FileProblem(f"Could not load {auto_class.__name__} from {where}: {reason}") from None


def without_dropout(config):
    """The same configuration with every dropout at 0: PPO needs the ratio to start at exactly 1."""
    for name, value in config.to_dict().items():
        if ("dropout" in name or name.endswith("pdrop")) and isinstance(value, (int, float)):
            if not isinstance(value, bool):
                setattr(config, name, 0.0)
    return config


def with_fused_gelu(config):
    """The same function in one kernel: transformers' `gelu_new` takes eight, a third of a step."""
    if getattr(config, "activation_function", None) == "gelu_new":
        config.activation_function = "gelu_pytorch_tanh"
    return config


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Tokenizer of a folder or hub name; one without a pad token pads with its EOS."""
    tokenizer = load_pretrained(AutoTokenizer, name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_actor(
    name: str = "data/sft", device: str = "auto", dtype: torch.dtype = torch.float32
) -> nn.Module:
    """A causal language model of transformers, without dropout: the policy to be trained."""
    config = with_fused_gelu(without_dropout(load_pretrained(AutoConfig, name)))
    model = load_pretrained(AutoModelForCausalLM, name, config=config, dtype=dtype)
    return model.to(resolve_device(device)).eval()


class ValueNetwork(nn.Module):
    """The critic: a trunk of its own and a scalar head that starts at 0.

    Its own trunk, because the value loss is large at first and would drag a shared one away from
    language; the price is one more small model. The head starts at 0, so the first advantages are
    the returns themselves and not noise.
    """

    def __init__(self, trunk: nn.Module):
        super().__init__()
        self.trunk = trunk
        self.value_head = nn.Linear(trunk.config.hidden_size, 1)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor | None = None
    ) -> Tensor:
        """Expected total reward from here on, after each token: [B, L] ids and mask → [B, L]."""
        inputs = model_inputs(self.trunk, input_ids, attention_mask, position_ids)
        hidden = self.trunk(**inputs, use_cache=False).last_hidden_state  # (B, L, d)
        return self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(-1)


def make_critic(actor: nn.Module) -> ValueNetwork:
    """A critic whose trunk starts as a copy of the actor's; weights that are frozen there are shared."""
    frozen = {id(p): p for p in actor.parameters() if not p.requires_grad}
    return ValueNetwork(copy.deepcopy(actor.base_model, frozen)).to(actor.device).eval()


def load_critic(name: str = "data/sft", device: str = "auto") -> ValueNetwork:
    """A critic on the trunk of a folder or hub name."""
    return ValueNetwork(load_actor(name, device).base_model).to(resolve_device(device)).eval()


def freeze(model: nn.Module) -> nn.Module:
    """No gradients, evaluation mode; returns the model itself."""
    return model.requires_grad_(False).eval()


def make_reference(actor: nn.Module) -> nn.Module:
    """A frozen copy of the actor as it is now."""
    return freeze(copy.deepcopy(actor))


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that take gradients: all of them, or under LoRA the adapter's."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def fingerprint(model: nn.Module) -> str:
    """sha256 over every parameter and buffer: equal before and after, or somebody trained it."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        contents = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(contents.numpy().tobytes())
    return digest.hexdigest()


def vocabulary_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """sha256 over every token, its id, and which of them mean padding, begin and end."""
    special = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    words = repr((sorted(tokenizer.get_vocab().items()), special))
    return hashlib.sha256(words.encode()).hexdigest()


def count_parameters(model: nn.Module) -> int:
    """Number of parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: list[str], config) -> BatchEncoding:
    """Token ids and mask [B, L] of whole texts for an encoder, padded right, cut at what it can hold."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None:  # RoBERTa's 514 positions hold 512 tokens, and its tokenizer says so
        limit = min(limit, tokenizer.model_max_length)
    return tokenizer(
        texts,
        return_tensors="pt",
        padding=True,
        padding_side="right",
        truncation=limit is not None,
        max_length=limit,
        return_token_type_ids=False,
    )


def half_precision(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A frozen model's weights in this type, in place; a reward model's head stays in float32."""
    require(not trainable(model), "model", "trainable parameters", "a frozen model: see `freeze`")
    getattr(model, "encoder", model).to(dtype)
    return model


def check_vocabulary(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that can say a token the model has no embedding for."""
    rows, tokens = model.get_input_embeddings().num_embeddings, len(tokenizer)
    require(tokens <= rows, "tokenizer", f"{tokens} tokens", f"at most the model's {rows}")
