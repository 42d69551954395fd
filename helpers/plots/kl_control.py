"""Figures of notebook 07: a β that follows a target, and where the KL stands."""

from matplotlib.figure import Figure

from helpers.experiments.kl_control import WIDEST_GAP
from helpers.plots.base import label_axes, log_ticks, new_figure
from helpers.plots.palette import KL, POLICY, REFERENCE, REWARD

MARKS = {"reward": ("o", POLICY), "loss, k2": ("s", KL), "loss, full": ("^", REWARD)}
START_STYLES = ("-", "--", ":")


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
        upper.set_title(f"target {target:g} nats")
        upper.set_ylim(0)
        log_ticks(lower)
        lower.set_xlabel("iteration")
        for axes in (upper, lower):
            axes.grid(True)
    grid[0, 0].set_ylabel("KL, nats per response")
    grid[1, 0].set_ylabel("β (log scale)")
    grid[0, -1].legend()
    return figure


def placement_figure(curves: dict[str, list[tuple]]) -> Figure:
    """Proxy and gold against KL: `{"reward" | "loss, k2" | "loss, full": [(KL, proxy, gold, β)]}`.

    Where neighbours lie wider apart than may be interpolated, no line joins them.
    """
    figure, grid = new_figure(1, 2, 10.0, 3.4)
    for name, points in curves.items():
        mark, colour = MARKS[name]
        kl, proxy, gold, betas = zip(*points, strict=True)
        for axes, values in zip(grid[0], (proxy, gold), strict=True):
            axes.plot(kl, values, mark, color=colour, label=name)
            for k in range(1, len(kl)):
                if kl[k] - kl[k - 1] <= WIDEST_GAP:
                    axes.plot(kl[k - 1 : k + 1], values[k - 1 : k + 1], color=colour, linewidth=1.4)
        if name == "reward":
            for x, y, beta in zip(kl, proxy, betas, strict=True):
                grid[0, 0].annotate(
                    f"β = {beta:g}", (x, y), (6, -12), textcoords="offset points", fontsize=9
                )
    titles = ("Proxy score", "reference std"), ("Gold score", "points")
    for axes, (title, unit) in zip(grid[0], titles, strict=True):
        label_axes(axes, title, "KL from the reference, nats per response", unit, grid="both")
    grid[0, 1].legend(title="KL in the")
    return figure


def frontier_figure(worlds: list[dict[str, list[tuple]]]) -> Figure:
    """Exact frontiers, a panel for each world: `{"reward" | "loss": [(E[r], KL), ...]}`."""
    figure, grid = new_figure(1, len(worlds), 10.0, 2.8)
    styles = {"reward": ("-", POLICY), "loss": ("--", KL)}
    for number, (axes, curves) in enumerate(zip(grid[0], worlds, strict=True), start=1):
        for name, points in curves.items():
            line, colour = styles[name]
            score, kl = zip(*points, strict=True)
            axes.plot(kl, score, line, color=colour, linewidth=1.8, label=f"KL in the {name}")
        label_axes(axes, f"world {number}", "KL, nats per response", "expected reward", grid="both")
    grid[0, 0].legend()
    return figure
