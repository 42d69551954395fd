"""`make site`, walked through: every link leads somewhere, every lesson fits a phone and says no error."""

import html
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from helpers.tools.files import ROOT

SITE = ROOT / "build" / "site"
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not SITE.is_dir(), reason="`make site` has not been run"),
]


def dead_links(page: Path) -> list[str]:
    """Links of a page to files that are not there."""
    links = re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8"))
    inside = [unquote(html.unescape(x)) for x in links if not re.match("[a-z]+:|//", x)]
    return [link for link in inside if not (page.parent / link).exists()]


def test_every_link_of_the_site_leads_to_a_file() -> None:
    pages = [page for page in SITE.rglob("*.html") if "_static" not in page.parts]
    assert len(pages) > len(LESSONS)
    assert {page.name: dead for page in pages if (dead := dead_links(page))} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lessons_fit_a_phone_and_fold_their_solutions(browser, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for lesson in LESSONS:
        page.goto((SITE / "notebooks" / f"{lesson}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, lesson
        solutions = page.get_by_text(re.compile("^Solution"))
        assert not any(solutions.nth(i).is_visible() for i in range(solutions.count())), lesson
    page.close()
    assert errors == []


def test_the_first_page_is_the_drift_page_and_the_search_finds_a_lesson(browser) -> None:
    page = browser.new_page()
    page.goto((SITE / "index.html").as_uri())
    page.get_by_role("link", name="fourteen lessons").click()
    assert page.title().startswith("RLHF")
    page.goto((SITE / "search.html").as_uri() + "?q=whitening")
    page.locator("#search-results a", has_text="03").first.wait_for()
    page.close()
