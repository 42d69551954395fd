"""The same loop in several processes. `python -m helpers.distributed --processes 2` runs it on this machine.

Every process has whole copies of the four models and a part of each batch; sums and counts over tokens
are added up over all of them, so the step is the one that a single process would make of the same
rollout. On GPUs `torchrun --nproc-per-node 2 -m helpers.distributed` and `accelerate launch
--num_processes 2 -m helpers.distributed` start it as well. `--mixed-precision bf16`, or a launch by
accelerate, takes an `Accelerator` of accelerate for it. Left out: sharded models, several machines'
failures, resuming.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor

from helpers.command import exit_status
from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint, resolve_device
from helpers.processes import OneProcess
from helpers.rollouts import RolloutBatch
from helpers.state import Models, RLHFState, start_run
from helpers.storage import write_json
from helpers.validate import require, require_choice, require_count

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")  # what torchrun and accelerate launch put there
LARGE_PRIME = 100_003  # apart are the seeds of two ranks


class ManyProcesses(OneProcess):
    """What the loop asks of the other processes, answered by torch.distributed (gloo or NCCL).

    Plain sums and not DistributedDataParallel: that averages over processes, which is right only
    where all hold as many counted tokens, and wants as many backward passes from each.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(device)

    def mine(self, rows: list) -> list:
        """An equal part for each; ValueError where the batch does not divide."""
        parts = self.count
        require(len(rows) % parts == 0, "batch_size", len(rows), f"a multiple of {parts} processes")
        size = len(rows) // parts
        return rows[self.rank * size : (self.rank + 1) * size]

    def all_reduce(self, x: Tensor, largest: bool = False) -> Tensor:
        """Elementwise sum (or maximum) over all processes, in place."""
        dist.all_reduce(x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
        return x

    def add(self, x: Tensor) -> Tensor:
        return self.all_reduce(torch.sum(x))

    def gather(self, x: Tensor) -> Tensor:
        here = x.to(self.device)
        parts = [torch.empty_like(here) for _ in range(self.count)]
        dist.all_gather(parts, here.contiguous())
        return torch.cat(parts).to(x.device)

    def minibatches(self, rollout: RolloutBatch, size: int, generator) -> Iterator:
        """The rows that stand here of each global minibatch: none, at worst.

        Every process draws the same order of all rows, so the minibatches are those of one process.
        A minibatch is then uneven over the processes by chance; only time depends on that.
        """
        require_count("size", size)
        rows = len(rollout)
        order = torch.randperm(rows * self.count, generator=generator)
        for index in order.split(size):
            here = index[index // rows == self.rank] - self.rank * rows
            here = here.to(rollout.query_tensors.device)
            yield rollout.rows(here) if len(here) else no_rows(rollout)

    def merge(self, stats: dict[str, Tensor]) -> dict[str, Tensor]:
        summed = self.all_reduce(torch.stack([value.float() for value in stats.values()]))
        worst = self.all_reduce(stats["ratio_error"].float(), largest=True)
        return dict(zip(stats, summed, strict=True)) | {"ratio_error": worst}

    def sum_gradients(self, parameters: list) -> None:
        """One flat vector over the wire. A parameter without gradient here may have one elsewhere."""
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters]
        flat = self.all_reduce(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


class AccelerateProcesses(ManyProcesses):
    """The same through accelerate's `Accelerator`, which brings mixed precision."""

    def __init__(self, device: torch.device, precision: str):
        from accelerate import Accelerator

        place = {"RANK": dist.get_rank(), "WORLD_SIZE": dist.get_world_size()}
        place["LOCAL_RANK"] = place["RANK"] if device.index is None else device.index
        os.environ |= {name: str(value) for name, value in place.items()}  # it looks for them there
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        self.accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision=precision)
        self.mixed = precision != "no"
        super().__init__(device)

    def all_reduce(self, x: Tensor, largest: bool = False) -> Tensor:
        return super().all_reduce(x, True) if largest else self.accelerator.reduce(x, "sum")

    def autocast(self) -> AbstractContextManager:
        return self.accelerator.autocast()


def no_rows(rollout: RolloutBatch) -> RolloutBatch:
    """The same rollout without any response: this process's part of a minibatch that it has none of."""
    return replace(rollout, **{f.name: getattr(rollout, f.name)[:0] for f in fields(rollout)})


def start_distributed_run(config: RLHFConfig, processes: OneProcess, **given) -> RLHFState:
    """`start_run` with this process's part in it: same prompts and shuffles, samples of its own.

    `given` is what `start_run` takes (models, reward, prompts, measures). ValueError: models that
    differ from process to process, a batch that does not divide.
    """
    processes.mine([None] * config.batch_size)  # refuses a batch that does not divide
    state = start_run(config, **given)
    state.processes = processes
    state.generators["samples"].manual_seed(3 * config.seed + 1 + LARGE_PRIME * processes.rank)
    require(in_step(state), "models", "others in another process", "the same in all")
    return state


def in_step(state: RLHFState) -> bool:
    """Whether actor and critic are the same, to the bit, in all processes."""
    models: Models = state.models
    words = fingerprint(models.actor) + fingerprint(models.critic)
    numbers = torch.tensor([int(words[i : i + 8], 16) for i in range(0, 128, 8)])
    everywhere = state.processes.gather(numbers).view(state.processes.count, -1)
    return bool((everywhere == everywhere[0]).all())


def join_group(
    device: str, precision: str | None, init: str | None = None, rank: int = -1, count: int = -1
) -> OneProcess:
    """Become one of several: gloo on the CPU, NCCL on CUDA; by `init` or by the launcher's variables.

    `precision` is None for plain torch.distributed, "no" or "bf16" for accelerate on top of it.
    """
    place = resolve_device(device)
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", max(rank, 0))))
        torch.cuda.set_device(place)
    backend = "nccl" if place.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=init, rank=rank, world_size=count)
    return ManyProcesses(place) if precision is None else AccelerateProcesses(place, precision)


