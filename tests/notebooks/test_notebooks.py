"""What every saved notebook must be: run, clean, small, in the course's rhythm. (nbval runs them.)"""

import ast
import html
import re
import statistics

import nbformat
import pytest
from exercises import NOTEBOOKS
from nbconvert import HTMLExporter

from helpers.tools.files import ROOT

PATHS = re.compile(r"/(?:root|work|tmp|home|Users)/[\w.]")
GLOSSARY = ROOT / "notebooks/glossary.md"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def test_it_is_valid_and_small_and_names_no_machine(notebook):
    nbformat.validate(notebook)
    written = nbformat.writes(notebook)
    assert len(written) <= 500_000 and not PATHS.search(written)


def test_it_was_saved_after_a_clean_run(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]


def test_it_keeps_the_rhythm(notebook):
    lengths = sorted(len(cell.source.splitlines()) for cell in code_cells(notebook)[2:])
    assert statistics.median(lengths) <= 6
    assert lengths[int(0.9 * len(lengths))] <= 20 and lengths[-1] <= 40


def test_it_opens_and_closes_as_all_do(notebook):
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert re.match(r"# \d\d · ", text[0]) and "You will see" in text[0]
    assert "Take away" in text[-1] and "Papers" in text[-1] and "Next" in text[-1]


MINUTES = re.compile(r"\*(\d+) minutes to read((?:, label)? and write)?")
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
AN_EXERCISE = re.compile(r"(?:●[●○]{2}|think)[^\n]*?(\d+) minutes")
EXERCISES = re.compile(r"(\d+)(?: minutes)?(?: more)? for the (?:\w+ )?exercises")


def visible_lines(cell) -> int:
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        return 0
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def test_it_says_truthfully_how_long_it_takes(notebook):
    """115 words a minute, 20 seconds a code cell, 3 a line of visible code; exercises as each says.

    Within a tenth, with what is folded or without. Nineteen readings took 0.75 to 1.4 times as long.
    """
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    cells = code_cells(notebook)
    at_code = len(cells) / 3 + sum(map(visible_lines, cells)) / 20
    at_exercises = sum(map(int, AN_EXERCISE.findall(text)))
    said, more = MINUTES.search(text), EXERCISES.search(text)
    if said[2]:
        at_code += at_exercises
    least, most = (len(x.split()) / 115 + at_code for x in (FOLDED.sub("", text), text))
    assert int(said[1]) >= 0.9 * least
    assert "label" in (said[2] or "") or int(said[1]) <= 1.1 * most
    assert not more or abs(int(more[1]) - at_exercises) <= 5


def test_it_has_pictures_and_checked_cells(notebook):
    cells = code_cells(notebook)
    assert any("image/png" in output.get("data", {}) for c in cells for output in c.outputs)
    tags = {tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])}
    assert "nbval-check-output" in tags  # a misspelt one would check nothing
    assert tags <= {"nbval-check-output", "nbval-ignore-output"}
    assert not any("NBVAL" in cell.source for cell in notebook.cells)


ASKS = re.compile(r"^predict_\w+\(", re.M)
RELATIVE = re.compile(r"\]\((?!https?:|#|attachment:)([^)\s]+)\)")


def test_relative_links_lead_to_notebooks_that_are_there(notebook):
    """Colab opens a notebook alone: it may need no file beside it, only name pages to read."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for link in RELATIVE.findall(text):
        path = ROOT / "notebooks" / link
        assert path in (*NOTEBOOKS, GLOSSARY) or (link.startswith("../docs/") and path.is_file())
    assert not re.search(r"<img(?![^>]*alt=)", text)
    assert not re.search(r"<(?:img|a)[^>]*(?:src|href)=[\"'](?!https?:|data:|#)", text)


@pytest.mark.parametrize("number", range(len(NOTEBOOKS)), ids=lambda n: NOTEBOOKS[n].stem)
def test_next_is_a_link_to_the_next_notebook(number):
    last = nbformat.read(NOTEBOOKS[number], as_version=4).cells[-1].source
    words = last[last.index("**Next**") :]
    if number + 1 < len(NOTEBOOKS):
        following = NOTEBOOKS[number + 1]
        title = nbformat.read(following, as_version=4).cells[0].source.splitlines()[0]
        name, link = re.match(r"\*\*Next\*\*: \[([^]]+)\]\(([^)]+)\): ", words).groups()
        assert link == following.name and title.removeprefix("# ").startswith(name)
    else:
        assert RELATIVE.search(words)


def test_no_address_is_named_that_is_not_given():
    """Code is fetched from where a notebook was opened or what the reader names, from nowhere else."""
    pages = [ROOT / "README.md", ROOT / "pyproject.toml", *NOTEBOOKS]
    text = "\n".join(page.read_text() for page in pages)
    named = set(re.findall(r"github\.com/([\w.-]+/[\w.-]+)", text))
    assert named <= set(re.findall(r"google\.com/github/([^/]+/[^/]+)/blob/", text))
    assert "rlhf-course/rlhf-course" not in named  # stood here once, and nobody owned it
    for path in NOTEBOOKS:
        setup = "\n".join(cell.source for cell in code_cells(nbformat.read(path, as_version=4))[:2])
        assert not re.search(r"https?://(?![{…])(?!github\\\.com/\[)", setup)


def test_no_question_shows_its_own_answer(notebook):
    asks = [cell for cell in code_cells(notebook) if ASKS.search(cell.source)]
    for cell in asks:  # folded in JupyterLab, and as a form in Colab
        assert cell.metadata["jupyter"]["source_hidden"] and cell.metadata["cellView"] == "form"
        assert cell.source.startswith("# @title ")


def predictions(source: str) -> list[ast.Call]:
    """The calls of a cell that ask for a prediction."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "id", "").startswith("predict_")]


