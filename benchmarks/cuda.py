"""`python -m benchmarks.cuda`: seconds per phase and peak memory on a GPU.

PPO on random weights of SmolLM2-135M's size, each of `settings` in a process of its own; LoRA needs peft.
`--device cpu --short`: one small iteration each, for its memory alone.
"""

import os
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, replace

import torch
from transformers import AutoModelForCausalLM, DistilBertConfig, DistilBertModel

from benchmarks.common import command, emit, in_own_process, show
from benchmarks.models import Size, make_tokenizer, prompt_texts
from helpers.config import RLHFConfig
from helpers.models import freeze, resolve_device
from helpers.reward_model import RewardModel
from helpers.scale.memory import KNOWN, MIB, estimate_memory, peak_bytes, reset_peak
from helpers.scale.pretrained import frozen_dtype, make_models
from helpers.state import start_run
from helpers.steps import iterate
from helpers.tools.flags import setting

SMOLLM2 = "HuggingFaceTB/SmolLM2-135M"
SIZES = {"batch_size": 128, "minibatch_size": 64, "micro_batch_size": 32, "response_length": 128}
LARGE = RLHFConfig(**SIZES, learning_rate=1e-5, normalize_scores=False)
SHORT = {"batch_size": 8, "minibatch_size": 4, "micro_batch_size": 2, "num_ppo_epochs": 1}
SHORT["response_length"] = 32
# the phase that ends with each step; drawing prompts and shaping rewards take no time
PHASES = {2: "rollout", 3: "scoring", 4: "reference", 6: "values and GAE", 7: "update"}


class PhaseTimes:
    """Pass as `observe`: `seconds` and `peaks` (bytes) get one number per iteration and phase.

    On a GPU it synchronises at each step; on a CPU the peak is the resident size, Python's too.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.peaks: dict[str, list[int]] = defaultdict(list)

    def __call__(self, step: int, **tensors) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        if step in PHASES:
            self.seconds[PHASES[step]].append(now - self.began)
            self.peaks[PHASES[step]].append(peak_bytes(self.device))
        reset_peak(self.device)
        self.began = time.perf_counter()

    @property
    def peak(self) -> int:
        """Largest peak of all phases, in bytes."""
        return max(max(found) for found in self.peaks.values())


def smollm2_size(device: str) -> tuple:
    """SmolLM2-135M's and DistilBERT's architectures with random weights and GPT-2's vocabulary size."""
    torch.manual_seed(0)
    size = Size(vocabulary=50_257, prompt=64, batch=SIZES["batch_size"])
    tokenizer = make_tokenizer(size)
    shape = KNOWN[SMOLLM2].to_dict() | {"vocab_size": len(tokenizer)}
    config = type(KNOWN[SMOLLM2])(**shape)
    still = {"dropout": 0.0, "attention_dropout": 0.0, "vocab_size": len(tokenizer)}
    with torch.device(device):  # random weights are soon drawn there
        actor = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        encoder = DistilBertModel(DistilBertConfig(**still))
    reward = RewardModel(encoder, tokenizer).to(device)
    return actor, tokenizer, freeze(reward), prompt_texts(size)


def measure(make, config: RLHFConfig, method: str, frozen: torch.dtype, iterations: int) -> dict:
    """Measure one setting: medians per phase after one warm-up iteration, and memory above the imports'."""
    on_gpu = resolve_device(config.device).type == "cuda"
    at_first = 0 if on_gpu else peak_bytes()
    actor, tokenizer, reward, prompts = make(config.device)
    longest = max(len(ids) for ids in tokenizer(prompts)["input_ids"])
    ledger = estimate_memory(actor, reward, config, longest, method, frozen=frozen)
    models = make_models(actor, tokenizer, reward, method, frozen)
    state = start_run(config, models, prompts=prompts)
    phases = PhaseTimes(state.models.device)
    for _ in range(1 + iterations):
        iterate(state, phases)
    seconds = {name: statistics.median(x[1:] or x) for name, x in phases.seconds.items()}
    iteration, length = sum(seconds.values()), state.history[-1]["response_length"]
    return {
        "seconds": seconds | {"iteration": iteration},
        "tokens_per_s": config.batch_size * length / iteration,
        "peak_MiB": (phases.peak - at_first) / MIB,
        "estimated_MiB": ledger.peak / MIB,
        "ratio_error": state.history[0]["first_ratio_error"],
        "kl": state.history[0]["kl"],
    }


def print_setting(name: str, found: dict) -> None:
    """One block of the README's table."""
    print(f"\n{name}")
    show([f"{phase}, s" for phase in found["seconds"]], [list(found["seconds"].values())])
    peak, estimated = found["peak_MiB"], found["estimated_MiB"]
    print(f"{found['tokens_per_s']:,.0f} response tokens/s")
    print(f"peak {peak:,.0f} MiB, estimated {estimated:,.0f}: {estimated / peak:.2f} of it")
    print(f"first minibatch: |ratio − 1| {found['ratio_error']:.0e}, KL {found['kl']:+.0e}")


def settings(half: torch.dtype, short: bool) -> dict:
    """What is measured, by name: config, method, type of the frozen models."""
    large = replace(LARGE, **SHORT) if short else LARGE
    less = replace(large, gradient_checkpointing=True)
    autocast = replace(large, mixed_precision="bf16")
    found = {
        "full, all float32": (large, "full", torch.float32),
        f"full, frozen in {half}": (large, "full", half),
        "full, gradient checkpointing": (less, "full", half),
        f"LoRA rank 8, frozen in {half}": (large, "lora", half),
        "full, bf16 autocast": (autocast, "full", half),
    }
    if half == torch.float32:  # on a CPU, frozen models are float32 anyway
        del found[f"full, frozen in {half}"]
    return found


@dataclass
class Options:
    """Where, and how long."""

    device: str = setting("cuda", "cuda, or cpu to try it")
    iterations: int = setting(5, "measured, after one")
    short: bool = setting(False, "for memory alone, on a CPU")


def run(options: Options) -> None:
    """Measure and print."""
    device = resolve_device(options.device)
    half = frozen_dtype(device)
    if device.type == "cuda":
        print(torch.cuda.get_device_name(device))
    print(f"torch {torch.__version__}")
    # glibc gives memory back to the system only from blocks above a threshold, which it raises as it
    # goes; kept where it starts, the resident size is what tensors take
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**18))
    every = {}
    # a first iteration is not enough: Adam holds nothing before its first step
    iterations = 1 if options.short else options.iterations
    for name, (config, method, frozen) in settings(half, options.short).items():
        try:
            config = replace(config, device=options.device)
            every[name] = in_own_process(measure, smollm2_size, config, method, frozen, iterations)
            print_setting(name, every[name])
        except ValueError as problem:  # no peft
            print(f"{name}\n  left out: {problem}")
    emit("cuda", every)


if __name__ == "__main__":
    command("cuda", __doc__, Options, run)
