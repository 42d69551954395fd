"""Several processes side by side, one progress bar, and none left behind when the parent is killed."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import torch
from tqdm.auto import tqdm

_queue = None  # in a worker: tells the parent how much is done


def report(amount: int) -> None:
    """In a worker: move the parent's progress bar."""
    if _queue is not None:
        _queue.put(amount)


def _start(queue, threads: int) -> None:
    global _queue
    _queue = queue
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent's end, then end at once. (A pool takes SystemExit for a task's result and
    waits for the next task, for ever.)
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_all(
    tasks: list[tuple[Callable, tuple]],
    workers: int,
    threads: int,
    total: int | None = None,
    unit: str = "it",
) -> list:
    """Call every `(function, arguments)` in fresh processes, `workers` at a time; results in order.

    Each process computes with `threads` threads. Functions tell their progress by `report`; the bar
    goes to `total`. The first exception ends everything and is raised here.
    """
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, context, _start, (queue, threads))
    with tqdm(total=total, unit=unit) as bar:
        try:
            futures = [pool.submit(function, *arguments) for function, arguments in tasks]
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
                while not queue.empty():
                    bar.update(queue.get())
                for future in done:
                    future.result()  # raises what the worker raised
        except BrokenProcessPool:
            _stop(pool)
            words = "A process was ended from outside (out of memory?); --resume goes on."
            raise ChildProcessError(words) from None
        except BaseException:
            _stop(pool)
            raise
        pool.shutdown()
    return [future.result() for future in futures]


def _stop(pool: ProcessPoolExecutor) -> None:
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
        process.join()
