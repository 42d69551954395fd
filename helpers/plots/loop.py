"""The loop, drawn: four models, seven steps."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from helpers.plots.base import one_panel
from helpers.plots.palette import GOLD, KL, POLICY, QUIET_INK, REFERENCE, REWARD, VALUE, ink_on

BOXES = {  # name: x, y, colour, what it does
    "Actor π": (0.15, 0.66, POLICY, "writes · trained"),
    "Reward model": (0.48, 0.87, REWARD, "scores · frozen"),
    "Reference π_ref": (0.48, 0.57, REFERENCE, "the actor as it was · frozen"),
    "Critic V": (0.48, 0.27, VALUE, "expects a score · trained"),
    "Rewards": (0.84, 0.72, KL, "score − β·KL"),
    "Advantages": (0.84, 0.27, GOLD, "which token earned it"),
}
LOUD, QUIET = ("black", "black"), ("#BBBBBB", QUIET_INK)  # a step's arrow and words
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

BRANCHES = ((1, 0.15, 0.91, "Actor π"), (7, 0.48, 0.092, "Critic V"))  # step, from where, to


def draw_box(axes: Axes, x: float, y: float, colour: str, name: str, words: str) -> FancyBboxPatch:
    """A filled box with a name and what it does; returned so that arrows can stop at its edge."""
    width, height = 0.22, 0.15
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0.01", color=colour
    )
    axes.add_patch(box)
    ink = ink_on(colour)
    axes.text(x, y + 0.03, name, ha="center", va="center", fontsize=11, weight="bold", color=ink)
    axes.text(x, y - 0.04, words, ha="center", va="center", fontsize=9, color=ink)
    return box


def loop_figure(active: int | None = None) -> Figure:
    """The four models and the seven steps; with `active`, that step alone stands out."""
    figure, axes = one_panel(9.0, 4.4)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    boxes = {name: draw_box(axes, x, y, c, name, words) for name, (x, y, c, words) in BOXES.items()}
    for step, start, end, path, words, place in ARROWS:
        line, ink = LOUD if active in (None, step) else QUIET
        arrow = {"arrowstyle": "-|>", "connectionstyle": path, "color": line, "lw": 1.4}
        arrow |= {"patchA": boxes[start], "patchB": boxes[end], "shrinkA": 3, "shrinkB": 3}
        axes.annotate("", BOXES[end][:2], BOXES[start][:2], arrowprops=arrow)
        if words:
            axes.text(*place, words, ha="center", va="center", fontsize=9, color=ink)
    ink = (LOUD if active in (None, 1) else QUIET)[1]
    axes.text(0.15, 0.93, "1 prompts", ha="center", va="center", fontsize=9, color=ink)
    for step, x, y, end in BRANCHES:
        line, _ = LOUD if active in (None, step) else QUIET
        arrow = {"arrowstyle": "-|>", "color": line, "lw": 1.4, "shrinkA": 0}
        arrow |= {"patchB": boxes[end], "shrinkB": 3}
        axes.annotate("", BOXES[end][:2], (x, y), arrowprops=arrow)
    return figure
