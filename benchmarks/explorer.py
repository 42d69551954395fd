"""`python -m benchmarks.explorer`: from key press to pixels on the drift page, and memory after many moves.

Opens the page in a real chromium, as one file from the disk or (`--lab`) live in JupyterLab, and moves β
by keyboard. A move takes from the key to the end of the next animation frame; keys come at moments that
have nothing to do with the screen's frames, as a hand's do. `--in-step` presses each right after a frame,
so that a whole frame (16.7 ms at 60 Hz) is waited for: the longest there is. `--busy`: beside a training;
in JupyterLab it is the notebook's own kernel that trains. `--playing`: while the page plays its film.
Needs chromium and playwright (tests/requirements.txt).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

from helpers.tools.files import ROOT
from helpers.widgets.drift_page import export
from tests.browser.conftest import CHROMIUM, FLAGS, serve_lab
from tests.browser.notebook_page import NotebookPage

LIVE = "iframe[title*='drift explorer']:visible"
# press keys to and fro, after a wait of up to so many ms; from each to the end of the frame that shows it
MOVE = """async ([count, most_wait]) => {
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
    if (most_wait) await new Promise(done => setTimeout(done, most_wait * Math.random()));
    const began = performance.now();
    ruler.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
    await frameDone();
    taken.push(performance.now() - began);
    if (Number(ruler.getAttribute("aria-valuenow")) === place) throw new Error("β did not move");
  }
  return taken;
}"""
HEAP = "() => performance.memory.usedJSHeapSize / 2 ** 20"
WAIT = 50  # milliseconds: three frames
TRAIN = "from helpers.config import RLHFConfig; from helpers.loop import train_rlhf_loop; "
TRAIN += "print(sum(1 for _ in train_rlhf_loop(RLHFConfig(iterations=10_000, device='cpu'))))"
STARTS = 10  # seconds until it trains
OPENED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@contextmanager
def bare(chromium, busy: bool):
    """The page as one file from the disk, beside a training if `busy`; yields the frame that holds it."""
    with tempfile.TemporaryDirectory() as folder, training() if busy else nullcontext():
        export(Path(folder) / "drift.html")
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto((Path(folder) / "drift.html").as_uri() + "#iteration=0", timeout=120_000)
        page.wait_for_timeout(500)
        yield page.main_frame


@contextmanager
def in_lab(chromium, busy: bool):
    """The live page of the explorer's own notebook in JupyterLab, its kernel training if `busy`."""
    with serve_lab(ROOT) as address:
        page = chromium.new_page(viewport={"width": 1280, "height": 1400})
        opened = NotebookPage(page, address, "helpers/widgets/drift_explorer.ipynb")
        opened.run_all(seconds=300)
        if busy:
            opened.run_below(TRAIN)
            page.wait_for_timeout(1000 * STARTS)
        page.locator(LIVE).scroll_into_view_if_needed()
        frame = page.locator(LIVE).element_handle().content_frame()
        stand_still(frame)
        yield frame
        if busy and not opened.running():
            raise RuntimeError("the kernel has stopped training: " + " ".join(opened.errors()))
        opened.close()


def stand_still(frame) -> None:
    """The page opens playing; where it has played to its end, a click would start it again."""
    frame.evaluate("document.querySelector('#play[aria-label=Pause]')?.click()")


@contextmanager
def training():
    """A training on one thread in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    trainer = subprocess.Popen([sys.executable, "-c", TRAIN], cwd=ROOT, env=environment)
    try:
        time.sleep(STARTS)
        yield
        if trainer.poll() is not None:
            raise RuntimeError("the training beside it has ended")
    finally:
        trainer.kill()


def play(frame) -> None:
    """From the first update on; the film lasts as long as 200 moves do."""
    frame.locator("#iteration").press("Home")
    frame.locator("#play[aria-label=Play]").click()


def measure(
    moves: int,
    long: int,
    lab: bool,
    busy: bool = False,
    wait: int = WAIT,
    playing: bool = False,
) -> dict:
    """Measure latency over `moves` moves, then the heap over `long` more."""
    from playwright.sync_api import sync_playwright

    flags = [*FLAGS, "--enable-precise-memory-info"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        with (in_lab if lab else bare)(chromium, busy) as frame:
            frame.evaluate(MOVE, [20, 0])  # warm up
            if playing:
                play(frame)
            taken = sorted(frame.evaluate(MOVE, [moves, wait]))
            stand_still(frame)
            before = frame.evaluate(HEAP)
            frame.evaluate(MOVE, [long, 0])
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
    parser.add_argument("--in-step", action="store_true", help="each key right after a frame")
    parser.add_argument(
        "--busy", action="store_true", help="beside a training; in the lab's kernel"
    )
    parser.add_argument("--playing", action="store_true", help="while the page plays")
    options = parser.parse_args()
    wait = 0 if options.in_step else WAIT
    found = measure(options.moves, options.long, options.lab, options.busy, wait, options.playing)
    print(f"key press to pixels, {found['moves']} moves of β (load {found['load']:.1f})")
    print(f"  median {found['median_ms']:.1f} ms, 95th percentile {found['p95_ms']:.1f} ms")
    print(
        f"heap {found['memory_MiB']:.1f} MiB, after {found['long']} more moves "
        f"{found['memory_after_MiB']:.1f} MiB"
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
