"""A reader's own texts in the drift page, written on by the policies that stand beside it."""

from helpers.page import drift_page
from helpers.tools.files import ROOT
from tests.browser.test_drift_page import opened


def test_a_reader_s_own_words_have_their_gold_and_are_written_on_by_both(browser):
    with opened(browser) as page:
        page.locator("#try-box summary").click()
        page.locator("#try-text").fill("the zebra was")
        page.wait_for_function("() => document.getElementById('try-said').innerText")
        assert page.locator("#try-gold").inner_text() == ""  # not a sentence yet
        page.locator("#beta").press("End")
        page.get_by_role("button", name="Write").click()
        page.wait_for_function("() => document.querySelectorAll('.own-text .word').length > 1")
        assert page.locator(".own h3").all_inner_texts() == ["Before training", "Trained at β = 1"]
        assert page.locator(".own .given").all_inner_texts() == ["the zebra was"] * 2
        assert "does not know “zebra”" in page.locator("#try-said").inner_text()
        assert page.locator("#try-next .bar").count() == 8
        before = page.locator(".own-text").first.inner_text()
        page.locator("#beta").press("Home")  # one β for the whole page; the same random numbers
        page.get_by_role("heading", name="Trained at β = 0", exact=True).wait_for()
        assert page.locator(".own-text").first.inner_text() == before
        page.locator("#try-text").fill("very " * 60)
        page.locator("#try-text").press("Enter")
        page.get_by_text("too long").wait_for()
        assert page.locator(".own").count() == 0  # no older text below the message
        page.locator("#try-text").fill("the soup was tasty. waiter.")
        wanted = "gold −2.25: +1.00 praise: tasty · −3.25 outside the grammar"
        assert page.locator("#try-gold").inner_text() == wanted


def test_a_page_without_its_policies_says_so_or_offers_none(browser, sweep, tmp_path):
    alone, without = tmp_path / "alone.html", tmp_path / "without.html"
    alone.write_bytes((ROOT / "docs" / "index.html").read_bytes())
    drift_page.export(without, sweep)
    page = browser.new_page()
    page.goto(alone.as_uri() + "#iteration=0")
    page.locator("#try-box summary").click()
    page.get_by_role("button", name="Write").click()
    page.wait_for_function("() => document.getElementById('try-said').innerText.includes('beside')")
    assert page.get_by_role("button", name="Write").is_enabled()
    page.goto(without.as_uri() + "#iteration=0")
    assert page.locator("#try-box").is_hidden()
    page.close()
