"""Every widget of the course, each control moved to its ends: on ipywidgets 8 here, on 7.7 in test-colab."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import ipywidgets
import pytest
import torch
from conftest import length_reward

from helpers import reviews, widgets
from helpers.clinic import load_clinic
from helpers.gaussian_toy import train_gaussians
from helpers.one_token import OneTokenRun, settings
from helpers.plots import lesson05 as plots
from helpers.reward_studies import FACTORS, load_reward_studies
from helpers.reward_sweep import load_results
from helpers.runs import WATCHED
from helpers.sft import make_tokenizer
from helpers.sweep_results import load_sweep
from helpers.widgets import (
    clinic,
    drift,
    explore,
    labelling,
    lesson01,
    lesson04,
    lesson05,
    lesson06,
    lesson07,
    live,
    one_token,
    slider,
    trainer,
)

COMPLAINT = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Problem|Warning)\b|Traceback|role=.alert")
NAMES = ("k1", "k2", "k3")
VOCABULARY = make_tokenizer(reviews.VOCABULARY).convert_ids_to_tokens(range(60))
WORDS = VOCABULARY[20:28]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def temperature():
    return lesson01.explore_temperature(["we booked a", "the soup"], noise(2, 60), VOCABULARY)


def choices():
    return lesson01.explore_choices(WORDS, 3, noise(8, 60), VOCABULARY)


def clip():
    ratios = [noise(4, 6).mul(0.1 * k).exp() for k in range(3)]
    return lesson04.clip_explorer(ratios, noise(4, 6), torch.ones(4, 6, dtype=torch.bool))


def reward_sweep():
    results = load_results()
    sizes = sorted({run["pairs"] for run in results["runs"]})
    heats = [run["temperature"] for run in results["best"]]
    return explore.Explorer(
        lambda pairs, temperature: plots.sweep_figure(results, pairs, temperature),
        pairs=ipywidgets.SelectionSlider(options=sizes, description="pairs"),
        temperature=explore.picker("temperature", heats),
    )


def scorer():
    known = set(reviews.VOCABULARY)
    return lesson05.SentenceScorer(
        score=lambda text: float(len(text)),
        explain=lambda text: reviews.gold_score(text, explain=True),
        unknown=lambda text: sorted(set(reviews.tokenize(text)) - known),
        text="The soup was tasty.",
    )


def ten():
    reference = noise(10).double().softmax(0)
    return lesson06.ten_explorer(
        noise(10), reference, lambda beta: (-beta * noise(10), reference, 1.0)
    )


def estimators():
    sizes, steps = (16, 64), (0, 5, 10)
    errors = {size: {name: [0.1, 0.2, 0.3] for name in NAMES} for size in sizes}
    sampled = [{size: {name: noise(50) for name in NAMES} for size in sizes} for _ in steps]
    logprobs = [(k * noise(60)).log_softmax(0) for k in steps]
    return lesson06.estimator_explorer(
        steps, [0.0, 0.4, 0.9], errors, sampled, logprobs, VOCABULARY
    )


def gaussians():
    runs = train_gaussians([0, 0.5, 5], steps=20)
    return lesson06.gaussian_explorer(runs, [1.0, 0.7, 0.1], start=1)


def answers():
    runs = {}
    for beta in (0.1, 1.0):
        tables = {name: noise(2, 60).softmax(1) for name in ("probs", "ref_probs")}
        tables |= {"scores": noise(2, 60), "distance": torch.tensor([0.1, 0.2])}
        run = OneTokenRun(settings(beta), 0, list(WATCHED[:2]), list(WATCHED[:2]), tensors=tables)
        run.curve = [{"iteration": k, "distance": 0.5 - 0.1 * k} for k in range(3)]
        runs[beta] = run
    return one_token.one_token_explorer(runs, VOCABULARY)


def fits():
    points = noise(9).abs(), noise(9)
    curves = [(torch.linspace(0, 3, 5), noise(5))] * 2
    return lesson07.fit_explorer([1, 2], points, curves, points, curves[0])


def factors():
    spread = noise(4), noise(4) - 1, noise(4) + 1
    band = {"d": torch.arange(4.0), "gold": spread, "score": spread}
    return lesson07.factor_explorer(FACTORS, {k: band for kinds in FACTORS.values() for k in kinds})


def stopping():
    rows = [{"base": (0.0, 1.0, 2.0)}] * 3
    return lesson07.stop_explorer([1, 2, 4], [0.5, 1.0, 0.8], rows, start=1)


def gallery():
    run = load_reward_studies().runs["base_seed_0"]
    return lesson07.Gallery(run, lambda text: reviews.gold_score(text, explain=True))


def labeller(folder):
    pairs = [
        {"prompt": "the soup", "chosen": f"was good {k}.", "rejected": "was bad."} for k in range(9)
    ]
    return labelling.Labeller(labelling.make_questions(pairs, 9), folder)


WIDGETS = {
    "explore_temperature": temperature,
    "explore_choices": choices,
    "clip_explorer": clip,
    "value_explorer": lesson04.value_explorer,
    "Explorer": reward_sweep,
    "SentenceScorer": scorer,
    "ten_explorer": ten,
    "estimator_explorer": estimators,
    "gaussian_explorer": gaussians,
    "one_token_explorer": answers,
    "explore_drift": lambda: drift.explore_drift(load_sweep()),
    "fit_explorer": fits,
    "factor_explorer": factors,
    "stop_explorer": stopping,
    "Gallery": gallery,
    "explore_clinic": lambda: clinic.explore_clinic(load_clinic()),
}
ELSEWHERE = {"Labeller", "LiveTrainer"}  # two below
ELSEWHERE |= {"DriftExplorer", "ClinicExplorer"}  # what explore_drift and explore_clinic make


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
def test_each_control_goes_to_its_ends(name):
    shown = WIDGETS[name]()
    controls = [w for w in below(shown.box) if hasattr(w, "description")]
    controls = [w for w in controls if not isinstance(w, ipywidgets.HTML)]
    assert controls
    for control in controls:
        for last in (False, True):
            move(control, last)
            assert_content(shown)
    shown._ipython_display_()


def test_the_labeller_s_buttons_and_letters(tmp_path):
    shown = labeller(tmp_path)
    for name in ("A", "B", "tie", "skip", "undo"):
        shown.buttons[name].click()
    for letters in ("a", "B ", "t", "s", "u", "?", ""):
        shown.keys.value = letters
    assert_content(shown)
    assert len(shown.labels) == 4 and len(shown.answers.open_questions) == 3
    shown._ipython_display_()


def test_the_live_trainer_from_its_buttons():
    shown = trainer.LiveTrainer({"commas": length_reward}, batch_size=8, response_length=6)
    for control in (shown.beta, shown.reward, shown.iterations):
        move(control, last=True)
        move(control, last=False)
    shown.train_button.click()
    run = shown.wait(120)
    shown.stop_button.click()
    assert len(run.history) == shown.iterations.min and not shown.running
    assert_content(shown)
    shown._ipython_display_()


def test_a_run_that_is_watched_and_a_fit_that_is_watched(capsys):
    record = {"score": 0.1, "kl": 0.2, "entropy": 1.0, "seconds": 0.1}
    history = [record | {"iteration": k, "gold": 0.0, "length": 5.0} for k in (1, 2, 3)]
    assert list(live.watch(iter(history), 3)) == history
    watcher = lesson05.FitWatcher(lambda: {"train": 0.7, "test": 0.6}, best=0.8, every=2)
    for step in (1, 2, 3):
        watcher(step, 3, 0.6)
    live.show_pairs(["a"], ["<b>"])
    lesson05.show_table(["a"], [("<b>",)])
    assert not COMPLAINT.search("".join(capsys.readouterr()))


@pytest.mark.parametrize(
    ("low", "step", "shown"),
    [(0, 1, ".0f"), (0.0, 0.25, ".2f"), (0.05, 0.1, ".2f"), (1, 10, ".0f")],
)
def test_a_slider_shows_the_digits_it_needs(low, step, shown):
    made = slider("x", low, low, low + 5 * step, step)
    assert made.readout_format == shown


def test_no_widget_is_left_out():
    made = set()
    for module in pkgutil.iter_modules(widgets.__path__, "helpers.widgets."):
        for name, value in vars(importlib.import_module(module.name)).items():
            own = getattr(value, "__module__", "") == module.name
            named = re.search(r"^explore_|_explorer$", name) or hasattr(value, "_ipython_display_")
            made |= {name} if own and named else set()
    assert made == set(WIDGETS) | ELSEWHERE
