"""The drift page as a reader opens it: one file from the disk, no server, no kernel, no network."""

import math
import re
from contextlib import contextmanager
from itertools import combinations, pairwise, product

import pytest
from PIL import Image, ImageColor

from helpers.kit.style import COLOURS
from helpers.lessons.real_models.reward_study import load_real_reward
from helpers.page import drift_page
from helpers.studies.drift import run_curves
from tests.browser.conftest import FRAMES
from tests.page.test_drift_page import SHIPPED, records

PAGE = SHIPPED.as_uri()
STILL = "#iteration=0"  # a link names a view: nothing plays by itself
REAL = "#world=real&beta=0&iteration=30"
# every move of anything that stands on the page, also right after a key
WATCH_SHIFTS = """() => {
  window.shifts = 0;
  new PerformanceObserver(list => list.getEntries().forEach(entry => window.shifts += entry.value))
    .observe({type: 'layout-shift', buffered: true});
}"""
BOXES = """all => all.filter(one => getComputedStyle(one).visibility === 'visible')
  .map(one => one.getBoundingClientRect()).map(box => [box.left, box.top, box.right, box.bottom])"""
UNFOLD = "() => document.querySelectorAll('details').forEach(part => part.open = true)"


@contextmanager
def opened(browser, link=STILL, width=1280, height=900, **more):
    """The page at a link; nothing may have been said in the console when it is left."""
    page = browser.new_page(viewport={"width": width, "height": height}, **more)
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url[:4] == "http" else 0)
    page.goto(PAGE + link)
    yield page
    assert said == []
    page.close()


@pytest.fixture
def page(browser):
    with opened(browser) as ready:
        yield ready


def apart(one, other) -> bool:
    """Whether boxes [left, top, right, bottom] of letters do not overlap; 4 px above and below are empty."""
    beside = max(one[0], other[0]) >= min(one[2], other[2])
    return beside or max(one[1], other[1]) >= min(one[3], other[3]) - 4


def press(page, selector, *keys):
    """These keys on this control, and a frame for the page to follow."""
    for key in keys:
        page.locator(selector).press(key)
    page.locator("body").evaluate(FRAMES)


def go(page, link: str) -> None:
    """To another view, and a frame for the page to follow."""
    page.evaluate("link => location.hash = link", link)
    page.evaluate(FRAMES)


def as_number(text: str) -> float:
    return float(text.replace("−", "-"))


def number(page, name: str) -> float:
    return as_number(page.locator(f"#{name}").inner_text())


def check_numbers(page, sweep, beta, iteration, seed=0):
    """The large numbers are the recorded ones, to the digits that are shown."""
    curves = run_curves(sweep.run(beta, seed))
    assert page.locator("#beta").get_attribute("aria-valuetext") == f"β = {beta:g}"
    assert page.locator("#iteration").input_value() == str(iteration)
    gain, nats = curves["proxy"][iteration], curves["kl"][iteration]
    objective = page.locator("#objective").inner_text().replace("−", "-").split(" = ")
    assert objective[:2] == ["J", "proxy - β·KL"] and objective[2].split()[2] == f"{beta:g}"
    assert float(objective[3]) == pytest.approx(gain - beta * nats, abs=0.006)
    for name in ("proxy", "gold", "kl"):
        shown = page.locator(f"#{name}").inner_text()
        half_a_digit = 0.5 * 10.0 ** -len(shown.partition(".")[2]) + 1e-9
        assert number(page, name) == pytest.approx(curves[name][iteration], abs=half_a_digit)


def test_keys_move_beta_and_iteration_and_the_numbers_are_the_recorded_ones(page, sweep):
    press(page, "#beta", "Home")
    for step, beta in enumerate(sweep.betas):
        press(page, "#beta", *["ArrowRight"] * (step > 0))
        keys, iteration = ["End"], len(sweep.run(beta, 0).history)
        if step % 2:
            keys, iteration = ["Home", "ArrowRight", "ArrowUp"], 2
        press(page, "#iteration", *keys)
        check_numbers(page, sweep, beta, iteration)


