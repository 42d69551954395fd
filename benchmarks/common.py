"""What every benchmark needs: wall and CPU time of a span, medians, a table, one JSON line, the machine."""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from helpers.storage import ROOT

RESULTS = Path(__file__).parent / "results"


@dataclass
class Span:
    """Seconds of wall time and of CPU time (all threads of this process) of one stretch of work."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: "Span") -> "Span":
        return Span(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: "Span") -> "Span":
        return Span(self.wall - other.wall, self.cpu - other.cpu)


def now() -> Span:
    """Both clocks as they stand."""
    return Span(time.perf_counter(), time.process_time())


def phases(began: Span, written: Span, scored: Span, ended: Span) -> dict[str, Span]:
    """What the phases of one PPO iteration took, from the clocks between them."""
    return {
        "rollout": written - began,
        "scoring": scored - written,
        "update": ended - scored,
        "total": ended - began,
    }


@contextmanager
def timed() -> Iterator[Span]:
    """Yields a `Span` that is filled in when the block is left."""
    span, began = Span(), now()
    yield span
    taken = now() - began
    span.wall, span.cpu = taken.wall, taken.cpu


def repeat(work: Callable[[], object], seconds: float = 1.0, least: int = 3) -> Span:
    """Median of repeated calls after one to warm up, until `seconds` are spent and `least` are done."""
    work()
    spans: list[Span] = []
    end = time.perf_counter() + seconds
    while len(spans) < least or time.perf_counter() < end:
        with timed() as span:
            work()
        spans.append(span)
    return median(spans)


def median(spans: list[Span]) -> Span:
    """The median of each clock by itself."""
    walls, cpus = zip(*((span.wall, span.cpu) for span in spans), strict=True)
    return Span(statistics.median(walls), statistics.median(cpus))


def peak_mib() -> float:
    """Largest resident size of this process so far, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def in_own_process(module: str, *arguments: object) -> dict:
    """Run `python -m module …`; → the JSON of its last line. RuntimeError shows what went wrong."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet())
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def quiet() -> dict[str, str]:
    """The environment of a child: no hub is asked, and waiting threads give their core away."""
    return {"OMP_WAIT_POLICY": "passive"} | os.environ | {"HF_HUB_OFFLINE": "1"}


def machine() -> dict:
    """What the figures were taken on: versions, cores, how busy it was."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def show(header: list[str], rows: list[list]) -> None:
    """A table with columns as wide as they need: text to the left, numbers to the right."""
    lines = [header] + [
        [cell if isinstance(cell, str) else f"{cell:.4g}" for cell in r] for r in rows
    ]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def emit(name: str, facts: dict) -> None:
    """The JSON line that ends every command."""
    print(json.dumps({"benchmark": name} | facts | {"on": machine()}))
