"""The glossary: in order, one meaning each, every word used in the lesson it points to."""

import re

import nbformat
import pytest

from helpers.tools.files import ROOT

ROW = re.compile(r"\| (.+?) \| (.+) \| \[(\d\d)\]\((\w+\.ipynb)\) \|")
TEXT = (ROOT / "notebooks/glossary.md").read_text("utf-8")
ROWS = [found.groups() for found in map(ROW.fullmatch, TEXT.splitlines()) if found]
LETTERS = {"β": "beta", "γ": "gamma", "λ": "lambda", "π*": "pi"}


def plain(word: str) -> str:
    """A word as it is looked up: without what stands in brackets, Greek letters by name."""
    word = re.sub(r" \(.*\)", "", word).strip("`").lower()
    return LETTERS.get(word, word)


def test_every_row_is_read():
    table = [line for line in TEXT.splitlines() if line.startswith("|")]
    assert len(ROWS) == len(table) - 2 >= 50


def test_words_are_in_order_and_once():
    words = [plain(word) for word, *_ in ROWS]
    assert words == sorted(words, key=lambda word: word.replace("_", " ")) and len(
        set(words)
    ) == len(words)


@pytest.mark.parametrize(("word", "meaning", "number", "file"), ROWS, ids=[row[0] for row in ROWS])
def test_the_lesson_uses_the_word(word, meaning, number, file):
    assert file.startswith(number)
    cells = nbformat.read(ROOT / "notebooks" / file, as_version=4).cells
    prose = " ".join(cell.source for cell in cells if cell.cell_type == "markdown").lower()
    for one in re.sub(r" \(.*\)", "", word).strip("`").lower().split(", "):
        assert one in prose
