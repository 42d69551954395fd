"""The drift explorer in JupyterLab: its page moves with and without its wire to Python, and runs join it."""

import json
import re

import pytest

from tests.browser.test_drift_page import number

from .notebook_page import open_cells

pytest.importorskip("anywidget", reason="no anywidget here: the page stays plain HTML")
pytestmark = pytest.mark.timeout(600)

EXPLORER = """
from helpers.studies.beta_sweep import load_sweep
from helpers.page.explorer import explore_drift

sweep = load_sweep()
explorer = explore_drift(sweep)
explorer
"""
FOLLOW = """
import json
import ipywidgets

said = ipywidgets.HTML().add_class("said")

def follow(change=None):
    said.value = json.dumps({"beta": explorer.beta.value, "iteration": explorer.iteration.value})

for control in (explorer.beta, explorer.iteration):
    control.observe(follow, names="value")
follow()
said
"""
GROW = """
import copy

grown = copy.deepcopy(sweep.run(sweep.betas[-1], 0))
history = [row | {"score": 40 * row["score"]} for row in grown.history]
grown.final = {}

def grow(count):
    grown.history = history[:count]
    explorer.add_run(grown, own_reward=True)
"""
PLACES = "all => all.map(one => one.getAttribute('cy'))"


@pytest.fixture(scope="module")
def live(browser, course, lab):
    """The explorer with its wire, what Python follows, a run that can grow."""
    cells = [EXPLORER, FOLLOW, GROW]
    with open_cells(browser, course, lab, "notebooks/live.ipynb", cells) as notebook:
        plain = notebook.page.locator("iframe[id]")
        notebook.wait_until(plain.is_hidden, 60, "the live page")
        yield notebook
        assert notebook.problems == []  # the console is quiet


def look_at_page(notebook):
    """The one page that is shown, in view: out of sight a frame draws nothing."""
    frames = notebook.page.locator("iframe[title*='drift explorer']:visible")
    frames.first.scroll_into_view_if_needed()
    assert frames.count() == 1
    return frames.content_frame


def wait_for_text(notebook, selector: str, wanted: str) -> None:
    """Look at the page until a text in it matches this expression."""
    at = lambda: look_at_page(notebook).locator(selector, has_text=re.compile(wanted))  # noqa: E731
    notebook.wait_until(lambda: at().count(), 120, wanted)


def inside(notebook):
    """The page that is seen, as a frame; it no longer plays."""
    frame = look_at_page(notebook)
    if frame.locator("#play").get_attribute("aria-label") == "Pause":
        frame.locator("#play").click()
    return frame


def python_says(notebook) -> dict:
    return json.loads(notebook.page.locator(".said").inner_text())


def test_the_live_page_takes_the_plain_one_s_place_and_opens_before_any_update(live):
    assert live.errors() == []
    frame = look_at_page(live)
    assert frame.locator("#iteration").input_value() == "0"
    assert frame.locator("#which option").count() > 2  # samples: the plain one has two


def test_a_key_on_the_page_is_heard_in_python(live, sweep):
    frame = inside(live)
    frame.locator("#beta").press("Home")
    frame.locator("#iteration").press("End")
    for _ in sweep.betas[1:]:
        frame.locator("#beta").press("ArrowRight")
    last = sweep.run(sweep.betas[-1], 0)
    wanted = {"beta": sweep.betas[-1], "iteration": len(last.history)}
    live.wait_until(lambda: python_says(live) == wanted, 20, "Python's controls")
    assert number(frame, "kl") == pytest.approx(last.final["kl"], abs=6e-3)


def test_a_move_in_python_is_seen_on_the_page(live, sweep):
    frame = inside(live)
    frame.locator("#beta").press("Home")
    live.wait_until(lambda: python_says(live)["beta"] == sweep.betas[0], 20, "the left end")
    live.run_below("explorer.beta.value = sweep.betas[-1]")
    wait_for_text(live, "#beta-now", f"^β = {sweep.betas[-1]:g}$")


def test_a_run_joins_grows_and_the_plane_makes_room(live, sweep):
    frame, largest = inside(live), sweep.betas[-1]
    stops = frame.locator("#stops span").count()
    live.run_below("grow(5)")
    wait_for_text(live, "#beta-now", f"^yours: β = {largest:g}$")
    assert frame.locator("#stops span").count() == stops + 1
    assert frame.locator("#iteration-now").inner_text().startswith("4 of")
    before = frame.locator("#plane circle.end").evaluate_all(PLACES)
    live.run_below("grow(50)")
    wait_for_text(live, "#iteration-now", "^49 of")
    assert frame.locator("#plane circle.end").evaluate_all(PLACES) != before
    assert frame.locator("#seed").is_disabled()
    frame.locator("#iteration").press("End")
    dot = frame.locator("#plane circle.dot").bounding_box()
    plane = frame.locator("#plane").bounding_box()
    assert plane["y"] <= dot["y"] <= plane["y"] + plane["height"]


def test_the_page_trains_with_the_models_that_python_gives(live):
    frame = inside(live)
    frame.locator("#train-box summary").first.click()
    frame.locator("#train-go").click()
    wait_for_text(live, "#train-progress", "update 1 of")
    assert frame.locator("#beta-now").inner_text().startswith("run\u00a01: β = ")
    frame.locator("#train-stop").click()
    assert live.errors() == []
