"""The drift page against axe-core's rules, and what axe leaves undecided: text inside pictures."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.test_drift_page import UNFOLD, opened

LEAST = 4.5  # WCAG 2.2, 1.4.3: contrast of text and its background
# the contrast of each text of an SVG with the background of what it stands in, and the text
CONTRASTS = """() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = colour => channels(colour).slice(0, 3)
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const clear = colour => channels(colour)[3] === 0;
  const behind = one => {
    while (clear(getComputedStyle(one).backgroundColor)) one = one.parentElement;
    return luminance(getComputedStyle(one).backgroundColor);
  };
  return [...document.querySelectorAll("svg text")]
    .filter(text => text.textContent && getComputedStyle(text).visibility !== "hidden")
    .map(text => {
      const pair = [luminance(getComputedStyle(text).fill), behind(text.closest("svg"))];
      return [(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), text.textContent];
    });
}"""
VIEWS = [(320, "dark"), (1280, "light")]
AT_NIGHT = [(320, "light"), (1280, "dark")]
VIEWS += [pytest.param(*view, marks=pytest.mark.nightly) for view in AT_NIGHT]


@pytest.mark.parametrize("link", ["#beta=0.03&iteration=40&prompt=2", "#world=real&beta=0.3"])
@pytest.mark.parametrize("width, scheme", VIEWS)
def test_no_fault_of_accessibility_is_found(browser, scheme, width, link):
    with opened(browser, link, width, color_scheme=scheme, reduced_motion="reduce") as page:
        page.evaluate(UNFOLD)
        found = Axe().run(page).response
        faults = [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]
        assert faults == []
        assert len(found["passes"]) > 40
        assert {one["id"] for one in found["incomplete"]} <= {"color-contrast"}  # of pictures
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 15
        assert [text for ratio, text in contrasts if ratio < LEAST] == []
