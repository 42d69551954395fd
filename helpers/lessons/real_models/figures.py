"""Figures of lesson 12: curves of a checked task and of reviews."""

from matplotlib.figure import Figure

from helpers.kit.figures import label_axes, legend_below, new_figure, one_panel
from helpers.kit.palette import BLUE, GREEN, GREY, ORANGE, PINK, YELLOW

TITLES = {f"beta_{beta:g}": f"RLOO, β = {beta:g}" for beta in (0, 0.1, 0.25, 0.5)}
TITLES |= {"beta_0.25_longer": "three times as long", "beta_0.25_from_above": "from above"}
TITLES |= {
    "reference": "before training",
    "sft": "SFT on right samples",
    "sft_true": "SFT on true answers",
    "grpo": "GRPO, β = 0.1",
}
TITLES |= {"trl_ours": "TRL, our settings", "trl_defaults": "TRL, its defaults"}
STYLES = [(BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "v"), (GREY, "D"), (YELLOW, "P")]


def task_figure(curves: dict[str, list[list[dict]]], levels: dict[str, float]) -> Figure:
    """pass@1 on held-out prompts with its interval: name → rows of each seed; dashed, the optimum's level."""
    figure, axes = one_panel(9.2, 4.2)
    for (name, runs), (colour, marker) in zip(curves.items(), STYLES, strict=False):
        for number, rows in enumerate(runs):
            x, y, low, high = (
                [row[key] for row in rows] for key in ("iteration", "mean", "low", "high")
            )
            label = None if number else name
            axes.plot(x, y, marker=marker, markersize=4, color=colour, label=label)
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        if name in levels:
            axes.axhline(levels[name], color=colour, linestyle="--", linewidth=1.2)
    axes.set_ylim(0, 1.02)
    label_axes(axes, "Right answers, unseen words (dashed: π*)", "iteration", "pass@1", grid="both")
    legend_below(figure, axes)
    return figure


def pass_of_k_figure(tries: list[int], tasks: dict[str, dict[str, list[float]]]) -> Figure:
    """pass@k by the number of tries k, on a logarithmic axis: task → name → one number for each k."""
    figure, (panels,) = new_figure(1, len(tasks), width=9.2, height=3.6)
    for axes, (task, curves) in zip(panels, tasks.items(), strict=True):
        for name, (colour, marker) in zip(curves, STYLES, strict=False):
            axes.plot(tries, curves[name], color=colour, marker=marker, markersize=4, label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(tries, tries)
        axes.set_ylim(0, 1.02)
        label_axes(axes, task.replace("_", " "), "tries k", "pass@k, unseen words", grid="both")
    legend_below(figure, panels[-1])
    return figure


REVIEWS = {
    "proxy": "proxy score, std of the reference",
    "gold": "gold score, −2 to 1",
    "distinct_words": "words, all answers together",
}


def reviews_figure(curves: dict[str, list[list[dict]]]) -> Figure:
    """Proxy, gold and distinct words over √KL: name → rows of each seed, the reference's first."""
    figure, (panels,) = new_figure(1, len(REVIEWS), width=9.2, height=3.2)
    for axes, (key, label) in zip(panels, REVIEWS.items(), strict=True):
        for (name, runs), (colour, marker) in zip(curves.items(), STYLES, strict=False):
            for number, rows in enumerate(runs):
                x, y = [max(row["kl"], 0) ** 0.5 for row in rows], [row[key] for row in rows]
                style = {"marker": marker, "markersize": 6, "markevery": [-1], "linewidth": 1}
                axes.plot(x, y, color=colour, label=None if number else name, **style)
        label_axes(axes, key.replace("_", " ").capitalize(), "√KL", label, grid="both")
    legend_below(figure, panels[0])
    return figure
