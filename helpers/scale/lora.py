"""LoRA (through peft): train small matrices beside frozen weights; with the adapter off, the model is
the reference.

Hu et al. 2022, *LoRA: low-rank adaptation of large language models*.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase
from transformers.pytorch_utils import Conv1D

from helpers.models import ADAPTER, freeze, make_critic
from helpers.state import Models, Reward
from helpers.tools.optimizers import BLOCK
from helpers.tools.validate import require, require_count

BASES = (torch.float32, torch.bfloat16)  # of frozen weights; float16 would need loss scaling


def base_dtype(device: str) -> torch.dtype:
    """Type of frozen weights: bfloat16; float32 on a CPU without AVX-512, which only emulates bfloat16."""
    emulated = device == "cpu" and "AVX512" not in torch.backends.cpu.get_cpu_capability()
    return torch.float32 if emulated else torch.bfloat16


def linear_layers(actor: nn.Module, last: int | None = None) -> list[str]:
    """Names of the linear layers in all blocks, or in the `last` blocks only."""
    found = {}  # name → number of its block
    for name, module in actor.named_modules():
        block = BLOCK.search(name)
        if block and isinstance(module, (nn.Linear, Conv1D)):
            found[name] = int(block[1])
    first = 0 if last is None else max(found.values()) + 1 - last
    return [name for name, block in found.items() if block >= first]


def add_lora(
    actor: nn.Module,
    rank: int = 8,
    last: int | None = None,
    seed: int = 0,
    base: torch.dtype = torch.float32,
) -> nn.Module:
    """Add a LoRA adapter to a causal language model, in place, and freeze its weights; returns the model.

    The adapter starts at 0, so the policy equals the reference at first. `last` adapts only the last
    blocks, and gradients stop there. `base` is the type of the frozen weights; the adapter is float32
    always, and so are its gradients and Adam. ValueError: a name in place of the model, rank or
    last < 1, another type, no peft.
    """
    wants = "a loaded model: load_actor(name), or make_models, which loads it"
    require(isinstance(actor, nn.Module), "actor", repr(actor)[:60], wants)
    require_count("rank", rank)
    require(base in BASES, "base", base, "torch.float32 or torch.bfloat16")
    if last is not None:
        require_count("last", last)
    torch.manual_seed(seed)
    is_gpt2 = any(isinstance(module, Conv1D) for module in actor.modules())  # transposed weights
    try:
        from peft import LoraConfig

        settings = LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.0,  # no dropout anywhere: the ratio must start at 1
            target_modules=linear_layers(actor, last),
            fan_in_fan_out=is_gpt2,
            task_type="CAUSAL_LM",  # AutoPeftModelForCausalLM asks
        )
        actor.add_adapter(settings)
        if base != torch.float32:
            convert_base(actor, base)
    except ImportError as problem:
        reason = " ".join(str(problem).split())[:120]
        raise ValueError(
            "peft: LoRA wants this package: `pip install peft` (if an old torchao prevents it, as on "
            f"Colab, `pip uninstall -y torchao` first). {reason}"
        ) from None
    return actor.eval()


class Float32Head(nn.Linear):
    """A head whose logits are computed in float32 from hidden states in half precision.

    bfloat16 logits near 20 are 0.125 apart: as noise on log-probs that is most of PPO's clip (MiniMax-M1,
    2025, arXiv 2506.13585, computes its head in float32 for this reason).
    """

    def forward(self, hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            return super().forward(hidden.float())


def convert_base(actor: nn.Module, base: torch.dtype) -> None:
    """Convert all weights to this type, in place, but the adapter's and the head's: these are float32."""
    for name, parameter in actor.named_parameters():
        parameter.data = parameter.data.to(torch.float32 if ADAPTER in name else base)
    head = actor.get_output_embeddings()
    if type(head) is nn.Linear:
        # converted here, not at each token; a frozen head need not be tied to the embedding
        head.weight = nn.Parameter(head.weight.data, requires_grad=False)
        head.float().__class__ = Float32Head


class AdapterOff:
    """The reference under LoRA: the actor without its adapter, sharing its weights.

    It can be called, sampled from and fingerprinted like a model, but not trained.
    """

    def __init__(self, actor: nn.Module):
        self.wrapped = actor

    config = property(lambda self: self.wrapped.config)
    device = property(lambda self: self.wrapped.device)
    generation_config = property(lambda self: self.wrapped.generation_config)  # its stop tokens
    dtype = property(lambda self: self.wrapped.dtype)

    @torch.no_grad()
    def __call__(self, **inputs):
        self.wrapped.disable_adapters()
        try:
            return self.wrapped(**inputs)
        finally:
            self.wrapped.enable_adapters()

    def state_dict(self) -> dict[str, Tensor]:
        """The weights without the adapter's; training does not change them."""
        weights = self.wrapped.state_dict()
        return {name: tensor for name, tensor in weights.items() if ADAPTER not in name}

    def parameters(self):
        """The actor's parameters without the adapter's."""
        return (p for name, p in self.wrapped.named_parameters() if ADAPTER not in name)


def lora_models(
    actor: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    reward: Reward | nn.Module,
    rank: int = 8,
    **lora,
) -> Models:
    """The four models, with actor, critic and reference on one set of weights (two adapters, none).

    Changes `actor` in place; `lora` and ValueError as in `add_lora`. `reward` is frozen if it is a model.
    """
    adapted = add_lora(actor, rank, **lora)
    reward = freeze(reward) if isinstance(reward, nn.Module) else reward
    return Models(adapted, make_critic(adapted), reward, AdapterOff(adapted), tokenizer)
