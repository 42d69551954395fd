"""One look: colours stand in one place, every theme can be read, words carry their drift."""

import re

import pytest
from matplotlib.colors import to_rgb

from helpers.kit.coloured_words import FULL, STRONGEST, token_span, word_span
from helpers.kit.style import COLOURS, PARTS, SIZES, part, tokens, widget_style
from tests.kit.test_palette import contrast

THEMES = {"light": 0, "dark": 1}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["card", "paper"])
def test_letters_can_be_read_on_every_ground(theme, ground):
    pick = {name: pair[THEMES[theme]] for name, pair in COLOURS.items()}
    for letters in ("ink", "soft", "right", "wrong"):
        assert contrast(pick[letters], pick[ground]) >= 4.5, letters


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("side", ["more", "less"])
def test_a_word_can_be_read_on_its_strongest_colour(theme, side):
    hue, paper, ink = (to_rgb(COLOURS[name][THEMES[theme]]) for name in (side, "card", "ink"))
    inline = to_rgb(COLOURS[side][0])  # the same in both themes, in an output
    share = STRONGEST / 100
    for colour in (hue, inline):
        mixed = [share * h + (1 - share) * p for h, p in zip(colour, paper, strict=True)]
        assert contrast(mixed, ink) >= 4.5


def test_colours_and_sizes_stand_in_the_tokens_alone():
    known = set(COLOURS) | set(SIZES)
    scripts = "".join(path.read_text("utf-8") for path in PARTS.rglob("*.js"))
    measured = set(re.findall(r"setProperty\(\"(--[\w-]+)\"", scripts))
    for name in ("page.css", "widgets.css"):
        sheet = part(name)
        own = set(re.findall(r"(--[\w-]+):", sheet)) | {"--share", "--hue"} | measured
        used = set(re.findall(r"var\((--[\w-]+)", sheet))
        assert {name for name in used - own if name[2:] not in known} == set()
        assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;,\s)])", sheet)) <= {"#fff"}  # of figures
    assert re.findall(r"[\"'`]#[0-9a-fA-F]{6}", scripts) == []


def test_no_letters_are_smaller_than_12_pixels():
    sizes = re.findall(r"font:(?: \d00)? (\d+)px", part("page.css"))
    sizes += re.findall(r"font-size:\s*max\((\d+)px", part("page.css") + part("widgets.css"))
    assert sizes and min(map(float, sizes)) >= 12
    assert SIZES["small"].startswith("max(12px")


def test_an_old_browser_shows_the_light_colours():
    plain, known = tokens(":root").split("@supports")
    assert f"--card:{COLOURS['card'][0]};" in plain and "light-dark(" not in plain
    assert f"--card:light-dark({COLOURS['card'][0]},{COLOURS['card'][1]});" in known
    assert str(widget_style()).count("</style>") == 1


@pytest.mark.parametrize("drift", [-50.0, -3.0, -1.0, -0.05, 0.0, 1.0, 3.0, 50.0])
def test_a_word_has_the_colour_of_its_drift(drift):
    span = str(word_span("good", drift))
    assert ("more" in span, "less" in span) == (drift >= 0.1, drift <= -0.1)
    assert ("dotted" in span) == (drift <= -0.1)
    if abs(drift) < 0.1:
        assert "style" not in span
        return
    *hue, share = re.search(r"background-color:rgba\((.+?)\)", span).group(1).split(",")
    assert tuple(int(x) / 255 for x in hue) == to_rgb(COLOURS["more" if drift > 0 else "less"][0])
    assert round(float(share) * 100) == round(STRONGEST * min(abs(drift) / FULL, 1.0)) <= STRONGEST


def test_a_token_tells_its_drift_and_is_escaped():
    span = token_span("<b>", -0.1, -3.1)
    assert "+3.00 nats" in span and "&lt;b&gt;</span>" in span
