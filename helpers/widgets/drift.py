"""The drift explorer: move β and watch a policy leave its reference. Controls and pictures, no maths."""

import io

import ipywidgets

from helpers.drift import Drift
from helpers.drift_view import View
from helpers.models import load_tokenizer
from helpers.plots.drift import Curves, NextToken, Plane
from helpers.plots.drift_still import still_picture
from helpers.runs import Run
from helpers.sweep_results import Sweep
from helpers.widgets.drift_page import problem_html, samples_html, status_html, still_words
from helpers.widgets.explore import show_live

INITIAL = {"description_width": "initial"}


class DriftExplorer:
    """Controls `beta`, `iteration` (with `play`), `prompt` and `seed` over three pictures and samples.

    `values` holds the numbers now shown (β, iteration, proxy, gold, kl, J, J_star, efficiency,
    entropy, length ...; None where nothing was measured), `view` all of them. `add_run` lets another
    run join. Pictures keep their figures and move their artists; a picture that did not change is not
    sent. Works with ipywidgets 7.7 and 8; a saved notebook shows a still picture.
    """

    def __init__(self, sweep: Sweep, vocabulary: list[str] | None = None):
        self.drift, self.view, self.silent = Drift(sweep), None, False
        if vocabulary is None:
            tokenizer = load_tokenizer(sweep.runs[0].config.actor)
            vocabulary = tokenizer.convert_ids_to_tokens(list(range(self.drift.vocabulary_size)))
        self._make_controls()
        self.panels = {
            "plane": Plane(self.drift),
            "curves": Curves(self.drift),
            "next": NextToken(self.drift, vocabulary),
        }
        self.panels["next"].show_prompt(self.prompt.value)
        self.images = {name: self._image(panel) for name, panel in self.panels.items()}
        self.status, self.samples, self.message = (ipywidgets.HTML() for _ in range(3))
        self.samples.layout = ipywidgets.Layout(width="535px", overflow="auto")
        self.box = self._lay_out()
        self.box.add_class("drift-explorer")
        for control in (self.beta, self.iteration, self.seed, self.prompt):
            control.observe(self.redraw, names="value")
        self.redraw()

    def _make_controls(self) -> None:
        drift = self.drift
        trained = [beta for beta in drift.sweep.betas if beta > 0]
        self.beta = ipywidgets.SelectionSlider(
            options=self._options(),
            value=trained[len(trained) // 2] if trained else 0.0,
            description="β",
            continuous_update=True,
            style=INITIAL,
            layout=ipywidgets.Layout(width="330px"),
        )
        last = max(curves["iteration"][-1] for curves in drift.all_curves())
        self.iteration = ipywidgets.IntSlider(
            value=last,
            min=0,
            max=last,
            description="iteration",
            continuous_update=True,
            style=INITIAL,
            layout=ipywidgets.Layout(width="260px"),
        )
        self.play = ipywidgets.Play(value=last, min=0, max=last, interval=250)
        ipywidgets.jslink((self.play, "value"), (self.iteration, "value"))
        self.seed = ipywidgets.Dropdown(
            options=drift.sweep.seeds,
            description="seed",
            style=INITIAL,
            layout=ipywidgets.Layout(width="95px"),
        )
        self.prompt = ipywidgets.Dropdown(
            options=drift.prompts,
            description="prompt",
            style=INITIAL,
            layout=ipywidgets.Layout(width="235px"),
        )

    def _options(self) -> list[tuple]:
        return [(stop.label, stop.key) for stop in self.drift.stops]

    @staticmethod
    def _image(panel) -> ipywidgets.Image:
        width, height = panel.canvas.get_width_height()
        fixed = ipywidgets.Layout(width=f"{width}px", height=f"{height}px", flex="0 0 auto")
        return ipywidgets.Image(format="png", layout=fixed)

    def _lay_out(self) -> ipywidgets.VBox:
        wrap = ipywidgets.Layout(flex_flow="row wrap")
        controls = [self.beta, self.iteration, self.play, self.seed, self.prompt]
        upper = [self.images["plane"], self.images["curves"]]
        lower = [self.images["next"], self.samples]
        rows = [ipywidgets.HBox(row, layout=wrap) for row in (controls, upper, lower)]
        return ipywidgets.VBox([rows[0], self.message, self.status, *rows[1:]])

    @property
    def values(self) -> dict:
        """The numbers now on the page."""
        return dict(self.view.values)

    def look(self) -> View:
        """What the controls ask for."""
        stop = next(stop for stop in self.drift.stops if stop.key == self.beta.value)
        where = self.iteration.value, self.seed.value, self.prompt.value
        return self.drift.view(stop, *where)

    def redraw(self, change: dict | None = None) -> None:
        """Show what the controls ask for. A problem is told on the page."""
        if self.silent:
            return
        try:
            if change is not None and change["owner"] is self.prompt:
                self.panels["next"].show_prompt(self.prompt.value)
            self._show(self.look())
            self._say("")
        except Exception as problem:  # noqa: BLE001 (a callback's error shows nowhere else)
            self._say(problem_html(problem))

    def _show(self, view: View) -> None:
        """All parts, in the order the eye goes; ipywidgets sends only those that changed."""
        self.view = view
        self.status.value = status_html(view)
        for name, panel in self.panels.items():
            panel.update(view)
            self.images[name].value = panel.png()
        self.samples.value = samples_html(view, self.prompt.value)

    def _say(self, words: str) -> None:
        self.message.value = words

    def add_run(self, run: Run, label: str = "yours", own_reward: bool = False) -> None:
        """Let a run join: it stands at the right end of the β slider, and the explorer goes there.

        With `own_reward` its scores come from another reward than the sweep's: no J* is drawn beside
        it. Give a run that has grown once more to follow it; another run of the same label is
        "yours 2". ValueError: a run with no iteration yet.
        """
        stop = self.drift.add(run, label, own_reward)
        for name in ("plane", "curves"):
            self.panels[name].refresh()
        self.panels["next"].show_prompt(self.prompt.value)
        self.silent = True
        self.beta.options = self._options()
        self.beta.value = stop.key
        longest = max(curves["iteration"][-1] for curves in self.drift.all_curves())
        self.iteration.max = self.play.max = longest
        self.iteration.value = longest
        self.silent = False
        self.redraw()

    def still(self) -> bytes:
        """All of it as one PNG, for a page without a kernel."""
        words = still_words(self.view.samples, self.prompt.value)
        pictures = [panel.draw() for panel in self.panels.values()]
        packed = io.BytesIO()
        title = f"β = {self.view.stop.label}, after {self.view.iteration} iterations"
        still_picture(pictures, words, title).save(packed, format="png", optimize=True)
        return packed.getvalue()

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the same picture, still, where there is none."""
        words = "the drift explorer: run this cell to move β"
        show_live(self.box, words, png=self.still())


def explore_drift(sweep: Sweep) -> DriftExplorer:
    """The explorer of this sweep; the last expression of a cell shows it."""
    return DriftExplorer(sweep)
