"""Figures of notebook 11: answers and their optimum, log-probs that fall, runs by β, DPO beside IPO."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from helpers.kit.figures import draw_seeds, label_axes, new_figure, one_panel
from helpers.kit.palette import GOLD, KL, POLICY, REFERENCE, REWARD

LINES = ((POLICY, "-"), (KL, "--"), (REWARD, ":"))  # of the prices, smallest first


def gains_figure(x: Sequence, panels: dict[str, dict[str, Sequence[Sequence[float]]]]) -> Figure:
    """Nats gained over the reference along training: title → {"chosen": seeds, "rejected": seeds}."""
    figure, grid = new_figure(1, len(panels), min(4.6 * len(panels), 10.4), 3.0)
    for axes, (title, sides) in zip(grid[0], panels.items(), strict=True):
        for name, colour, line in (("chosen", REWARD, "-"), ("rejected", KL, "--")):
            draw_seeds(axes, x, sides[name], colour, name, line)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend(loc="lower left")
        label_axes(axes, title, "gradient steps", "log π − log π_ref, nats", grid="y")
    low = min(axes.get_ylim()[0] for axes in grid[0])
    high = max(axes.get_ylim()[1] for axes in grid[0])
    for axes in grid[0]:
        axes.set_ylim(low, high)
    return figure


PRICED = {  # key of a row: title, unit, colour
    "kl": ("KL from the reference", "nats per response", KL),
    "gold": ("Gold score (never trained on)", "points", GOLD),
    "grammatical": ("Grammatical responses", "share", POLICY),
}


def price_figure(
    x: Sequence, curves: dict[float, dict[str, Sequence[Sequence[float]]]], chosen: float
) -> Figure:
    """Runs at several β: `curves` maps β to a metric's curves, one a seed; the chosen β in colour."""
    figure, grid = new_figure(1, len(PRICED), 10.4, 3.0)
    for axes, (key, (title, unit, colour)) in zip(grid[0], PRICED.items(), strict=True):
        others = [beta for beta in curves if beta != chosen]
        for beta, line in zip(others, ("--", ":", "-."), strict=False):
            means = [sum(column) / len(column) for column in zip(*curves[beta][key], strict=True)]
            axes.plot(x, means, line, color=REFERENCE, linewidth=1.6, label=f"β = {beta:g}")
        draw_seeds(axes, x, curves[chosen][key], colour, f"β = {chosen:g}")
        axes.legend(loc="best")
        label_axes(axes, title, "gradient steps", unit, grid="y")
    return figure


def agreement_figure(
    steps: Sequence[int], gains: dict[str, Sequence[float]], target: float
) -> Figure:
    """How far the best answer is ahead of the worst when all labels agree, over gradient steps."""
    figure, axes = one_panel(6.6, 2.8)
    for (name, values), colour, line in zip(
        gains.items(), (POLICY, GOLD), ("-", "--"), strict=True
    ):
        axes.plot(steps, values, line, marker="o", color=colour, linewidth=2, label=name)
    axes.axhline(target, color=REFERENCE, linewidth=1, label="1/(2τ), IPO's target for a pair")
    axes.set_xscale("log")
    axes.set_yscale("log")  # the target and IPO would be one line beside DPO's gain
    axes.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.minorticks_off()
    axes.legend(loc="center right")
    label_axes(axes, "Gain of the best answer over the worst", "gradient steps", "nats", grid="y")
    return figure


def unseen_figure(draws: Sequence[int], shares: dict[float, Sequence[float]]) -> Figure:
    """Share of π* on answers that a number of draws from the reference never shows; one line a β."""
    figure, axes = one_panel(6.6, 2.8)
    for (beta, values), (colour, line) in zip(shares.items(), LINES, strict=True):
        axes.plot(draws, values, line, color=colour, linewidth=2, label=f"β = {beta:g}")
    axes.set_xscale("log")
    axes.set_xticks(draws, [f"{count:,}" for count in draws])
    axes.minorticks_off()
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.legend(loc="upper right")
    words = "draws from the reference, for one prompt"
    label_axes(axes, "Share of π* on answers never drawn", words, "probability", grid="y")
    return figure
