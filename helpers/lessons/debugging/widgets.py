"""Cases without their names, and your diagnosis. No maths."""

import hashlib
from collections.abc import Iterable

import ipywidgets

from helpers.kit.figures import Picture
from helpers.kit.markup import Markup, card, guarded, table
from helpers.kit.sliders import WIDE, button, in_a_row, picker, show_live, show_picture
from helpers.lessons.debugging.cases import CASES, FIRST_SEEDS, Case
from helpers.lessons.debugging.differences import tell_apart
from helpers.lessons.debugging.figures import case_figure
from helpers.lessons.debugging.study import WHOLE_RUN_SEED, Clinic
from helpers.state import History
from helpers.studies.faults import FAULTS
from helpers.studies.runs import Sample, Snapshot
from helpers.tools.validate import require

STOP = "</s>"
HEALTHY = "healthy"  # what the reader says of a case without a fault


def verdict(kind: str, words: str, *values: object) -> Markup:
    """A verdict, its values escaped: `kind` is "right", "half", "wrong" or nothing."""
    return card(Markup(words).format(*values), f"verdict {kind}", aria_live="polite")


RIGHT = "<b>Right.</b> {}.<br>What gave it away: {}"
HALF = (
    "<b>Right: it is there.</b> {}.<br>It is repaired, and the run is trained again: the picture "
    "shows it as it is now. Is it healthy?"
)
NOT_THIS = "<b>Not this one.</b> {}. It would have shown: {}<br>{}"
ANSWER = "<b>The answer.</b> {}.<br>The sign: {}{}"
NO_NUMBER = "No curve tells the two apart on these seeds."
AGAIN = Markup(' <code>rerun("{}")</code> trains it again, here.')


def progress_words(total: int, solved: set[int], shown: set[int]) -> str:
    """The score, with the numbers of the cases behind it."""
    parts = [f"<b>{len(solved)} of {total} solved</b>"]
    for words, cases in (("solved", solved), ("answer shown", shown)):
        if cases:
            parts.append(f"{words}: {', '.join(str(number) for number in sorted(cases))}")
    if len(solved) == total:
        parts.append("Every case has a diagnosis.")
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
    return card(table(rows, heads, wide=True) + Markup("<div>{}</div>").format(note))


NOTHING = "choose a diagnosis …"
WELL = "Nothing is wrong: healthy"
WELL_SIGN = (
    "Every curve in or near the grey band, the first ratio 1, KL from 0 upwards, the score rising."
)


def in_case_order(cases: Iterable[Case]) -> list[Case]:
    """Shuffled, but the same for everybody, by a hash of the name; those with one clear fault first."""
    digest = lambda case: hashlib.sha256(case.kind.encode()).hexdigest()  # noqa: E731
    return sorted(cases, key=lambda case: (case.kind not in FAULTS, digest(case)))


