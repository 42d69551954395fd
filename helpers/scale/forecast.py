"""How long a run will take, and whether it fits: said before it starts.

Time is measured on a few responses; a reward's own time is not in it. Memory is that of `memory.py`.
"""

import time
from itertools import cycle, islice
from math import isfinite

import torch

from helpers.models import autocast, gradient_checkpointing
from helpers.rewards import score_texts
from helpers.rollouts import forward_logprobs
from helpers.sampling import sample_responses
from helpers.scale.memory import FREED, GIB, MemoryEstimate
from helpers.state import RLHFState
from helpers.steps import reference_logprobs
from helpers.tools.validate import require

PROBE = 8  # responses that are timed


def clock(device: torch.device) -> float:
    """Seconds on a clock, once the device has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def seconds_a_response(state: RLHFState) -> tuple[float, float]:
    """Seconds to sample a response and compare it with the reference; and to learn from it, all epochs.

    Each is timed on a few responses, with random numbers of its own: the run is the same with it. The
    critic counts as a second actor.
    """
    config, models = state.config, state.models
    asked = list(islice(cycle(state.prompts), min(PROBE, config.micro_batch_size)))
    generator = torch.Generator(device=models.device).manual_seed(config.seed)
    started = clock(models.device)
    responses = sample_responses(models.actor, models.tokenizer, asked, config, generator)
    reference_logprobs(state, responses)
    sampled = clock(models.device)
    recompute = gradient_checkpointing(models.actor, on=config.gradient_checkpointing)
    with autocast(models.device, config.mixed_precision), recompute:
        tokens = responses.tokens()
        forward_logprobs(models.actor, *tokens, temperature=config.temperature).sum().backward()
    models.actor.zero_grad(set_to_none=True)
    step = clock(models.device) - sampled
    with torch.random.fork_rng(devices=[]):  # untimed: one that cannot be used is told now
        score_texts(models.reward, responses.texts)
    passes = len(models.trained()) * config.num_ppo_epochs
    return (sampled - started) / len(asked), passes * step / len(asked)


def forecast(state: RLHFState, normaliser: int, measured: int) -> str:
    """A sentence about the time of so many responses of the two, and of the iterations still to come."""
    sample, learn = seconds_a_response(state)
    left, size = state.config.iterations - state.iteration, state.config.batch_size
    parts = {
        f"normaliser ({normaliser} responses)": normaliser * sample,
        f"measurements ({measured} responses)": measured * sample,
        f"iterations ({left} of {size})": left * size * (sample + learn),
    }
    said = [f"{what} {_duration(seconds)}" for what, seconds in parts.items() if seconds]
    return f"About {_duration(sum(parts.values()))}, and what the reward takes: {', '.join(said)}."


def _duration(seconds: float) -> str:
    """In minutes; a short one in seconds."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def require_room(estimate: MemoryEstimate, free: float, held: tuple, force: bool = False) -> str:
    """What is said of the memory; ValueError: more is to come, beside the `held` kinds, than is free."""
    needed = estimate.peak - sum(estimate.total(kind=kind) for kind in held)
    less = "a smaller --micro-batch-size or --batch-size, --gradient-checkpointing, --lora"
    wants = f"at most the {free / GIB:.1f} GiB that are free: {less}, or --force to try it"
    require(force or needed <= free, "memory", f"{needed / GIB:.1f} GiB still to come", wants)
    peak, now = estimate.peak / GIB, f"; {free / GIB:.1f} GiB are free now" * isfinite(free)
    return (
        f"Memory: at least {peak:.1f} GiB at its peak, on a CPU up to {FREED * peak:.1f} GiB with freed"
        f" blocks and an export{now}."
    )
