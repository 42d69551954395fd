"""Each record of a run to TensorBoard while it trains, where that is installed."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path


def logged(records: Iterable[dict], folder: Path) -> Iterator[dict]:
    """Pass a run's records through, each to `folder`/tensorboard as it comes."""
    if find_spec("tensorboard") is None:
        yield from records
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for record in records:
            for name, value in record.items():
                writer.add_scalar(name, value, int(record["iteration"]))
            writer.flush()  # what is seen is what has been trained
            yield record
