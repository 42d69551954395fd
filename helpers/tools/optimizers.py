"""Optimizers and learning-rate schedule of the supervised trainings (SFT and reward model)."""

import math
import re

import torch
from torch import nn

BLOCK = re.compile(r"\.(?:h|layer|layers)\.(\d+)\.")  # in names: a block's number
MUON_FACTOR = 8  # Muon's learning rate, as a multiple of Adam's: its steps are orthogonal matrices


class Optimizers:
    """Muon with Adam, or AdamW, for one model.

    "muon" trains the matrices of the blocks with Muon (Jordan et al. 2024) and the rest with Adam: for
    models that begin at random weights, as the course's do. "adamw" is usual for a pretrained model.
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
        """Backward, clip the gradient norm to 1, step at `factor` times the peak learning rates."""
        for optimizer in self.all:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer, peak in zip(self.all, self.peaks, strict=True):
            optimizer.param_groups[0]["lr"] = peak * factor
            optimizer.step()


def warm_cosine(step: int, steps: int, warmup: int) -> float:
    """Factor of the learning rate at `step`: linear warm-up to 1, then a cosine to 0 at `steps`."""
    return min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / steps))
