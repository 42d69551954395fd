"""Sliders: move a control, see the figure change. One mechanism for every lesson; no maths here."""

import base64
import html
from collections.abc import Callable
from decimal import Decimal

import ipywidgets
from IPython.display import display
from matplotlib.figure import Figure

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def show_live(
    box: ipywidgets.Widget, words: str, png: bytes | None = None, page: str | None = None
) -> None:
    """Show a widget, and with it what stands in its place where no kernel runs (GitHub, Colab before
    running): a picture, a page of HTML, or plain words.
    """
    view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    bundle = {WIDGET_VIEW: view, "text/plain": words}
    if png is not None:
        bundle["image/png"] = base64.b64encode(png).decode()
    if page is not None:
        bundle["text/html"] = page
    display(bundle, raw=True)


class Explorer:
    """Controls above a figure that `draw(**values)` makes anew whenever one of them moves.

    `controls` maps each argument of `draw` to an ipywidget with a `value`. The picture is swapped in
    place, so nothing flickers and no figure is kept. A saved notebook shows the first picture where
    no kernel runs (GitHub). Works with ipywidgets 7.7 and 8. An error in `draw` is shown, not lost.
    """

    def __init__(self, draw: Callable[..., Figure], **controls: ipywidgets.Widget):
        self.draw, self.controls = draw, controls
        self.image = ipywidgets.Image(format="png")
        self.message = ipywidgets.HTML()
        for control in controls.values():
            control.observe(self.redraw, names="value")
        row = ipywidgets.HBox(
            list(controls.values()), layout=ipywidgets.Layout(flex_flow="row wrap")
        )
        self.box = ipywidgets.VBox([row, self.message, self.image])
        self.redraw()

    def redraw(self, change: dict | None = None) -> None:
        """Draw for the controls as they stand."""
        try:
            figure = self.draw(**{name: control.value for name, control in self.controls.items()})
            self.image.value, self.message.value = figure._repr_png_(), ""
        except Exception as problem:  # noqa: BLE001 (a callback's error shows nowhere else)
            words = html.escape(f"{type(problem).__name__}: {problem}")
            self.message.value = f"<span style='color:#D55E00'>{words}</span>"

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the same picture, still, where there is none."""
        show_live(self.box, png=self.image.value, words="an explorer with sliders")


def slider(description: str, value: float, low: float, high: float, step: float):
    """A number slider that redraws while it moves and can be reached by keyboard."""
    digits = max(0, *(-Decimal(f"{x:g}").as_tuple().exponent for x in (low, step)))  # that it needs
    return ipywidgets.FloatSlider(
        value=value,
        min=low,
        max=high,
        step=step,
        description=description,
        readout_format=f".{digits}f",
        continuous_update=True,
        style={"description_width": "initial"},
    )


def picker(description: str, options: list):
    """One of several values, or of (label, value) pairs."""
    return ipywidgets.Dropdown(
        options=options, description=description, style={"description_width": "initial"}
    )
