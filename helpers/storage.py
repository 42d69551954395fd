"""Files: where they are, writing them whole or not at all, and saying plainly what is wrong with one."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from helpers.disk import take_place, told

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
MANIFEST = "manifest.json"
DRIVE = Path("/content/drive/MyDrive")  # where Colab mounts a learner's Drive


class FileProblem(ValueError):
    """A file or folder that is missing, cut short, altered or of the wrong kind."""


def work_folder() -> Path:
    """Where a learner's labels, runs and checkpoints go and are found again; made when missing.

    `RLHF_COURSE_WORK` if set, else a folder on Drive if that is mounted (Colab), else `my_course/`
    beside the notebooks' folder.
    """
    chosen = os.environ.get("RLHF_COURSE_WORK")
    folder = Path(chosen) if chosen else (DRIVE if DRIVE.is_dir() else ROOT) / "my_course"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_folder(name: str | Path) -> Path | None:
    """The folder `name` means, from the working directory or the course's root; None for a hub name.

    A name that reads like a path (starts with `.`, `/`, `~` or a folder of the course) and is not
    there raises FileProblem, so that a typing slip never becomes a download.
    """
    path, text = Path(name).expanduser(), str(name).strip()
    candidates = (path, ROOT / path) if text else ()
    for candidate in candidates:
        if candidate.is_dir():
            return candidate.resolve()
    if not text or text[0] in "./~" or path.parts[0] in ("data", "my_course"):
        raise FileProblem(f"No folder {str(name)!r}: wants a model folder or a hub name.")
    return None


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a temporary folder; it takes the name `path` only when everything in it is written.

    OSError in one sentence when the disk is full or may not be written.
    """
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        try:
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with file.open("rb") as handle:
                        os.fsync(handle.fileno())
                    file.chmod(0o644)  # safetensors makes private files
            temporary.chmod(0o755)  # and mkdtemp private folders
            take_place(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Fill a temporary file; it takes the name `path` only when it is written and on the disk.

    OSError in one sentence when the disk is full or may not be written.
    """
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        os.close(handle)
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file or leave the old one as it was."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """`write_text` of indented JSON."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_jsonl(path: Path, rows: list[dict]) -> None:
    """`write_text` of one JSON object a line."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileProblem(f"{path} is missing.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileProblem(f"{path} cannot be read: {problem}.") from None


def read_json(path: Path, names: tuple = ()) -> object:
    """The value in a JSON file; FileProblem when it is missing, cut short or lacks one of `names`."""
    try:
        value = json.loads(_read(path))
    except (json.JSONDecodeError, RecursionError) as problem:
        raise FileProblem(f"{path} is not whole JSON: {problem}.") from None
    missing = [name for name in names if not isinstance(value, dict) or name not in value]
    if missing:
        raise FileProblem(f"{path} lacks {missing}: it is of another kind, or altered.")
    return value


def read_tensors(path: Path) -> dict:
    """The tensors in a safetensors file by name; FileProblem when it is missing or cut short."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as problem:
        raise FileProblem(f"{path} is missing, cut short or altered: {problem}.") from None


def map_floats(value: object, change: Callable[[float], float]) -> object:
    """The same nested dicts and lists with every float changed; for rounding before JSON."""
    if isinstance(value, dict):
        return {key: map_floats(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [map_floats(item, change) for item in value]
    return change(value) if isinstance(value, float) else value


def read_jsonl(path: Path, columns: tuple = ()) -> list[dict]:
    """The rows of a JSON Lines file; FileProblem names the line that is broken or lacks a column."""
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


def write_manifest(folder: Path, facts: dict) -> None:
    """Record sha256 and size of every file below `folder`, with how they were made."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    entries = {
        p.relative_to(folder).as_posix(): {"sha256": sha256(p), "bytes": p.stat().st_size}
        for p in files
        if p.name != "README.md"
    }
    write_json(folder / MANIFEST, facts | {"files": entries})


def refresh_manifest(written: Path) -> None:
    """Take what was written to `data/` after `make data` into its manifest; elsewhere there is none."""
    if not written.resolve().is_relative_to(DATA):
        return
    facts = read_json(DATA / MANIFEST)
    del facts["files"]
    write_manifest(DATA, facts)


def verify(path: Path) -> None:
    """Hold a shipped file, or a folder of them, against the manifest of `data/`.

    FileProblem names the first file that is missing, cut short or altered. Paths outside `data/`
    are the learner's own and are not held against anything.
    """
    path = path.resolve()
    if not path.is_relative_to(DATA) or not (DATA / MANIFEST).exists():
        return
    inside = path.relative_to(DATA).as_posix()
    for name, entry in read_json(DATA / MANIFEST)["files"].items():
        if name != inside and not name.startswith(inside + "/"):
            continue
        file = DATA / name
        mend = "; `git checkout data` or `make data` brings it back."
        if not file.is_file():
            raise FileProblem(f"data/{name} is missing{mend}")
        if file.stat().st_size != entry["bytes"]:
            got, wants = file.stat().st_size, entry["bytes"]
            raise FileProblem(f"data/{name} has {got} bytes instead of {wants}{mend}")
        if sha256(file) != entry["sha256"]:
            raise FileProblem(f"data/{name} was altered: its sha256 is not the manifest's{mend}")


def load_rows(name: str, columns: tuple = ()) -> list[dict]:
    """Rows of a shipped JSON Lines file, by its name below `data/`, after checking it."""
    verify(DATA / name)
    return read_jsonl(DATA / name, columns)