def test_the_ruler_follows_the_mouse(page, sweep):
    box = page.locator("#beta").bounding_box()
    y = box["y"] + 10
    page.mouse.move(box["x"] + box["width"] - 2, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    assert page.locator("#beta-now").inner_text() == f"β = {sweep.betas[-1]:g}"
    page.mouse.move(box["x"] - 40, y, steps=8)
    page.mouse.up()
    page.evaluate(FRAMES)
    assert page.locator("#beta-now").inner_text() == f"β = {sweep.betas[0]:g}"


def test_a_link_restores_the_view_and_the_view_makes_the_link(browser, sweep):
    beta, seed = sweep.betas[-2], 0
    link = f"#beta={beta:g}&iteration=40&prompt=2&sample=3&seed={seed}"
    with opened(browser, link) as page:
        check_numbers(page, sweep, beta, 40, seed)
        kept = sweep.run(beta, seed).at(40)
        prompt = list(kept.samples)[1]
        sample = kept.samples[prompt][2]
        words = page.locator("#sample .word:not(.stop)").all_inner_texts()
        assert words == [token for token in sample.tokens if token != "</s>"]
        assert page.locator("#sample .given").inner_text() == prompt
        assert page.locator("#seed").input_value() == str(sweep.seeds.index(seed))
        go(page, "#beta=-7&iteration=x&prompt=99&seed=1e9")
        check_numbers(page, sweep, beta, 40, seed)  # what is wrong in a link changes nothing
        press(page, "#beta", "Home")
        page.wait_for_function("() => location.hash === '#beta=0&iteration=40&prompt=2&sample=3'")
        page.get_by_role("button", name="Copy a link").click()
        page.get_by_text("this machine only").wait_for()  # a file's address


def test_the_text_shown_first_is_the_one_nearest_to_the_means_with_its_gold_explained(page, sweep):
    for beta, iteration in product((0.0, 0.1, 1.0), (0, 40, 100)):
        go(page, f"#beta={beta:g}&iteration={iteration}")
        run = sweep.run(beta, 0)
        kept, curves = run.at(iteration), run_curves(run)
        proxy, gold = (curves[name][kept.iteration] for name in ("proxy", "gold"))
        some = next(iter(kept.samples.values()))
        near = min(some, key=lambda one: math.hypot(one.score - proxy, one.gold - gold))
        words = page.locator("#sample .word:not(.stop)").all_inner_texts()
        assert words == [token for token in near.tokens if token != "</s>"]
        assert page.locator("#sample-facts").inner_text().startswith("The most typical of 3")
        points = re.findall(r"(?:: |· )([+−]\d+\.\d\d)", page.locator("#why").text_content())
        total = sum(map(as_number, points))
        assert total == pytest.approx(near.gold, abs=0.006 * len(points) + 1e-9)


@pytest.mark.parametrize("link", ["", "#world=real"])
def test_nothing_moves_while_it_loads(browser, link):
    for width in (1280, 390, 320):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.add_init_script(f"({WATCH_SHIFTS})()")
        page.goto(PAGE + link)
        page.wait_for_function("() => document.getElementById('iteration').value > 1")
        assert page.evaluate("() => window.shifts") <= 0.02
        page.close()


def test_it_opens_playing_plays_on_with_beta_in_hand_and_stands_still_where_asked(browser, sweep):
    beta = sweep.betas[0]
    with opened(browser, "") as page:
        assert page.locator("#cue").is_visible()
        page.wait_for_function("() => document.getElementById('iteration').value > 3")
        assert page.locator("#beta").get_attribute("aria-valuetext") == f"β = {beta:g}"
        assert page.get_by_role("button", name="Pause").is_visible()
        page.keyboard.press("ArrowLeft")  # nothing has the focus yet
        page.evaluate(FRAMES)
        assert page.locator("#cue").is_hidden()
        assert page.locator("#playing").inner_text() == "playing"
        assert page.locator("#beta-now").inner_text() == f"β = {beta:g} is the first"
        assert 3 < int(page.locator("#iteration").input_value()) < 90  # no jump to the end
        press(page, "#beta", "End", "ArrowRight")
        assert page.locator("#beta-now").inner_text() == f"β = {sweep.betas[-1]:g} is the last"
        press(page, "#beta", "ArrowLeft", " ")
        assert page.locator("#beta-now").inner_text() == f"β = {sweep.betas[-2]:g}"
        stood = page.locator("#iteration").input_value()
        page.wait_for_timeout(250)
        assert page.locator("#iteration").input_value() == stood
        assert page.evaluate("() => scrollY") == 0
    with opened(browser, "", reduced_motion="reduce") as page:
        check_numbers(page, sweep, beta, len(sweep.run(beta, 0).history))


def test_a_click_on_a_mark_or_a_row_goes_to_its_beta(page, sweep):
    press(page, "#iteration", "End")
    labels = page.locator("#plane text.at:visible", has_text=re.compile(r"^[\d.]+$"))
    marks = page.locator("#plane circle.end:has(title)")
    for place, beta in enumerate(sweep.betas):
        marks.nth(place).click(force=True)
        page.evaluate(FRAMES)
        check_numbers(page, sweep, beta, len(sweep.run(beta, 0).history))
        assert f"{beta:g}" in labels.all_text_contents()  # the β that is shown has its label
    page.locator("#table tbody tr").first.click()
    page.evaluate(FRAMES)
    check_numbers(page, sweep, sweep.betas[0], len(sweep.run(sweep.betas[0], 0).history))


@pytest.mark.parametrize("width", [320, 390, 1280, pytest.param(900, marks=pytest.mark.nightly)])
def test_it_fits_its_window_and_a_finger_fits_what_is_pressed(browser, width):
    with opened(browser, STILL, width) as page:
        page.evaluate(UNFOLD)
        pressed = "button, select, summary, input, [role=slider]"
        sizes = page.locator(f":is({pressed}):visible").evaluate_all(
            "all => all.map(one => [one.id || one.textContent, one.getBoundingClientRect().height])"
        )
        assert len(sizes) > 12 and [one for one in sizes if one[1] < 44] == []
        assert "seed" not in page.locator("body").inner_text()  # there is no other to choose
        while page.locator("#ship .texts").count():  # every round, with the text that stands first
            page.locator("#ship .texts button").first.press("Enter")
        wide = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]
        page.mouse.wheel(0, 600)
        page.wait_for_function("() => scrollY > 300")
        assert page.locator("#beta").bounding_box()["y"] < 60, "β stays in sight"


