"""The same loop in several processes; the command is `python -m helpers distributed --processes 2`.

Every process has whole copies of the four models and a part of each batch; what is summed over all of
them stands in `helpers.tools.parallel`, so the step is the one that a single process would make of the
same rollout. Left out: sharded models, several machines' failures.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

from helpers.loop import train_rlhf_loop
from helpers.models import resolve_device
from helpers.scale.guard import guard
from helpers.scale.held_out import HeldOut
from helpers.state import RLHFState, in_step
from helpers.tools.files import write_json, write_text
from helpers.tools.parallel import rank, world_size

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")  # what torchrun and accelerate launch put there


def join_group(device: str, init: str | None = None, number: int = -1, count: int = -1) -> None:
    """Become one of several: gloo on the CPU, NCCL on CUDA; by `init` or by the launcher's variables."""
    on_gpu = resolve_device(device).type == "cuda"
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", max(number, 0))))
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, init_method=init, rank=number, world_size=count)


def work_in_group(work: Callable, *arguments) -> None:
    """Run `work(*arguments)` in the group joined; all leave it together, or at once if one fails.

    After the barrier, which has no tensors, no thread of gloo holds one: it would abort the process
    if Python shut down just then.
    """
    try:
        work(*arguments)
        dist.barrier()
    finally:
        dist.destroy_process_group()


SAID = "said"  # file with the sentence of the first process that refused its work


def _worker(
    number: int, work: Callable, folder: Path, count: int, device: str, arguments: tuple
) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // count))  # processes share the cores
    try:
        # they meet in a file: no port to collide on
        join_group(device, (folder / "meeting").as_uri(), number, count)
        work_in_group(work, *arguments)
    except (ValueError, OSError) as problem:
        write_text(folder / SAID, str(problem))
        raise
    sys.stdout.flush()
    os._exit(0)  # as a forked process does: no thread of torch can fail while Python shuts down


def launch(work: Callable, count: int, *arguments, device: str = "cpu") -> None:
    """Run `work(*arguments)` in `count` fresh processes of this machine; wait for all.

    `work` is a function of a module, since each process imports it anew. An exception in one ends
    all and is raised here, a wrong value or file as ValueError with its one sentence.
    """
    with tempfile.TemporaryDirectory() as name:
        given = (work, Path(name), count, device, arguments)
        try:
            torch.multiprocessing.start_processes(_worker, given, count, start_method="spawn")
        except torch.multiprocessing.ProcessRaisedException:
            said = Path(name) / SAID
            if not said.exists():
                raise
            raise ValueError(said.read_text()) from None


def show(state: RLHFState) -> None:
    """How many processes train, or the newest record."""
    if state.history:
        names = ("iteration", "score", "kl", "grad_norm", "first_ratio_error", "logprob_gap")
        record = state.history[-1]  # the gap in half precision only
        line = "  ".join(f"{name} {record[name]:.3g}" for name in names if name in record)
    else:
        config, count = state.config, world_size()
        names = {"no": "float32", "tf32": "TF32", "bf16": "bf16 autocast"}
        precision = names[config.mixed_precision]
        line = f"{count} processes, {config.batch_size // count} responses each, {precision}"
    print(line, flush=True)


def train_together(
    begin: Callable[[], tuple[RLHFState, HeldOut | None]],
    folder: Path | None = None,
    force: bool = False,
) -> None:
    """The loop, on this process's part of every batch; all processes begin the same run.

    An update that wrecks the policy ends it, unsaved, unless `force`. Held-out prompts are measured by
    each process in the same way; only the first one writes and speaks.
    """
    state, held_out = begin()
    started, speaks = time.perf_counter(), rank() == 0
    if speaks:
        show(state)
        if held_out is not None:
            print(held_out.opening(len(state.prompts)), flush=True)
    records = train_rlhf_loop(state=state, save_dir=folder, observe=guard(state, force))
    for _ in records if held_out is None else held_out.watch(state, records):
        if speaks:
            show(state)
    if speaks and held_out is not None:
        print(held_out.report(), flush=True)
    same = in_step(state.models)
    if speaks:
        if folder is not None:
            write_json(folder / "history.json", state.history)
        seconds = time.perf_counter() - started
        print(f"copies the same in all processes: {same}  ({seconds:.1f} s)", flush=True)
