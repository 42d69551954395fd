"""Run tasks in several processes with one progress bar; all end when the parent is killed."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import torch
from tqdm.auto import tqdm

_queue = None  # in a worker: sends progress to the parent


def advance(amount: int) -> None:
    """In a worker: advance the parent's progress bar."""
    if _queue is not None:
        _queue.put(amount)


def _start(queue, threads: int) -> None:
    global _queue
    _queue = queue
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent ends, then exit.

    With os._exit, because a pool takes SystemExit for a task's result and goes on waiting.
    """
    multiprocessing.parent_process().join()
    os._exit(1)


def run_all(
    tasks: list[tuple[Callable, tuple]], workers: int, threads: int, total: int | None = None
) -> list:
    """Call every `(function, arguments)` in new processes, `workers` at a time; results in order.

    Each process uses `threads` threads. Functions report progress with `advance`; the bar ends at
    `total`. The first exception stops all processes and is raised here.
    """
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, context, _start, (queue, threads))
    with tqdm(total=total) as bar:
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
            words = "A process was killed (out of memory?); continue with --resume."
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