class ClinicExplorer:
    """Pick a `case`, look at curves and samples, name a fault or say healthy, press Diagnose.

    `case.value` is a number from 1; `guess.value` a fault's name or "healthy"; `diagnose()`,
    `show_answer()` and `next_case()` do what the buttons do. Of two faults, the one named first is
    repaired, and the case goes on with the other. `solved` and `shown` hold the cases named rightly,
    and those whose answer was asked for first. Works with ipywidgets 7.7 and 8; a picture is drawn
    once a case.
    """

    def __init__(self, clinic: Clinic):
        self.clinic = clinic
        whole = {(run.kind, run.config.seed) for run in clinic.runs if run.snapshots}
        there = in_case_order(p for p in CASES if (p.kind, p.seeds[0]) in whole)
        require(len(there) > 0, "clinic", "no case", f"runs of seed {WHOLE_RUN_SEED}")
        self.cases = dict(enumerate(there, start=1))
        self.now = dict(self.cases)  # after a repair, what is left
        self.solved, self.shown, self.pictures = set(), set(), {}
        self._make_controls()
        self.image = ipywidgets.Image(format="png")
        self.progress, self.verdict, self.samples = (ipywidgets.HTML() for _ in range(3))
        self.verdict.layout.min_height, self.samples.layout.min_height = "90px", "250px"
        choose = in_a_row(self.case, self.next_button, self.progress)
        decide = in_a_row(self.guess, self.diagnose_button, self.answer_button)
        rows = [choose, self.image, decide, self.verdict, self.iteration, self.samples]
        self.box = ipywidgets.VBox(rows)
        self.box.add_class("clinic")
        self.case.observe(guarded(self.show_case, self._tell), names="value")
        self.iteration.observe(guarded(self.show_samples, self._tell), names="value")
        self.show_case()

    def _make_controls(self) -> None:
        healthy = self.clinic.run("healthy", WHOLE_RUN_SEED)
        stops = [shot.iteration for shot in healthy.snapshots]
        cases = [(f"case {number}", number) for number in self.cases]
        titles = sorted((fault.title, fault.name) for fault in FAULTS.values())
        self.case = picker("case", cases)
        self.guess = picker("diagnosis", [(NOTHING, ""), (WELL, HEALTHY), *titles])
        self.guess.layout.width, self.guess.layout.max_width = "32em", "100%"
        self.iteration = ipywidgets.SelectionSlider(
            options=[(str(stop), stop) for stop in stops],
            value=stops[-1],
            description="samples after iteration",
            style=WIDE,
            layout=ipywidgets.Layout(width="26em"),
        )
        self.guess.add_class("waits-for-button")
        self.diagnose_button = button("Diagnose", self.diagnose, self._tell, "primary")
        self.answer_button = button("Show the answer", self.show_answer, self._tell)
        self.next_button = button("Next open case", self.next_case, self._tell)

    def _tell(self, words: Markup) -> None:
        self.verdict.value = words

    @property
    def current(self) -> Case:
        """This case as it is now."""
        return self.now[self.case.value]

    def show_case(self) -> None:
        """Curves, samples and what was already said about the case now picked."""
        number, kind = self.case.value, self.current.kind
        if (number, kind) not in self.pictures:
            show_picture(self.image, self._curves())
            self.pictures[number, kind] = self.image.value
        self.image.value = self.pictures[number, kind]
        self.guess.value, self.verdict.value = "", self._known(number)
        self.show_samples()
        self.show_progress()

    def _curves(self) -> Picture:
        healthy = self.clinic.histories(HEALTHY, FIRST_SEEDS)
        return case_figure(healthy, self._runs(self.current), self._name())

    def _runs(self, case: Case) -> list[History]:
        return self.clinic.histories(case.kind, case.seeds)

    def _name(self) -> str:
        repaired = self.current != self.cases[self.case.value]
        return f"Case {self.case.value}" + (", one fault repaired" if repaired else "")

    def _known(self, number: int) -> str:
        if number in self.solved:
            return self._right(number)
        return self._answer(number) if number in self.shown else ""

    def _right(self, number: int) -> Markup:
        return verdict("right", RIGHT, self.cases[number].title, self.cases[number].sign)

    def _answer(self, number: int) -> Markup:
        case = self.cases[number]
        call = AGAIN.format(case.kind) if case.faults else ""
        return verdict("", ANSWER, case.title, case.sign, call)

    def show_samples(self) -> None:
        """What the healthy policy and this one sampled at the chosen iteration."""
        who = ((HEALTHY, WHOLE_RUN_SEED), (self.current.kind, self.current.seeds[0]))
        shots = [self.clinic.run(*one).at(self.iteration.value) for one in who]
        self.samples.value = case_samples_html(*shots, self._name().lower())

    def show_progress(self) -> None:
        """How many cases are solved, and which."""
        self.progress.value = progress_words(len(self.cases), self.solved, self.shown)

    def diagnose(self) -> None:
        """Say whether this is the case's fault, and what gave it away or would have."""
        name, number, case = self.guess.value, self.case.value, self.current
        if not name:
            self.verdict.value = verdict("", "Choose a diagnosis first, then press Diagnose.")
            return
        if name in case.faults and len(case.faults) > 1:
            self.now[number] = case.without(name)
            self.show_case()
            self.verdict.value = verdict("half", HALF, FAULTS[name].title)
            return
        if case.faults != (() if name == HEALTHY else (name,)):
            self.verdict.value = self._refuse(name)
            return
        if number not in self.shown:
            self.solved.add(number)
        self.verdict.value = self._right(number)
        self.show_progress()

    def _refuse(self, name: str) -> Markup:
        """Why it is not this: the number that tells the chosen diagnosis from the case."""
        title, sign = (
            (WELL, WELL_SIGN) if name == HEALTHY else (FAULTS[name].title, FAULTS[name].sign)
        )
        there = self.clinic.histories(name, FIRST_SEEDS)
        found = tell_apart(self._runs(self.current), there)
        number = f"What tells the two apart is {found}." if found else NO_NUMBER
        return verdict("wrong", NOT_THIS, title, sign, number)

    def show_answer(self) -> None:
        """Name what is wrong. A case not solved before then counts as shown, not as solved."""
        number = self.case.value
        if number not in self.solved:
            self.shown.add(number)
        self.verdict.value = self._answer(number)
        self.show_progress()

    def next_case(self) -> None:
        """Go to the next case neither solved nor shown, round the corner if need be."""
        here, total = self.case.value, len(self.cases)
        following = [(here + step - 1) % total + 1 for step in range(1, total + 1)]
        closed = self.solved | self.shown
        self.case.value = next((n for n in following if n not in closed), following[0])

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the curves of this case where there is none."""
        show_live(self.box, "the cases: run this cell to diagnose", self._curves())


def explore_clinic(clinic: Clinic) -> ClinicExplorer:
    """The cases as a page; the last expression of a cell shows it."""
    return ClinicExplorer(clinic)
