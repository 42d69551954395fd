"""The labeller in JupyterLab: its keys are its own."""

import json
import urllib.request

import pytest

from .notebook_page import open_cells

pytestmark = pytest.mark.timeout(300)

LABELLER = """
import sys
sys.path.insert(0, "..")
from helpers.widgets.labelling import Labeller
Labeller([{"prompt": f"{k} soups", "A": "were good.", "B": "were bad."} for k in range(3)])
"""


def test_letters_typed_beside_the_labeller_leave_the_notebook_alone(browser, course, lab):
    with open_cells(browser, course, lab, "notebooks/labeller.ipynb", [LABELLER]) as notebook:
        page, cells = notebook.page, notebook.page.locator(".jp-Notebook .jp-Cell")
        page.locator("[data-lm-suppress-shortcuts=true]").first.wait_for(timeout=10_000)
        page.get_by_role("button", name="A is better").click()
        page.keyboard.press("b")  # JupyterLab's "insert a cell below"
        page.keyboard.press("a")
        notebook.wait_until(lambda: "1 of 3" in page.locator("body").inner_text(), 10, "an answer")
        assert cells.count() == 1
    left = json.load(urllib.request.urlopen(f"{lab}/api/sessions"))
    assert "notebooks/labeller.ipynb" not in [
        session["path"] for session in left
    ]  # its kernel has ended