def test_every_control_is_reached_by_tab(page):
    page.evaluate(UNFOLD)
    reached = []
    while "copy" not in reached and len(reached) < 32:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.id || 'other'"))
    wanted = ["beta", "play", "iteration", "prompt", "which", "copy"]  # one seed: no choice
    assert [name for name in reached if name in wanted] == wanted
    for name in ("β (KL penalty) of the run shown", "PPO updates"):
        assert page.get_by_role("slider", name=name).count() == 1


@pytest.mark.parametrize("link", ["#beta=0&iteration=100", REAL])
def test_a_phone_s_first_screen_has_ruler_verdict_numbers_and_text(browser, link):
    with opened(browser, link, 390, 700) as page:
        for name in ["beta", "story", "numbers"] + ["sample"] * (link != REAL):
            box = page.locator(f"#{name}").bounding_box()
            assert box["y"] > 0 and box["y"] + box["height"] < 700, name


@pytest.mark.parametrize("width", [320, pytest.param(1280, marks=pytest.mark.nightly)])
def test_nothing_jumps_while_it_moves(browser, width):
    with opened(browser, STILL, width) as page:
        page.evaluate(WATCH_SHIFTS)
        page.locator("#ladder-box summary").press("Enter")
        page.wait_for_function("() => document.querySelector('#ladder .word')")
        page.evaluate("() => scrollTo(0, 200)")
        page.evaluate(FRAMES)
        page.evaluate("() => window.shifts = 0")  # opening a part makes room for it
        for key in ("ArrowRight", "ArrowLeft"):
            for _ in range(5):
                press(page, "#beta", key)
                press(page, "#iteration", "PageUp")
        assert page.evaluate("() => window.shifts") == 0


