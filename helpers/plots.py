"""Every figure of the course. Each function returns a matplotlib `Figure`; none of them computes."""

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

# Okabe and Ito's palette: told apart by colour-blind readers, and by lightness in grey print
POLICY, REFERENCE, REWARD, KL = "#0072B2", "#7F7F7F", "#009E73", "#D55E00"
VALUE, GOLD, ACCENT = "#CC79A7", "#E69F00", "#56B4E9"

# key of a record, panel title, axis label, colour
PANELS = (
    ("score", "Proxy score", "reference std", REWARD),
    ("gold", "Gold score (never trained on)", "points", GOLD),
    ("kl", "KL from the reference", "nats per response", KL),
    ("entropy", "Entropy of the policy", "nats per token", POLICY),
    ("clip_fraction", "Clipped tokens", "share", ACCENT),
    ("explained_variance", "Critic: explained variance", "share", VALUE),
)


class Picture(Figure):
    """A figure that notebooks show as a PNG by itself, without pyplot (whose list would keep it)."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=self.dpi)
        return buffer.getvalue()


def new_figure(rows: int = 1, columns: int = 1, width: float = 9.0, height: float = 3.0):
    """A figure outside pyplot's list, so that none leaks: (Figure, array of Axes)."""
    figure = Picture(figsize=(width, height), layout="constrained", dpi=80)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def draw_curve(axes: Axes, x: Sequence, y: Sequence, title: str, label: str, colour: str) -> None:
    """One curve with a quiet grid."""
    axes.plot(x, y, color=colour, linewidth=1.8)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("iteration", fontsize=8)
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)


def training_curves(history: list[dict], total: int | None = None) -> Figure:
    """Six panels of a run's records; those a run does not have are left out."""
    panels = [panel for panel in PANELS if history and panel[0] in history[-1]]
    panels = panels or list(PANELS)
    columns = 3 if len(panels) > 2 else len(panels)
    rows = -(-len(panels) // columns)
    figure, grid = new_figure(rows, columns, 9.6, 2.5 * rows)
    x = [record["iteration"] for record in history]
    for axes, (key, *how) in zip(grid.flat, panels, strict=False):
        draw_curve(axes, x, [record[key] for record in history], *how)
        if total is not None:
            axes.set_xlim(0, total)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    return figure


# ---- the loop, drawn ----
BOXES = {  # name: x, y, colour, what it does
    "Actor π": (0.15, 0.66, POLICY, "writes · trained"),
    "Reward model": (0.48, 0.87, REWARD, "scores · frozen"),
    "Reference π_ref": (0.48, 0.57, REFERENCE, "the actor as it was · frozen"),
    "Critic V": (0.48, 0.27, VALUE, "expects a score · trained"),
    "Rewards": (0.84, 0.72, KL, "score − β·KL"),
    "Advantages": (0.84, 0.27, GOLD, "which token earned it"),
}
STRAIGHT = "arc3"
AROUND = "arc,angleA=-90,angleB=-90,armA=60,armB=192,rad=12"  # below everything; arms in points
ARROWS = (  # step, from, to, path, words, where the words stand
    (2, "Actor π", "Reward model", STRAIGHT, "2 responses", (0.275, 0.80)),
    (2, "Actor π", "Reference π_ref", STRAIGHT, "", None),
    (2, "Actor π", "Critic V", STRAIGHT, "", None),
    (3, "Reward model", "Rewards", STRAIGHT, "3 scores", (0.685, 0.86)),
    (4, "Reference π_ref", "Rewards", STRAIGHT, "4 log-probs", (0.68, 0.59)),
    (5, "Rewards", "Advantages", STRAIGHT, "5 rewards", (0.90, 0.49)),
    (6, "Critic V", "Advantages", STRAIGHT, "6 values", (0.665, 0.305)),
    (7, "Advantages", "Actor π", AROUND, "7 PPO updates actor and critic", (0.48, 0.035)),
)


def draw_box(axes: Axes, x: float, y: float, colour: str, name: str, words: str) -> FancyBboxPatch:
    """A filled box with a name and what it does; returned so that arrows can stop at its edge."""
    width, height = 0.22, 0.15
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0.01", color=colour
    )
    axes.add_patch(box)
    dark = colour in (GOLD,)
    ink = "black" if dark else "white"
    axes.text(x, y + 0.03, name, ha="center", va="center", fontsize=11, weight="bold", color=ink)
    axes.text(x, y - 0.04, words, ha="center", va="center", fontsize=8, color=ink)
    return box


def loop_figure(active: int | None = None) -> Figure:
    """The four models and the seven steps; with `active`, that step alone stands out."""
    figure, grid = new_figure(1, 1, 9.0, 4.4)
    axes = grid[0, 0]
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    boxes = {name: draw_box(axes, x, y, c, name, words) for name, (x, y, c, words) in BOXES.items()}
    for step, start, end, path, words, place in ARROWS:
        ink = "black" if active in (None, step) else "#BBBBBB"
        arrow = {
            "arrowstyle": "-|>",
            "connectionstyle": path,
            "color": ink,
            "lw": 1.4,
        }
        arrow |= {"patchA": boxes[start], "patchB": boxes[end], "shrinkA": 3, "shrinkB": 3}
        axes.annotate("", BOXES[end][:2], BOXES[start][:2], arrowprops=arrow)
        if words:
            axes.text(*place, words, ha="center", va="center", fontsize=9, color=ink)
    ink = "black" if active in (None, 1) else "#BBBBBB"
    axes.text(0.15, 0.93, "1 prompts", ha="center", va="center", fontsize=9, color=ink)
    arrow = {"arrowstyle": "-|>", "color": ink, "lw": 1.4, "patchB": boxes["Actor π"], "shrinkB": 3}
    axes.annotate("", BOXES["Actor π"][:2], (0.15, 0.91), arrowprops=arrow)
    return figure


def token_bars(tokens: Sequence, series: dict, title: str = "", height: float = 2.6) -> Figure:
    """Bars over the tokens of one response: `series` maps a label to (numbers, colour)."""
    figure, grid = new_figure(1, 1, 9.6, height)
    axes, width = grid[0, 0], 0.8 / len(series)
    for k, (label, (numbers, colour)) in enumerate(series.items()):
        x = [i + (k - (len(series) - 1) / 2) * width for i in range(len(tokens))]
        axes.bar(x, numbers, width=width, label=label, color=colour)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(tokens)), tokens, rotation=40, ha="right", fontsize=9)
    axes.set_title(title, fontsize=10, loc="left")
    axes.tick_params(axis="y", labelsize=8)
    axes.legend(fontsize=8, frameon=False)
    return figure
