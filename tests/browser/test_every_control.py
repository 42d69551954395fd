"""Every notebook in a real browser: run all cells, then move every control once (`make nightly`)."""

import re

import pytest

from helpers.tools.files import ROOT

from .controls import find_controls, try_control
from .notebook_page import NotebookPage

NOTEBOOKS = sorted(path.relative_to(ROOT) for path in (ROOT / "notebooks").glob("*.ipynb"))
NOTEBOOKS += [path.relative_to(ROOT) for path in (ROOT / "helpers/page").glob("*.ipynb")]
CONTROLS = re.compile(r"_explorer\(|explore_(?!drift)\w+\(|\b(?:Explorer|Labeller)\(")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_control_moves_and_nothing_complains(browser, lab, path):
    notebook = NotebookPage(browser, lab, path.as_posix())
    notebook.run_all(seconds=900)
    problems = notebook.errors() + notebook.kernel_errors
    controls = find_controls(notebook)
    for control in controls:
        problems += try_control(control)
    notebook.close()
    assert problems + notebook.problems == []
    assert controls or not CONTROLS.search((ROOT / path).read_text(encoding="utf-8"))
