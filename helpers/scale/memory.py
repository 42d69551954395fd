"""Memory of a run: estimated from shapes, then measured.

Estimated are the tensors of training. Not included: Python and its libraries, freed blocks that an
allocator keeps, and what an export or a reward function needs.
"""

import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    DistilBertConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
)

from helpers.config import RLHFConfig
from helpers.models import count_parameters, load_pretrained, with_fused_gelu, without_dropout
from helpers.rewards import Reward
from helpers.rollouts import tokens_at_once
from helpers.scale.lora import linear_layers
from helpers.tools.validate import require, require_choice

CPU = torch.device("cpu")
MIB, GIB, FLOAT = 2**20, 2**30, 4  # bytes of a mebibyte, of a gibibyte, of a float32
PROBE = 16  # tokens of the forward that counts activations
ROLES = ("actor", "critic", "reference", "reward")
PHASES = ("rollout", "update")  # scoring, between them, never holds more than the update
FREED = 2.4  # times the peak: most that a process on a CPU was seen to hold (benchmarks/README.md, cuda)
CGROUP = Path("/sys/fs/cgroup")


def smollm2(width: int, inner: int, layers: int, heads: int, groups: int) -> LlamaConfig:
    """SmolLM2's configuration (Allal et al. 2025) at one of its sizes."""
    return LlamaConfig(
        vocab_size=49_152,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        tie_word_embeddings=True,
    )


KNOWN = {  # shapes of common models, to estimate them offline
    "HuggingFaceTB/SmolLM2-135M": smollm2(576, 1536, 30, 9, 3),
    "HuggingFaceTB/SmolLM2-360M": smollm2(960, 2560, 32, 15, 5),
    "HuggingFaceTB/SmolLM2-1.7B": smollm2(2048, 8192, 24, 32, 32),
    "gpt2": GPT2Config(),
    "distilbert-base-uncased": DistilBertConfig(),
}

LEFT_OUT = f"""\
These are the tensors of training. On top come the imported libraries (250 to 340 MiB), what a reward
function holds, under bf16 autocast copies of the weights (2 bytes each), on a CPU the freed blocks that
glibc keeps (all together was up to {FREED} times the peak; MALLOC_MMAP_THRESHOLD_=262144 before the command
gives them back: benchmarks/README.md, cuda), and while a merged policy is exported a copy of the actor."""


