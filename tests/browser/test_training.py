"""Training in the page: in a worker, under its own security policy; its runs join the recorded ones."""

import re

import pytest

from benchmarks import page as timed
from tests.browser.conftest import FRAMES, trained
from tests.browser.test_drift_page import WATCH_SHIFTS, number, opened, press

AT = "#beta=0.1&iteration=0"  # a run begins at the page's β
FACTS = r"The most typical of 3 texts of update \d+: proxy −?\d\.\d\d \(mean −?\d\.\d\d\), gold "
HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def made(page) -> str:
    return page.locator("#train-progress").inner_text()


def stands_still(page) -> bool:
    """Whether no update comes, once one that was under way is done."""
    page.wait_for_timeout(3_000)
    before = made(page)
    page.wait_for_timeout(1_500)
    return made(page) == before


def test_a_run_trains_where_it_is_seen_and_stops_when_asked_or_hidden(browser):
    with opened(browser, AT) as page:
        page.locator("#train-box summary").first.click()
        start, button = page.locator("#train-go"), page.locator("#train-stop")
        start.press("Enter")
        page.wait_for_function("() => document.activeElement.innerText === 'Stop'")
        assert start.is_disabled() and page.locator(".begins :indeterminate").count()
        page.evaluate(WATCH_SHIFTS)
        page.evaluate(FRAMES)
        page.evaluate("() => window.shifts = 0")  # the run's card has its room
        trained(page, 4)
        assert page.evaluate("() => window.shifts") <= 0.02 and not page.locator(".begins").count()
        assert re.match(FACTS, page.locator("#sample-facts").inner_text())
        assert 0 < page.locator("#train-made").evaluate("one => one.value") < 1
        assert re.search(r"minutes? left$", page.locator("#train-left").inner_text())
        page.wait_for_timeout(800)  # it scrolls
        card, seen = (page.locator(one).bounding_box() for one in ("#run", "#sample"))
        assert card["y"] >= page.locator("#bar").bounding_box()["height"]
        assert seen["y"] + seen["height"] < 900  # what it writes is in sight while it trains
        assert page.locator("#beta-now").inner_text() == "run\u00a01: β = 0.1"
        assert number(page, "kl") > 0.1 and number(page, "proxy") > 0.15
        page.locator("#beta").press("Home")  # other controls move, the run goes on
        assert page.locator("#run").bounding_box()["y"] == card["y"]  # the page stays where it is
        page.evaluate(HIDE, True)
        assert stands_still(page)
        page.evaluate(HIDE, False)
        trained(page, int(made(page).split()[-3]) + 1)
        said = " ".join(page.locator("#beta-now, #iteration-now").all_inner_texts())
        assert re.fullmatch(r"β = 0 at your update \d+", said)
        button.click()
        assert button.inner_text() == "Continue" and stands_still(page)
        page.locator("#train-beta").fill("0")  # of the next run, not of this one
        assert made(page).startswith("run\u00a01: β = 0.1")
        assert start.inner_text() == "Train at β = 0"
        start.click()
        trained(page, 1)
        press(page, "#iteration", "Home")
        rows = page.locator("#table tbody tr")
        for own, recorded, name in ((-2, 6, "run\u00a01: β = 0.1"), (-1, 0, "run\u00a02: β = 0")):
            assert re.match(rf"{name}\s+0 of 60 updates, RLOO", rows.nth(own).inner_text())
            one, other = (rows.nth(at).locator("td").all_inner_texts() for at in (own, recorded))
            assert one == other  # before training: the same reference; J* of the same β
        press(page, "#iteration", "End")
        assert page.locator("#stops .own").all_inner_texts() == ["run\u00a01", "run\u00a02"]
        end = page.locator("#beta .track").bounding_box()
        assert end["x"] + end["width"] < page.locator("#stops .own").first.bounding_box()["x"]
        made_of, most = page.locator("#iteration-now").inner_text().split(" of ")
        assert made_of == most and int(most) < 60  # the run's own length
        start.click()
        page.locator("#beta").press("ArrowLeft")  # who moves β meanwhile stays there
        page.locator("#stops .own", has_text="run\u00a03").wait_for(timeout=90_000)
        assert page.locator("#beta-now").inner_text() == "run\u00a01: β = 0.1"


