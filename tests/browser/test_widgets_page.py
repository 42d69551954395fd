"""Widgets in JupyterLab: every slider and picture has a name, and the labeller's keys are its own."""

import json
import urllib.request

import pytest
from axe_playwright_python.sync_playwright import Axe

from .notebook_page import open_cells

pytestmark = pytest.mark.timeout(300)

EXPLORER = """
import ipywidgets
from helpers.kit.figures import label_axes, one_panel
from helpers.kit.sliders import Explorer, slider, stops

def draw(height, beta):
    figure, axes = one_panel(4, 2)
    label_axes(axes, f"Height {height}", "x", "y")
    return figure

explorer = Explorer(draw, height=slider("height", 1, 0, 5, 1), beta=stops("β", [0, 0.1]))
explorer
"""
LABELLER = """
from helpers.lessons.reward_model.labelling import Labeller
Labeller([{"prompt": f"{k} soups", "A": "were good.", "B": "were bad."} for k in range(3)])
"""
LATER = """
upright = ipywidgets.FloatSlider(description="upright", orientation="vertical", readout=False)
explorer.box.children += (upright,)
"""
NAMED = {"runOnly": ["aria-input-field-name", "image-alt"]}
PATH = "notebooks/widgets.ipynb"


@pytest.fixture(scope="module")
def notebook(browser, course, lab):
    with open_cells(browser, course, lab, PATH, [EXPLORER, LABELLER]) as opened:
        yield opened
    left = json.load(urllib.request.urlopen(f"{lab}/api/sessions"))
    assert PATH not in [session["path"] for session in left]  # its kernel has ended


def test_every_slider_and_picture_of_an_explorer_has_a_name(notebook):
    page, handles = notebook.page, notebook.page.locator("[role=slider]")
    page.locator("[role=slider][aria-label='β']").wait_for(timeout=10_000)
    notebook.run_below(LATER)
    page.locator("[role=slider][aria-label='upright']").wait_for(timeout=10_000)
    names = [one.get_attribute("aria-label") for one in handles.all()]
    assert names == ["height", "β", "upright"]
    picture = page.locator(".jp-OutputArea img.widget-image")
    assert picture.get_attribute("alt") == "Height 1; x, y"
    handles.first.press("ArrowRight")
    page.locator("img[alt='Height 2; x, y']").wait_for(timeout=10_000)
    assert Axe().run(page, ".jp-OutputArea", NAMED).response["violations"] == []
    assert notebook.problems == []


def test_letters_typed_beside_the_labeller_leave_the_notebook_alone(notebook):
    page, cells = notebook.page, notebook.page.locator(".jp-Notebook .jp-Cell")
    before = cells.count()
    page.locator("[data-lm-suppress-shortcuts=true]").first.wait_for(timeout=10_000)
    page.get_by_role("button", name="A is better").click()
    page.keyboard.press("b")  # JupyterLab's "insert a cell below"
    page.keyboard.press("a")
    notebook.wait_until(lambda: "1 of 3" in page.locator("body").inner_text(), 10, "an answer")
    assert cells.count() == before
