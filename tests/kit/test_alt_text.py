"""A figure's words: what is written in it, with the picture wherever a notebook is read."""

from IPython.core.formatters import DisplayFormatter

from helpers.kit.alt_text import MOST, alt_text
from helpers.kit.figures import label_axes, loop_figure, new_figure, one_panel
from helpers.lessons.rollouts.figures import batch_figure


def three_panels(curves: int = 2):
    """Two panels with curves, one without, and one that is not seen."""
    figure, grid = new_figure(1, 4)
    for axes, title in zip(grid[0], ("Proxy score", "Gold", "Nothing"), strict=False):
        label_axes(axes, title, "iteration", "reference std")
    for axes in grid[0, :2]:
        for k in range(curves):
            axes.plot([0, 1], [k, k], label=f"β {k / 10:g}")
    if curves:
        grid[0, 0].legend(title="seed 0")
    grid[0, 3].set_visible(False)
    return figure


def test_every_panel_is_told():
    assert alt_text(three_panels()) == (
        "3 panels. 1: Proxy score; iteration, reference std; seed 0, β 0, β 0.1."
        " 2: Gold; iteration, reference std; β 0, β 0.1. 3: Nothing; iteration, reference std"
    )


def test_the_figure_s_own_words_come_first():
    figure = three_panels(curves=0)
    figure.suptitle("Three\nruns")
    figure.legend(handles=figure.axes[0].plot([0], [0]), labels=["a run"])
    assert alt_text(figure).startswith("Three runs. a run. 3 panels. 1: Proxy score")


def test_words_inside_stand_for_a_figure_without_titles():
    words = alt_text(loop_figure())
    assert words.startswith("Actor π, samples · trained, Reward model") and "4 log-probs" in words
    tokens = [[f"word {k}" for k in range(99)]]
    assert alt_text(batch_figure(tokens, [[1] * 99], title="A batch")) == (
        "A batch; padding, prompt, response, stop token"
    )


def test_words_are_never_too_many_and_never_none():
    figure, axes = one_panel(3, 2)
    label_axes(axes, "word " * 200)
    assert len(alt_text(figure)) <= MOST and alt_text(figure).endswith("…")
    assert alt_text(new_figure()[0]) == "a figure"


def test_an_output_has_the_words_as_alternative_and_as_plain_text():
    formatter = DisplayFormatter()
    formatter.active_types = ["text/plain", "image/png"]
    data, metadata = formatter.format(three_panels())
    words = alt_text(three_panels())
    assert data["text/plain"] == f"Folded? Click to see the figure: {words}"
    assert metadata["image/png"] == {"alt": words, "width": 80 * three_panels().get_figwidth()}
    assert data["image/png"].startswith(b"\x89PNG")
