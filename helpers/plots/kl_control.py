"""Figures of notebook 07, section 5: a β that follows a target, and where the KL stands."""

from matplotlib.figure import Figure

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
    """Proxy and gold against KL: `{"reward" | "loss, k2" | "loss, full": [(KL, proxy, gold, β)]}`."""
    figure, grid = new_figure(1, 2, 10.0, 3.4)
    for name, points in curves.items():
        mark, colour = MARKS[name]
        kl, proxy, gold, betas = zip(*points, strict=True)
        for axes, values in zip(grid[0], (proxy, gold), strict=True):
            axes.plot(kl, values, marker=mark, color=colour, linewidth=1.4, label=name)
        if name == "reward":
            for x, y, beta in zip(kl, proxy, betas, strict=True):
                grid[0, 0].annotate(
                    f"β = {beta:g}", (x, y), (6, -12), textcoords="offset points", fontsize=8
                )
    titles = ("Proxy score", "reference std"), ("Gold score", "points")
    for axes, (title, unit) in zip(grid[0], titles, strict=True):
        label_axes(axes, title, "KL from the reference, nats per response", unit, grid="both")
    grid[0, 1].legend(title="KL in the")
    return figure
