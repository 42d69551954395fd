"""The drift explorer and the live trainer, by keyboard and mouse, after Run All."""

import re
import time

import nbformat
import pytest

from helpers.experiments.beta_sweep import load_sweep

from .notebook_page import NotebookPage

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def sweep():
    return load_sweep()


SECTIONS = ("# 07", "## 1 ·", "### Move β", "## 8 ·")


def under(headings: tuple[str, ...], cells: list) -> list:
    """The cells that stand under these headings, each up to the next heading."""
    found, inside = [], False
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            inside = cell.source.startswith(headings)
        found += [cell] if inside else []
    return found


@pytest.fixture(scope="module")
def notebook(browser, course, lab):
    """Lesson 07's set-up, its explorer and its trainer; the nightly runs all of it in a browser."""
    shipped = nbformat.read(course / "notebooks/07_kl_beta_sweeps.ipynb", as_version=4)
    shipped.cells = under(SECTIONS, shipped.cells)
    nbformat.write(shipped, course / "notebooks/explorer.ipynb")
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    opened = NotebookPage(page, lab, "notebooks/explorer.ipynb")
    opened.run_all(seconds=600)
    yield opened
    opened.close()


def shown(notebook) -> dict:
    """The numbers in the explorer's line of values, by name."""
    line = notebook.widget("drift-explorer").locator(".drift-values").inner_text()
    numbers = {"label": line.split("·")[0].strip()}
    for name in ("proxy", "gold", "KL", "J", "entropy", "length"):
        found = re.search(rf"· {name} (−?-?[\d.]+)", line)
        numbers[name] = float(found.group(1)) if found else None
    numbers["seed"] = int(re.search(r"seed (\d+)", line).group(1)) if "seed" in line else None
    return numbers


def handle(notebook, number: int = 0):
    """The handle of a slider of the explorer: 0 is β, 1 the iteration."""
    return notebook.widget("drift-explorer").get_by_role("slider").nth(number)


def trained_beta(label: str) -> float | None:
    """β of a label like "β = 0.1"; None for the reader's own run."""
    found = re.fullmatch(r"β = ([\d.]+)", label)
    return float(found.group(1)) if found else None


def test_every_cell_runs_without_a_word_of_complaint(notebook):
    assert notebook.errors() == []


def test_the_reader_s_run_is_in_the_second_explorer_and_not_in_the_first(notebook):
    lines = notebook.page.locator(".drift-explorer .drift-values").all_inner_texts()
    assert ["yours" in line for line in lines] == [False, True]


def test_the_slider_moves_by_keyboard_and_shows_the_sweep_s_own_numbers(notebook, sweep):
    handle(notebook).focus()
    notebook.page.keyboard.press("End")
    right_end = max(sweep.betas)
    notebook.wait_until(lambda: trained_beta(shown(notebook)["label"]) == right_end, 5, "β = 1")
    seen = {right_end}
    for _ in range(40):
        before, picture = shown(notebook), notebook.picture(notebook.widget("drift-explorer"))
        notebook.page.keyboard.press("ArrowLeft")
        time.sleep(0.5)
        now = shown(notebook)
        if now == before:
            break  # the left end
        assert notebook.picture(notebook.widget("drift-explorer")) != picture
        beta = trained_beta(now["label"])
        if beta is None:
            continue
        seen.add(beta)
        last = sweep.run(beta, now["seed"])
        assert now["proxy"] == pytest.approx(last.final["score"], abs=6e-4)
        assert now["KL"] == pytest.approx(last.final["kl"], abs=6e-4)
        assert now["gold"] == pytest.approx(last.final["gold"], abs=6e-4)
    assert seen >= set(sweep.betas)


def test_the_slider_moves_by_mouse(notebook):
    before, picture = shown(notebook), notebook.picture(notebook.widget("drift-explorer"))
    box = handle(notebook).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    notebook.page.mouse.move(x, y)
    notebook.page.mouse.down()
    notebook.page.mouse.move(x + 90, y, steps=5)
    notebook.page.mouse.up()
    notebook.wait_until(lambda: shown(notebook) != before, 5, "other numbers")
    assert notebook.picture(notebook.widget("drift-explorer")) != picture


def test_the_iteration_slider_goes_back_to_the_beginning(notebook):
    handle(notebook).focus()
    notebook.page.keyboard.press("Home")
    notebook.wait_until(lambda: trained_beta(shown(notebook)["label"]) == 0.0, 5, "β = 0")
    handle(notebook, 1).focus()
    notebook.page.keyboard.press("Home")
    notebook.wait_until(
        lambda: abs(shown(notebook)["KL"] or 0.0) < 0.01, 5, "a KL of 0 before training"
    )


def test_train_grows_a_curve_and_stop_keeps_what_there_is(notebook):
    trainer = notebook.widget("live-trainer")
    done = trainer.get_by_role("progressbar").first
    trainer.get_by_role("button", name="Train").click()
    count = lambda: int(done.get_attribute("aria-valuenow") or 0)  # noqa: E731
    notebook.wait_until(lambda: 2 <= count() <= 7, 120, "two iterations")
    picture = notebook.picture(trainer)
    notebook.wait_until(lambda: notebook.picture(trainer) != picture, 60, "a grown curve")
    pressed = time.monotonic()
    trainer.get_by_role("button", name="Stop").click()
    notebook.wait_until(lambda: "stopped" in trainer.inner_text(), 30, "the stop")
    assert time.monotonic() - pressed < 30
    kept = count()
    assert kept >= 2
    time.sleep(2)
    assert count() == kept
    assert trainer.get_by_role("button", name="Train").is_enabled()


def test_the_console_is_quiet(notebook):
    assert notebook.problems == []
