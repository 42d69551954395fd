"""The language models: actor, critic and reference, from a folder or a hub name (safetensors only)."""

import copy
import hashlib
import inspect
import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache

import torch
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BatchEncoding,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from helpers.data import DATA, find_folder, verify
from helpers.tools.files import FileProblem, read_json
from helpers.tools.validate import require

ADAPTER = "lora_"  # in the names of peft's matrices
SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*\s*$")


@cache
def _arguments(model_class: type) -> frozenset[str]:
    return frozenset(inspect.signature(model_class.forward).parameters)


def accepts(model: nn.Module, argument: str) -> bool:
    """Whether the model's forward takes this argument; a wrapper has the model in `wrapped`."""
    return argument in _arguments(type(getattr(model, "wrapped", model)))


def model_inputs(model: nn.Module, ids: Tensor, mask: Tensor, positions: Tensor) -> dict:
    """Keyword arguments of one forward; position ids only if the architecture has them."""
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    if ids.shape[1] == 1 < mask.shape[1] and must_not_wait(model):
        inputs["attention_mask"] = mask[:, None, None]  # (B, 1, 1, L) bool: used as it is
    if accepts(model, "position_ids"):
        inputs["position_ids"] = positions
    return inputs


def must_not_wait(model: nn.Module) -> bool:
    """Whether to avoid a 2-axis mask: on a GPU, transformers waits for "all True?" at every token."""
    plain = getattr(model.config, "sliding_window", None) is None
    sdpa = getattr(model.config, "_attn_implementation", None) == "sdpa"
    return model.device.type == "cuda" and plain and sdpa


def last_logits(policy: nn.Module, count: int) -> dict:
    """Keyword argument for logits of only the last `count` positions, if the architecture has it."""
    return {"logits_to_keep": count} if accepts(policy, "logits_to_keep") else {}


def output_head(policy: nn.Module) -> nn.Module | None:
    """The layer that makes logits of hidden states; None where a model does not name it."""
    model = getattr(policy, "wrapped", policy)
    return getattr(model, "get_output_embeddings", lambda: None)()


def autocast(device: torch.device, precision: str) -> AbstractContextManager:
    """Where forwards run: as the weights are, or in bfloat16 wherever that is safe ("bf16")."""
    return nullcontext() if precision != "bf16" else torch.autocast(device.type, torch.bfloat16)


def allow_tf32(device: torch.device, allowed: bool) -> None:
    """Whether float32 products may round their factors to TF32's 11 bits; only CUDA devices have it."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high" if allowed else "highest")


@contextmanager
def gradient_checkpointing(*models: nn.Module | None, on: bool = True) -> Iterator[None]:
    """Forwards of these models keep only their blocks' inputs; the rest is computed again in the
    backward pass: less memory, one more forward.

    transformers does this in train mode only; there is no dropout here, so that mode changes nothing
    else. ValueError: a model whose architecture cannot.
    """
    found = [getattr(model, "trunk", model) for model in models if on and model is not None]
    for model in found:
        able = getattr(model, "supports_gradient_checkpointing", False)
        require(able, "gradient_checkpointing", f"a {type(model).__name__}", "a model that can")
    try:
        for model in found:
            # its older name before transformers 5.20
            enable = getattr(model, "activation_checkpointing_enable", None)
            (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
            model.train()
        yield
    finally:
        for model in found:
            disable = getattr(model, "activation_checkpointing_disable", None)
            (disable or model.gradient_checkpointing_disable)()
            model.eval()


def resolve_device(device: str = "auto") -> torch.device:
    """The device of this name; `auto` is CUDA, else MPS, else CPU. ValueError: not available."""
    if device == "auto":
        has_mps = torch.backends.mps.is_available()
        device = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        reason = str(problem).splitlines()[0]
        raise ValueError(f"device: got {device!r}, wants one of this machine ({reason}).") from None
    return torch.device(device)


_quiet = ContextVar("quiet", default=False)


def _heard(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR or not _quiet.get()


@contextmanager
def quiet_loading():
    """Hide the progress bars and load reports of transformers.

    Done by a filter: setting a logger's level takes a lock that a Ctrl-C could leave locked for ever.
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


class HubNotReached(FileProblem):
    """There was no connection to the hub, so nothing is known of the model with this name."""


def _not_reached(problem: BaseException | None) -> bool:
    """Whether a failure to load came of no connection: neither a wrong name nor a gated model."""
    causes = []
    while problem is not None and problem not in causes:
        causes.append(problem)
        problem = problem.__cause__ or problem.__context__
    refused = any(isinstance(cause, RepositoryNotFoundError) for cause in causes)  # or gated
    return not refused and any(isinstance(cause, LocalEntryNotFoundError) for cause in causes)


def load_pretrained(auto_class: type, name: str, **arguments):
    """`auto_class.from_pretrained` from a folder or a hub name.

    One sentence: HubNotReached without a connection, else FileProblem.
    """
    folder = find_folder(name)
    if folder is not None:
        verify(folder)
    if auto_class is not AutoTokenizer and auto_class is not AutoConfig:
        arguments["use_safetensors"] = True
    arguments["trust_remote_code"] = False  # without it, transformers may ask at the keyboard
    try:
        with quiet_loading():
            return auto_class.from_pretrained(str(folder or name), **arguments)
    except Exception as problem:  # noqa: BLE001 (each library below has its own errors)
        reason = " ".join(str(problem).split())[:200]
        what = f"Could not load {auto_class.__name__} from"
        if folder is None and _not_reached(problem):
            raise HubNotReached(f"{what} hub name {name!r} (offline?): {reason}") from None
        where = f"folder {name}" if folder else f"hub name {name!r}"
        raise FileProblem(f"{what} {where}: {reason}") from None


