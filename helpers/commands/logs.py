"""Logs of training runs, as rows of numbers: TRL's state, CSV, JSON, JSON Lines, printed lines, folders."""

import ast
import csv
import json
import re
from pathlib import Path

from helpers.checkpoints import FACTS, list_checkpoints
from helpers.commands.results import METRICS
from helpers.studies.runs import RECORD
from helpers.tools.files import FileProblem

STATE = "trainer_state.json"
PAIR = re.compile(r"([\w./@-]+):(\S+)")  # as verl prints: step:3 - actor/entropy:0.31 - …

Row = dict[str, float]


def as_number(value: object) -> float | None:
    """A number, or a text that is one, as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def numbers(row: object) -> Row:
    """What is a number in a row."""
    row = row if isinstance(row, dict) else {}
    found = {str(name): as_number(value) for name, value in row.items()}
    return {name: value for name, value in found.items() if value is not None}


def rows_of(value: object) -> list[object]:
    """The rows of a JSON value: a list, or under `log_history` or `history`; columns become rows."""
    if isinstance(value, list):
        return value
    named = value if isinstance(value, dict) else {}
    for name in ("log_history", "history"):
        if name in named:
            return rows_of(named[name])
    columns = {name: column for name, column in named.items() if isinstance(column, list)}
    rows = zip(*columns.values(), strict=False)
    return [dict(zip(columns, row, strict=True)) for row in rows] if columns else [value]


def row_of_line(line: str) -> object:
    """The row in a printed line: a dict as TRL prints it, JSON, or `name:value` as verl does; else None."""
    braces = line[line.find("{") : line.rfind("}") + 1]
    for read in (json.loads, ast.literal_eval):
        try:
            return read(braces)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return dict(PAIR.findall(line)) if "step:" in line else None


def rows_of_text(text: str) -> list[object]:
    """The rows of a text: JSON as a whole, else line by line, else CSV."""
    try:
        return rows_of(json.loads(text))
    except (ValueError, RecursionError):
        pass
    rows = [row for row in map(row_of_line, text.splitlines()) if numbers(row)]
    if rows:
        return rows
    try:
        return list(csv.DictReader(text.splitlines()))
    except csv.Error:
        return []


def log_file(path: Path) -> Path:
    """The file with the metrics: the path itself, or of a folder the file that a run leaves in it."""
    if not path.is_dir():
        return path
    theirs = sorted(path.glob(f"checkpoint-*/{STATE}"), key=lambda file: file.stat().st_mtime)
    ours = [checkpoint / FACTS for checkpoint in list_checkpoints(path)]
    places = [path / METRICS, path / RECORD, path / STATE, *ours[-1:], *theirs[-1:]]
    found = [place for place in places if place.is_file()]
    if not found:
        raise FileProblem(f"{path} has no log: wants {METRICS}, {STATE} or a checkpoint in it.")
    return found[0]


def read_log(path: Path) -> list[Row]:
    """The rows of a log. FileProblem: it is missing, or has no row with a number."""
    path = log_file(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read ({problem.strerror}).") from None
    rows = [row for row in map(numbers, rows_of_text(text)) if row]
    if not rows:
        wants = "TRL's trainer_state.json, CSV, JSON Lines, or the lines that TRL or verl print"
        raise FileProblem(f"{path} has no row of numbers: wants {wants}.")
    return rows
