"""The three pictures of the drift explorer: the reward–KL plane, the curves, the next token.

Each keeps its figure and moves its artists (`panel.py`). They draw `helpers.experiments.drift.View`s.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib import font_manager
from matplotlib.ticker import FixedLocator, NullLocator
from PIL import Image, ImageDraw, ImageFont

from helpers.experiments.drift import Drift, DriftView
from helpers.plots.palette import GOLD, KL, POLICY, REFERENCE, REWARD, VALUE
from helpers.plots.panel import Panel

WIDE, LOW, HIGH = 535, 310, 285  # pixels: two beside each other in JupyterLab on a 1280 px screen
PADDING = 0.06
DEEP = -15.0  # a score below which a linear axis would flatten all the others


def limits(numbers: Sequence[float]) -> tuple[float, float]:
    """The range of the finite ones, with some air."""
    finite = [x for x in numbers if math.isfinite(x)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    air = PADDING * ((high - low) or 1.0)
    return low - air, high + air


def bend(axes, low: float, high: float) -> None:
    """A score axis that is linear near 0 and logarithmic far below, where a collapsed policy's gold is."""
    axes.set_yscale("symlog", linthresh=2)
    marks = [-500, -200, -100, -50, -20, -10, -5, -2, -1, 0, 1, 2, 5]
    axes.yaxis.set_major_locator(FixedLocator([x for x in marks if low <= x <= high]))
    axes.yaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


