"""`python -m tests.browser.film`, or `make film`: no test, but the README's film of the drift page."""

import io
import tempfile
from pathlib import Path

from PIL import Image

from helpers.page.drift_page import export
from helpers.studies.beta_sweep import Sweep, load_sweep
from helpers.tools.files import ROOT

from .conftest import CHROMIUM, FLAGS, FRAMES

OUT = ROOT / "notebooks" / "images" / "drift_explorer.gif"
MOST = 1_500_000  # bytes
WIDTH, SHARP = 900, 1.5  # pixels of the page; of the film for each of them
COLOURS = 64
HIDDEN = "header,.choices,#tour,#cue,footer,.card:has(#table),#sample-facts,.words details"
BEGUN = 0.1  # of a run: where the film begins
STEP, STOP, HOLD = 280, 340, 1200  # milliseconds: an update seen, a β seen, an end seen


def scenes(sweep: Sweep) -> list[tuple[float, int, int]]:
    """(β, iteration, milliseconds): the smallest β where texts were kept, then every β's last policy."""
    first = sweep.betas[0]
    run = sweep.run(first, sweep.shown_seeds[0])
    last = len(run.history)
    kept = [shot.iteration for shot in run.snapshots if BEGUN * last <= shot.iteration < last]
    told = [(first, iteration, STEP) for iteration in kept] + [(first, last, HOLD)]
    told += [(beta, last, STOP) for beta in sweep.betas[1:-1]]
    return told + [(sweep.betas[-1], last, HOLD)]


def look(page, beta: float, iteration: int) -> Image.Image:
    """The page at this view, from the controls to the plane."""
    link = f"#beta={beta:g}&iteration={iteration}&prompt=1"
    page.evaluate("link => location.hash = link", link)
    page.evaluate(FRAMES)
    page.wait_for_timeout(60)
    cards = page.locator(".card.words, .card:has(#plane)")
    boxes = [card.bounding_box() for card in cards.all()]
    low = 12 + max(box["y"] + box["height"] for box in boxes)
    shot = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": low})
    return Image.open(io.BytesIO(shot)).convert("RGB")


def film(path: Path, told: list[tuple[float, int, int]]) -> list[Image.Image]:
    """A picture of each scene of the page in this file."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        size = {"viewport": {"width": WIDTH, "height": 1200}, "device_scale_factor": SHARP}
        page = chromium.new_page(**size, color_scheme="light")
        page.goto(f"{path.as_uri()}#iteration=0")  # a link names a view: nothing plays
        page.add_style_tag(content=HIDDEN + "{display:none!important}")
        pictures = [look(page, beta, iteration) for beta, iteration, _ in told]
        chromium.close()
    return pictures


def packed(pictures: list[Image.Image], lengths: list[int]) -> bytes:
    """A GIF with one palette for all pictures, so that nothing flickers and letters stay sharp."""
    some = pictures[:: max(1, len(pictures) // 4)]
    width, height = pictures[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for row, picture in enumerate(some):
        sheet.paste(picture, (0, row * height))
    palette = sheet.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    first, *rest = (p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures)
    file = io.BytesIO()
    how = {"save_all": True, "append_images": rest, "duration": lengths, "loop": 0}
    first.save(file, "GIF", optimize=True, **how)
    return file.getvalue()


def main() -> None:
    """Write the page, open it, film it, save the film."""
    sweep = load_sweep()
    told = scenes(sweep)
    with tempfile.TemporaryDirectory() as folder:
        export(Path(folder) / "drift.html", sweep)
        pictures = film(Path(folder) / "drift.html", told)
    gif = packed(pictures, [length for _, _, length in told])
    if len(gif) > MOST:
        raise ValueError(f"film: got {len(gif):,} bytes, wants {MOST:,}: a shorter film.")
    OUT.write_bytes(gif)
    width, height = pictures[0].size
    print(f"{OUT}: {len(told)} pictures of {width} × {height}, {len(gif) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
