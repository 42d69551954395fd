"""What one forward of a model is given: every architecture takes a little something else."""

import inspect
from functools import cache

from torch import Tensor, nn


@cache
def _arguments(model_class: type) -> frozenset[str]:
    return frozenset(inspect.signature(model_class.forward).parameters)


def accepts(model: nn.Module, argument: str) -> bool:
    """Whether its forward takes this argument; an object that wraps a model says so in `wrapped`."""
    return argument in _arguments(type(getattr(model, "wrapped", model)))


def model_inputs(model: nn.Module, ids: Tensor, mask: Tensor, positions: Tensor) -> dict:
    """Keyword arguments for one forward; position ids only where the architecture has them."""
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    if ids.shape[1] == 1 < mask.shape[1] and must_not_wait(model):
        inputs["attention_mask"] = mask[:, None, None]  # (B, 1, 1, L) bool, ready as it is
    if accepts(model, "position_ids"):
        inputs["position_ids"] = positions
    return inputs


def must_not_wait(model: nn.Module) -> bool:
    """On a GPU transformers asks a 2-axis mask "all True?" at every token and waits for the answer."""
    plain = getattr(model.config, "sliding_window", None) is None
    sdpa = getattr(model.config, "_attn_implementation", None) == "sdpa"
    return model.device.type == "cuda" and plain and sdpa


def last_logits(policy: nn.Module, count: int) -> dict:
    """Ask for logits of the last `count` positions only, where the architecture can do that."""
    return {"logits_to_keep": count} if accepts(policy, "logits_to_keep") else {}