def check_precision(precision: str | None) -> None:
    """ValueError: a precision that is not offered, or accelerate wanted and not here."""
    if precision is not None:
        require_choice("mixed_precision", precision, ("no", "bf16"))  # fp16 would need loss scaling
        here = importlib.util.find_spec("accelerate") is not None
        require(here, "accelerate", "none", "`pip install accelerate`, for mixed precision")


def _worker(rank: int, work: Callable, init: str, count: int, how: tuple, arguments: tuple) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // count))  # processes share the cores
    try:
        work(join_group(*how, init, rank, count), *arguments)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def launch(
    work: Callable, count: int, *arguments, device: str = "cpu", precision: str | None = None
) -> None:
    """Run `work(processes, *arguments)` in `count` fresh processes of this machine; wait for all.

    `work` is a function of a module, since each process imports it anew. An exception in one ends
    all and is raised here.
    """
    require_count("processes", count, low=2)
    check_precision(precision)
    with tempfile.TemporaryDirectory() as folder:  # they meet in a file: no port to collide on
        init = (Path(folder) / "meeting").as_uri()
        given = (work, init, count, (device, precision), arguments)
        torch.multiprocessing.start_processes(_worker, given, nprocs=count, start_method="spawn")


def train(processes: OneProcess, config: RLHFConfig, folder: Path | None = None) -> None:
    """The loop, on this process's part of every batch. Only the main process speaks and writes."""
    main, place = processes.rank == 0, str(processes.device)
    state = start_distributed_run(replace(config, device=place), processes)
    started, share = time.perf_counter(), config.batch_size // processes.count
    if main:
        precision = "bf16 autocast" if processes.mixed else "float32"
        print(f"{processes.count} processes, {share} responses each, {precision}", flush=True)
    for record in train_rlhf_loop(state=state, save_dir=folder if main else None):
        if main:
            shown = ("iteration", "score", "kl", "grad_norm", "first_ratio_error")
            print("  ".join(f"{name} {record[name]:.3g}" for name in shown), flush=True)
    same = in_step(state)
    if main:
        if folder is not None:
            write_json(folder / "history.json", state.history)
        seconds = time.perf_counter() - started
        print(f"copies the same in all processes: {same}  ({seconds:.1f} s)", flush=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.distributed", description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="on this machine, unless launched")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="responses, over all processes")
    parser.add_argument("--kl-coef", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--mixed-precision", help="bf16 (or no), by accelerate")
    parser.add_argument("--save", type=Path, metavar="DIR", help="checkpoints and history go here")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> None:
    """Join the launcher's group, or start the processes here."""
    names = ("iterations", "batch_size", "kl_coef", "seed", "device")
    config = RLHFConfig(**{name: getattr(options, name) for name in names})
    precision = options.mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION")
    check_precision(precision)
    if all(name in os.environ for name in LAUNCHED):
        train(join_group(config.device, precision), config, options.save)
        return dist.destroy_process_group()
    count = options.processes
    require_count("processes", count, low=2)
    divides = config.batch_size % count == 0
    require(divides, "batch_size", config.batch_size, f"a multiple of {count} processes")
    given = {"device": config.device, "precision": precision}
    return launch(train, count, config, options.save, **given)


def main(arguments: list[str] | None = None) -> int:
    """The command; → its exit status."""
    return exit_status(lambda: run(parse(arguments)), "Stopped; the last checkpoint stays.")


if __name__ == "__main__":
    sys.exit(main())
