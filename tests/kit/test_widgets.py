"""Every widget of the course, each control moved to its ends: on ipywidgets 8 here, on 7.7 in test-colab."""

import io
import math
import re
from collections.abc import Iterator

import ipywidgets
import numpy as np
import pytest
import torch
from PIL import Image

from helpers.kit import live, markup, sliders
from helpers.kit import one_token_widgets as one_token
from helpers.kit.figures import Picture, new_figure, touches_edge, training_curves
from helpers.kit.sliders import slider
from helpers.lessons.debugging import widgets as clinic
from helpers.lessons.debugging.study import load_clinic
from helpers.lessons.kl_beta import widgets as kl_widgets
from helpers.lessons.kl_beta.gaussian import train_gaussians
from helpers.lessons.overoptimization import widgets as overoptimization_widgets
from helpers.lessons.overoptimization.study import load_reward_studies
from helpers.lessons.ppo_update import widgets as ppo_widgets
from helpers.lessons.reward_model import widgets as reward_widgets
from helpers.lessons.rollouts import widgets as rollout_widgets
from helpers.lessons.without_a_reward_model import widgets as direct_widgets
from helpers.lessons.without_a_reward_model.study import load_direct
from helpers.studies.one_token import load_one_token
from helpers.world import reviews
from helpers.world.gold import gold_score
from helpers.world.small_models import make_tokenizer

COMPLAINT = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Problem|Warning)\b|Traceback|role=.alert")
VOCABULARY = make_tokenizer(reviews.VOCABULARY).convert_ids_to_tokens(range(60))


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def temperature():
    prompts = ["we booked a", "the soup"]
    return rollout_widgets.explore_temperature(prompts, noise(2, 60), VOCABULARY)


def clip():
    ratios = [noise(4, 6).mul(0.1 * k).exp() for k in range(3)]
    return ppo_widgets.clip_explorer(ratios, noise(4, 6), torch.ones(4, 6, dtype=torch.bool))


def scorer():
    known = set(reviews.VOCABULARY)
    return reward_widgets.SentenceScorer(
        score=lambda text: float(len(text)),
        explain=lambda text: gold_score(text, explain=True),
        unknown=lambda text: sorted(set(reviews.tokenize(text)) - known),
        text="The soup was tasty.",
    )


def ten():
    rewards, reference = noise(10), noise(10).double().softmax(0)
    return kl_widgets.ten_explorer(
        rewards, reference, lambda beta: (-beta * rewards, reference, 1.0)
    )


def gaussians():
    runs = train_gaussians([0, 0.5, 5], steps=20)
    return kl_widgets.gaussian_explorer(runs, [1.0, 0.7, 0.1], start=1)


def answers():
    words = make_tokenizer(reviews.VOCABULARY)
    every = words.convert_ids_to_tokens(range(len(words)))
    return one_token.one_token_explorer(load_one_token(), every)


def pairs_of_answers():
    probs = noise(3, 4).softmax(1)
    fits = {(kind, count): probs[2] for kind in ("hard", "soft") for count in (10, 100)}
    return direct_widgets.pairs_explorer("abcd", probs[0], probs[1], fits)


def gallery():
    run = load_reward_studies().run("base")
    return overoptimization_widgets.Gallery(run, lambda text: gold_score(text, explain=True))


WIDGETS = {
    "explore_temperature": temperature,
    "clip_explorer": clip,
    "value_explorer": ppo_widgets.value_explorer,
    "SentenceScorer": scorer,
    "ten_explorer": ten,
    "gaussian_explorer": gaussians,
    "one_token_explorer": answers,
    "pairs_explorer": pairs_of_answers,
    "price_explorer": lambda: direct_widgets.price_explorer(load_direct()),
    "Gallery": gallery,
    "explore_clinic": lambda: clinic.explore_clinic(load_clinic()),
}


