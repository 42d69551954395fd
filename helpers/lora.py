"""LoRA: train small matrices beside frozen weights; with the adapter switched off stands the reference.

Hu et al. 2022, *LoRA: low-rank adaptation of large language models*. The matrices are peft's.
"""

import re
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase
from transformers.pytorch_utils import Conv1D

from helpers.models import freeze, make_critic
from helpers.optimizers import BLOCK
from helpers.state import Models, Reward
from helpers.validate import require_count

ADAPTER = "lora_"  # what the names of peft's matrices begin with


def linear_layers(actor: nn.Module, last: int | None = None) -> list[str]:
    """Names of the linear maps inside the blocks; of the `last` blocks only, when that is given."""
    found = [
        (name, int(re.search(r"\d+", BLOCK.search(name)[0])[0]))
        for name, module in actor.named_modules()
        if isinstance(module, (nn.Linear, Conv1D)) and BLOCK.search(name)
    ]
    first = 0 if last is None else max(block for _, block in found) + 1 - last
    return [name for name, block in found if block >= first]


def add_lora(actor: nn.Module, rank: int = 8, last: int | None = None, seed: int = 0) -> nn.Module:
    """Give a causal language model an adapter of this rank and freeze all else; → the model itself.

    At first the adapter adds 0, so the policy is the reference exactly. `last` adapts only that many
    blocks at the end, and gradients then go no further back. ValueError: rank or last < 1, no peft.
    """
    require_count("rank", rank)
    if last is not None:
        require_count("last", last)
    torch.manual_seed(seed)
    transposed = any(
        isinstance(module, Conv1D) for module in actor.modules()
    )  # GPT-2's linear maps
    try:
        from peft import LoraConfig

        settings = LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.0,  # no dropout anywhere: the ratio must start at 1
            target_modules=linear_layers(actor, last),
            fan_in_fan_out=transposed,
        )
        actor.add_adapter(settings)
    except ImportError as problem:
        reason = " ".join(str(problem).split())[:120]
        raise ValueError(
            "peft: LoRA wants this package: `pip install peft` (where an old torchao is in its way, as "
            f"in Colab, `pip uninstall -y torchao` first). {reason}"
        ) from None
    return actor.eval()


@contextmanager
def adapter_off(actor: nn.Module):
    """Within, the model answers as if it had never been adapted."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in actor.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield actor
    finally:
        for layer in layers:
            layer.enable_adapters(True)


class AdapterOff:
    """The reference as a thin object around the actor: no weights of its own, the adapter left out.

    It can be called, sampled from and fingerprinted like a model; it is never trained.
    """

    def __init__(self, actor: nn.Module):
        self.wrapped = actor

    config = property(lambda self: self.wrapped.config)
    device = property(lambda self: self.wrapped.device)
    dtype = property(lambda self: self.wrapped.dtype)

    @torch.no_grad()
    def __call__(self, **inputs):
        with adapter_off(self.wrapped):
            return self.wrapped(**inputs)

    def state_dict(self) -> dict[str, Tensor]:
        """The weights without the adapter's: they stay as they are while the actor is trained."""
        weights = self.wrapped.state_dict()
        return {name: tensor for name, tensor in weights.items() if ADAPTER not in name}

    def parameters(self):
        """The parameters it answers with; they are the actor's."""
        return (p for name, p in self.wrapped.named_parameters() if ADAPTER not in name)


def lora_models(
    actor: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    reward: Reward | nn.Module,
    rank: int = 8,
    last: int | None = None,
    seed: int = 0,
) -> Models:
    """The four models on one set of weights: actor and critic have an adapter each, the reference none.

    The actor given is changed. `reward` is frozen when it is a model. ValueError as in `add_lora`.
    """
    adapted = add_lora(actor, rank, last, seed)
    reward = freeze(reward) if isinstance(reward, nn.Module) else reward
    return Models(adapted, make_critic(adapted), reward, AdapterOff(adapted), tokenizer)