def test_a_reward_of_one_s_own_is_in_the_link_and_what_it_cannot_teach_is_said(browser):
    with opened(browser, "#train=0.2&model=0&liked=we+wife+zebra&once=true") as page:
        page.get_by_text("+1 for each of “we wife”, each word once", exact=True).wait_for()
        page.locator("#train-go").click()
        trained(page, 1)
        assert "does not know “zebra”" in page.locator("#unknown-liked").inner_text()
        assert page.locator("#numbers .proxy dt").inner_text().startswith("reward\nyour own")
        assert page.locator("#plane .end.proxy:visible").count() == 0  # another quantity
        assert page.locator("#table tbody th").last.inner_text().endswith("own reward")
        each = r"“we”: \d here, mean \d\.\d\d \(before training \d\.\d\d\)\n"  # of 512, by chance
        rare = r"“wife”: .*: what is not sampled is not rewarded\)"
        assert re.fullmatch(each + rare, page.locator("#times").inner_text())
        page.wait_for_function("() => location.hash.includes('liked=we+wife+zebra')")
        page.locator("#own-liked").fill("we")
        assert page.locator("#own-said").inner_text() == "+1 for each of “we”, each word once"
        page.locator("#beta").press("Home")
        page.locator("#numbers dt", has_text="proxy").wait_for()


def test_words_are_looked_up_while_they_are_typed_and_unknown_ones_alone_start_no_run(browser):
    with opened(browser, "#train=0.1&iteration=0") as page:
        page.locator("#reward-box summary").click()
        page.locator("#own-liked").fill("zebra, summers")
        page.wait_for_function("() => document.getElementById('unknown-liked').innerText")
        said = page.locator("#unknown-liked").inner_text()
        assert "“zebra”." in said and "“summers”; it knows summer" in said
        page.locator("#train-go").click()
        page.get_by_text("none of the words liked").wait_for()
        assert page.locator("#reward-box").get_attribute("open") is not None
        assert made(page) == "" and page.locator("#stops .own").count() == 0


def test_a_run_has_gold_and_its_next_update_can_be_looked_at_token_by_token(browser):
    with opened(browser, "#train=0.1&iteration=0") as page:
        page.locator("#train-go").click()
        trained(page, 2)
        assert -3 < number(page, "gold") < 3
        page.locator("#inspect-box > summary").click()
        page.locator("#inspect-go").click()
        page.wait_for_selector("#inspect-terms td", state="visible", timeout=90_000)
        cells = "#inspect-terms tbody tr:nth-child(2) td"  # of PPO's clip: ratio first
        assert page.locator(cells).first.inner_text() == "1.000"
        assert page.locator("#inspect-terms tbody tr").count() == 5
        page.locator("#inspect-apply").click()
        assert "The update changed its log π by" in page.locator("#inspect-said").inner_text()
        assert page.locator(cells).first.inner_text() != "1.000"
        page.locator("#inspect-texts button").nth(1).click()
        assert page.locator("#inspect-terms caption").inner_text().startswith("Token 2 of")
        before = made(page)
        page.locator("#train-stop").click()  # the run goes on where it was
        trained(page, int(before.split()[-3]) + 1)


@pytest.mark.nightly  # a benchmark, not the page
def test_it_is_timed_in_the_page_and_in_node(browser, monkeypatch):
    monkeypatch.setattr(timed, "SPANS", (1, 2, 3))
    found = timed.in_chromium(browser) | timed.in_node(updates=5)
    assert min(found["node_s"], *found["chromium_s"], *found["key_ms"]["while it trains"]) > 0
