"""The clinic: broken runs without their names, a picker for your diagnosis, and a live rerun. No maths."""

import hashlib
from collections.abc import Callable

import ipywidgets
from IPython.display import DisplayHandle

from helpers.experiments.clinic import WHOLE_RUN_SEED, Clinic
from helpers.experiments.faults import FAULTS, Fault
from helpers.experiments.runs import Run, Sample, Snapshot
from helpers.plots import training_curves
from helpers.plots.base import Picture
from helpers.plots.clinic import case_figure
from helpers.tools.validate import require, require_choice
from helpers.widgets.live import progress_html
from helpers.widgets.markup import PAGE, Markup, guarded, table
from helpers.widgets.sliders import WIDE, in_a_row, show_live, show_picture

STOP = "</s>"
WHERE_TO_LOOK = {  # where a hint sends the eye
    "score": "the score",
    "kl": "the KL from the reference",
    "entropy": "the entropy",
    "response_length": "the response length",
    "ended": "the share of responses that ended",
    "value_loss": "the value loss",
    "explained_variance": "the explained variance",
    "approx_kl": "approx_kl, and what the clip fraction says beside it",
    "clip_fraction": "the clip fraction",
    "first_ratio_error": "first_ratio_error, and from which iteration on it is large",
}


def box_html(words: str, colour: str = "#777777") -> Markup:
    """A verdict on a ground of its own, so that it can be read in a dark theme too."""
    style = f"{PAGE};border-left:5px solid {colour};padding:4px 10px;max-width:60em"
    return Markup('<div aria-live="polite" style="{}">{}</div>').format(style, words)


def right_html(fault: Fault) -> Markup:
    """The diagnosis was right: which sign gave it away."""
    words = Markup("<b>Right.</b> {}.<br>What gave it away: {}")
    return box_html(words.format(fault.title, fault.sign), "#009E73")


def wrong_html(chosen: Fault, fault: Fault) -> Markup:
    """The diagnosis was wrong: what that fault would have shown, and where to look instead."""
    where = f"Look again at {WHERE_TO_LOOK[fault.statistic]}."
    if chosen.statistic == fault.statistic:
        where = (
            f"You may be looking at the right curve, {WHERE_TO_LOOK[fault.statistic]}, but this fault "
            "is not the only one that moves it: how far, from when on, and what moves with it?"
        )
    words = Markup("<b>Not this one.</b> {} would have shown: {}<br>{}")
    return box_html(words.format(chosen.title, chosen.sign, where), "#D55E00")


def answer_html(fault: Fault) -> Markup:
    """The fault by name, its sign, and the call that trains it again."""
    call = '<code>rerun("{}")</code> trains it again, here.'
    words = Markup("<b>The answer.</b> {}.<br>The sign: {} " + call)
    return box_html(words.format(fault.title, fault.sign, fault.name))


def progress_words(total: int, solved: set[int], shown: set[int]) -> str:
    """The score, with the numbers of the cases behind it."""
    parts = [f"<b>{len(solved)} of {total} solved</b>"]
    for words, cases in (("solved", solved), ("answer shown", shown)):
        if cases:
            parts.append(f"{words}: {', '.join(str(number) for number in sorted(cases))}")
    if len(solved) == total:
        parts.append("Every patient has a diagnosis.")
    return f'<div aria-live="polite" style="padding:4px 8px">{" · ".join(parts)}</div>'


def text_and_stop(sample: Sample) -> str:
    """The text, with ■ where the policy said stop."""
    return sample.text + (" ■" if sample.tokens[-1:] == [STOP] else "")


def case_samples_html(healthy: Snapshot, case: Snapshot, name: str) -> Markup:
    """One response to each watched prompt, healthy on the left, the case on the right."""
    rows = []
    for prompt in healthy.samples:
        pair = (shot.samples[prompt][0] for shot in (healthy, case))
        rows.append([cell for s in pair for cell in (s.score, text_and_stop(s))])
    heads = ("", f"healthy, after {healthy.iteration}", "", f"{name}, after {case.iteration}")
    note = "Signed: the reward model's own score. ■: the policy stopped."
    page = Markup('<div style="{};font-size:13px">{}<div>{}</div></div>')
    return page.format(PAGE, table(rows, heads, wide=True), note)


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
        kinds = {run.kind for run in clinic.runs if run.snapshots}
        names = in_case_order([name for name in FAULTS if name in kinds])
        require(len(names) > 0, "clinic", "no broken run", f"runs of seed {WHOLE_RUN_SEED}")
        self.faults = {number: FAULTS[name] for number, name in enumerate(names, start=1)}
        self.solved, self.shown, self.pictures = set(), set(), {}
        self._make_controls()
        self.image = ipywidgets.Image(format="png")
        self.progress, self.verdict, self.samples = (ipywidgets.HTML() for _ in range(3))
        self.verdict.layout.min_height, self.samples.layout.min_height = "90px", "250px"
        self.box = self._lay_out()
        self.box.add_class("clinic")
        self.case.observe(guarded(self.show_case, self._tell), names="value")
        self.iteration.observe(guarded(self.show_samples, self._tell), names="value")
        self.show_case()

    def _make_controls(self) -> None:
        healthy = self.clinic.run("healthy", WHOLE_RUN_SEED)
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
        self.guess.add_class("waits-for-button")
        self.diagnose_button = self._button("Diagnose", self.diagnose, "primary")
        self.answer_button = self._button("Show the answer", self.show_answer)
        self.next_button = self._button("Next open case", self.next_case)

    def _button(self, words: str, action: Callable, style: str = "") -> ipywidgets.Button:
        button = ipywidgets.Button(description=words, button_style=style)
        button.on_click(guarded(action, self._tell))
        return button

    def _tell(self, words: Markup) -> None:
        self.verdict.value = words

    def _lay_out(self) -> ipywidgets.VBox:
        choose = in_a_row(self.case, self.next_button, self.progress)
        decide = in_a_row(self.guess, self.diagnose_button, self.answer_button)
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
            show_picture(self.image, self._curves())
            self.pictures[number] = self.image.value
        self.image.value = self.pictures[number]
        self.guess.value, self.verdict.value = "", self._known(number)
        self.show_samples()
        self.show_progress()

    def _curves(self) -> Picture:
        healthy = self.clinic.histories("healthy", SEEDS)
        broken = self.clinic.histories(self.fault.name, SEEDS)
        return case_figure(healthy, broken, f"Case {self.case.value}")

    def _known(self, number: int) -> str:
        if number in self.solved:
            return right_html(self.faults[number])
        return answer_html(self.faults[number]) if number in self.shown else ""

    def show_samples(self) -> None:
        """What the healthy policy and this one wrote at the chosen iteration."""
        kinds = ("healthy", self.fault.name)
        runs = (self.clinic.run(kind, WHOLE_RUN_SEED) for kind in kinds)
        shots = [run.at(self.iteration.value) for run in runs]
        self.samples.value = case_samples_html(*shots, f"case {self.case.value}")

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
        show_live(
            self.box, "the clinic: run this cell to diagnose", png=self._curves()._repr_png_()
        )


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
