"""`python -m benchmarks.logits`: peak memory and CPU seconds of one gradient of long responses.

The logits held whole, and made by the head for a part of the tokens at a time, as the loop does where
they are many (`helpers.rollouts.per_token`). A model of SmolLM2-135M's shape with random weights, its blocks
computed again in the backward pass; each way in a process of its own, above what was there before.
"""

import os
import time
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from benchmarks.common import command, emit, in_own_process, show
from benchmarks.cuda import SMOLLM2
from helpers import rollouts
from helpers.models import gradient_checkpointing, resolve_device
from helpers.ppo import entropy_from_logits
from helpers.scale.memory import KNOWN, MIB, peak_bytes, reset_peak
from helpers.tools.flags import setting


def read(logits: torch.Tensor, ids: torch.Tensor) -> tuple:
    """Log-probs and entropies, as the loss reads them."""
    logprobs = rollouts.gather_logprobs(logits, ids)
    with torch.no_grad():
        return logprobs, entropy_from_logits(logits)


def measure(rows: int, length: int, layers: int, device: str, at_once: int) -> dict:
    """One gradient of `rows` responses: CPU seconds, and MiB above the weights and their gradients."""
    rollouts.LOGITS_AT_ONCE = at_once
    torch.manual_seed(0)
    place = resolve_device(device)
    shape = KNOWN[SMOLLM2].to_dict() | {"num_hidden_layers": layers}
    policy = AutoModelForCausalLM.from_config(LlamaConfig(**shape)).to(place)
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter)
    ids = torch.randint(policy.config.vocab_size, (rows, length + 8), device=place)
    mask = torch.ones_like(ids, dtype=torch.bool)
    tokens = ids[:, :8], mask[:, :8], ids[:, 8:], mask[:, 8:]
    reset_peak(place)
    at_first, began = peak_bytes(place), time.process_time()
    with gradient_checkpointing(policy):
        logprobs, entropy = rollouts.per_token(read, policy, *tokens)
    (-logprobs.mean()).backward()
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    return {
        "cpu_seconds": time.process_time() - began,
        "peak_MiB": (peak_bytes(place) - at_first) / MIB,
        "loss": -float(logprobs.detach().mean()),
        "entropy": float(entropy.mean()),
        "gradient": float(torch.cat([p.grad.flatten() for p in policy.parameters()]).norm()),
    }


@dataclass
class Options:
    """Sizes, and where."""

    rows: int = setting(2, "responses at once")
    length: int = setting(1024, "tokens of each")
    layers: int = setting(30, "SmolLM2-135M's, or fewer")
    device: str = setting("cpu", "cpu, or cuda")


def run(options: Options) -> None:
    """Measure both ways, and print."""
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**18))  # as in benchmarks.cuda
    sizes = options.rows, options.length, options.layers, options.device
    ways = {"logits whole": 2**62, "in parts": rollouts.LOGITS_AT_ONCE}
    found = {name: in_own_process(measure, *sizes, at_once) for name, at_once in ways.items()}
    show(["", *found["in parts"]], [[name, *numbers.values()] for name, numbers in found.items()])
    emit("logits", found)


if __name__ == "__main__":
    command("logits", __doc__, Options, run)