def test_a_question_was_saved_as_it_is_asked(notebook):
    """Where no kernel runs, the saved words are what is read: question, choices and explanation."""
    for cell in code_cells(notebook):
        pages = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        saved = html.unescape("".join(pages))
        for call in predictions(cell.source):
            choices = ast.Tuple(call.args[1:2])  # or a truth, or an axis
            dicts = [node for node in ast.walk(choices) if isinstance(node, ast.Dict)]
            texts = call.args[:1] + call.args[2:] + [key for found in dicts for key in found.keys]
            texts += [word.value for word in call.keywords if word.arg == "explanation"]
            parts = [part for text in texts for part in getattr(text, "values", [text])]
            said = [part.value for part in parts if isinstance(part, ast.Constant)]
            stale = [words for words in said if isinstance(words, str) and words not in saved]
            assert not stale, (cell.id, stale)
            if dicts and dicts[0] in choices.elts:  # others add what the cell computes
                assert saved.count("<li>") == len(dicts[0].keys), cell.id


@pytest.mark.slow
def test_a_page_made_of_it_shows_no_answer_before_its_question(notebook):
    """nbconvert knows no folded source; it leaves out what its metadata call transient."""
    notebook.cells = [cell for cell in notebook.cells if ASKS.search(cell.source)]
    made, _ = HTMLExporter().from_notebook_node(notebook)
    assert made.count("Answer (decide first)") == len(notebook.cells) and "predict_" not in made


def test_a_folded_output_says_what_it_is(notebook):
    """JupyterLab shows the first line of the first text that it finds: nothing of a printed text."""
    for cell in code_cells(notebook):
        if cell.metadata.get("jupyter", {}).get("outputs_hidden") and "data" in cell.outputs[0]:
            data = cell.outputs[0]["data"]
            first = data.get("text/html", data.get("text/markdown", data["text/plain"]))
            if "text/html" in data or "image/png" in data:
                assert first.startswith(("Folded? Click", "<!-- Folded? Click")), cell.id


TELLS_NOTHING = {  # outputs below a prediction that do not answer it, by lesson and cell
    *(("01", "cell-033"), ("06", "c39"), ("07", "c019"), ("07", "c020")),
    *(("10", "c10-024"), ("10", "c10-082x"), ("10", "c10-084")),
    *(("13", cell) for cell in ("c043", "c058", "c059", "c060", "c081")),
}
EXERCISE = re.compile(r"\n(?:\w+ = )?check_\w+\(.*\);?$")


def test_no_output_below_a_question_answers_it(request, notebook):
    """The first output below a prediction, up to the next heading, is saved folded.

    Other predictions, exercises (they say what to write) and the cells of TELLS_NOTHING are passed over.
    """
    asked = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            asked = asked and not re.search(r"^#{2,3} (?!Exercise)", cell.source, re.M)
        elif ASKS.search(cell.source):
            asked = True
        elif asked and cell.outputs and not EXERCISE.search(cell.source):
            if (request.node.callspec.id[:2], cell.id) in TELLS_NOTHING:
                continue
            hidden = cell.metadata.get("jupyter", {}).get("outputs_hidden")
            assert hidden and cell.metadata.get("collapsed"), cell.id
            asked = False
