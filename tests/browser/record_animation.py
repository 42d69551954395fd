"""`python -m tests.browser.record_animation`: the README's animation, filmed in the real browser.

Not a test: it opens the drift explorer in JupyterLab, moves its sliders, and keeps what it sees.
"""

import io
import time
from pathlib import Path

from PIL import Image

from helpers.tools.files import ROOT

from .conftest import CHROMIUM, FLAGS

OUT = ROOT / "notebooks" / "images" / "drift_explorer.gif"
SHOWN, WIDTH = 1110, 860  # pixels of the page the explorer takes, and of the animation
FRAME = 450  # milliseconds of each frame


def film(explorer, page) -> list[Image.Image]:
    """β from right to left at the last iteration, then training at β = 0 from its beginning."""
    frames = []

    def shoot(times: int = 1) -> None:
        time.sleep(0.6)
        picture = Image.open(io.BytesIO(explorer.screenshot())).convert("RGB")
        frames.extend([picture.crop((0, 0, SHOWN, picture.height))] * times)

    beta, iteration = (explorer.get_by_role("slider").nth(k) for k in (0, 1))
    beta.focus()
    page.keyboard.press("End")
    shoot(3)
    for _ in range(40):
        before = explorer.locator(".drift-values").inner_text()
        page.keyboard.press("ArrowLeft")
        time.sleep(0.5)
        if explorer.locator(".drift-values").inner_text() == before:
            break
        shoot()
    shoot(2)
    iteration.focus()
    page.keyboard.press("Home")
    shoot(2)
    for _ in range(9):
        for _ in range(11):
            page.keyboard.press("ArrowRight")
        shoot()
    shoot(3)
    return frames


def save(frames: list[Image.Image], path: Path) -> None:
    """One palette for all frames, so that nothing flickers."""
    height = round(frames[0].height * WIDTH / frames[0].width)
    small = [frame.resize((WIDTH, height), Image.Resampling.LANCZOS) for frame in frames]
    sheet = Image.new("RGB", (WIDTH, height * 3))  # early, middle, late: every colour there is
    for row, frame in enumerate((small[0], small[len(small) // 2], small[-1])):
        sheet.paste(frame, (0, row * height))
    palette = sheet.quantize(128, method=Image.Quantize.MAXCOVERAGE)
    rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small]
    rest[0].save(path, save_all=True, append_images=rest[1:], duration=FRAME, loop=0, optimize=True)


def main() -> None:
    """Serve, open, run, film, save."""
    from playwright.sync_api import sync_playwright

    from .conftest import serve_lab
    from .notebook_page import NotebookPage

    with serve_lab(ROOT) as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = chromium.new_page(viewport={"width": 1500, "height": 1400})
        opened = NotebookPage(page, address, "helpers/widgets/drift_explorer.ipynb")
        page.keyboard.press("Control+b")  # the file list aside: the explorer stands in two columns
        opened.run_all(seconds=120)
        frames = film(opened.widget("drift-explorer"), page)
        chromium.close()
    save(frames, OUT)
    print(f"{len(frames)} frames, {OUT.stat().st_size / 1e6:.2f} MB: {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
