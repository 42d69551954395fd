"""Predict, then look: the reader commits to an answer before it is shown.

Three kinds of question: a choice (`predict_choice`), a number (`predict_value`), a curve
(`predict_curve`). Each says what was right or wrong about the answer, and why. Where no kernel runs
the answer stands folded below the question.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import ipywidgets

from helpers.kit.figures import label_axes, one_panel
from helpers.kit.markup import Markup, card, guarded
from helpers.kit.palette import ACCENT, POLICY
from helpers.kit.sliders import exact_value, in_a_row, show_live, show_picture, slider
from helpers.tools.validate import require, require_number

RIGHT = ""  # the remark of the right choice: `predict_choice` shows the explanation alone
BUTTON = "This is my prediction"


class Prediction:
    """A question, its controls, a button; then the verdict and the explanation, and no way back.

    `controls` are ipywidgets, `answered()` says whether they hold an answer yet, `judge()` says
    whether it is right, and a remark on it. `committed` is None until the reader has committed, then both.
    """

    def __init__(
        self,
        question: str,
        controls: Sequence[ipywidgets.Widget],
        judge: Callable[[], tuple[bool, str]],
        explanation: str,
        answered: Callable[[], bool] = lambda: True,
        answer: str = "",
        choices: Sequence[str] = (),
    ):
        self.question, self.explanation, self.answer = question, explanation, answer
        self.choices = list(choices)  # what a page without a kernel offers
        self.controls, self.judge, self.answered = list(controls), judge, answered
        self.committed: tuple[bool, str] | None = None
        self.button = ipywidgets.Button(description=BUTTON, layout=ipywidgets.Layout(width="auto"))
        self.message = ipywidgets.HTML()
        self.button.on_click(guarded(self.commit, self._tell))
        for control in self.controls:
            control.observe(self._ready, names="value")
        row = in_a_row(*self.controls)
        row.add_class("waits-for-button")  # what they say is taken when the button is pressed
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(str(card(Markup("<b>{}</b>").format(question)))),
                row,
                self.button,
                self.message,
            ]
        )
        self._ready()

    def commit(self) -> None:
        """Take the answer as it stands, judge it, and show the explanation; once."""
        if self.committed is not None:
            return
        require(self.answered(), "prediction", "none yet", "an answer before the button")
        self.committed = self.judge()
        for control in (*self.controls, self.button):
            control.disabled = True
        self._tell(self._revealed(*self.committed))

    def _ready(self, change: object = None) -> None:
        self.button.disabled = self.committed is not None or not self.answered()

    def _tell(self, words: str) -> None:
        self.message.value = str(words)

    def _revealed(self, right: bool, remark: str) -> Markup:
        word, kind = ("Right.", "right") if right else ("Not quite.", "wrong")
        said = Markup('<b class="is-{}">{}</b> {} {}')
        words = said.format(kind, word, remark, self.explanation)
        return card(words, f"verdict {kind}", role="status")

    def folded(self) -> Markup:
        """The question and its choices, and the answer folded, for a page without a kernel."""
        page = Markup(
            "<p><b>{}</b></p>{}<details><summary>Answer (decide first)</summary><p>{} {}</p></details>"
        )
        offered = listed(self.choices)
        return card(page.format(self.question, offered, self.answer, self.explanation))

    def _ipython_display_(self) -> None:
        show_live(self.box, f"{self.question} (run this cell to answer)", page=self.folded())


def listed(choices: Sequence[str]) -> Markup:
    """Choices as a list of HTML; nothing where there are none."""
    rows = Markup("").join(Markup("<li>{}</li>").format(choice) for choice in choices)
    return Markup("<ul>{}</ul>").format(rows) if choices else rows


def predict_choice(question: str, choices: Mapping[str, str], explanation: str) -> Prediction:
    """One of several answers; `choices` maps each to the remark on it, the right one to `RIGHT`.

    ValueError: not exactly one right.
    """
    found = [choice for choice, remark in choices.items() if remark == RIGHT]
    require(len(found) == 1, "choices", f"{len(found)} right ones", "exactly one with RIGHT")
    (right,) = found
    radio = ipywidgets.RadioButtons(
        options=list(choices), value=None, layout=ipywidgets.Layout(width="auto")
    )

    def judge() -> tuple[bool, str]:
        return radio.value == right, choices[radio.value]

    def chosen() -> bool:
        return radio.value is not None

    return Prediction(question, [radio], judge, explanation, chosen, f"{right}.", radio.options)


def predict_value(
    question: str,
    truth: float,
    low: float,
    high: float,
    step: float,
    tolerance: float,
    explanation: str,
    too_low: str = "It is more than that.",
    too_high: str = "It is less than that.",
    unit: str = "",
) -> Prediction:
    """A number on a slider from `low` to `high`; right within `tolerance` of the `truth`.

    The slider starts in the middle, or at `low` where the middle is right, and has to be moved before
    it counts. ValueError: a truth outside the slider.
    """
    require_number("truth", truth, low, high)
    middle = low + step * round((high - low) / step / 2)
    start = low if abs(middle - truth) <= tolerance else middle
    control = slider(unit, start, low, high, step)
    moved: list[object] = []
    control.observe(moved.append, names="value")

    def judge() -> tuple[bool, str]:
        gap = exact_value(control) - truth
        if abs(gap) <= tolerance:
            return True, ""
        return False, too_low if gap < 0 else too_high

    words = f"{truth:g} {unit}".strip() + "."
    shown = f"It is {words} {explanation}"
    between = f"a number from {low:g} to {high:g}" + f" ({unit})" * bool(unit)
    return Prediction(question, [control], judge, shown, lambda: bool(moved), choices=[between])


def predict_curve(
    question: str,
    x: Sequence[float],
    truth: Sequence[float],
    low: float,
    high: float,
    explanation: str,
    remark: Callable[[list[float]], str] | None = None,
    labels: tuple[str, str] = ("", ""),
) -> Prediction:
    """A curve through up to eight points, each on a slider of its own; then the true one beside it.

    Right where the mean distance is at most 15 % of the range from `low` to `high`. `remark`
    may say what is wrong with a drawn curve. ValueError: numbers outside the range.
    """
    for value in truth:
        require_number("truth", value, low, high)
    middle, step = (low + high) / 2, (high - low) / 50
    sliders = [
        ipywidgets.FloatSlider(
            value=middle, min=low, max=high, step=step, description=f"{at:g}",
            orientation="vertical", readout=False, layout=ipywidgets.Layout(width="64px"),
        )
        for at in x
    ]  # fmt: skip
    image, moved = ipywidgets.Image(format="png"), []

    def draw(with_truth: bool) -> None:
        figure, axes = one_panel(5.6, 2.8)
        axes.plot(x, [s.value for s in sliders], "o--", color=ACCENT, label="your prediction")
        if with_truth:
            axes.plot(x, truth, "o-", color=POLICY, label="measured")
        axes.set_ylim(low, high)
        axes.legend()
        label_axes(axes, "", *labels, grid="both")
        show_picture(image, figure)

    def judge() -> tuple[bool, str]:
        drawn = [each.value for each in sliders]
        draw(with_truth=True)
        away = math.fsum(abs(a - b) for a, b in zip(drawn, truth, strict=True)) / len(drawn)
        right = away <= 0.15 * (high - low)
        return right, "" if right or remark is None else remark(drawn)

    for each in sliders:
        each.observe(lambda change: (moved.append(change), draw(with_truth=False)), names="value")
    draw(with_truth=False)
    points = ", ".join(f"{b:.3g} at {a:g}" for a, b in zip(x, truth, strict=True))
    made = Prediction(
        question, sliders, judge, explanation, lambda: bool(moved), f"Measured: {points}."
    )
    made.box.children = (*made.box.children[:2], image, *made.box.children[2:])
    return made
