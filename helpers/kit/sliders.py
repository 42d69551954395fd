"""Sliders: move a control, see the figure change. One mechanism for every lesson; no maths here."""

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal

import ipywidgets
from IPython.display import display

from helpers.kit.alt_text import alt_text
from helpers.kit.figures import IF_FOLDED, Picture
from helpers.kit.markup import Markup, guarded, styled
from helpers.kit.style import part, widget_style

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDE = {"description_width": "initial"}  # as much room as the words need
SHARP = 2  # pixels drawn for each pixel of the page: sharp on fine screens too

# runs where scripts of an output do not: keeps JupyterLab's keys away, names sliders and pictures
SCRIPT = Markup('<img alt="" src="data:," style="display:none" onerror="{}">').format(
    part("output.js")
)
UNSEEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)"


def show_live(
    box: ipywidgets.Box, words: str, figure: Picture | None = None, page: str | None = None
) -> None:
    """Show a widget, and with it what stands in its place where no kernel runs (GitHub, Colab before
    running): a picture, a page of HTML, or plain words.
    """
    extra = str(SCRIPT + widget_style())
    if all(getattr(child, "value", "") != extra for child in box.children):
        box.children += (ipywidgets.HTML(extra),)
        box.add_class("course")
    display_widget(box.model_id, words, figure, page)


def display_widget(
    model_id: str, words: str, figure: Picture | None = None, page: str | None = None
) -> None:
    """Display a widget by its id, with what stands in its place (`show_live`)."""
    view = {"version_major": 2, "version_minor": 0, "model_id": model_id}
    words = f"{IF_FOLDED}{words}"  # a folded output is its first line of text
    bundle, metadata = {WIDGET_VIEW: view, "text/plain": words}, {}
    if figure is not None:
        bundle["image/png"] = base64.b64encode(figure.still()).decode()
        metadata["image/png"] = figure.facts()
    if page is not None:
        bundle["text/html"] = f"<!-- {words} -->\n{styled(Markup(page))}"
    display(bundle, metadata=metadata, raw=True)


def show_picture(image: ipywidgets.Image, figure: Picture) -> None:
    """Put a figure into an image widget, sharp and at its own size."""
    image.layout.width = f"{figure.get_figwidth() * figure.DPI:.0f}px"
    image.value = figure.png(SHARP)


def in_a_row(*widgets: ipywidgets.Widget) -> ipywidgets.HBox:
    """Side by side, on more lines where the page is narrow."""
    return ipywidgets.HBox(list(widgets), layout=ipywidgets.Layout(flex_flow="row wrap"))


def button(
    words: str, action: Callable[[], None], tell: Callable[[Markup], None], style: str = ""
) -> ipywidgets.Button:
    """A button that calls `action` and tells its exceptions; `style` "primary" for the main one."""
    made = ipywidgets.Button(description=words, button_style=style)
    made.on_click(guarded(action, tell))
    return made


def exact_value(control: ipywidgets.Widget):
    """A control's value; of a slider of floats, the stop it stands on (a browser sends 7.999999999999999)."""
    if not isinstance(control, ipywidgets.FloatSlider) or not control.step:
        return control.value
    low, step = Decimal(str(control.min)), Decimal(str(control.step))
    return float(low + step * round((Decimal(control.value) - low) / step))


class Explorer:
    """Controls above what `draw(**values)` makes anew whenever one moves: a figure, or a page of HTML.

    `controls` maps each argument of `draw` to an ipywidget with a `value`. A picture is swapped in place, so
    nothing flickers. Where no kernel runs (GitHub), a saved notebook shows what was drawn, still.
    Works with ipywidgets 7.7 and 8. An error in `draw` is shown, not lost.
    """

    words = "an explorer with sliders"  # where neither picture nor page can be shown

    def __init__(self, draw: Callable[..., Picture | Markup], **controls: ipywidgets.Widget):
        self.draw, self.controls, self.drawn = draw, controls, None
        self.image, self.message = ipywidgets.Image(format="png"), ipywidgets.HTML()
        self.redraw = guarded(self._redraw, self._tell)
        for control in controls.values():
            control.observe(self.redraw, names="value")
            if hasattr(control.style, "description_width"):
                control.style.description_width = WIDE["description_width"]
        self.box = ipywidgets.VBox([in_a_row(*controls.values()), self.message])
        self.redraw()
        if isinstance(self.drawn, Picture):
            self.box.children += (self.image,)

    def _redraw(self) -> None:
        values = {name: exact_value(control) for name, control in self.controls.items()}
        before, self.drawn = self.drawn, self.draw(**values)
        if isinstance(self.drawn, Markup):
            return self._tell(self._drawn_for(values, self.drawn))
        if before is not None:
            self.drawn.place_panels_as(before)
        show_picture(self.image, self.drawn)
        self._tell(self._drawn_for(values, None, alt_text(self.drawn)))

    def _tell(self, words: Markup) -> None:
        self.message.value = str(words)

    def _drawn_for(self, values: dict, page: Markup | None, alt: str = "") -> Markup:
        """A page, or which values a picture belongs to, for those who hear it; tests read the values too."""
        labels = {
            control.description: getattr(control, "label", values[name])
            for name, control in self.controls.items()
        }
        words = ", ".join(f"{name} {value}" for name, value in labels.items())
        shown = (UNSEEN, words) if page is None else ("", page)
        tag = Markup('<div data-drawn-for="{}" data-alt="{}" role="status" style="{}">{}</div>')
        return tag.format(json.dumps(labels), alt, *shown)

    def still(self) -> Markup | None:
        """The page for where no kernel runs; None: the picture."""
        return self.drawn if isinstance(self.drawn, Markup) else None

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the same, still, where there is none."""
        picture = self.drawn if isinstance(self.drawn, Picture) else None
        show_live(self.box, self.words, picture, self.still())


def slider(description: str, value: float, low: float, high: float, step: float):
    """A number slider that redraws while it moves and can be reached by keyboard.

    Where start, ends and step are whole numbers, so is its value (int).
    """
    numbers = {"value": value, "min": low, "max": high, "step": step}
    common = {"description": description, "continuous_update": True, "style": WIDE}
    if all(float(number).is_integer() for number in numbers.values()):
        return ipywidgets.IntSlider(**{k: int(x) for k, x in numbers.items()}, **common)
    digits = max(0, *(-Decimal(f"{x:g}").as_tuple().exponent for x in (low, step)))  # that it needs
    return ipywidgets.FloatSlider(readout_format=f".{digits}f", **numbers, **common)


def stops(description: str, values: Sequence[float], start: int = 0) -> ipywidgets.SelectionSlider:
    """A slider over given values; its value is the position among them."""
    return ipywidgets.SelectionSlider(
        options=[(f"{value:g}", k) for k, value in enumerate(values)],
        value=start,
        description=description,
        style=WIDE,
    )


def picker(description: str, options: list) -> ipywidgets.Dropdown:
    """One of several values, or of (label, value) pairs."""
    return ipywidgets.Dropdown(options=options, description=description, style=WIDE)
