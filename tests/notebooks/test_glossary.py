"""The glossary: in order, one meaning each, each used in its lesson; and words that nothing here uses."""

import re

import nbformat
import pytest

from helpers.tools.files import ROOT

ROW = re.compile(r"\| (.+?) \| (.+) \| \[(\d\d)\]\((\w+\.ipynb)\) \|")
TEXT, PRIVATE = (ROOT / "notebooks/glossary.md").read_text("utf-8").split("## Not these words")
ROWS = [found.groups() for found in map(ROW.fullmatch, TEXT.splitlines()) if found]
LETTERS = {"β": "beta", "γ": "gamma", "λ": "lambda", "π*": "pi"}


def plain(word: str) -> str:
    """A word as it is looked up: without what stands in brackets, Greek letters by name."""
    word = re.sub(r" \(.*\)", "", word).strip("`").lower()
    return LETTERS.get(word, word)


def test_every_row_is_read_and_words_are_in_order_and_once():
    table = [line for line in TEXT.splitlines() if line.startswith("|")]
    assert len(ROWS) == len(table) - 2 >= 50
    words = [plain(word) for word, *_ in ROWS]
    assert words == sorted(set(words), key=lambda word: word.replace("_", " "))


@pytest.mark.parametrize(("word", "meaning", "number", "file"), ROWS, ids=[row[0] for row in ROWS])
def test_the_lesson_uses_the_word(word, meaning, number, file):
    assert file.startswith(number)
    cells = nbformat.read(ROOT / "notebooks" / file, as_version=4).cells
    prose = " ".join(cell.source for cell in cells if cell.cell_type == "markdown").lower()
    for one in re.sub(r" \(.*\)", "", word).strip("`").lower().split(", "):
        assert one in prose


def course_text(path):
    """A file's own words; of a notebook its cells."""
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


def test_nothing_says_what_only_this_course_would_say():
    rows = [line.split("|")[1] for line in PRIVATE.splitlines() if line.startswith("| ")][1:]
    phrases = [re.escape(phrase.strip()) for row in rows for phrase in row.split(",")]
    private = re.compile(rf"(?<![\w.])({'|'.join(phrases)})(?![\w(])", re.IGNORECASE)
    files = [ROOT / "README.md", ROOT / "notebooks/README.md", *ROOT.glob("notebooks/*.ipynb")]
    files += [path for kind in ("*.py", "*.md") for path in ROOT.glob(f"helpers/**/{kind}")]
    found = [
        f"{path.relative_to(ROOT)}: …{text[max(0, hit.start() - 30) : hit.end() + 30]!r}"
        for path in files
        if path.name not in ("grammar.py", "lexicon.py")  # a review's words
        for text in [course_text(path)]
        for hit in private.finditer(text)
    ]
    assert len(phrases) > 20
    assert not found, "\n".join(found)
