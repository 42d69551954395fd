"""The drift explorer as a still picture: KL against score of one run, where no page can be drawn."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from helpers.kit.figures import Picture, label_axes, one_panel
from helpers.kit.palette import GOLD, KL, REFERENCE, REWARD
from helpers.studies.drift import Drift, DriftView

DEEP = -15.0  # a score below which a linear axis would flatten all the others
TRAILS = (("proxy", REWARD, "o", "-"), ("gold", GOLD, "D", "--"))


def bend(axes: Axes, scores: Sequence[float]) -> bool:
    """Linear near 0 and logarithmic beyond, where gold collapses; returns whether that was needed."""
    low, high = min(scores), max(scores)
    if low >= DEEP:
        return False
    axes.set_yscale("symlog", linthresh=2)
    marks = [-500, -200, -100, -50, -20, -10, -5, -2, -1, 0, 1, 2, 3, 5]
    shown = [x for x in marks if low <= x <= high]
    axes.set_yticks(shown, [f"{x:g}" for x in shown])
    axes.minorticks_off()
    return True


def drift_figure(drift: Drift, view: DriftView) -> Picture:
    """Proxy and gold over KL, from the reference to this view's iteration; the frontier and ★ (π*)."""
    figure, axes = one_panel(8.0, 4.2)
    floor, shown = drift.sweep.reference_value.mean, slice(0, view.iteration + 1)
    curve = [(0.0, floor)] + [(best.kl, best.score) for best in drift.frontier()]
    scores = [floor]
    if not view.stop.own_reward:  # another reward has another frontier
        axes.plot(*zip(*curve, strict=True), color="black", linewidth=1.6, label="the frontier")
        scores += [score for _, score in curve]
    for name, colour, mark, line in TRAILS:
        x, y = view.curves["kl"][shown], view.curves[name][shown]
        scores += [score for score in y if score == score]  # NaN: not measured
        axes.plot(x, y, line, color=colour, linewidth=2)
        axes.plot(
            x[-1:], y[-1:], mark, color=colour, markersize=9, mec="black", label=name, zorder=5
        )
    axes.plot(0, floor, "s", color=REFERENCE, markersize=9, label="the reference")
    if view.optimum is not None:
        axes.plot(
            view.optimum.kl, view.optimum.score, "*", color=KL, markersize=14, label="π*", zorder=4
        )
    unit = "score (logarithmic beyond ±2)" if bend(axes, scores) else "score"
    stop = view.stop.label if view.stop.run else f"β = {view.stop.label}"
    title = f"{stop}, after {view.iteration} iterations"
    label_axes(axes, title, "KL from the reference, nats per response", unit, grid="both")
    axes.legend(loc="best")
    return figure
