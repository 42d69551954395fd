"""The drift page against axe-core's rules, and what axe leaves undecided: text inside pictures.

Widgets in JupyterLab: every slider and picture has a name.
"""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.notebook_page import open_cells
from tests.browser.test_drift_page import opened

UNFOLD = "() => document.querySelectorAll('details').forEach(one => one.open = true)"
LEAST = 4.5  # WCAG 2.2, 1.4.3: contrast of text and its background
# the contrast of each text of an SVG with the background of what it stands in, and the text
CONTRASTS = """() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = colour => channels(colour).slice(0, 3)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const clear = colour => channels(colour)[3] === 0;
  const behind = one => {
    while (clear(getComputedStyle(one).backgroundColor)) one = one.parentElement;
    return luminance(getComputedStyle(one).backgroundColor);
  };
  return [...document.querySelectorAll("svg text")]
    .filter(text => text.textContent && getComputedStyle(text).visibility !== "hidden")
    .map(text => {
      const pair = [luminance(getComputedStyle(text).fill), behind(text.closest("svg"))];
      return [(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), text.textContent];
    });
}"""


@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("width", (320, 1280))
def test_no_fault_of_accessibility_is_found(browser, scheme, width):
    link = "#beta=0.03&iteration=40&prompt=2"
    with opened(browser, link, width, color_scheme=scheme, reduced_motion="reduce") as page:
        page.evaluate(UNFOLD)
        found = Axe().run(page).response
        assert [
            (one["id"], one["impact"], one["nodes"][0]["html"]) for one in found["violations"]
        ] == []
        assert len(found["passes"]) > 40
        assert {one["id"] for one in found["incomplete"]} <= {"color-contrast"}  # of pictures
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 15
        assert [text for ratio, text in contrasts if ratio < LEAST] == []


EXPLORER = """
import sys
sys.path.insert(0, "..")
import ipywidgets
from helpers.plots.base import label_axes, one_panel
from helpers.widgets.sliders import Explorer, slider, stops

def draw(height, beta):
    figure, axes = one_panel(4, 2)
    label_axes(axes, f"Height {height}", "x", "y")
    return figure

explorer = Explorer(draw, height=slider("height", 1, 0, 5, 1), beta=stops("β", [0, 0.1]))
explorer
"""
LATER = """
upright = ipywidgets.FloatSlider(description="upright", orientation="vertical", readout=False)
explorer.box.children += (upright,)
"""
NAMED = {"runOnly": ["aria-input-field-name", "image-alt"]}


@pytest.mark.timeout(300)
def test_every_slider_and_picture_of_an_explorer_has_a_name(browser, course, lab):
    with open_cells(browser, course, lab, "notebooks/names.ipynb", [EXPLORER]) as notebook:
        page, handles = notebook.page, notebook.page.locator("[role=slider]")
        page.locator("[role=slider][aria-label='β']").wait_for(timeout=10_000)
        notebook.run_below(LATER)
        page.locator("[role=slider][aria-label='upright']").wait_for(timeout=10_000)
        assert [one.get_attribute("aria-label") for one in handles.all()] == [
            "height",
            "β",
            "upright",
        ]
        picture = page.locator(".jp-OutputArea img.widget-image")
        assert picture.get_attribute("alt") == "Height 1; x, y"
        handles.first.press("ArrowRight")
        page.locator("img[alt='Height 2; x, y']").wait_for(timeout=10_000)
        assert Axe().run(page, ".jp-OutputArea", NAMED).response["violations"] == []
        assert notebook.problems == []
