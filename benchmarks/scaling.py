"""`python -m benchmarks.scaling`: time and memory of one PPO iteration as one size grows at a time.

Batch, response length, vocabulary and model size are grown from a common base, one epoch an iteration,
one thread, each point in a process of its own. Slopes are log–log, between a row's last two points:
1 is linear, 0 is free. `--picture` draws it.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator, StrMethodFormatter

from benchmarks.common import emit, in_own_process, median, show
from benchmarks.models import Size, make_run
from benchmarks.ppo_vs_trl import PHASES, our_iteration
from helpers.kit.figures import label_axes, new_figure
from helpers.kit.palette import KL, POLICY, REFERENCE, REWARD
from helpers.models import count_parameters
from helpers.scale.memory import MIB, peak_bytes
from helpers.tools.command import exit_status
from helpers.tools.files import ROOT

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
PICTURE = ROOT / "notebooks" / "images" / "scaling.png"
COLOURS = dict(zip((*PHASES, "memory"), (POLICY, REFERENCE, REWARD, "black", KL), strict=True))


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


def worse_than_linear(everything: list[dict], limit: float = 1.1) -> list[str]:
    """Phases that grow faster than linearly, with their axis and slope."""
    return [
        f"{name} by {found['axis']} ({found['slopes'][name]:.2f})"
        for found in everything
        for name in found["slopes"]
        if found["slopes"][name] > limit
    ]


def brief(x: float) -> str:
    """A short number: 512, 20k, 9.5M."""
    unit, sign = (1e6, "M") if x >= 1e5 else (1e3, "k") if x >= 5e3 else (1, "")
    return f"{x / unit:.{2 if sign else 4}g}{sign}"


def picture(everything: list[dict]) -> Figure:
    """Figure: one column per axis, time of the phases above, memory below; grey: linear growth."""
    figure, grid = new_figure(2, len(everything), width=11.0, height=5.0)
    for found, above, below in zip(everything, *grid, strict=True):
        for name, ys in found["columns"].items():
            on = below if name == "memory" else above
            label = f"{name}, slope {found['slopes'][name]:.2f}"
            on.plot(found["at"], ys, "o-", color=COLOURS[name], label=label, markersize=3)
        for on, name in ((above, "total"), (below, "memory")):
            last = found["columns"][name][-1]
            line = [last * x / found["at"][-1] for x in found["at"]]
            on.plot(found["at"], line, ":", color="0.6", zorder=0)
            on.set(xscale="log", yscale="log")
            on.set_xticks(found["at"], [brief(x) for x in found["at"]], minor=False)
            on.xaxis.set_minor_locator(NullLocator())
            on.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            on.yaxis.set_minor_formatter(NullFormatter())
            on.legend(fontsize=6)
        label_axes(above, found["axis"])
        label_axes(below, "", found["axis"])
    label_axes(grid[0][0], everything[0]["axis"], y="CPU seconds an iteration")
    label_axes(grid[1][0], x=everything[0]["axis"], y="MiB above the imports")
    return figure


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Command-line options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="measured iterations per point (3)")
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--picture", type=Path, nargs="?", const=PICTURE, help=f"({PICTURE.name})")
    return parser.parse_args(arguments)


def run(arguments: list[str] | None) -> None:
    """Command line: a table for every axis, what grows faster than linearly, the picture, a JSON line."""
    options = parse(arguments)
    everything = [measure(axis, options.rounds) for axis in options.axes]
    for found in everything:
        print_axis(found)
    print("\nworse than linear:", ", ".join(worse_than_linear(everything)) or "nothing")
    if options.picture is not None:
        picture(everything).savefig(options.picture, dpi=110)
        print(f"wrote {options.picture}")
    emit("scaling", {"axes": everything})


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped."))
