"""Figures of notebook 09: runs with a fault beside healthy ones, and flags."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from helpers.kit.figures import label_axes, new_figure, one_panel
from helpers.kit.palette import BLUE, GREY, ORANGE, ink_on
from helpers.lessons.debugging.diagnose import Flag, column
from helpers.lessons.debugging.measures import mean
from helpers.state import History

CASE, HEALTHY = ORANGE, GREY  # orange line on a grey band: apart in grey print too
FLOOR = 1e-8  # what a logarithmic panel shows for 0


class Metric(NamedTuple):
    """One small panel: key of a record, unit, and whether it may span orders of magnitude."""

    key: str
    unit: str
    spans: bool = False


METRICS = (  # the sharpest signs first, as in the lesson's table
    Metric("first_ratio_error", "max |ρ − 1|", True),
    Metric("kl", "nats per response"),
    Metric("score", "reference std"),
    Metric("response_length", "tokens"),
    Metric("ended", "share of responses"),
    Metric("entropy", "nats per token"),
    Metric("value_loss", "reward units²", True),
    Metric("explained_variance", "share"),
    Metric("approx_kl", "nats per token", True),
    Metric("clip_fraction", "share of tokens"),
    Metric("grad_norm", "before clipping", True),
    Metric("policy_loss", "advantage units"),
)
BY_KEY = {metric.key: metric for metric in METRICS}
COLUMNS = 4


def draw_metric(
    axes: Axes, metric: Metric, healthy: Sequence[History], case: Sequence[History] = ()
) -> None:
    """The healthy runs' band, their mean dashed; the case's first run thick, its others thin."""
    columns = [column(history, metric.key) for history in healthy]
    lines = [column(history, metric.key) for history in case]
    everything = [value for values in columns + lines for value in values]
    least = max(min(everything), FLOOR)
    exact = metric.key == "first_ratio_error"
    if exact or (metric.spans and max(everything) > 30 * least):
        columns, lines = (
            [[max(x, FLOOR) for x in row] for row in some] for some in (columns, lines)
        )
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")  # mathtext costs a tenth of the drawing time
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    if exact:  # rounding is rounding: no panel full of it
        axes.set_ylim(3e-7, max(2e-2, 2 * max(everything)))
        axes.axhline(1e-3, color="black", linestyle=":", linewidth=0.9)
    x = range(1, len(columns[0]) + 1)
    low, high = ([pick(step) for step in zip(*columns, strict=True)] for pick in (min, max))
    middle = [mean(step) for step in zip(*columns, strict=True)]
    axes.fill_between(x, low, high, color=HEALTHY, alpha=0.35, linewidth=0)
    axes.plot(x, middle, "--", color="#444444", linewidth=1.1)
    for k, values in enumerate(lines):
        how = {"linewidth": 0.9, "alpha": 0.55} if k else {"linewidth": 2.0}
        axes.plot(range(1, len(values) + 1), values, color=CASE, **how)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(alpha=0.2)
    label_axes(axes, metric.key, "", metric.unit)
    axes.tick_params(labelsize=9)


def small_multiples(
    metrics: Sequence[Metric],
    healthy: Sequence[History],
    case: Sequence[History] = (),
    title: str = "",
) -> Figure:
    """One panel a metric over the iterations; metrics fill rows of four."""
    rows = len(metrics) // COLUMNS
    figure, grid = new_figure(rows, COLUMNS, 10.0, 1.72 * rows + 0.6)
    for axes, metric in zip(grid.flat, metrics, strict=True):
        draw_metric(axes, metric, healthy, case)
    for axes in grid[-1]:
        axes.set_xlabel("iteration", fontsize=9)
    for axes in grid[:-1].flat:
        axes.tick_params(labelbottom=False)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def healthy_figure(healthy: Sequence[History]) -> Figure:
    """All twelve metrics of healthy runs of several seeds: band and mean, nothing else."""
    return small_multiples(METRICS, healthy)


def case_figure(healthy: Sequence[History], case: Sequence[History], name: str) -> Figure:
    """All twelve metrics of one case beside the healthy runs; its first seed thick, its others thin."""
    title = f"{name}: orange, seed 0 thick, others thin · healthy runs: grey band, mean dashed"
    return small_multiples(METRICS, healthy, case, title=title)


def verdict_figure(healthy: Sequence[History], run: History, flags: Sequence[Flag]) -> Figure:
    """All twelve metrics of one run: shaded, with ✗, those on which a rule raises its flag."""
    wrong = {flag.metric for flag in flags}
    words = f"{len(wrong)} metrics with a flag" if wrong else "no flag"
    figure = small_multiples(METRICS, healthy, [run], title=f"Your run: {words}")
    for axes, metric in zip(figure.axes, METRICS, strict=True):
        if metric.key in wrong:
            axes.set(facecolor="#FBE3D6", title=f"✗ {metric.key}")
    return figure


def signs_figure(healthy: Sequence[History], cases: dict[str, tuple]) -> Figure:
    """One panel a case: `cases` maps a title to (metric key, histories of that case)."""
    figure, grid = new_figure(1, len(cases), 10.0, 2.7)
    for axes, (title, (key, histories)) in zip(grid[0], cases.items(), strict=True):
        draw_metric(axes, BY_KEY[key], healthy, histories)
        label_axes(axes, title, "iteration", f"{key}, {BY_KEY[key].unit}")
    return figure


def flags_figure(counts: dict[str, dict[str, int]], sizes: dict[str, int]) -> Figure:
    """A grid: `counts[row][rule]` of a row's `sizes[row]` runs raise the rule's flag."""
    rules = list(next(iter(counts.values())))
    first = {row: [not found[rule] for rule in rules] for row, found in counts.items()}
    counts = {row: counts[row] for row in sorted(counts, key=first.get)}  # a staircase
    figure, axes = one_panel(10.0, 0.27 * len(counts) + 1.9)
    for y, (row, found) in enumerate(counts.items()):
        for x, rule in enumerate(rules):
            if found[rule]:
                dark = 0.15 + 0.85 * found[rule] / sizes[row]
                cell = Rectangle((x - 0.44, y - 0.42), 0.88, 0.84, color=BLUE, alpha=dark)
                ink = ink_on(axes.add_patch(cell).get_facecolor())
                axes.text(x, y, found[rule], ha="center", va="center", fontsize=9, color=ink)
        if not any(found.values()):
            axes.text(-0.35, y, "no flag", fontsize=9, va="center", color="#555555")
    axes.set_xlim(-0.5, len(rules) - 0.5)
    axes.set_ylim(len(counts) - 0.5, -0.5)
    axes.set_xticks(range(len(rules)), rules, rotation=35, ha="right")
    axes.set_yticks(range(len(counts)), [f"{row} ({sizes[row]})" for row in counts])
    axes.set_title("Which rule flags which fault")
    axes.set_axisbelow(True)
    axes.grid(True)
    return figure