class Plane(Panel):
    """Proxy against KL: every run's end, the exact frontier, and where you are."""

    def __init__(self, drift: Drift):
        super().__init__(WIDE, LOW)
        self.drift, axes = drift, self.axes["A"]
        self.rest: list = []  # what `refresh` put there
        style = {"color": POLICY, "zorder": 3}
        (self.path,) = self.moving(axes.plot([], [], "-", linewidth=1, alpha=0.55, **style))
        (self.best_line,) = self.moving(axes.plot([], [], "--", color=KL, linewidth=1.6))
        (self.own_line,) = self.moving(axes.plot([], [], ":", color=POLICY, linewidth=1.4))
        (self.best,) = self.moving(axes.plot([], [], "*", color=KL, markersize=13, zorder=4))
        (self.here,) = self.moving(
            axes.plot(
                [], [], "o", markersize=11, markeredgecolor="white", **(style | {"zorder": 5})
            )
        )
        place = {"transform": axes.transAxes, "fontsize": 8, "ha": "right"}
        axes.text(
            0.985, 0.11, "●  dotted, slope β: every policy with your J", color=POLICY, **place
        )
        axes.text(0.985, 0.04, "★  dashed: J*, the most there can be", color=KL, **place)
        self.refresh()

    def refresh(self) -> None:
        """Draw again what stands still: after a run has joined."""
        for artist in self.rest:
            artist.remove()
        axes, drift = self.axes["A"], self.drift
        frontier, ends = drift.frontier(), drift.finals()
        floor = drift.sweep.reference_value.mean
        self.reach = max([best.kl for best in frontier], default=1.0)
        self.right = max([1.1 * self.reach] + [1.08 * end["kl"] for end in ends])
        self.rest = []
        self._scale(axes)
        curve = [(0.0, floor)] + [(best.kl, best.score) for best in frontier]
        self.rest += axes.plot(*zip(*curve, strict=True), color="black", linewidth=2)
        self.rest += axes.plot(0, floor, "s", color=REFERENCE, markersize=8, clip_on=False)
        self._ends(axes, ends)
        scores = [end["proxy"] for end in ends] + [score for _, score in curve]
        low, high = limits(scores)
        axes.set_ylim(low - 0.12 * (high - low), high + 0.05 * (high - low))
        self._words(axes)
        self.stale()

    def _scale(self, axes) -> None:
        """Linear as far as the frontier goes, logarithmic beyond it, where only small β get."""
        if self.right > 2 * self.reach:
            self.knee = math.ceil(self.reach)
            axes.set_xscale("symlog", linthresh=self.knee, linscale=1.2)
            whole = range(0, self.knee + 1, 1 + self.knee // 7)
            far = [x for x in (5, 10, 15, 20, 30, 50, 100) if self.knee < x < self.right]
            axes.xaxis.set_major_locator(FixedLocator([*whole, *far]))
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            self.rest.append(axes.axvline(self.knee, color="#bbbbbb", linewidth=0.8))
        axes.set_xlim(-0.02 * min(self.right, 2 * self.reach), self.right)

    def _ends(self, axes, ends: list[dict]) -> None:
        """A dot for each trained run, a triangle for each added run."""
        marks = {
            "trained": ("o", "#5b7f95", 5),
            "added": ("^", VALUE, 8),
        }
        for kind, (mark, colour, size) in marks.items():
            here = [end for end in ends if end["kind"] == kind]
            x, y = [end["kl"] for end in here], [end["proxy"] for end in here]
            self.rest += axes.plot(
                x, y, mark, color=colour, markersize=size, markeredgecolor="#5b7f95", alpha=0.9
            )
        for beta in sorted({end["kl_coef"] for end in ends if end["kind"] == "trained"}):
            here = [e for e in ends if e["kl_coef"] == beta and e["kind"] == "trained"]
            x = sum(end["kl"] for end in here) / len(here)
            y = min(end["proxy"] for end in here)
            text = axes.annotate(
                f"{beta:g}", (x, y), (2, -5), textcoords="offset points", va="top", fontsize=8
            )
            self.rest.append(text)

    def _words(self, axes) -> None:
        words = "Proxy against KL: each run's end, by β;  ■ reference;  — the frontier"
        axes.set_title(words, fontsize=9, loc="left")
        bent = "; logarithmic beyond the vertical line" if axes.get_xscale() == "symlog" else ""
        axes.set_xlabel(f"KL from the reference, nats per response{bent}")
        axes.set_ylabel("proxy score (reference std)")
        axes.grid(alpha=0.2)

    def update(self, view: DriftView) -> None:
        """Move to this view."""
        now, best = view.values, view.optimum
        x = np.linspace(0, self.right, 120)
        shown = slice(0, view.iteration + 1)
        self.path.set_data(view.curves["kl"][shown], view.curves["proxy"][shown])
        self.here.set_data([now["kl"]], [now["proxy"]])
        self.own_line.set_data(x, now["J"] + now["beta"] * x)
        if best is None:
            self.best_line.set_data([], [])
            self.best.set_data([], [])
        else:
            self.best_line.set_data(x, best.value + now["beta"] * x)
            self.best.set_data([best.kl], [best.score])


class Curves(Panel):
    """Proxy and gold over the iterations, entropy and length below; the present one marked."""

    PLACES = {"proxy": "A", "gold": "A", "entropy": "B", "length": "C"}
    COLOURS = {"proxy": REWARD, "gold": GOLD, "entropy": POLICY, "length": VALUE}

    def __init__(self, drift: Drift):
        super().__init__(WIDE, LOW, "AA;AA;BC")
        self.drift = drift
        self.others = {name: self._lines(name, 2, 0.8, 0.35) for name in self.PLACES}
        self.lines = {name: self._lines(name, 1, 2.0, 1.0)[0] for name in self.PLACES}
        self.dots = {name: self._lines(name, 1, 0, 1.0, "o")[0] for name in self.PLACES}
        self.marks = [
            self.moving(axes.axvline(0, color="black", linewidth=1, alpha=0.6))
            for axes in self.axes.values()
        ]
        titles = {
            "A": "Over the iterations: proxy (solid) and gold (dashed); other seeds faint",
            "B": "entropy, nats per token",
            "C": "response length, tokens",
        }
        for name, axes in self.axes.items():
            axes.set_title(titles[name], fontsize=9, loc="left")
            axes.grid(alpha=0.2)
        self.axes["A"].set_ylabel("proxy: std · gold: points")
        self.refresh()

    def _lines(self, name: str, count: int, width: float, alpha: float, mark: str = "") -> list:
        axes, colour = self.axes[self.PLACES[name]], self.COLOURS[name]
        style = "--" if name == "gold" and not mark else "-"
        empty = [
            axes.plot([], [], mark or style, color=colour, linewidth=width, alpha=alpha)[0]
            for _ in range(count)
        ]
        return self.moving(empty)

    def refresh(self) -> None:
        """Find limits that hold for every run, so that the axes stand still."""
        everything = self.drift.all_curves()
        longest = max(curves["iteration"][-1] for curves in everything)
        for place, axes in self.axes.items():
            names = [name for name, where in self.PLACES.items() if where == place]
            low, high = limits([x for c in everything for name in names for x in c[name]])
            if low < DEEP:
                bend(axes, low, high)
            axes.set_ylim(low, high)
            axes.set_xlim(-0.01 * longest, 1.02 * longest)
        self.stale()

    def update(self, view: DriftView) -> None:
        """Move to this view."""
        for name in self.PLACES:
            self.lines[name].set_data(view.curves["iteration"], view.curves[name])
            value = view.values[name]
            self.dots[name].set_data(*([], []) if value is None else ([view.iteration], [value]))
            for k, line in enumerate(self.others[name]):
                some = view.others[k] if k < len(view.others) else None
                line.set_data(*(some["iteration"], some[name]) if some else ([], []))
        for mark in self.marks:
            mark.set_xdata([view.iteration] * 2)


class NextToken(Panel):
    """The first word after the prompt: policy, reference and, where it is known, the optimum."""

    ROWS = 12

    def __init__(self, drift: Drift, vocabulary: Sequence[str]):
        super().__init__(WIDE, HIGH)
        self.drift, self.vocabulary, axes = drift, vocabulary, self.axes["A"]
        self.tokens: list[int] = []
        y = np.arange(self.ROWS + 1)
        policy = axes.barh(y - 0.2, 0 * y, 0.4, color=POLICY, label="policy")
        reference = axes.barh(y + 0.2, 0 * y, 0.4, color=REFERENCE, label="reference")
        self.bars = [self.moving(list(bars)) for bars in (policy, reference)]
        (self.best,) = self.moving(
            axes.plot([], [], "D", color=KL, markersize=6, label="optimum π*")
        )
        axes.invert_yaxis()
        axes.legend(loc="center right")
        axes.grid(alpha=0.2, axis="x")

    def show_prompt(self, prompt: str) -> None:
        """Other words, another title: the still part is drawn again."""
        self.tokens = self.drift.likely_tokens(prompt, self.ROWS)
        words = [self.vocabulary[i] for i in self.tokens] + ["(all others)"]
        axes = self.axes["A"]
        axes.set_yticks(range(len(words)), words)
        axes.set_ylim(len(words) - 0.4, -0.6)
        axes.set_xlim(0, 1.08 * self.drift.most_likely(prompt))
        axes.set_title(f"The next word after “{prompt} …”: its probability", fontsize=9, loc="left")
        self.stale()

    def update(self, view: DriftView) -> None:
        """Move to this view."""
        for bars, probs in zip(self.bars, (view.policy, view.reference), strict=True):
            for bar, width in zip(bars, self._shown(probs), strict=False):
                bar.set_width(width)
        if view.best is None:
            self.best.set_data([], [])
        else:
            self.best.set_data(self._shown(view.best), range(len(self.tokens) + 1))

    def _shown(self, probs) -> list[float]:
        """Probabilities of the words in the picture, and of all others together."""
        chosen = [float(probs[i]) for i in self.tokens]
        return [*chosen, max(0.0, 1.0 - sum(chosen))]


MARGIN, LINE = 10, 22  # pixels


def still_picture(
    pictures: Sequence[Image.Image], samples: Sequence[Sequence[tuple]], title: str
) -> Image.Image:
    """Two pictures above, one below with the samples beside it; 128 colours, so that it is small.

    `samples` holds one list of (word, background) pairs a response.
    """
    first, second, third = pictures
    width = first.width + second.width
    page = Image.new("RGB", (width, first.height + third.height), "white")
    page.paste(first, (0, 0))
    page.paste(second, (first.width, 0))
    page.paste(third, (0, first.height))
    draw_samples(ImageDraw.Draw(page), samples, title, first.width, first.height, width)
    return page.quantize(128)


def draw_samples(pen, samples, title: str, left: int, top: int, right: int) -> None:
    """Words on their backgrounds, wrapped at the right edge."""
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 12)
    y = top + MARGIN
    pen.text((left, y), f"{title}: samples, by log π − log π_ref", font=font, fill="black")
    for words in samples:
        x, y = left, y + LINE + MARGIN
        for word, background in words:
            wide = pen.textlength(word, font=font)
            if x + wide > right - MARGIN:
                x, y = left, y + LINE
            pen.rectangle((x - 1, y - 1, x + wide + 2, y + 16), fill=background)
            pen.text((x, y), word, font=font, fill="black")
            x += wide + 7
    y += LINE + MARGIN
    words = "blue: the policy says it more often than the reference; orange: less often"
    pen.text((left, y), words, font=font, fill="#444444")
