"""Files of data/ and their manifest; preference pairs from a file."""

import os
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from helpers.prompts import chat_text
from helpers.tools.files import (
    ROOT,
    FileProblem,
    read_json,
    read_jsonl,
    require_intact,
    sha256,
    write_json,
)
from helpers.tools.validate import require, require_count

DATA = ROOT / "data"
MANIFEST = "manifest.json"
DRIVE = Path("/content/drive/MyDrive")  # where Colab mounts a learner's Drive


def work_folder() -> Path:
    """Folder for a learner's labels, runs and checkpoints; created if missing.

    `RLHF_COURSE_WORK` if set, else a folder on Drive if it is mounted (Colab), else `my_course/`
    in the course's root.
    """
    chosen = os.environ.get("RLHF_COURSE_WORK")
    folder = Path(chosen) if chosen else (DRIVE if DRIVE.is_dir() else ROOT) / "my_course"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_folder(name: str | Path) -> Path | None:
    """The folder with this name, in the working directory or the course's root; None for a hub name.

    FileProblem: a missing path. A name is a path if it starts with `.`, `/`, `~` or a folder of the
    course, so that a misspelt path never starts a download.
    """
    path, text = Path(name).expanduser(), str(name).strip()
    for candidate in (path, ROOT / path) if text else ():
        if candidate.is_dir():
            return candidate.resolve()
    if not text or text[0] in "./~" or path.parts[0] in ("data", "my_course"):
        raise FileProblem(f"No folder {str(name)!r}: wants a model folder or a hub name.")
    return None


def write_manifest(folder: Path, facts: dict) -> None:
    """Write the manifest of `folder`: `facts`, and sha256 and size of every file below it."""
    entries = {
        p.relative_to(folder).as_posix(): {"sha256": sha256(p), "bytes": p.stat().st_size}
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in (MANIFEST, "README.md")
    }
    write_json(folder / MANIFEST, facts | {"files": entries})


def refresh_manifest(written: Path) -> None:
    """Update the manifest after writing a file below `data/`; does nothing elsewhere."""
    if not written.resolve().is_relative_to(DATA):
        return
    facts = read_json(DATA / MANIFEST)
    del facts["files"]
    write_manifest(DATA, facts)


def verify(path: Path) -> None:
    """Check a shipped file, or a folder of them, against the manifest of `data/`.

    FileProblem: the first file that is missing, cut short or altered. Paths outside `data/` are not
    checked.
    """
    path = path.resolve()
    if not path.is_relative_to(DATA) or not (DATA / MANIFEST).exists():
        return
    inside = path.relative_to(DATA).as_posix()
    mend = "; `git checkout data` or `make data` restores it"
    for name, entry in read_json(DATA / MANIFEST)["files"].items():
        if name == inside or name.startswith(inside + "/"):
            require_intact(DATA / name, entry["sha256"], mend)


def load_rows(name: str, columns: tuple = ()) -> list[dict]:
    """Rows of a JSON Lines file below `data/`, after checking the file against the manifest."""
    verify(DATA / name)
    return read_jsonl(DATA / name, columns)


# --- preference pairs -----------------------------------------------------------------------------

SIDES = ("chosen", "rejected")
COLUMNS = ("prompt", *SIDES)


def check_pairs(rows: list[dict], where: str) -> list[dict]:
    """Keep only the three columns of each row. FileProblem: no rows, or a row without three texts.

    A response may be empty (the policy stopped at once), but not both of a pair.
    """
    if not rows:
        raise FileProblem(f"{where} has no pairs, wants at least one row with {list(COLUMNS)}.")
    for number, row in enumerate(rows, start=1):
        for name in COLUMNS:
            if name not in row:
                raise FileProblem(f"{where}, row {number}: no {name!r}, only {sorted(row)}.")
            if not isinstance(row[name], str):
                got = str(row[name])[:40]
                raise FileProblem(f"{where}, row {number}: {name!r} is {got!r}, wants a text.")
        if not row["chosen"].strip() and not row["rejected"].strip():
            raise FileProblem(f"{where}, row {number}: both responses are empty, wants a text.")
    return [{name: row[name] for name in COLUMNS} for row in rows]


def as_pairs(
    rows: list[dict], tokenizer: PreTrainedTokenizerBase | None = None, plain: bool = False
) -> list[dict]:
    """Preference rows in any usual form → `{prompt, chosen, rejected}` texts; text rows stay as they are.

    The answers are texts or messages, also after a conversation. Without a `prompt`, it is what both
    begin with. Conversations need the `tokenizer`; with `plain` their prompts are without the template's
    special tokens, as a reward sees texts. ValueError: answers of two kinds, with nothing in common or no
    difference, or that are not one message of the assistant.
    """
    return [_as_pair(row, tokenizer, plain) for row in rows]


def _as_pair(row: dict, tokenizer: PreTrainedTokenizerBase | None, plain: bool) -> dict:
    """One row in any usual form as texts; what is no pair is left to `check_pairs`."""
    answers, asked = [row.get(side) for side in SIDES], row.get("prompt")
    texts = all(isinstance(answer, str) for answer in answers)
    if all(isinstance(answer, list) for answer in answers):
        if asked is None:
            shared = _shared(*answers)
            asked, answers = answers[0][:shared], [answer[shared:] for answer in answers]
        answers = [_content(answer) for answer in answers]
    elif texts and "prompt" not in row:
        words = [answer.split(" ") for answer in answers]
        asked = " ".join(words[0][: _shared(*words)])
        answers = [answer[len(asked) :].lstrip(" ") for answer in answers]
    elif not texts or not isinstance(asked, list):
        return row
    if isinstance(asked, list):
        require(tokenizer is not None, "pairs", "messages", "a tokenizer, for its chat template")
        asked = chat_text(tokenizer, asked)
        if plain:
            asked = tokenizer.decode(tokenizer(asked)["input_ids"], skip_special_tokens=True)
    wants = "two answers that begin alike and end differently, or a prompt"
    got = repr(asked + " …")[:60] if asked else "answers with nothing in common"
    require(bool(asked) and all(answers) and answers[0] != answers[1], "pairs", got, wants)
    return row | {"prompt": asked} | dict(zip(SIDES, answers, strict=True))


def _shared(one: list, other: list) -> int:
    """How many elements both lists begin with."""
    both = zip(one, other, strict=False)
    return next((k for k, (a, b) in enumerate(both) if a != b), min(len(one), len(other)))


def _content(answer: list) -> str:
    """The text of an answer that is one message of the assistant. ValueError: it is not."""
    message = answer[0] if len(answer) == 1 and isinstance(answer[0], dict) else {}
    right = message.get("role") == "assistant" and isinstance(message.get("content"), str)
    wants = "one message of the assistant each"
    require(right, "chosen, rejected", repr(answer)[:60], wants)
    return message["content"]


def load_pairs(
    name: str, count: int | None = None, tokenizer: PreTrainedTokenizerBase | None = None
) -> list[dict]:
    """Load `{prompt, chosen, rejected}` rows from a JSON Lines file, its name from here or the course's root.

    Rows without a prompt, and conversations (with the policy's `tokenizer`), become such: `as_pairs`; it
    takes the rows of a data set of the hub too. FileProblem: missing file, other columns.
    """
    if count is not None:
        require_count("count", count)
    shipped = (ROOT / name).is_relative_to(DATA) and (ROOT / name).exists()
    path = Path(name).expanduser()
    rows = load_rows(str(Path(name).relative_to("data"))) if shipped else read_jsonl(path)
    return check_pairs(as_pairs(rows[:count], tokenizer), name)
