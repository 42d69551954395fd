"""Logs: each record of a run to TensorBoard or Weights & Biases while it trains, where installed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from helpers.tools.validate import require, require_choice


def installed() -> list[str]:
    """The logs that ask no account and are installed: TensorBoard, or none."""
    return ["tensorboard"] if find_spec("tensorboard") is not None else []


def logged(
    records: Iterable[dict], to: list[str], folder: Path, settings: dict | None = None
) -> Iterator[dict]:
    """Pass a run's records through, and write each to the logs named in `to` as it comes.

    TensorBoard's file goes to `folder`/tensorboard; W&B gets the `settings` too. ValueError: an
    unknown log, or one whose package is not installed, before the first record is asked for.
    """
    for name in to:
        require_choice("log_to", name, tuple(WRITERS))
        there = find_spec(name) is not None
        require(there, "log_to", repr(name), f"`pip install {name}` first")
    return _logged(records, to, folder, settings or {})


def _logged(records: Iterable[dict], to: list[str], folder: Path, settings: dict) -> Iterator[dict]:
    with ExitStack() as open_logs:
        writers = [WRITERS[name](open_logs, folder, settings) for name in to]
        for record in records:
            for write in writers:
                write(record)
            yield record


def _tensorboard(open_logs: ExitStack, folder: Path, settings: dict) -> Callable[[dict], None]:
    from torch.utils.tensorboard import SummaryWriter

    writer = open_logs.enter_context(SummaryWriter(str(folder / "tensorboard")))

    def write(record: dict) -> None:
        for name, value in record.items():
            writer.add_scalar(name, value, int(record["iteration"]))
        writer.flush()  # what is seen is what has been trained

    return write


def _wandb(open_logs: ExitStack, folder: Path, settings: dict) -> Callable[[dict], None]:
    import wandb

    run = wandb.init(dir=str(folder), name=folder.name, config=settings)
    open_logs.callback(run.finish)
    return lambda record: run.log(record, step=int(record["iteration"]))


WRITERS = {"tensorboard": _tensorboard, "wandb": _wandb}  # by log, which is its package's name too
