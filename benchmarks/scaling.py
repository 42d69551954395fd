"""`python -m benchmarks.scaling`: time and memory of one PPO iteration as one size grows at a time.

Batch, response length, vocabulary and model size are grown from a common base, one epoch an iteration,
one thread, each point in a process of its own. Slopes are log–log, between a row's last two points:
1 is linear, 0 is free.
"""

import math
from dataclasses import dataclass, replace

import torch

from benchmarks.common import command, emit, in_own_process, median, show
from benchmarks.models import Size, make_run
from benchmarks.ppo_vs_trl import PHASES, our_iteration
from helpers.models import count_parameters
from helpers.scale.memory import MIB, peak_bytes
from helpers.tools.flags import setting

BASE = Size(layers=2, width=128, heads=4, vocabulary=512, prompt=8, response=24, batch=64)
SMALL = replace(BASE, batch=16)  # for the larger vocabularies and models
AXES = {
    "batch": [replace(BASE, batch=b) for b in (16, 64, 256, 1024)],
    "response": [replace(BASE, response=t) for t in (8, 32, 128, 256)],
    "vocabulary": [replace(SMALL, vocabulary=v) for v in (500, 5_000, 20_000, 50_000)],
    "parameters": [
        replace(SMALL, layers=n, width=w, heads=w // 32)
        for n, w in ((2, 128), (4, 192), (6, 352), (8, 704))
    ],
}


def point(size: Size, rounds: int) -> dict:
    """Median times of an iteration at this size, in this process, and peak memory."""
    torch.set_num_threads(1)
    imported = peak_bytes() / MIB
    state = make_run(size, minibatch=size.batch, num_ppo_epochs=1)
    our_iteration(state)
    taken = [our_iteration(state) for _ in range(rounds)]
    return {
        "parameters": count_parameters(state.models.actor),
        "peak_MiB": peak_bytes() / MIB,
        "above_imports_MiB": peak_bytes() / MIB - imported,
        "seconds": {p: median([one[p] for one in taken]).wall for p in PHASES},
        "cpu_seconds": {p: median([one[p] for one in taken]).cpu for p in PHASES},
    }


def amount(axis: str, size: Size, found: dict) -> float:
    """The value on this axis: the size that grows."""
    return found["parameters"] if axis == "parameters" else getattr(size, axis)


def slope(xs: list[float], ys: list[float]) -> float:
    """Log–log slope between the last two points."""
    return math.log(ys[-1] / ys[-2]) / math.log(xs[-1] / xs[-2])


def measure(axis: str, rounds: int) -> dict:
    """All points of one axis and their slopes."""
    found = [in_own_process(point, size, rounds) for size in AXES[axis]]
    xs = [amount(axis, size, one) for size, one in zip(AXES[axis], found, strict=True)]
    columns = {phase: [one["cpu_seconds"][phase] for one in found] for phase in PHASES}
    columns["memory"] = [one["above_imports_MiB"] for one in found]
    slopes = {name: slope(xs, ys) for name, ys in columns.items()}
    return {"axis": axis, "at": xs, "columns": columns, "slopes": slopes, "points": found}


def print_axis(found: dict) -> None:
    """Print one table: one line per point, and the slopes."""
    print(f"\n{found['axis']}: CPU seconds of each phase, MiB above the imports")
    names = list(found["columns"])
    rows = [
        [f"{x:,.0f}", *(found["columns"][name][k] for name in names)]
        for k, x in enumerate(found["at"])
    ]
    rows.append(["slope", *(f"{found['slopes'][name]:.2f}" for name in names)])
    show([found["axis"], *names], rows)


@dataclass
class Options:
    """Which axes, and how long."""

    rounds: int = setting(3, "measured iterations per point")
    axes: list[str] = setting(list(AXES), "what grows", choices=list(AXES))


def run(options: Options) -> None:
    """A table for every axis, then a JSON line."""
    everything = [measure(axis, options.rounds) for axis in options.axes]
    for found in everything:
        print_axis(found)
    emit("scaling", {"axes": everything})


if __name__ == "__main__":
    command("scaling", __doc__, Options, run)
