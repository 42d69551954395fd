"""The clinic: broken runs without their names, a picker for your diagnosis, and a live rerun. No maths."""

import hashlib
from collections.abc import Callable

import ipywidgets
from IPython.display import DisplayHandle

from helpers.clinic import SHOWN, Clinic
from helpers.faults import FAULTS, Fault
from helpers.histories import run_name
from helpers.plots import training_curves
from helpers.plots.clinic import case_figure
from helpers.runs import Run
from helpers.validate import require, require_choice
from helpers.widgets.clinic_page import (
    answer_html,
    box_html,
    progress_words,
    right_html,
    samples_html,
    wrong_html,
)
from helpers.widgets.drift_page import problem_html
from helpers.widgets.explore import show_live
from helpers.widgets.live import progress_html

WIDE = {"description_width": "initial"}
SEEDS = (0, 1, 2)  # drawn; the samples are those of seed 0
NOTHING = "choose a fault …"


def in_case_order(names: list[str]) -> list[str]:
    """Shuffled, but the same for everybody: by a hash of the name."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())


class ClinicExplorer:
    """Pick a `case`, look at curves and samples, name the fault, press Diagnose.

    `case.value` is a number from 1; `guess.value` a fault's name; `diagnose()`, `show_answer()` and
    `next_case()` do what the buttons do. `solved` and `shown` hold the cases named rightly, and those
    whose answer was asked for first. Works with ipywidgets 7.7 and 8; a picture is drawn once a case.
    """

    def __init__(self, clinic: Clinic):
        self.clinic = clinic
        names = in_case_order([n for n in FAULTS if run_name(n, SHOWN) in clinic.runs])
        require(len(names) > 0, "clinic", "no broken run", f"runs of seed {SHOWN}")
        self.faults = {number: FAULTS[name] for number, name in enumerate(names, start=1)}
        self.solved, self.shown, self.pictures = set(), set(), {}
        self._make_controls()
        self.image = ipywidgets.Image(format="png")
        self.progress, self.verdict, self.samples = (ipywidgets.HTML() for _ in range(3))
        self.box = self._lay_out()
        self.box.add_class("clinic")
        self.case.observe(self._guarded(self.show_case), names="value")
        self.iteration.observe(self._guarded(self.show_samples), names="value")
        self.show_case()

    def _make_controls(self) -> None:
        healthy = self.clinic.runs[run_name("healthy", SHOWN)]
        stops = [shot.iteration for shot in healthy.snapshots]
        cases = [(f"case {number}", number) for number in self.faults]
        titles = sorted((fault.title, fault.name) for fault in self.faults.values())
        self.case = ipywidgets.Dropdown(options=cases, description="patient", style=WIDE)
        self.guess = ipywidgets.Dropdown(
            options=[(NOTHING, ""), *titles],
            description="diagnosis",
            style=WIDE,
            layout=ipywidgets.Layout(width="32em", max_width="100%"),
        )
        self.iteration = ipywidgets.SelectionSlider(
            options=[(str(stop), stop) for stop in stops],
            value=stops[-1],
            description="samples after iteration",
            style=WIDE,
            layout=ipywidgets.Layout(width="26em"),
        )
        self.diagnose_button = self._button("Diagnose", self.diagnose, "primary")
        self.answer_button = self._button("Show the answer", self.show_answer)
        self.next_button = self._button("Next open case", self.next_case)

    def _button(self, words: str, action: Callable, style: str = "") -> ipywidgets.Button:
        button = ipywidgets.Button(description=words, button_style=style)
        button.on_click(self._guarded(action))
        return button

    def _guarded(self, action: Callable) -> Callable:
        """For callbacks: a problem is told on the page, since it would show nowhere else."""

        def act(_) -> None:
            try:
                action()
            except Exception as problem:  # noqa: BLE001
                self.verdict.value = problem_html(problem)

        return act

    def _lay_out(self) -> ipywidgets.VBox:
        wrap = ipywidgets.Layout(flex_flow="row wrap")
        choose = ipywidgets.HBox([self.case, self.next_button, self.progress], layout=wrap)
        controls = [self.guess, self.diagnose_button, self.answer_button]
        decide = ipywidgets.HBox(controls, layout=wrap)
        return ipywidgets.VBox(
            [choose, self.image, decide, self.verdict, self.iteration, self.samples]
        )

    @property
    def fault(self) -> Fault:
        """What this case has."""
        return self.faults[self.case.value]

    def show_case(self) -> None:
        """Curves, samples and what was already said about the case now picked."""
        number = self.case.value
        if number not in self.pictures:
            healthy = self.clinic.of_kind("healthy", SEEDS)
            broken = self.clinic.of_kind(self.fault.name, SEEDS)
            self.pictures[number] = case_figure(healthy, broken, f"Case {number}")._repr_png_()
        self.image.value = self.pictures[number]
        self.guess.value, self.verdict.value = "", self._known(number)
        self.show_samples()
        self.show_progress()

    def _known(self, number: int) -> str:
        if number in self.solved:
            return right_html(self.faults[number])
        return answer_html(self.faults[number]) if number in self.shown else ""

    def show_samples(self) -> None:
        """What the healthy policy and this one wrote at the chosen iteration."""
        runs = [self.clinic.runs[run_name(kind, SHOWN)] for kind in ("healthy", self.fault.name)]
        shots = [run.at(self.iteration.value) for run in runs]
        self.samples.value = samples_html(*shots, f"case {self.case.value}")

    def show_progress(self) -> None:
        """How many cases are solved, and which."""
        self.progress.value = progress_words(len(self.faults), self.solved, self.shown)

    def diagnose(self) -> None:
        """Say whether the chosen fault is this case's, and what gave it away or would have."""
        name, number = self.guess.value, self.case.value
        if not name:
            self.verdict.value = box_html("Choose a fault first, then press Diagnose.")
            return
        require_choice("diagnosis", name, tuple(fault.name for fault in self.faults.values()))
        if name != self.fault.name:
            self.verdict.value = wrong_html(FAULTS[name], self.fault)
            return
        if number not in self.shown:
            self.solved.add(number)
        self.verdict.value = right_html(self.fault)
        self.show_progress()

    def show_answer(self) -> None:
        """Name the fault. A case not solved before then counts as shown, not as solved."""
        if self.case.value not in self.solved:
            self.shown.add(self.case.value)
        self.verdict.value = answer_html(self.fault)
        self.show_progress()

    def next_case(self) -> None:
        """Go to the next case neither solved nor shown, round the corner if need be."""
        here, total = self.case.value, len(self.faults)
        following = [(here + step - 1) % total + 1 for step in range(1, total + 1)]
        closed = self.solved | self.shown
        self.case.value = next((n for n in following if n not in closed), following[0])

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the curves of this case where there is none."""
        show_live(self.box, "the clinic: run this cell to diagnose", png=self.image.value)


def explore_clinic(clinic: Clinic) -> ClinicExplorer:
    """The clinic as a page; the last expression of a cell shows it."""
    return ClinicExplorer(clinic)


def follow(total: int) -> Callable[[Run], None]:
    """For `rerun(…, shown=follow(total))`: a bar and curves that grow with the run, below the cell."""
    bar, curves = DisplayHandle(), DisplayHandle()
    bar.display(progress_html(0, total, "loading the models"))

    def shown(run: Run) -> None:
        record, done = run.history[-1], len(run.history)
        words = f"score {record['score']:+.2f}   KL {record['kl']:.2f}"
        bar.update(progress_html(done, total, f"{words}   {record['seconds']:.1f} s an iteration"))
        (curves.display if done == 1 else curves.update)(training_curves(run.history, total))

    return shown