def without_dropout(config):
    """Set every dropout of a configuration to 0, in place: PPO's ratio must start at exactly 1."""
    for name, value in config.to_dict().items():
        if ("dropout" in name or name.endswith("pdrop")) and type(value) in (int, float):
            setattr(config, name, 0.0)
    return config


def with_fused_gelu(config):
    """Use PyTorch's fused GELU, in place: the same function; `gelu_new` takes a third of a step."""
    if getattr(config, "activation_function", None) == "gelu_new":
        config.activation_function = "gelu_pytorch_tanh"
    return config


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Tokenizer of a folder or hub name; EOS is the pad token if there is none."""
    tokenizer = load_pretrained(AutoTokenizer, name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def stop_tokens(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids that end a response: the tokenizer's EOS first, then others of the generation config.

    A chat model may end its turn with another token than a text: Llama 3 has both there.
    """
    known = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    more = known if isinstance(known, (list, tuple)) else [known]
    ids = dict.fromkeys([tokenizer.eos_token_id, *more])
    return [int(token) for token in ids if token is not None]


def stop_at_sentence_ends(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Let every token that ends a sentence end a response too, in place; an export keeps them.

    They are those whose text ends in `.`, `!` or `?`, a closing quote or bracket after it included:
    where "3.5" is three tokens, a response ends within it too.
    """
    words = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    ends = [token for token, word in enumerate(words) if SENTENCE_END.search(word)]
    stops = dict.fromkeys([*stop_tokens(model, tokenizer), *ends])
    model.generation_config.eos_token_id = list(stops)


@cache
def _review_words() -> frozenset[str]:
    file = DATA / "sft" / "tokenizer.json"
    return frozenset(read_json(file)["model"]["vocab"]) if file.exists() else frozenset()


def has_review_vocabulary(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether its tokens are the course's own words: its model then writes the course's reviews.

    All of them and no others: a large vocabulary may well contain the few hundred words.
    """
    return set(tokenizer.get_vocab()) == _review_words()


def has_adapter(model: nn.Module) -> bool:
    """Whether a model has LoRA matrices."""
    return any(ADAPTER in name for name, _ in model.named_parameters())


def load_actor(
    name: str = "data/sft", device: str = "auto", dtype: torch.dtype = torch.float32
) -> nn.Module:
    """Load the policy to train: a causal language model of transformers, without dropout."""
    config = with_fused_gelu(without_dropout(load_pretrained(AutoConfig, name)))
    model = load_pretrained(AutoModelForCausalLM, name, config=config, dtype=dtype)
    return model.to(resolve_device(device)).eval()


class ValueNetwork(nn.Module):
    """The critic: a language model's trunk and a scalar head.

    The trunk is not shared with the actor: the value loss is large at first and would spoil the
    language model. The head starts at 0, so the first advantages are the returns, not noise.
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
        """Expected sum of future rewards after each token: [B, L] ids and mask → [B, L]."""
        inputs = model_inputs(self.trunk, input_ids, attention_mask, position_ids)
        hidden = self.trunk(**inputs, use_cache=False).last_hidden_state  # (B, L, d)
        return self.value_head(hidden.to(self.value_head.weight.dtype)).squeeze(-1)


def make_critic(actor: nn.Module) -> ValueNetwork:
    """A critic whose trunk is a copy of the actor's; frozen weights are shared, not copied."""
    frozen = {id(p): p for p in actor.parameters() if not p.requires_grad}
    return ValueNetwork(copy.deepcopy(actor.base_model, frozen)).to(actor.device).eval()


def freeze(model: nn.Module) -> nn.Module:
    """Turn off gradients and set evaluation mode, in place; returns the model."""
    return model.requires_grad_(False).eval()


def make_reference(actor: nn.Module) -> nn.Module:
    """A frozen copy of the actor as it is now."""
    return freeze(copy.deepcopy(actor))


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained: all, or under LoRA those of the adapter."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def fingerprint(model: nn.Module) -> str:
    """sha256 of all parameters and buffers, to check that a model was not changed."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        contents = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(contents.numpy().tobytes())
    return digest.hexdigest()


def vocabulary_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """sha256 of all tokens with their ids, and of the pad, BOS and EOS ids."""
    special = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    words = repr((sorted(tokenizer.get_vocab().items()), special))
    return hashlib.sha256(words.encode()).hexdigest()


def count_parameters(model: nn.Module) -> int:
    """Number of parameters; shared ones count once."""
    return sum(p.numel() for p in model.parameters())


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: list[str], config) -> BatchEncoding:
    """Token ids and mask [B, L] of texts for an encoder, padded right, cut at its maximum length."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None:  # RoBERTa's 514 positions hold 512 tokens; its tokenizer has the 512
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


def check_vocabulary(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Require that the model has an embedding for every token of the tokenizer."""
    rows, tokens = model.get_input_embeddings().num_embeddings, len(tokenizer)
    require(tokens <= rows, "tokenizer", f"{tokens} tokens", f"at most the model's {rows}")
