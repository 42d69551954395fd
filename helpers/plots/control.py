"""Figures of notebook 06, section 5: a β that follows a target, and where the KL stands."""

from matplotlib.figure import Figure

from helpers.plots.base import KL, POLICY, REFERENCE, REWARD, label_axes, new_figure

MARKS = {"reward": ("o", POLICY), "loss, k2": ("s", KL), "loss, full": ("^", REWARD)}
STYLES = ("-", "--", ":")


def target_figure(groups: dict[float, list[tuple]]) -> Figure:
    """KL over iterations, above, and β, below: `{target: [(first β, KL [n], β [n]), ...]}`."""
    figure, grid = new_figure(2, len(groups), 10.0, 4.6)
    for column, (target, runs) in enumerate(groups.items()):
        upper, lower = grid[:, column]
        upper.axhspan(0.8 * target, 1.2 * target, color=REFERENCE, alpha=0.2, linewidth=0)
        upper.axhline(target, color=REFERENCE, linewidth=1)
        for style, (first, kl, betas) in zip(STYLES, runs, strict=False):
            x = range(1, len(kl) + 1)
            upper.plot(x, kl, style, color=KL, linewidth=1.6, label=f"β starts at {first:g}")
            lower.plot(x, betas, style, color=POLICY, linewidth=1.6)
        upper.set_title(f"target {target:g} nats", fontsize=10, loc="left")
        upper.set_ylim(0)
        lower.set_yscale("log")
        lower.set_xlabel("iteration", fontsize=8)
        for axes in (upper, lower):
            axes.tick_params(labelsize=8)
            axes.grid(alpha=0.25)
    grid[0, 0].set_ylabel("KL, nats per response", fontsize=8)
    grid[1, 0].set_ylabel("β (log scale)", fontsize=8)
    grid[0, -1].legend(fontsize=8, frameon=False)
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
        label_axes(axes, title, "KL from the reference, nats per response", unit)
        axes.grid(alpha=0.25)
    grid[0, 1].legend(fontsize=8, frameon=False, title="KL in the", title_fontsize=8)
    return figure
