"""`python -m benchmarks.explorer`: from key press to changed pixels, and memory after many moves.

Opens the drift explorer in JupyterLab in a real chromium and moves β by keyboard. A move ends when the
last changed picture is painted. Needs chromium and playwright (tests/requirements.txt).
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

from helpers.tools.files import ROOT
from tests.browser.conftest import CHROMIUM, FLAGS, serve_lab
from tests.browser.notebook_page import NotebookPage

# press a key, wait for the new pictures, return the milliseconds of each
MOVE = """(key) => new Promise((done) => {
  const images = [...document.querySelectorAll('.drift-explorer img')];
  const began = performance.now(), painted = [];
  for (const image of images) image.addEventListener('load', () => requestAnimationFrame(() => {
    painted.push(performance.now() - began);
    if (painted.length === 1) setTimeout(() => done(painted), 400);
  }), {once: true});
  setTimeout(() => done(painted), 3000);
  const code = key === 'ArrowRight' ? 39 : 37;
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown',
    {key, code: key, keyCode: code, bubbles: true, cancelable: true}));
})"""


def kernel_memory() -> float:
    """Resident MiB of the newest kernel on this machine."""
    newest = (0.0, 0.0)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"ipykernel" in (process / "cmdline").read_bytes():
                lines = (process / "status").read_text().splitlines()
                resident = next(int(line.split()[1]) for line in lines if "VmRSS" in line)
                newest = max(newest, (process.stat().st_ctime, resident / 1024))
        except (OSError, StopIteration):
            continue
    return newest[1]


def move(page, count: int, turn: int = 8) -> list[float]:
    """Walk β to and fro; milliseconds from key press to the last painted picture, of `count` moves.

    It turns round after every `turn` moves and at the slider's ends, where a key press moves nothing
    and is not counted. RuntimeError: no picture changes in either direction.
    """
    keys, taken, still = ["ArrowLeft", "ArrowRight"], [], 0
    while len(taken) < count:
        painted = page.evaluate(MOVE, keys[0])
        if painted:
            taken.append(max(painted))
        still = 0 if painted else still + 1
        if still == 2:
            raise RuntimeError("The explorer's pictures do not change, whichever arrow is pressed.")
        if not painted or len(taken) % turn == 0:
            keys.reverse()
    return taken


def measure(moves: int, long: int) -> dict:
    """Measure latency over `moves` moves, then memory over `long` more."""
    from playwright.sync_api import sync_playwright

    with serve_lab(ROOT) as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = chromium.new_page(viewport={"width": 1280, "height": 1400})
        opened = NotebookPage(page, address, "../helpers/widgets/drift_explorer")
        opened.run_all(seconds=300)
        opened.widget("drift-explorer").get_by_role("slider").first.focus()
        time.sleep(3)
        move(page, 8)  # warm up
        taken, before = sorted(move(page, moves)), kernel_memory()
        move(page, long)
        after = kernel_memory()
        chromium.close()
    return {
        "moves": len(taken),
        "median_ms": statistics.median(taken),
        "p95_ms": taken[min(len(taken) - 1, round(0.95 * len(taken)))],
        "memory_MiB": before,
        "memory_after_MiB": after,
        "long": long,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument("--long", type=int, default=500)
    options = parser.parse_args()
    found = measure(options.moves, options.long)
    print(f"key press to changed pixels, {found['moves']} moves of β (load {found['load']:.1f})")
    print(f"  median {found['median_ms']:.0f} ms, 95th percentile {found['p95_ms']:.0f} ms")
    print(
        f"kernel memory {found['memory_MiB']:.0f} MiB, after {found['long']} more moves "
        f"{found['memory_after_MiB']:.0f} MiB"
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