def below(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from below(child)


def assert_content(shown) -> None:
    """No page, message or caption in it tells of an error; every picture is one."""
    for widget in below(shown.box):
        if isinstance(widget, ipywidgets.HTML):
            assert not COMPLAINT.search(widget.value), widget.value
        if isinstance(widget, ipywidgets.Image) and widget.value:
            assert bytes(widget.value).startswith(b"\x89PNG")


def move(control: ipywidgets.Widget, last: bool) -> None:
    """To its first or last value; a text field gets something strange or nothing."""
    if hasattr(control, "options"):
        control.index = len(control.options) - 1 if last else 0
    elif hasattr(control, "max"):
        control.value = control.max if last else control.min
    elif isinstance(control, ipywidgets.Text):
        control.value = "" if last else "<b>zzz</b> & the the the"


@pytest.mark.parametrize("name", WIDGETS)
def test_each_control_goes_to_its_ends_and_no_word_of_a_picture_is_cut(name):
    shown = WIDGETS[name]()
    controls = [w for w in below(shown.box) if hasattr(w, "description")]
    controls = [w for w in controls if not isinstance(w, ipywidgets.HTML)]
    assert controls
    for control in controls:
        for last in (False, True):
            move(control, last)
            assert_content(shown)
            if isinstance(getattr(shown, "drawn", None), Picture):
                picture = Image.open(io.BytesIO(shown.image.value))
                assert not touches_edge(np.asarray(picture))
    shown._ipython_display_()


def test_a_run_that_is_watched_and_a_fit_that_is_watched(capsys):
    record = {"score": 0.1, "kl": 0.2, "entropy": 1.0, "seconds": 0.1}
    history = [record | {"iteration": k, "gold": 0.0, "length": 5.0} for k in (1, 2, 3)]
    assert list(live.watch(iter(history), 3)) == history
    watcher = reward_widgets.FitWatcher(lambda: {"train": 0.7, "test": 0.6}, best=0.8, every=2)
    for step in (1, 2, 3):
        watcher(step, 3, 0.6)
    live.show_pairs(["a"], ["<b>"])
    markup.show_table(["a"], [("<b>",)])
    assert not COMPLAINT.search("".join(capsys.readouterr()))


@pytest.mark.parametrize(("made", "total", "every"), [(7, 7, 3), (7, 60, 3), (2, 60, 5), (6, 6, 1)])
def test_the_last_iteration_is_drawn_whenever_the_run_ends(monkeypatch, made, total, every):
    drawn = []
    monkeypatch.setattr(live, "training_curves", lambda history, total: drawn.append(len(history)))
    record = {"score": 0.1, "kl": 0.2, "entropy": 1.0, "seconds": 0.1}
    list(live.watch(iter([record] * made), total, every))
    assert drawn[-1] == made and drawn == sorted(set(drawn)) and len(drawn) <= made // every + 1


@pytest.mark.parametrize(("first", "last", "total"), [(1, 20, 20), (1, 7, 20), (11, 30, 20)])
def test_the_curves_end_at_the_last_iteration_and_stand_within_their_axes(first, last, total):
    """Of a resumed run, which counts on, too."""
    history = [{"score": 0.1, "kl": 0.2, "iteration": k} for k in range(first, last + 1)]
    for axes in training_curves(history, total).axes[:2]:
        (line,) = axes.lines
        low, high = axes.get_xlim()
        assert line.get_xdata()[-1] == last and low <= first and high == max(last, total)


def nearly(value: float) -> float:
    """What a browser makes of a number: 7.999999999999999 for 8."""
    return math.nextafter(value, -math.inf)


SLIDERS = [  # start, low, high, step, of the lessons
    *((0.95, 0, 1, 0.05), (0.2, 0.05, 0.5, 0.05), (0.8, -1.0, 1.0, 0.1), (6.5, 0.5, 70, 0.5)),
    *((24, 0, 96, 8), (1, 1, 4, 1)),
]


@pytest.mark.parametrize("numbers", SLIDERS)
def test_a_callback_gets_every_stop_of_a_slider_as_it_stands_there(numbers, monkeypatch):
    monkeypatch.setattr(sliders, "show_picture", lambda image, figure: None)
    start, low, high, step = numbers
    seen, made = [], slider("x", *numbers)
    sliders.Explorer(lambda x: seen.append(x), x=made)
    whole = all(float(number).is_integer() for number in numbers)
    assert isinstance(made, ipywidgets.IntSlider) == whole
    for k in range(round((high - low) / step) + 1):
        stop = round(low + k * step, 9)
        made.value = int(stop) if whole else nearly(stop)
        assert seen[-1] == stop and isinstance(seen[-1], int if whole else float)


@pytest.mark.parametrize(
    ("low", "step", "shown"), [(0.0, 0.25, ".2f"), (0.05, 0.1, ".2f"), (1, 0.5, ".1f")]
)
def test_a_slider_shows_the_digits_it_needs(low, step, shown):
    assert slider("x", low, low, low + 5 * step, step).readout_format == shown


def test_no_control_of_an_explorer_cuts_its_name_short():
    made = ipywidgets.SelectionSlider(options=[1, 2], description="a longer name than fits")
    sliders.Explorer(lambda x: new_figure(width=4, height=1)[0], x=made)
    assert made.style.description_width == "initial"


def test_a_picture_is_sharp_and_keeps_its_size():
    shown = sliders.Explorer(lambda x: new_figure(width=4, height=1)[0], x=slider("x", 0, 0, 3, 1))
    width, height = (int.from_bytes(shown.image.value[k : k + 4], "big") for k in (16, 20))
    assert (width, height) == (640, 160) and shown.image.layout.width == "320px"


def bars_of(names: list[str]):
    """A picture whose left margin depends on the words of its rows."""
    figure, grid = new_figure(width=4, height=1)
    grid[0, 0].barh(names, [1.0] * len(names))
    return figure


def left(figure) -> float:
    return figure.axes[0].get_position().x0


def test_panels_stay_where_they_are_while_a_slider_moves_and_no_word_is_cut():
    shown = sliders.Explorer(lambda x: bars_of(["b" * x, "a"]), x=slider("x", 8, 1, 30, 1))
    at_first = left(shown.drawn)
    shown.controls["x"].value = 2
    assert left(shown.drawn) == at_first  # alone, it would need less room
    shown.controls["x"].value = 30
    alone = bars_of(["b" * 30, "a"])
    alone.png(sliders.SHARP)
    assert left(shown.drawn) == pytest.approx(left(alone)) and left(alone) > at_first
    assert not touches_edge(np.asarray(shown.drawn.pixels(sliders.SHARP)))


def test_a_picture_of_another_size_or_make_keeps_its_own_layout():
    for other in (new_figure(width=5, height=1)[0], new_figure(1, 2, width=4, height=1)[0]):
        other.pixels()
        figure = bars_of(["a"])
        figure.place_panels_as(other)
        assert figure.own_layout is None and figure.get_layout_engine() is not None
