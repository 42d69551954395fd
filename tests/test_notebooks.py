"""What every saved notebook must be: run, clean, small, in the course's rhythm. (nbval runs them.)"""

import re
import statistics

import nbformat
import pytest

from helpers.storage import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PATHS = re.compile(r"/(?:root|work|tmp|home|Users)/[\w.]")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def test_it_is_valid_and_small(request, notebook):
    nbformat.validate(notebook)
    assert len(nbformat.writes(notebook)) <= 500_000


def test_it_was_saved_after_a_clean_run(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]


def test_it_names_no_machine(notebook):
    assert not PATHS.search(nbformat.writes(notebook))


def test_it_keeps_the_rhythm(notebook):
    lengths = sorted(len(cell.source.splitlines()) for cell in code_cells(notebook)[1:])
    assert statistics.median(lengths) <= 6
    assert lengths[int(0.9 * len(lengths))] <= 20 and lengths[-1] <= 40


def test_it_opens_and_closes_as_all_do(notebook):
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert re.match(r"# \d\d · ", text[0]) and "You will see" in text[0]
    assert "Take away" in text[-1] and "Papers" in text[-1] and "Next" in text[-1]


def test_it_has_pictures_and_checked_cells(notebook):
    cells = code_cells(notebook)
    assert any("image/png" in output.get("data", {}) for c in cells for output in c.outputs)
    assert any("NBVAL_CHECK_OUTPUT" in cell.source for cell in cells)


def test_the_setup_cell_is_the_same_everywhere():
    first = {code_cells(nbformat.read(path, as_version=4))[0].source for path in NOTEBOOKS}
    assert len(first) == 1 and len(first.pop().splitlines()) <= 12
