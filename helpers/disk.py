"""The disk itself: names that change in one step, and what a full or read-only disk is called."""

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def told(path: Path) -> Iterator[None]:
    """A disk that is full or may not be written: one sentence, whichever library met it first."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001 (safetensors and tokenizers have errors of their own)
        if not isinstance(problem, OSError) and "(os error" not in str(problem):
            raise
        sentence = f"{path} was not written ({problem}); what was there before is as it was."
        raise OSError(sentence) from None


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step, where the system can (Linux); → whether they did."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of linux/fs.h
    return (
        swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
    )


def take_place(temporary: Path, path: Path) -> None:
    """Give a whole folder the name `path`; one that has the name keeps it until then."""
    if not path.exists():
        temporary.rename(path)
    elif not _exchange(temporary, path):
        old = temporary.with_suffix(".old")
        path.rename(old)
        try:
            temporary.rename(path)
        except OSError:
            old.rename(path)
            raise
        shutil.rmtree(old)


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before hours of work are lost to it."""
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
