"""Count the token positions that go forward and backward through each model."""

from collections import Counter

import torch
from torch import nn


class TokenCounter:
    """Counts the positions of every call of some models; `forward` and `backward` by model name.

    `models` maps a name to a trunk that is called with `input_ids` [B, L]. A call counts as backward
    when its output carries a gradient.
    """

    def __init__(self, models: dict[str, nn.Module]):
        self.forward, self.backward = Counter(), Counter()
        self.handles = [
            trunk.register_forward_hook(self._hook(name), with_kwargs=True)
            for name, trunk in models.items()
        ]

    def _hook(self, name: str):
        def hook(module, arguments, named, output):
            ids = named["input_ids"] if "input_ids" in named else arguments[0]
            self.forward[name] += ids.numel()
            if torch.is_grad_enabled() and output.last_hidden_state.requires_grad:
                self.backward[name] += ids.numel()

        return hook

    def read(self) -> dict:
        """Return the counts so far and reset them to 0."""
        found = {
            "forward": self.forward.total(),
            "backward": self.backward.total(),
            "by_model": {"forward": dict(self.forward), "backward": dict(self.backward)},
        }
        self.forward.clear()
        self.backward.clear()
        return found