@dataclass(frozen=True)
class Entry:
    """Bytes of one model for one purpose in one phase."""

    role: str  # one of ROLES
    kind: str  # weights, gradients, Adam, KV cache, activations, logits
    bytes: int
    phase: str = "always"  # or one of PHASES


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimated memory of a run, as a list of entries: its tensors, without what `LEFT_OUT` says."""

    entries: tuple[Entry, ...]

    def total(self, **wanted: str) -> int:
        """Total bytes of the entries with this role, kind or phase (default: all)."""
        chosen = [e for e in self.entries if all(getattr(e, k) == v for k, v in wanted.items())]
        return sum(entry.bytes for entry in chosen)

    @property
    def peak(self) -> int:
        """Peak bytes of tensors: what is always held, plus the largest of the phases."""
        return self.total(phase="always") + max(self.total(phase=phase) for phase in PHASES)

    def _most(self, role: str, kind: str) -> int:
        """Most bytes that a model holds at once for one purpose."""
        at_once = (self.total(role=role, kind=kind, phase=phase) for phase in PHASES)
        return self.total(role=role, kind=kind, phase="always") + max(at_once)

    def table(self) -> str:
        """Table in MiB: one row per role, one column per kind, each at its most, and the peak of all."""
        kinds = list(dict.fromkeys(entry.kind for entry in self.entries))
        lines = [f"{'MiB':10}" + "".join(f"{kind:>13}" for kind in kinds)]
        for role in ROLES:
            cells = (self._most(role, kind) / MIB for kind in kinds)
            shown = (f"{x:13,.1f}" if x else f"{'–':>13}" for x in cells)
            lines.append(f"{role:10}" + "".join(shown))
        return "\n".join([*lines, f"{'peak':10}{self.peak / MIB:13,.1f}"])

    def __str__(self) -> str:
        return f"{self.table()}\n{LEFT_OUT}"


class _Fused(torch.autograd.Function):
    """What a fused attention kernel keeps for the backward pass: queries, keys, values, result."""

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        result = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, result)
        return result


def _counted_attention(module, query, key, value, mask=None, **settings) -> tuple[Tensor, None]:
    """Attention of a meta model, [B, H, L, d] → [B, L, H, d]: keeps the right tensors, computes nothing."""
    return _Fused.apply(query, key, value).transpose(1, 2), None


AttentionInterface.register("counted", _counted_attention)


@cache
def meta_model(name: str, auto_class: type = AutoModelForCausalLM) -> nn.Module:
    """The model on torch's meta device: shapes without weights; only its configuration is loaded.

    Common ones work offline. FileProblem: no such folder or hub name.
    """
    config = copy.deepcopy(KNOWN.get(name)) or load_pretrained(AutoConfig, name)
    config = with_fused_gelu(without_dropout(config))  # as in load_actor
    with torch.device("meta"):
        return auto_class.from_config(config, attn_implementation="counted")


def saved_bytes(model: nn.Module, rows: int, length: int) -> int:
    """Bytes that a forward of [rows, length] tokens keeps for the backward pass, without the weights.

    Counted by autograd's hook for saved tensors; works on meta models too.
    """
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    device = next(model.parameters()).device
    ids = torch.zeros(rows, length, dtype=torch.long, device=device)
    mask = torch.ones(rows, 1, length, length, dtype=torch.bool, device=device).tril()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, attention_mask=mask, use_cache=False)
    return sum(t.untyped_storage().nbytes() for key, t in kept.items() if key not in weights)


def activation_bytes(model: nn.Module, tokens: int, checkpointing: bool = False) -> int:
    """Bytes that a forward of so many tokens keeps for the backward pass: so many times that of one.

    With gradient checkpointing: the input of each block, and what one block keeps while its turn comes.
    """
    if not hasattr(model, "token_bytes"):  # measured once per model
        more, less = (saved_bytes(model, 1, length) for length in (2 * PROBE, PROBE))
        model.token_bytes = (more - less) / PROBE
    whole = model.token_bytes * tokens
    if not checkpointing:
        return round(whole)
    blocks = model.config.num_hidden_layers
    return round(FLOAT * model.config.hidden_size * blocks * tokens + whole / blocks)


def cache_bytes(
    config: PreTrainedConfig, rows: int, length: int, dtype: torch.dtype = torch.float32
) -> int:
    """Bytes of the key–value cache for [rows, length] tokens."""
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    groups = getattr(config, "num_key_value_heads", None) or heads
    return 2 * config.num_hidden_layers * groups * width * rows * length * dtype.itemsize


def adapter_parameters(actor: nn.Module, rank: int, last: int | None = None) -> int:
    """Number of parameters of a LoRA adapter: rank · (in + out) for each linear layer."""
    modules = dict(actor.named_modules())
    shapes = (modules[name].weight.shape for name in linear_layers(actor, last))
    return rank * sum(sum(shape) for shape in shapes)


def _trained(role: str, trained: int, frozen_bytes: int = 0) -> list[Entry]:
    """Entries of a model: `trained` float32 weights with gradients and Adam's moments; frozen ones."""
    weights = Entry(role, "weights", FLOAT * trained + frozen_bytes)
    gradients = Entry(role, "gradients", FLOAT * trained)
    return [weights, gradients, Entry(role, "Adam", 8 * trained)]


