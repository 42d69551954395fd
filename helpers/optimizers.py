"""Optimizers for models trained from scratch, and their learning rate over time."""

import math
import re

import torch
from torch import nn

BLOCK = re.compile(r"\.(h|layer|layers)\.\d+\.")  # GPT-2's and BERT's names of their blocks
MUON_FACTOR = 8  # Muon's steps are orthogonal: its rate is of another size than Adam's


class Optimizers:
    """One or two optimizers over a model, moved together.

    "muon" takes the matrices of the blocks with Muon (Jordan et al. 2024) and all else with Adam: on
    these small models it needs a third of Adam's steps. "adamw" is the usual choice for fine-tuning
    a pretrained model.
    """

    def __init__(self, model: nn.Module, learning_rate: float, kind: str = "muon"):
        self.parameters = list(model.parameters())
        matrices = [
            parameter
            for name, parameter in model.named_parameters()
            if kind == "muon" and BLOCK.search(name) and parameter.dim() == 2
        ]
        chosen = {id(parameter) for parameter in matrices}
        others = [parameter for parameter in self.parameters if id(parameter) not in chosen]
        decay = 0.01 if kind == "adamw" else 0.0
        self.all = [
            torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=decay)
        ]
        if matrices:
            rate = MUON_FACTOR * learning_rate
            self.all.append(torch.optim.Muon(matrices, lr=rate, weight_decay=0.01))
        self.peaks = [optimizer.param_groups[0]["lr"] for optimizer in self.all]

    def step(self, loss: torch.Tensor, factor: float) -> None:
        """Backward, clip to norm 1, step at `factor` times the peak learning rates."""
        for optimizer in self.all:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer, peak in zip(self.all, self.peaks, strict=True):
            optimizer.param_groups[0]["lr"] = peak * factor
            optimizer.step()


def warm_cosine(step: int, steps: int, warmup: int) -> float:
    """Up to 1 in `warmup` steps, down to 0 along a cosine: the factor at `step` of `steps`."""
    return min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / steps))
