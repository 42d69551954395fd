"""`python -m benchmarks.explorer`: from key press to pixels on the drift page, and memory after many moves.

Opens the page in a real chromium, as one file from the disk or (`--lab`) live in JupyterLab, and moves β
by keyboard. A move takes from the key to the end of the next animation frame. Needs chromium and
playwright (tests/requirements.txt).
"""

import argparse
import json
import os
import statistics
import tempfile
from contextlib import contextmanager
from pathlib import Path

from helpers.tools.files import ROOT
from helpers.widgets.drift_page import export
from tests.browser.conftest import CHROMIUM, FLAGS, serve_lab
from tests.browser.notebook_page import NotebookPage

LIVE = "iframe[title*='drift explorer']:visible"
# press keys to and fro, one a frame; milliseconds from each to the end of the frame that shows it
MOVE = """async (count) => {
  const ruler = document.getElementById("beta"), taken = [];
  const most = Number(ruler.getAttribute("aria-valuemax"));
  const frameDone = () => new Promise(done => requestAnimationFrame(() => {
    const {port1, port2} = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  }));
  let key = "ArrowRight";
  for (let at = 0; at < count; at++) {
    const place = Number(ruler.getAttribute("aria-valuenow"));
    if (place === most) key = "ArrowLeft";
    if (place === 0) key = "ArrowRight";
    const began = performance.now();
    ruler.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
    await frameDone();
    taken.push(performance.now() - began);
    if (Number(ruler.getAttribute("aria-valuenow")) === place) throw new Error("β did not move");
  }
  return taken;
}"""
HEAP = "() => performance.memory.usedJSHeapSize / 2 ** 20"
OPENED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@contextmanager
def bare(chromium):
    """The page as one file from the disk; yields the frame that holds it."""
    with tempfile.TemporaryDirectory() as folder:
        export(Path(folder) / "drift.html")
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto((Path(folder) / "drift.html").as_uri() + "#iteration=0", timeout=120_000)
        page.wait_for_timeout(500)
        yield page.main_frame


@contextmanager
def in_lab(chromium):
    """The live page of the explorer's own notebook in JupyterLab; yields its frame."""
    with serve_lab(ROOT) as address:
        page = chromium.new_page(viewport={"width": 1280, "height": 1400})
        opened = NotebookPage(page, address, "helpers/widgets/drift_explorer.ipynb")
        opened.run_all(seconds=300)
        page.locator(LIVE).scroll_into_view_if_needed()
        frame = page.locator(LIVE).element_handle().content_frame()
        frame.locator("#play").click()  # it opens playing
        yield frame
        opened.close()


def measure(moves: int, long: int, lab: bool) -> dict:
    """Measure latency over `moves` moves, then the heap over `long` more."""
    from playwright.sync_api import sync_playwright

    flags = [*FLAGS, "--enable-precise-memory-info"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        with (in_lab if lab else bare)(chromium) as frame:
            frame.evaluate(MOVE, 20)  # warm up
            taken = sorted(frame.evaluate(MOVE, moves))
            before = frame.evaluate(HEAP)
            frame.evaluate(MOVE, long)
            found = {
                "memory_after_MiB": frame.evaluate(HEAP),
                "first_paint_ms": frame.evaluate(OPENED),
            }
        chromium.close()
    return found | {
        "moves": len(taken),
        "median_ms": statistics.median(taken),
        "p95_ms": taken[min(len(taken) - 1, round(0.95 * len(taken)))],
        "memory_MiB": before,
        "long": long,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--long", type=int, default=1000)
    parser.add_argument("--lab", action="store_true", help="live in JupyterLab")
    options = parser.parse_args()
    found = measure(options.moves, options.long, options.lab)
    print(f"key press to pixels, {found['moves']} moves of β (load {found['load']:.1f})")
    print(f"  median {found['median_ms']:.1f} ms, 95th percentile {found['p95_ms']:.1f} ms")
    print(
        f"heap {found['memory_MiB']:.1f} MiB, after {found['long']} more moves "
        f"{found['memory_after_MiB']:.1f} MiB"
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
