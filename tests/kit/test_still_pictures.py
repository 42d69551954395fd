"""Still pictures: few colours, and those that fill most of them exact; a grey stays a grey."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.kit.figures import new_figure
from helpers.kit.still import COLOURS, MOST, few_colours
from helpers.lessons.your_trainer.figures import band_figure
from tests.kit.test_palette import FIGURES


def runs(count: int) -> dict:
    """Curves that end at different heights."""
    steps = torch.linspace(0, 1, 20)
    return {f"run {k}": {"score": steps * k, "kl": steps.sqrt() * k} for k in range(1, count + 1)}


def band(count: int):
    steps = torch.linspace(0, 1, 20)
    return band_figure({name: (steps - 1, steps + 2) for name in ("score", "kl")}, runs(count))


ALL = FIGURES | {f"band, {count} runs": lambda count=count: band(count) for count in (1, 2, 3)}


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("RGB")).astype(int)


def most_frequent(drawn: np.ndarray, count: int) -> np.ndarray:
    colours, times = np.unique(drawn.reshape(-1, 3), axis=0, return_counts=True)
    return colours[np.argsort(-times, kind="stable")[:count]]


@pytest.mark.parametrize("name", ALL)
def test_few_colours_look_like_all(name):
    picture = ALL[name]().pixels()
    drawn, still = pixels(picture), pixels(few_colours(picture))
    assert len(np.unique(still.reshape(-1, 3), axis=0)) <= COLOURS
    assert len(ALL[name]().still()) <= 1.2 * MOST  # the fullest is no sharper than the page
    assert np.abs(drawn - still).max() <= 32  # of 255, at the edges of letters and lines
    grey = drawn.min(2) == drawn.max(2)
    assert (still.min(2) == still.max(2))[grey].all()
    for colour in most_frequent(drawn, 16):
        where = (drawn == colour).all(2)
        assert (still[where] == colour).all()


def test_the_band_is_the_same_grey_whatever_runs_lie_over_it():
    greys = [most_frequent(pixels(few_colours(band(n).pixels())), 3).tolist() for n in (1, 2, 3)]
    assert greys[0] == greys[1] == greys[2]
    assert greys[0][0] == [255, 255, 255] and len(set(greys[0][1])) == 1


def test_a_picture_of_few_colours_is_kept_as_it_is():
    figure, _ = new_figure(1, 1, 1.0, 1.0)
    blank = Image.fromarray(np.zeros((4, 5, 3), np.uint8))
    assert (pixels(few_colours(blank)) == 0).all()
    still = Image.open(io.BytesIO(figure.still())).convert("RGBA")
    assert still.size == figure.pixels(2).size  # sharp on a fine screen
    alpha = np.asarray(still)[:, :, 3]
    assert not alpha[[0, 0, -1, -1], [0, -1, 0, -1]].any() and alpha[80].all()  # a card's corners
    many = np.arange(60, dtype=np.uint8).reshape(6, 10)
    many = Image.fromarray(np.stack([many, 2 * many, 255 - many], 2))
    assert (pixels(few_colours(many)) == pixels(many)).all()
