"""What all figures share: sizes, blank figures, curves, token bars. Nothing here computes."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.ticker import LogLocator, NullLocator
from PIL import Image  # comes with matplotlib

from helpers.kit.alt_text import alt_text
from helpers.kit.palette import (  # noqa: F401 (lessons take colours from here)
    ACCENT,
    GOLD,
    KL,
    POLICY,
    QUIET_INK,
    REFERENCE,
    REWARD,
    VALUE,
    ink_on,
)
from helpers.kit.still import CORNER, MOST, SHARPNESS, few_colours, packed, rounded

rcParams.update(
    {
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.labelsize": 9,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.alpha": 0.25,
        "legend.fontsize": 9,
        "legend.title_fontsize": 9,
        "legend.frameon": False,
    }
)

# key of a record, panel title, axis label, colour
PANELS = (
    ("score", "Proxy score", "reference std", REWARD),
    ("gold", "Gold score (never trained on)", "points", GOLD),
    ("kl", "KL from the reference", "nats per response", KL),
    ("entropy", "Entropy of the policy", "nats per token", POLICY),
    ("clip_fraction", "Clipped tokens", "share", ACCENT),
    ("explained_variance", "Critic: explained variance", "share", VALUE),
)


PADDING = 0.15  # inches around a figure, which on a dark page is a white card


class Picture(Figure):
    """A figure that notebooks show as a PNG by itself, without pyplot (whose list would keep it).

    Its words go with it: in IPython's place for alternative text, and as plain text, which VS Code reads.
    """

    DPI = 80  # pixels of the page to an inch

    own_layout = None  # the layout engine set aside by `place_panels_as`

    def pixels(self, scale: float = 1) -> Image.Image:
        """The figure drawn with `scale` pixels for each pixel of the page."""
        self.set_dpi(scale * self.DPI)
        pixels = self._drawn()
        if self.own_layout is not None and touches_edge(pixels):  # longer words: make room anew
            self.set_layout_engine(self.own_layout)
            self.own_layout = None
            for axes in self.axes:
                axes.set_in_layout(True)  # which a position of its own ended
            pixels = self._drawn()
        return Image.fromarray(pixels)

    def _drawn(self) -> np.ndarray:
        canvas = FigureCanvasAgg(self)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()

    def place_panels_as(self, drawn: "Picture") -> None:
        """Put the panels where they lie in a picture of the same make, already drawn.

        Finding room for all words takes a third of the drawing, and panels that stay do not jump.
        """
        same = self.get_size_inches().tolist() == drawn.get_size_inches().tolist()
        if same and len(self.axes) == len(drawn.axes):
            self.own_layout = self.get_layout_engine()
            self.set_layout_engine("none")
            for mine, other in zip(self.axes, drawn.axes, strict=True):
                mine.set_position(other.get_position(original=True))

    def png(self, scale: int = 1) -> bytes:
        """A PNG, packed for speed rather than size."""
        return packed(self.pixels(scale), compress_level=1, optimize=False)

    def still(self, sharpness: Sequence[float] | None = None) -> bytes:
        """A PNG for a saved notebook, as sharp as `MOST` bytes allow: 64 colours do for lines and letters."""
        for scale in sharpness or SHARPNESS:
            png = packed(rounded(few_colours(self.pixels(scale)), round(scale * CORNER)))
            if len(png) <= MOST:
                break
        return png

    def facts(self) -> dict:
        """What a notebook has to know of the PNG: its words, and its width on the page in pixels."""
        return {"alt": alt_text(self), "width": round(self.DPI * self.get_figwidth())}

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        words = f"{IF_FOLDED}the figure: {alt_text(self)}"
        return {"image/png": self.still(), "text/plain": words}, {"image/png": self.facts()}


def touches_edge(pixels: np.ndarray) -> bool:
    """Whether something other than the ground stands at the edge of a picture [height, width, 3]."""
    edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    return any((edge != pixels[0, 0]).any() for edge in edges)


IF_FOLDED = "Folded? Click to see "  # JupyterLab shows the first line of a folded output's text


def new_figure(rows: int = 1, columns: int = 1, width: float = 9.0, height: float = 3.0):
    """A figure outside pyplot's list, so that none leaks: (Figure, array of Axes)."""
    figure = Picture(figsize=(width, height), layout="constrained", dpi=Picture.DPI)
    figure.get_layout_engine().set(w_pad=PADDING, h_pad=PADDING)
    return figure, figure.subplots(rows, columns, squeeze=False)


