"""A lesson as it is saved, turned into HTML and served as files: the drift page moves without a kernel."""

import functools
import http.server
import threading

import nbformat
import pytest
from nbconvert import HTMLExporter

from helpers.studies.beta_sweep import load_sweep
from helpers.tools.files import ROOT
from tests.browser.test_drift_page import FRAMES

LESSON = ROOT / "notebooks/07_kl_beta_sweeps.ipynb"
FRAME = "iframe[title*='drift explorer']"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture
def address(tmp_path):
    """Where the lesson's cells with the page are served."""
    lesson = nbformat.read(LESSON, as_version=4)
    lesson.cells = [cell for cell in lesson.cells if "drift explorer" in str(cell.get("outputs"))]
    html, _ = HTMLExporter().from_notebook_node(lesson)
    (tmp_path / "lesson.html").write_text(html, "utf-8")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/lesson.html"
        server.shutdown()


def test_the_page_moves_in_a_saved_notebook(browser, address):
    sweep, page = load_sweep(), browser.new_page(viewport={"width": 1280, "height": 1000})
    page.route(
        lambda url: not url.startswith(address.rpartition("/")[0]), lambda route: route.abort()
    )
    page.goto(address)
    inside = page.frame_locator(FRAME).first
    assert inside.locator("#iteration").input_value() == "0"  # it waits for its reader
    for key, beta in (("Home", sweep.betas[0]), ("End", sweep.betas[-1])):
        inside.locator("#beta").press(key)
        inside.locator("#iteration").press("End")
        inside.locator("body").evaluate(FRAMES)
        shown = float(inside.locator("#kl").inner_text().replace("−", "-"))
        assert shown == pytest.approx(sweep.run(beta, 0).final["kl"], rel=0.002, abs=0.006)
    page.close()
