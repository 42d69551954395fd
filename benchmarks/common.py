"""Shared by all benchmarks: timers, medians, tables, the JSON line, facts about the machine."""

import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from helpers.tools.command import exit_status
from helpers.tools.flags import FlagParser

RESULTS = Path(__file__).parent / "results"

Span = np.ndarray  # seconds of two clocks: wall time, and CPU time of all threads of this process


def now() -> Span:
    """The current time of both clocks."""
    return np.array([time.perf_counter(), time.process_time()])


def phases(*clocks: Span) -> dict[str, Span]:
    """Times of the phases of one iteration, from the clocks before, between and after them."""
    taken = dict(zip(("rollout", "scoring", "update"), np.diff(clocks, axis=0), strict=True))
    return taken | {"total": clocks[-1] - clocks[0]}


class TokenCounter:
    """Counts positions that transformers compute, by name; backward where the output has a gradient."""

    def __init__(self, models: dict[str, PreTrainedModel]):
        self.forward, self.backward = Counter(), Counter()
        for name, model in models.items():  # `base_model`: without its head
            model.base_model.register_forward_hook(partial(self._count, name), with_kwargs=True)

    def _count(self, name: str, module, arguments, named, output) -> None:
        ids = named["input_ids"] if "input_ids" in named else arguments[0]  # [B, L]
        self.forward[name] += ids.numel()
        if torch.is_grad_enabled() and output.last_hidden_state.requires_grad:
            self.backward[name] += ids.numel()

    def read(self) -> dict:
        """Return the counts so far and reset them to 0."""
        found = {"forward": dict(self.forward), "backward": dict(self.backward)}
        self.forward.clear()
        self.backward.clear()
        return found


def in_own_process(work: Callable, *given, threads: int = 0):
    """`work(*given)` in a fresh process, so that its peak memory is its own; 0 threads: torch's number."""
    os.environ.update(quiet())
    start = (torch.set_num_threads, (threads,)) if threads else ()
    with ProcessPoolExecutor(1, get_context("spawn"), *start) as pool:
        return pool.submit(work, *given).result()


def quiet() -> dict[str, str]:
    """Environment of a child process: hub offline, waiting threads do not spin."""
    return {"OMP_WAIT_POLICY": "passive"} | os.environ | {"HF_HUB_OFFLINE": "1"}


def machine() -> dict:
    """Facts about the machine: versions, cores, load."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def show(header: list[str], rows: list[list]) -> None:
    """Print a table: text aligned left, numbers right."""
    lines = [header] + [
        [cell if isinstance(cell, str) else f"{cell:.4g}" for cell in r] for r in rows
    ]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def command(name: str, what: str, options: type, run: Callable[[object], None]) -> None:
    """`python -m benchmarks.NAME`: run by its flags, which are the options' fields; then end the process."""
    parser = FlagParser(options, prog=f"python -m benchmarks.{name}", description=what)
    sys.exit(exit_status(lambda: run(options(**parser.given(None))), "Stopped."))


def emit(name: str, facts: dict) -> None:
    """Print the JSON line at the end of every command."""
    print(json.dumps({"benchmark": name} | facts | {"on": machine()}))