def one_panel(width: float, height: float) -> tuple[Picture, Axes]:
    """A figure with a single panel."""
    figure, grid = new_figure(1, 1, width, height)
    return figure, grid[0, 0]


def label_axes(axes: Axes, title: str = "", x: str = "", y: str = "", grid: str = "") -> None:
    """Title on the left, labels, and a quiet grid along "x", "y" or "both"."""
    axes.set(title=title, xlabel=x, ylabel=y)
    if grid:
        axes.grid(axis=grid)


def tick_words(words: Sequence[str]) -> list[str]:
    """Tokens as labels of ticks: a full stop, which looks like a speck, in words; other marks in quotes."""
    named = ("full stop" if word == "." else word for word in words)
    return [word if any(c.isalnum() for c in word) else f"“{word}”" for word in named]


def token_ticks(axes: Axes, tokens: Sequence[str]) -> None:
    """A token under each place of the x axis, turned so that they do not run into each other."""
    axes.set_xticks(range(len(tokens)), tokens, rotation=40, ha="right", fontsize=9)


def zero_line(axes: Axes) -> None:
    """A thin black line at 0."""
    axes.axhline(0, color="black", linewidth=0.8)


LINES = ("o-", "s--", "^:", "D-.")  # marks and dashes: lines differ without their colours, too


def draw_lines(axes: Axes, x: Sequence, curves: dict, colours: Sequence[str], **how) -> None:
    """A line for each label, in the order of the colours, and a legend: label → numbers."""
    for (label, y), colour, line in zip(curves.items(), colours, LINES, strict=False):
        axes.plot(x, y, line, color=colour, label=label, **{"markersize": 5} | how)
    axes.legend()


def legend_below(figure: Figure, *panels: Axes) -> None:
    """One legend in one row below all panels, for what these panels show."""
    found = [axes.get_legend_handles_labels() for axes in panels]
    handles, labels = (sum(parts, []) for parts in zip(*found, strict=True))
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), borderaxespad=1.8)


def log_ticks(axes: Axes) -> None:
    """A logarithmic y axis with numbers at 1, 2 and 5 of each power, which never pile up."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def training_curves(history: list[dict], total: int | None = None) -> Figure:
    """Six panels of a run's records; those a run does not have are left out."""
    panels = [panel for panel in PANELS if panel[0] in history[-1]]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = new_figure(rows, columns, 9.6, 2.5 * rows)
    x = [record["iteration"] for record in history]
    for axes, (key, title, unit, colour) in zip(grid.flat, panels, strict=False):
        axes.plot(x, [record[key] for record in history], color=colour, linewidth=1.8)
        label_axes(axes, title, "iteration", unit, grid="both")
        if total is not None:
            axes.set_xlim(0, max([total, *x]))  # a resumed run may be beyond what was asked for
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    return figure


def draw_seeds(
    axes: Axes, x: Sequence, curves: Sequence, colour: str, label: str, line: str = "-"
) -> None:
    """Every seed's curve as a thin line, their mean as a thick one."""
    for curve in curves:
        axes.plot(x, curve, color=colour, linewidth=0.8, alpha=0.5)
    axes.plot(x, np.mean(curves, axis=0), line, color=colour, linewidth=2.2, label=label)


def draw_bars(axes: Axes, ticks: Sequence, series: Sequence[tuple[Sequence, dict]]) -> None:
    """Groups of bars side by side, one group a tick; each of `series`: its numbers, how they look."""
    width = 0.8 / len(series)
    for k, (numbers, how) in enumerate(series):
        x = np.arange(len(ticks)) + (k - (len(series) - 1) / 2) * width
        axes.bar(x, [float(number) for number in numbers], width, **how)
    axes.set_xticks(range(len(ticks)), ticks)
    zero_line(axes)


