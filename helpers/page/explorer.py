"""The drift explorer: the drift page in a notebook's output, with its controls and numbers in Python."""

import importlib.util
from itertools import count

from IPython.display import HTML, display
from traitlets import Any, HasTraits, List, validate

from helpers.kit.sliders import display_widget
from helpers.page.drift_page import HEIGHT, PageRecords, fewer, frame, page, plain_html
from helpers.page.figures import drift_figure
from helpers.studies.beta_sweep import Sweep
from helpers.studies.drift import Drift, DriftView, run_curves
from helpers.studies.runs import Run
from helpers.tools.validate import require

NAMES = ("beta", "seed", "prompt", "iteration")  # of the controls, as the page calls them
KEYS = count(1)


class Control(HasTraits):
    """What a control of the page stands at: `value`, one of its `options`; observed as a widget is."""

    options = List()
    value = Any()

    def __init__(self, name: str, options: list):
        self.name = name
        super().__init__(options=options, value=options[0])

    @validate("value")
    def _there(self, proposal: dict):
        value, options = proposal["value"], self.options
        wants = f"one of {options}" if len(options) < 30 else f"{options[0]} to {options[-1]}"
        require(value in options, self.name, repr(value), wants)
        return options[options.index(value)]

    @property
    def place(self) -> int:
        """Which of the options it is, counted from 0."""
        return self.options.index(self.value)


class DriftExplorer:
    """The drift page with controls `beta`, `iteration`, `prompt` and `seed`, each with a `value`.

    The page is drawn in the browser and moves without a kernel. Where its wire to Python loads
    (anywidget), a move there is a move here, and the other way round. `view` is the run shown and its
    curves. `add_run` lets another run join. If not `pictured`, a saved notebook keeps a still and no
    page (where its page stands above). Works with ipywidgets 7.7 and 8.
    """

    def __init__(self, sweep: Sweep, pictured: bool = True):
        self.drift, self.pictured, self.live = Drift(sweep), pictured, None
        self.records = PageRecords(self.drift)
        self.facts = self.records.facts()
        self.beta = Control("beta", self._stops())
        self.iteration = Control("iteration", self._iterations())
        self.iteration.value = self.iteration.options[-1]
        self.seed = Control("seed", sweep.shown_seeds)
        self.prompt = Control("prompt", self.drift.prompts)
        self.ends: dict[str, int] = {}  # last iteration of each run that joined
        self.moved, self.hearing = False, False
        for name in NAMES:
            getattr(self, name).observe(self._tell, names="value")

    def _stops(self) -> list:
        return [stop.key for stop in self.drift.stops]

    def _iterations(self) -> list[int]:
        longest = max(run_curves(run)["iteration"][-1] for run in self.drift.runs)
        return list(range(longest + 1))

    @property
    def view(self) -> DriftView:
        """All that belongs to what the controls stand at."""
        stop = self.drift.stops[self.beta.place]
        return self.drift.view(stop, self.iteration.value, self.seed.value)

    def add_run(self, run: Run, label: str = "yours", own_reward: bool = False) -> None:
        """Let a run join: it stands at the right end of the ruler of β, and the explorer goes there.

        With `own_reward` its scores come from another reward than the sweep's: no J* is drawn beside
        it. Give a run that has grown once more to follow it: where its end was looked at, its new end
        is. Another run of the same label is "yours 2". ValueError: a run with no iteration yet.
        """
        stop = self.drift.add(run, label, own_reward)
        before, self.ends[stop.key] = self.ends.get(stop.key), run_curves(run)["iteration"][-1]
        shown = self.beta.value, self.iteration.value
        self.hearing = True  # one message for all that changes
        self.beta.options, self.iteration.options = self._stops(), self._iterations()
        if before is None or shown == (stop.key, before):
            self.beta.value, self.iteration.value = stop.key, self.ends[stop.key]
        self.hearing = False
        if self.live is not None:
            self.live.joined = self.records.joined()
        self._tell()

    def _places(self) -> dict[str, int]:
        return {name: getattr(self, name).place for name in NAMES}

    def _tell(self, change: dict | None = None) -> None:
        """Tell the page where Python's controls stand."""
        if self.hearing:
            return
        self.moved = True
        if self.live is not None:
            self.live.view = self._places()

    def _hear(self, change: dict) -> None:
        """Follow the page. What it cannot have shown is not followed."""
        self.hearing = True
        for name, place in change["new"].items():
            control = getattr(self, name) if name in NAMES else None
            if control is not None and place in range(len(control.options)):
                control.value = control.options[place]
        self.hearing = False

    def _wire(self, key: str):
        """The live page, made at the first display; None where anywidget is not installed."""
        if self.live is None and importlib.util.find_spec("anywidget") is not None:
            from helpers.page.live_page import LivePage

            where = {"view": self._places()} if self.moved else {}
            html = page(self.facts, embedded=True)
            self.live = LivePage(html=html, height=HEIGHT, joined=self.records.joined(), **where)
            self.live.observe(self._hear, names="view")
        if self.live is not None:
            self.live.plain = key
        return self.live

    def plain(self, key: str = "") -> str:
        """The page as it works without a kernel: the sweep's first seed, two samples of each snapshot."""
        still = drift_figure(self.drift, self.view).still((1,))
        return frame(page(fewer(self.facts), embedded=True), still, key)

    def _ipython_display_(self) -> None:
        """The page as plain HTML first; the live one takes its place where its wire loads."""
        key = f"drift-{id(self):x}-{next(KEYS)}"
        live = self._wire(key)
        if self.pictured or live is None:
            display(plain_html(self.plain(key)))
        if live is not None:
            figure = None if self.pictured else drift_figure(self.drift, self.view)
            words = "the drift explorer: run this cell to move β from Python too"
            display_widget(live.model_id, words, figure)


def show_page(sweep: Sweep) -> HTML:
    """The page as a notebook's output: its first seed. It works without a kernel, in a saved notebook too.

    A still of its opening, β = 0 at the end of the run, stands where no frame may.
    """
    return plain_html(DriftExplorer(sweep).plain())


explore_drift = DriftExplorer  # what a notebook calls; the last expression of a cell shows it
