"""Read files with clear errors; write files and folders atomically."""

import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout  # installed with transformers
from safetensors import SafetensorError
from safetensors.torch import load_file

from helpers.tools.parallel import rank

LOCK = ".lock"  # in a folder that a run is written to; the empty file stays, the lock does not
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


@contextmanager
def plain_disk_errors(path: Path) -> Iterator[None]:
    """Turn any library's error about a full or read-only disk into one OSError sentence."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001 (safetensors and tokenizers have their own errors)
        if not isinstance(problem, OSError) and "(os error" not in str(problem):
            raise
        sentence = f"{path} was not written ({problem}); its previous contents are unchanged."
        raise OSError(sentence) from None


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one atomic step; returns False where the system cannot (only Linux can)."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of linux/fs.h
    # two renames would leave a moment without either, in which a kill may come (tests/faults/test_disks.py)
    return (
        swap is not None and swap(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
    )


def replace_folder(temporary: Path, path: Path) -> None:
    """Rename a complete folder to `path`, replacing an old one (atomically on Linux)."""
    if not path.exists():
        temporary.rename(path)
    elif not _exchange(temporary, path):
        old = temporary.parent.with_suffix(".old")  # beside both
        path.rename(old)
        try:
            temporary.rename(path)
        except OSError:
            old.rename(path)
            raise
        shutil.rmtree(old)


def require_writable(folder: Path) -> None:
    """Check early that a folder can be created and written. OSError: it cannot."""
    with plain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _acquire(folder: Path) -> FileLock:
    """Lock a folder, or refuse; where the disk has no locks (some of the network) nothing is held."""
    lock = FileLock(folder / LOCK, timeout=0, thread_local=False, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        sentence = (
            f"{folder} is in use by another process: wants another folder, or that process ended."
        )
        raise FileProblem(sentence) from None
    except (NotImplementedError, OSError) as problem:
        if getattr(problem, "errno", errno.ENOSYS) not in NO_LOCKS:
            raise
    # filelock's way out there, a file that names its holder, would outlive a kill
    marked = (folder / LOCK).is_file() and (folder / LOCK).stat().st_size > 0  # since filelock 4.3
    if marked or isinstance(lock, SoftFileLock):
        lock.release()
    return lock


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder while this lasts; this process itself may enter again.

    FileProblem names the folder when another process holds it. The lock is the operating system's:
    it goes with its process, however that ends. Of the several processes of a run, the first holds it.
    """
    if rank() > 0:
        yield
        return
    with plain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _acquire(folder)
    try:
        yield
    finally:
        lock.release()


def require_free(folder: Path) -> None:
    """FileProblem if another process holds the folder: said before models are loaded for nothing."""
    if folder.exists():
        with hold_folder(folder):
            pass


ROOT = Path(__file__).resolve().parents[2]


class FileProblem(ValueError):
    """A file or folder is missing, cut short, altered or of the wrong kind."""


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def require_intact(path: Path, digest: str, mend: str = "") -> None:
    """FileProblem: the file is missing, or has not this sha256; `mend` says what restores it."""
    if not path.is_file():
        raise FileProblem(f"{path} is missing{mend}.")
    if sha256(path) != digest:
        raise FileProblem(f"{path} is cut short or altered{mend}.")


@contextmanager
def _hidden_folder(path: Path) -> Iterator[Path]:
    """Context with an empty hidden folder beside `path`, gone at the end; a disk's errors in one sentence."""
    with plain_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        names = {"prefix": f".{path.name}.", "suffix": ".tmp", "dir": path.parent}
        with tempfile.TemporaryDirectory(**names, ignore_cleanup_errors=True) as name:
            yield Path(name)


def _flush(file: Path) -> None:
    """Wait until a file is on disk; all may read it (safetensors makes files readable by us only)."""
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
    file.chmod(0o644)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Context with a temporary folder, renamed to `path` at the end, when all its files are on disk.

    OSError (one sentence): the disk is full or read-only.
    """
    with _hidden_folder(path) as hidden:
        temporary = hidden / path.name
        temporary.mkdir()
        yield temporary
        for file in filter(Path.is_file, temporary.rglob("*")):
            _flush(file)
        replace_folder(temporary, path)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Context with the name of a temporary file, renamed to `path` at the end, when it is on disk.

    OSError (one sentence): the disk is full or read-only.
    """
    with _hidden_folder(path) as hidden:
        yield hidden / path.name
        _flush(hidden / path.name)
        os.replace(hidden / path.name, path)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_jsonl(path: Path, rows: list[dict]) -> None:
    """Write rows as JSON Lines, atomically."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileProblem(f"{path} is missing.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileProblem(f"{path} cannot be read: {problem}.") from None


def read_json(path: Path, names: tuple = ()) -> object:
    """Read a JSON file. FileProblem: missing, cut short, or without one of the keys `names`."""
    try:
        value = json.loads(_read(path))
    except (json.JSONDecodeError, RecursionError) as problem:
        raise FileProblem(f"{path} is not complete JSON: {problem}.") from None
    missing = [name for name in names if not isinstance(value, dict) or name not in value]
    if missing:
        raise FileProblem(f"{path} lacks {missing}: it is another kind of file, or altered.")
    return value


def read_tensors(path: Path) -> dict:
    """Read a safetensors file: name → tensor. FileProblem: missing or damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as problem:
        raise FileProblem(f"{path} is missing, cut short or altered: {problem}.") from None


def read_jsonl(path: Path, columns: tuple = ()) -> list[dict]:
    """Read the rows of a JSON Lines file. FileProblem: missing, or a line that lacks a column."""
    rows = []
    for number, line in enumerate(_read(path).splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as problem:
            raise FileProblem(f"{path}, line {number}, is not JSON: {problem}.") from None
        missing = [name for name in columns if not isinstance(row, dict) or name not in row]
        if missing:
            raise FileProblem(f"{path}, line {number}, lacks {missing}; wants {list(columns)}.")
        rows.append(row)
    return rows