def estimate_memory(
    actor: str | nn.Module,
    reward: str | nn.Module | Reward,
    config: RLHFConfig,
    prompt_length: int,
    method: str = "full",
    rank: int = 8,
    frozen: torch.dtype = torch.float32,
    base: torch.dtype = torch.float32,
    last: int | None = None,
) -> MemoryEstimate:
    """Estimate the memory of a run from the models' shapes, without loading weights.

    It is that of the run's tensors; print the result to see what comes on top. A reward function counts
    as 0 bytes. `method` is not `config.method` (ppo, grpo, …) but what is trained: "full" (actor and
    critic trained in full, the reference a copy of type `frozen`) or "lora" (one set of weights of type
    `base`, two adapters, in the `last` blocks or in all, no copy). Activations count as float32.
    Weights, gradients and Adam are exact; temporary tensors are approximate: logits count four times
    in the update (logits, softmax, and a gradient of each), and of so many tokens as the loop makes at
    once: all of a micro-batch for a "full" KL, whose reference's are not counted. ValueError: method,
    another reward; FileProblem: unknown model.
    """
    require_choice("method", method, ("full", "lora"))
    actor = meta_model(actor) if isinstance(actor, str) else actor
    reward = meta_model(reward, AutoModel) if isinstance(reward, str) else reward
    wants = "a function, a model, or the name of one"
    require(callable(reward), "reward", f"a {type(reward).__name__}", wants)
    judge = count_parameters(reward) if isinstance(reward, nn.Module) else 0
    size, length = count_parameters(actor), prompt_length + config.response_length
    adapter = adapter_parameters(actor, rank, last)
    rows, part = config.batch_size, min(config.micro_batch_size, config.minibatch_size)
    vocabulary = actor.get_input_embeddings().num_embeddings
    head = actor.get_input_embeddings().weight.numel()
    if method == "full":
        entries = _trained("actor", size) + _trained("critic", size)
        entries.append(Entry("reference", "weights", frozen.itemsize * size))
    else:
        held = base.itemsize * size
        if base != torch.float32:
            # the head stays in float32, beside an embedding that it was tied to
            tied = actor.get_output_embeddings().weight is actor.get_input_embeddings().weight
            held += head * (FLOAT - (0 if tied else base.itemsize))
        entries = _trained("actor", adapter, held) + _trained("critic", adapter)
    kept = activation_bytes(actor.base_model, part * length, config.gradient_checkpointing)
    if last is not None:  # gradients stop there
        kept = kept * last // actor.config.num_hidden_layers
    logits, most = FLOAT * vocabulary, tokens_at_once(vocabulary)
    updated = min(most, part * config.response_length)  # made in parts
    entries += [
        Entry("reward", "weights", frozen.itemsize * judge),
        Entry("actor", "KV cache", cache_bytes(actor.config, rows, length, base), "rollout"),
        Entry("actor", "logits", 3 * logits * rows, "rollout"),
        Entry("actor", "activations", kept, "update"),
        Entry("critic", "activations", kept, "update"),
        Entry("actor", "logits", 4 * logits * updated, "update"),
    ]
    has_critic = config.method == "ppo"
    return MemoryEstimate(tuple(e for e in entries if has_critic or e.role != "critic"))


def reset_peak(device: torch.device) -> None:
    """Restart the measurement of peak memory."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # elsewhere the peak counts from the start of the process
        Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak resident size


def peak_bytes(device: torch.device = CPU) -> float:
    """Peak memory since `reset_peak`: allocated by torch on CUDA, resident size on a CPU.

    NaN where the operating system does not report it.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if status.exists():  # Linux
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: in bytes


def free_bytes(device: torch.device = CPU) -> float:
    """Bytes that a process can still get: of a GPU, or of this machine and its container; else infinite."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    about = Path("/proc/meminfo")
    found = [float("inf")]
    if about.exists():  # Linux
        line = next(x for x in about.read_text().splitlines() if x.startswith("MemAvailable"))
        found.append(float(line.split()[1]) * 1024)
    if (CGROUP / "memory.current").exists():
        limit, used = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        stats = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        cache = float(stats["inactive_file"])  # pages of files, given back where memory is short
        found.append(float(limit.replace("max", "inf")) - float(used) + cache)
    return min(found)