def token_bars(tokens: Sequence, series: dict, title: str, unit: str) -> Figure:
    """Bars over the tokens of one response: `series` maps a label to (numbers, colour)."""
    figure, axes = one_panel(9.6, 2.6)
    bars = [(x, {"label": label, "color": colour}) for label, (x, colour) in series.items()]
    draw_bars(axes, tokens, bars)
    token_ticks(axes, tokens)
    label_axes(axes, title, y=unit)
    if len(series) > 1:
        axes.legend()
    return figure


# --- the loop, drawn: four models, seven steps ---------------------------------------------------------

BOXES = {  # name: x, y, colour, what it does
    "Actor π": (0.15, 0.66, POLICY, "samples · trained"),
    "Reward model": (0.48, 0.87, REWARD, "scores · frozen"),
    "Reference π_ref": (0.48, 0.57, REFERENCE, "the actor as it was · frozen"),
    "Critic V": (0.48, 0.27, VALUE, "predicts returns · trained"),
    "Rewards": (0.84, 0.72, KL, "score − β·KL"),
    "Advantages": (0.84, 0.27, GOLD, "which token earned it"),
}
LOUD, QUIET = ("black", "black"), ("#BBBBBB", QUIET_INK)  # a step's arrow and words
AROUND = ((0.84, 0.185), (0.84, 0.092), (0.15, 0.092), (0.15, 0.575))  # step 7: below everything
ARROWS = (  # step, from a box or a place, to, words, where the words stand
    (1, (0.15, 0.91), "Actor π", "1 prompts", (0.15, 0.93)),
    (2, "Actor π", "Reward model", "2 responses", (0.275, 0.80)),
    (2, "Actor π", "Reference π_ref", "", None),
    (2, "Actor π", "Critic V", "", None),
    (3, "Reward model", "Rewards", "3 scores", (0.685, 0.86)),
    (4, "Reference π_ref", "Rewards", "4 log-probs", (0.68, 0.59)),
    (5, "Rewards", "Advantages", "5 rewards", (0.90, 0.49)),
    (6, "Critic V", "Advantages", "6 values", (0.665, 0.305)),
    (7, (0.48, 0.092), "Critic V", "7 PPO updates actor and critic", (0.48, 0.035)),
)


def draw_box(axes: Axes, x: float, y: float, shade: tuple, name: str, words: str) -> FancyBboxPatch:
    """A filled box, its shade (colour, alpha), what it is and does; returned: arrows end at its edge."""
    width, height = 0.22, 0.15
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0.01", color=shade
    )
    axes.add_patch(box)
    ink = ink_on(shade) if shade[1] == 1 else QUIET_INK
    axes.text(x, y + 0.03, name, ha="center", va="center", fontsize=11, weight="bold", color=ink)
    axes.text(x, y - 0.04, words, ha="center", va="center", fontsize=9, color=ink)
    return box


def loop_figure(active: int | None = None, faded: Sequence[str] = ()) -> Figure:
    """The four models and the seven steps; with `active`, that step alone stands out; some boxes `faded`."""
    figure, axes = one_panel(9.0, 4.4)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    boxes = {}
    for name, (x, y, colour, words) in BOXES.items():
        shade = (colour, 0.2 if name in faded else 1)
        boxes[name] = draw_box(axes, x, y, shade, name, words)
    for step, start, end, words, place in ARROWS:
        line, ink = LOUD if active in (None, step) else QUIET
        arrow = {"arrowstyle": "-|>", "color": line, "lw": 1.4, "shrinkB": 3, "patchB": boxes[end]}
        box = boxes.get(start)
        arrow |= {"patchA": box, "shrinkA": 3 if box else 0}
        axes.annotate("", BOXES[end][:2], BOXES[start][:2] if box else start, arrowprops=arrow)
        if words:
            axes.text(*place, words, ha="center", va="center", fontsize=9, color=ink)
    axes.add_patch(  # the last arrow's step
        FancyArrowPatch(path=Path(AROUND), arrowstyle="-|>", mutation_scale=10, color=line, lw=1.4)
    )
    return figure
