"""Widgets of notebook 05: a fit that can be watched, and a box that scores what you type."""

import html
from collections.abc import Callable

import ipywidgets
from IPython.display import HTML, DisplayHandle

from helpers.plots.lesson05 import fit_curves
from helpers.widgets.explore import show_live
from helpers.widgets.live import progress_html


class FitWatcher:
    """An `on_step` for `fit_reward_model` that draws the curves while it trains.

    `measure()` returns {"train": …, "test": …}; it is asked every few steps and after the last.
    """

    def __init__(
        self, measure: Callable[[], dict], best: float, chance: float = 0.5, every: int = 8
    ):
        self.measure, self.best, self.chance, self.every = measure, best, chance, every
        self.history, self.bar, self.curves = [], None, DisplayHandle()

    def __call__(self, step: int, steps: int, loss: float) -> None:
        record = {"step": step, "loss": loss}
        due = step % self.every == 0 or step in (1, steps)
        self.history.append(record | (self.measure() if due else {}))
        words = progress_html(step, steps, f"loss {loss:.3f}")
        if self.bar is None:
            self.bar = DisplayHandle()
            self.bar.display(words)
            self.curves.display(self.draw(steps))
        self.bar.update(words)
        if due:
            self.curves.update(self.draw(steps))

    def draw(self, steps: int):
        """The curves so far."""
        return fit_curves(self.history, steps, self.chance, self.best)


class SentenceScorer:
    """Type a text, see what two judges think of it.

    `score(text)` is the reward model's number, `explain(text)` the gold score with its reasons,
    `unknown(text)` the words the reward model has never seen. Works with ipywidgets 7.7 and 8.
    """

    def __init__(self, score: Callable, explain: Callable, unknown: Callable, text: str = ""):
        self.score, self.explain, self.unknown = score, explain, unknown
        self.field = ipywidgets.Text(
            value=text,
            description="review:",
            continuous_update=False,
            layout=ipywidgets.Layout(width="95%"),
        )
        self.card = ipywidgets.HTML()
        self.field.observe(self.show, names="value")
        self.box = ipywidgets.VBox([self.field, self.card])
        self.show()

    def show(self, change: dict | None = None) -> None:
        """Judge the text as it stands; an error is shown, not lost."""
        try:
            self.card.value = self.page(self.field.value)
        except Exception as problem:  # noqa: BLE001 (a callback's error shows nowhere else)
            words = html.escape(f"{type(problem).__name__}: {problem}")
            self.card.value = f'<span style="color:#D55E00">{words}</span>'

    def page(self, text: str) -> str:
        """Both scores, the reasons, the unknown words: everything escaped."""
        gold, parts = self.explain(text)
        rows = "".join(
            f'<tr style="background:none"><td style="text-align:right">{points:+.2f}</td>'
            f'<td style="text-align:left">{html.escape(what)}</td></tr>'
            for what, points in parts
        )
        strange = ", ".join(self.unknown(text))
        note = f"<div>Words it has never seen: {html.escape(strange)}</div>" if strange else ""
        return (
            f'<div style="line-height:1.5" aria-live="polite">“{html.escape(text)}”<br>'
            f"<b>reward model {self.score(text):+.2f}</b> standard deviations &nbsp;·&nbsp; "
            f"<b>gold score {gold:+.2f}</b> points, made of<table>{rows}</table>{note}</div>"
        )

    def _ipython_display_(self) -> None:
        """The live field where there is a kernel; its card, still, where there is none."""
        show_live(self.box, "a field to type a review into", page=self.card.value)


def show_table(columns: list[str], rows: list[tuple]) -> HTML:
    """Rows of texts and numbers as a table; every cell is escaped."""
    style = 'style="text-align:left;vertical-align:top"'
    head = "".join(f"<th {style}>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td {style}>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return HTML(f"<table><tr>{head}</tr>{body}</table>")
