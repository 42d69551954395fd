"""A lesson as it is saved, turned into an HTML file: the drift page moves without a kernel."""

import re

import nbformat
import pytest
from nbconvert import HTMLExporter

from helpers.tools.files import ROOT
from tests.browser.test_drift_page import number, press


def test_the_page_moves_in_a_saved_notebook(browser, sweep, tmp_path):
    book = nbformat.read(ROOT / "notebooks/07_kl_beta_sweeps.ipynb", as_version=4)
    book.cells = [cell for cell in book.cells if "drift explorer" in str(cell.get("outputs"))]
    html, _ = HTMLExporter().from_notebook_node(book)
    (tmp_path / "lesson.html").write_text(html, "utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.route(re.compile("^http"), lambda route: route.abort())
    page.goto((tmp_path / "lesson.html").as_uri())
    inside = page.frame_locator("iframe[title*='drift explorer']").first
    assert inside.locator("#iteration").input_value() == "0"  # it waits for its reader
    for key, beta in (("Home", sweep.betas[0]), ("End", sweep.betas[-1])):
        press(inside, "#beta", key)
        press(inside, "#iteration", "End")
        last = sweep.run(beta, 0).final["kl"]
        assert number(inside, "kl") == pytest.approx(last, rel=0.002, abs=0.006)
    page.close()
