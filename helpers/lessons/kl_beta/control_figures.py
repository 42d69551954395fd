"""Figures of notebook 07: a β that follows a target, and where the KL stands."""

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.kit.figures import label_axes, log_ticks, new_figure
from helpers.kit.palette import GOLD, KL, POLICY, REFERENCE, REWARD
from helpers.lessons.kl_beta.control_study import WIDEST_GAP

MARKS = {"reward": ("o", POLICY), "loss, k2": ("s", KL), "loss, full": ("^", REWARD)}
START_STYLES = ("-", "--", ":")
WORLD_STYLES = ((POLICY, "o-"), (GOLD, "s--"), (KL, "^:"))


def target_figure(groups: dict[float, list[tuple]]) -> Figure:
    """KL over iterations, above, and β, below: `{target: [(first β, KL [n], β [n]), ...]}`."""
    figure, grid = new_figure(2, len(groups), 10.0, 4.6)
    for column, (target, runs) in enumerate(groups.items()):
        upper, lower = grid[:, column]
        upper.axhspan(0.8 * target, 1.2 * target, color=REFERENCE, alpha=0.2, linewidth=0)
        upper.axhline(target, color=REFERENCE, linewidth=1)
        for style, (first, kl, betas) in zip(START_STYLES, runs, strict=False):
            x = range(1, len(kl) + 1)
            upper.plot(x, kl, style, color=KL, linewidth=1.6, label=f"β starts at {first:g}")
            lower.plot(x, betas, style, color=POLICY, linewidth=1.6)
        upper.set_title(f"Target: a KL of {target:g}")
        upper.set_ylim(0)
        log_ticks(lower)
        lower.set_xlabel("iteration")
        for axes in (upper, lower):
            axes.grid(True)
    grid[0, 0].set_ylabel("KL, nats per response")
    grid[1, 0].set_ylabel("β (log scale)")
    grid[0, -1].legend()
    return figure


def _placement(axes: Axes, name: str, points: list[tuple], runs: list[tuple]) -> None:
    """One placement: means over seeds [(KL, result)] with lines where neighbours are near; runs small."""
    mark, colour = MARKS[name]
    axes.plot(*zip(*runs, strict=True), mark, color=colour, markersize=4, alpha=0.35, linewidth=0)
    axes.plot(*zip(*points, strict=True), mark, color=colour, label=name, linewidth=0)
    for near, far in pairwise(points):
        if far[0] - near[0] <= WIDEST_GAP:
            axes.plot(*zip(near, far, strict=True), color=colour, linewidth=1.4)


def placement_figure(curves: dict[str, list[tuple]], runs: dict[str, list[tuple]]) -> Figure:
    """Proxy and gold against KL: `{"reward" | "loss, k2" | "loss, full": [(KL, proxy, gold, β)]}`.

    `curves` are means over seeds, `runs` single runs. Where neighbours lie wider apart than may be
    interpolated, no line joins them. Beyond the largest KL with the KL in the loss, nothing is drawn.
    """
    figure, grid = new_figure(1, 2, 10.0, 3.8)
    for column, axes in enumerate(grid[0], start=1):
        for name, points in curves.items():
            some = ([(x[0], x[column]) for x in found] for found in (points, runs[name]))
            _placement(axes, name, *some)
        axes.set_xlim(0, 0.3 + max(x[0] for name in curves if name != "reward" for x in runs[name]))
    for kl, proxy, _, beta in curves["reward"]:
        if kl < grid[0, 0].get_xlim()[1]:
            how = {"textcoords": "offset points", "ha": "right", "color": POLICY}
            grid[0, 0].annotate(f"β = {beta:g}", (kl, proxy), (-7, 5), **how, fontsize=9)
    titles = ("Proxy score", "reference std"), ("Gold score", "points")
    for axes, (title, unit) in zip(grid[0], titles, strict=True):
        label_axes(axes, title, "KL from the reference, nats per response", unit, grid="both")
        axes.legend(title="KL in the", loc="lower right")
    return figure


def frontier_figure(curves: dict[str, list[tuple]], ahead: list[list[tuple]]) -> Figure:
    """Left: one world's exact frontiers, `{"reward" | "loss": [(E[r], KL), ...]}`. Right: for each
    world how far the reward is ahead, [(KL, difference of E[r]), ...].
    """
    figure, grid = new_figure(1, 2, 10.0, 3.2)
    left, right = grid[0]
    for (name, points), (colour, line) in zip(
        curves.items(), ((POLICY, "-"), (KL, "--")), strict=True
    ):
        score, kl = zip(*points, strict=True)
        left.plot(kl, score, line, color=colour, linewidth=1.8, label=f"KL in the {name}")
    for number, (points, (colour, style)) in enumerate(zip(ahead, WORLD_STYLES, strict=True), 1):
        right.plot(*zip(*points, strict=True), style, color=colour, label=f"world {number}")
    right.axhline(0, color="black", linewidth=0.8)
    titles = f"The best of each in world {len(ahead)}", "KL in the reward is ahead by"
    for axes, title in zip((left, right), titles, strict=True):
        label_axes(axes, title, "KL, nats per answer", "expected reward", grid="both")
        axes.legend()
    return figure