def test_choosing_blind_ends_in_who_agrees(page):
    page.locator("#ship-box summary").click()
    rounds = page.locator("#records").evaluate("one => JSON.parse(one.textContent).rounds")
    for done in range(len(rounds)):
        assert f"{done + 1} of {len(rounds)}" in page.locator("#ship .verdict").inner_text()
        assert "β" not in page.locator("#ship").inner_text()
        page.locator("#ship .texts button").first.press("Enter")
    assert "you chose as gold does" in page.locator("#ship .verdict").inner_text()
    assert page.locator("#ship td.number").count() == 4 * len(rounds)
    assert page.locator("#ship td", has_text="✓").count() == len(rounds)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (390, 667), (1280, 900)])
def test_the_tour_moves_beta_and_covers_nothing_it_speaks_of(browser, sweep, width, height):
    golds = [sweep.run(beta, 0).final["gold"] for beta in sweep.betas]
    proxies = [sweep.run(beta, 0).final["score"] for beta in sweep.betas]
    best = golds.index(max(golds))  # what the tour says of β = 0, of the best and of the largest:
    assert max(proxies) == proxies[0] > proxies[best] and golds[0] < golds[-1] < golds[best] / 2
    with opened(browser, "", width, height, reduced_motion="reduce") as page:
        page.evaluate(FRAMES)
        page.evaluate(WATCH_SHIFTS)
        page.get_by_role("button", name="Tour").click()
        for step, place in enumerate((0, best, -1, -2), start=1):
            assert page.locator("#tour p").inner_text().startswith(f"{step} of 4.")
            page.evaluate(FRAMES)
            check_numbers(page, sweep, sweep.betas[place], len(sweep.run(0.0, 0).history))
            box, card = (page.locator(name).bounding_box() for name in (".toured", "#tour"))
            assert box["y"] >= 0 and box["y"] + box["height"] <= card["y"]
            assert card["height"] < 200  # of 900
            page.keyboard.press("ArrowLeft" if place else "ArrowRight")  # β moves in the tour too
            page.evaluate(FRAMES)
            moved = sweep.betas[place - 1 if place else 1]
            assert page.locator("#beta-now").inner_text() == f"β = {moved:g}"
            page.keyboard.press("Enter")  # Next, then Done
        assert page.locator("#tour").is_hidden() and page.locator(".toured").count() == 0
        assert page.locator("#beta").evaluate("one => one === document.activeElement")
        assert page.evaluate("() => window.shifts") == 0


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.nightly)])
def test_no_name_in_the_plane_lies_on_another_or_on_an_axis(browser, sweep, width):
    with opened(browser, STILL, width) as page:
        for iteration, beta in product((12, 100), sweep.betas):
            go(page, f"#beta={beta}&iteration={iteration}")
            boxes = page.locator("#plane .label:not(.quiet)").evaluate_all(BOXES)
            assert 2 <= len(boxes) <= 2 + (sweep.optimum(beta) is not None)
            ticks = page.locator("#plane text:not([class])").evaluate_all(BOXES)
            pairs = [*combinations(boxes, 2), *product(boxes, ticks)]
            assert all(apart(*pair) for pair in pairs), (beta, iteration)
            marks = page.locator("#plane .dot").evaluate_all(BOXES)  # gold's, proxy's
            for (_, top, _, bottom), mark in zip(boxes[-2:], marks, strict=True):
                assert abs(top + bottom - mark[1] - mark[3]) < 2 * 20, (beta, iteration)


