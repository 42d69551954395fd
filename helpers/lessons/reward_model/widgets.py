"""Widgets of notebook 05: a fit that can be watched, and a box that scores what you type."""

from collections.abc import Callable

import ipywidgets
from IPython.display import DisplayHandle

from helpers.kit.live import progress_html
from helpers.kit.markup import Markup, table
from helpers.kit.sliders import Explorer
from helpers.lessons.reward_model.figures import fit_curves


class FitWatcher:
    """An `on_step` for `fit_reward_model` that draws the curves while it trains.

    `measure()` returns {"train": …, "test": …}; it is asked every few steps and after the last.
    """

    def __init__(self, measure: Callable[[], dict], best: float, every: int = 8):
        self.measure, self.best, self.every = measure, best, every
        self.history, self.bar, self.curves = [], DisplayHandle(), DisplayHandle()

    def __call__(self, step: int, steps: int, loss: float) -> None:
        record = {"step": step, "loss": loss}
        due = step % self.every == 0 or step in (1, steps)
        self.history.append(record | (self.measure() if due else {}))
        words = progress_html(step, steps, f"loss {loss:.3f}")
        if len(self.history) == 1:
            self.bar.display(words)
            self.curves.display(self.draw(steps))
        self.bar.update(words)
        if due:
            self.curves.update(self.draw(steps))

    def draw(self, steps: int):
        """The curves so far."""
        return fit_curves(self.history, steps, self.best)


class SentenceScorer(Explorer):
    """Type a text, see what two judges think of it.

    `score(text)` is the reward model's number, `explain(text)` the gold score with its reasons,
    `unknown(text)` the words the reward model has never seen.
    """

    words = "a field to type a review into"

    def __init__(self, score: Callable, explain: Callable, unknown: Callable, text: str = ""):
        self.score, self.explain, self.unknown = score, explain, unknown
        wide = ipywidgets.Layout(width="95%")
        field = ipywidgets.Text(
            value=text, description="review:", continuous_update=False, layout=wide
        )
        super().__init__(self.judged, text=field)

    def judged(self, text: str) -> Markup:
        """Both scores, the reasons, the unknown words."""
        gold, parts = self.explain(text)
        strange = ", ".join(self.unknown(text))
        note = Markup("<div>Words it has never seen: {}</div>").format(strange) if strange else ""
        return Markup(
            '<div style="line-height:1.5" aria-live="polite">“{}”<br>'
            "<b>reward model {:+.2f}</b> standard deviations &nbsp;·&nbsp; "
            "<b>gold score {:+.2f}</b> points, made of{}{}</div>"
        ).format(text, self.score(text), gold, table((x, what) for what, x in parts), note)
