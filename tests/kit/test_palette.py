"""Words in the figures can be read: on white, and on whatever colour stands behind them."""

import pytest
from matplotlib.colors import to_rgba
from matplotlib.text import Text

from helpers.kit import palette
from helpers.kit.figures import Picture, loop_figure
from helpers.kit.palette import ink_on, luminance
from helpers.lessons.debugging import figures as clinic
from helpers.lessons.ppo_update import figures as ppo
from helpers.lessons.reward_model import figures as reward_model
from helpers.lessons.rollouts import figures as rollouts

LEAST = 4.5  # WCAG 2.2, 1.4.3: contrast of text and its background
COLOURS = ("POLICY", "REFERENCE", "REWARD", "KL", "VALUE", "GOLD", "ACCENT")
COUNTS = {"a": {f"rule {k}": k for k in range(10)}}
STEPS = [{"step": k, "loss": 0.6, "train": 0.7, "test": 0.7} for k in range(3)]
FIGURES = {
    "loop": lambda: loop_figure(),
    "loop, one step": lambda: loop_figure(active=3, faded=("Critic V", "Actor π", "Rewards")),
    "batch": lambda: rollouts.batch_figure([list("abcdef")], [[0, 1, 1, 2, 2, 3]], [range(6)]),
    "alignment": lambda: rollouts.alignment_figure(list("abcd"), 2),
    "flags": lambda: clinic.flags_figure(COUNTS, {"a": 9}),
    "fit": lambda: reward_model.fit_curves(STEPS, 3, 0.9),
    "value": lambda: ppo.value_clip_figure(0.2, 1.0, 0.2),
}


def contrast(one, other) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ground_of(text: Text):
    """What is filled behind the middle of a text, on top of the rest; white where nothing is."""
    box = text.get_window_extent()
    middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    filled = [patch for patch in text.axes.patches if patch.get_fill()]
    behind = [patch for patch in filled if patch.contains_point(middle)]
    return behind[-1].get_facecolor() if behind else "white"


def pairs_in(figure: Picture) -> list[tuple]:
    """Ground, ink and words of every text inside the panels of a drawn figure."""
    figure.pixels()
    texts = [text for axes in figure.axes for text in axes.texts if text.get_text()]
    return [(ground_of(text), text.get_color(), text.get_text()) for text in texts]


@pytest.mark.parametrize("name", FIGURES)
def test_every_word_of_a_figure_can_be_read(name):
    pairs = pairs_in(FIGURES[name]())
    assert pairs
    assert [words for ground, ink, words in pairs if contrast(ground, ink) < LEAST] == []


@pytest.mark.parametrize("colour", [getattr(palette, name) for name in COLOURS])
def test_the_ink_can_be_read_however_thin_the_colour(colour):
    for ground in [to_rgba(colour, k / 20) for k in range(21)]:
        inks = sorted(("black", "white"), key=lambda ink, ground=ground: contrast(ground, ink))
        assert ink_on(ground) == inks[-1] and contrast(ground, inks[-1]) >= LEAST


def test_known_contrasts():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast("#767676", "white") == pytest.approx(4.54, abs=0.01)  # WebAIM's example
    assert contrast(palette.QUIET_INK, "white") >= LEAST