def test_the_picture_is_what_is_seen(page, sweep, tmp_path):
    press(page, "#beta", "End")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the picture").click()
    assert page.locator("#copied").inner_text() == f"Saved: {saved.value.suggested_filename}"
    assert saved.value.suggested_filename == f"drift-beta-{sweep.betas[-1]:g}-update-0.png"
    saved.value.save_as(tmp_path / "picture.png")
    image = Image.open(tmp_path / "picture.png").convert("RGB")
    assert image.width == 2400 and 1500 < image.height < 3000
    colours = {colour for _, colour in image.getcolors(image.width * image.height)}
    marks = {ImageColor.getrgb(COLOURS[name][0]) for name in ("proxy", "gold")}
    assert marks <= colours


HEARS = "addEventListener('message', ({data, ports}) => { if (data === 'drift-page') [window.port] = ports })"


def test_a_run_that_joins_a_hidden_frame_leaves_the_ruler_its_labels(browser):
    facts = records(SHIPPED.read_text("utf-8"))
    yours = {"key": "yours", "label": "yours: β = 3", "beta": 3, "ownReward": False}
    yours |= {"optimum": None, "run": facts["runs"][0][0]}
    joined = {"words": facts["words"], "runs": [yours]}
    page = browser.new_page()
    frame = drift_page.frame(drift_page.page(facts, embedded=True), b"", "frame")
    page.set_content(f"<script>{HEARS}</script>{frame}")
    inside = page.frame_locator("#frame")
    inside.locator("#stops i >> nth=5").wait_for()
    for shown in ("none", "block"):
        page.evaluate("shown => document.getElementById('frame').style.display = shown", shown)
        if shown == "none":
            page.evaluate("joined => port.postMessage({joined})", joined)
        page.evaluate(FRAMES)
    inside.locator("#stops i", has_text="yours").wait_for()
    inside.locator("body").evaluate(FRAMES)
    boxes = inside.locator("#stops i").evaluate_all(BOXES)
    assert len(boxes) > 6
    assert all(one[2] < other[0] for one, other in pairwise(boxes))
    page.close()


# ---- the second world ----


def test_the_switch_loads_the_other_world_and_the_address_keeps_it(browser):
    count = "count => document.querySelectorAll('#stops i').length === count"
    with opened(browser, "#beta=0.1&iteration=40") as page:
        page.get_by_role("link", name="SmolLM2-135M").click()
        page.wait_for_function(count, arg=5)
        press(page, "#beta", "End", " ")
        press(page, "#iteration", "End")
        link = "#world=real&beta=1&iteration=30&prompt=1&sample=0&seed=0"
        page.wait_for_function("link => location.hash === link", arg=link)
        page.reload()
        page.wait_for_function("() => document.getElementById('beta-now').innerText === 'β = 1'")
        assert page.get_by_role("slider", name="RLOO updates").input_value() == "30"
        last = load_real_reward().rows("beta_1")[-1]
        for name in ("gold", "kl"):
            assert number(page, name) == pytest.approx(last[name], abs=0.0051)
        for name in "next-title ship-box try-box train-box why which tour-start".split():
            assert page.locator(f"#{name}").is_hidden(), name
        page.get_by_role("link", name="small model").click()
        page.wait_for_function(count, arg=13)
        assert "world" not in page.url and page.locator("#tour-start").is_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_second_world_stands_still_fits_and_names_lie_apart(browser, width):
    with opened(browser, REAL, width) as page:
        page.evaluate(WATCH_SHIFTS)
        for key in ["ArrowRight"] * 4 + ["ArrowLeft"] * 4:
            for other in ("Home", "PageUp", "End"):
                press(page, "#iteration", other)
                boxes = page.locator("#plane .label:visible").evaluate_all(BOXES)
                assert all(apart(*pair) for pair in combinations(boxes, 2))
            press(page, "#beta", key)
        assert page.evaluate("() => window.shifts") <= 0.02  # of its load
        wide = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]
