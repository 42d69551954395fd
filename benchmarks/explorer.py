"""`python -m benchmarks.explorer`: from key press to pixels on the drift page, and memory after many moves.

Opens the page in a real chromium and moves β by keyboard: `--where file` (from the disk), or `lab` (live in
JupyterLab). A move takes from the key to the end of the next animation frame; keys come at moments that have
nothing to do with the screen's frames, as a hand's do. `--in-step` presses each right after a frame, so
that a whole frame (16.7 ms at 60 Hz) is waited for: the longest there is. `--busy`: while a training runs,
in the page's own kernel where it has one. `--playing`: while the page plays its film.
Needs chromium and playwright (tests/requirements.txt).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import nbformat

from benchmarks.common import command
from helpers.commands.explorer import PAGE
from helpers.page.drift_page import export
from helpers.tools.files import ROOT
from helpers.tools.flags import setting
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
OPENED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WAIT = 50  # milliseconds: three frames
NOTEBOOK, BEAT = "explorer.ipynb", "beat"  # the training touches `beat` at each iteration
TRAIN = f"""
from pathlib import Path
from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop

def train():
    for _ in train_rlhf_loop(RLHFConfig(iterations=10_000, device="cpu")):
        Path("{BEAT}").touch()
"""
# in the kernel's own loop, once the page has been drawn: until it ends the kernel answers nothing
SOON = "import asyncio\nasyncio.get_running_loop().call_later(10, train)"
SETTLED = 5  # seconds until the page is what it stays: at first its frame is drawn anew


# --- where the page is ----------------------------------------------------------------------------


@contextmanager
def as_file(chromium, folder: Path, busy: bool):
    """The page as one file from the disk, beside a training if `busy`; yields the frame that holds it."""
    export(folder / "drift.html")
    with training(folder) if busy else nullcontext():
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto((folder / "drift.html").as_uri() + "#iteration=0", timeout=120_000)
        page.wait_for_timeout(500)
        yield page.main_frame


@contextmanager
def training(folder: Path):
    """A training on one thread in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", TRAIN + "train()"]
    trainer = subprocess.Popen(words, cwd=folder, env=environment)
    try:
        wait_for_beat(folder)
        yield
    finally:
        trainer.kill()


def wait_for_beat(folder: Path, seconds: float = 120) -> None:
    """Until the training has ended an iteration from now on."""
    began = time.time()
    while not (folder / BEAT).exists() or (folder / BEAT).stat().st_mtime < began:
        if time.time() > began + seconds:
            raise RuntimeError("nothing trains beside the page")
        time.sleep(0.2)


@contextmanager
def in_lab(chromium, folder: Path, busy: bool):
    """The live page of the explorer's notebook, whose own kernel trains if `busy`."""
    book = nbformat.read(PAGE, as_version=4)
    if busy:
        book.cells.append(nbformat.v4.new_code_cell(TRAIN + SOON))
    nbformat.write(book, folder / NOTEBOOK)
    for name in ("helpers", "data"):
        (folder / name).symlink_to(ROOT / name)
    with serve_lab(folder) as address:
        page = chromium.new_page(viewport={"width": 1280, "height": 1400})
        NotebookPage(page, address, NOTEBOOK).run_all(seconds=300)
        page.locator(LIVE).scroll_into_view_if_needed(timeout=120_000)
        page.wait_for_timeout(1000 * SETTLED)
        if busy:
            wait_for_beat(folder)
        frame = page.locator(LIVE).element_handle().content_frame()
        stand_still(frame)
        yield frame
        page.close()


WHERE = {"file": as_file, "lab": in_lab}


# --- what is measured -----------------------------------------------------------------------------


def stand_still(frame) -> None:
    """The page opens playing; where it has played to its end, a click would start it again."""
    frame.evaluate("document.querySelector('#play[aria-label=Pause]')?.click()")


def play(frame) -> None:
    """From the first update on; the film lasts as long as 200 moves do."""
    frame.locator("#iteration").press("Home")
    frame.locator("#play[aria-label=Play]").click()


def move(frame, options: "Options") -> dict:
    """The times of the moves, sorted, then the heap before and after the long run."""
    frame.evaluate(MOVE, [20, 0])  # warm up
    if options.playing:
        play(frame)
    taken = sorted(frame.evaluate(MOVE, [options.moves, 0 if options.in_step else WAIT]))
    stand_still(frame)
    before = frame.evaluate(HEAP)
    frame.evaluate(MOVE, [options.long, 0])
    return {
        "moves": len(taken),
        "median_ms": statistics.median(taken),
        "p95_ms": taken[min(len(taken) - 1, round(0.95 * len(taken)))],
        "memory_MiB": before,
        "long": options.long,
        "memory_after_MiB": frame.evaluate(HEAP),
        "first_paint_ms": frame.evaluate(OPENED),
    }


def measure(options: "Options") -> dict:
    """Measure latency over the moves, then the heap over the long run."""
    from playwright.sync_api import sync_playwright

    flags = [*FLAGS, "--enable-precise-memory-info"]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        with WHERE[options.where](chromium, folder := Path(name), options.busy) as frame:
            found = move(frame, options)
            if options.busy:
                wait_for_beat(folder)  # it still trains
        chromium.close()
    return found | {"where": options.where, "load": os.getloadavg()[0]}


@dataclass
class Options:
    """Where the page is, and what else goes on."""

    where: str = setting("file", "a file from the disk, or live in JupyterLab", choices=list(WHERE))
    moves: int = setting(200, "timed")
    long: int = setting(1000, "more, for the heap")
    in_step: bool = setting(False, "each key right after a frame")
    busy: bool = setting(False, "while a training runs")
    playing: bool = setting(False, "while the page plays")


def run(options: Options) -> None:
    """Measure and print."""
    found = measure(options)
    print(f"key press to pixels, {found['moves']} moves of β (load {found['load']:.1f})")
    print(f"  median {found['median_ms']:.1f} ms, 95th percentile {found['p95_ms']:.1f} ms")
    print(
        f"heap {found['memory_MiB']:.1f} MiB, after {found['long']} more moves "
        f"{found['memory_after_MiB']:.1f} MiB"
    )
    print(json.dumps(found))


if __name__ == "__main__":
    command("explorer", __doc__, Options, run)
