"""Figures of notebook 13: what several processes get wrong, two trainers side by side, what costs what."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.kit.figures import draw_seeds, label_axes, new_figure, one_panel
from helpers.kit.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE

WAY_STYLES = ((KL, "s", "--"), (GOLD, "D", "-."), (POLICY, "o", "-"), (VALUE, "^", ":"))
PHASES = {
    "write": POLICY,
    "score": REWARD,
    "reference": REFERENCE,
    "values": VALUE,
    "update": KL,
    "sync": GOLD,
}


def damage_figure(processes: Sequence[int], errors: dict[str, Sequence[float]]) -> Figure:
    """Relative error of the gradient for each wrong way, over the number of processes."""
    figure, axes = one_panel(9.0, 3.2)
    for (name, values), (colour, mark, line) in zip(errors.items(), WAY_STYLES, strict=False):
        axes.plot(processes, values, line, color=colour, marker=mark, label=name, linewidth=1.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(processes, [str(count) for count in processes])
    low, high = min(map(min, errors.values())), max(map(max, errors.values()))
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if low / 2 < tick < 2 * high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    label_axes(
        axes, "", "processes that share 64 responses", "‖wrong − right‖ / ‖right‖", grid="both"
    )
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def side_by_side_figure(found: dict) -> Figure:
    """Score and KL of both trainers: thin lines for seeds, thick ones for their mean."""
    figure, grid = new_figure(1, 2, 9.6, 3.2)
    panels = (("score", "reference std"), ("kl", "nats per response"))
    looks = (("ours", "this course", POLICY, "-"), ("trl", "TRL's PPOTrainer", KL, "--"))
    for axes, (key, unit) in zip(grid[0], panels, strict=True):
        for name, label, colour, line in looks:
            runs = [[record[key] for record in run] for run in found[name]]
            draw_seeds(axes, range(1, len(runs[0]) + 1), runs, colour, label, line)
        axes.set_xticks(range(0, len(runs[0]) + 1, 5))
        axes.grid(True)
        title = "Proxy score" if key == "score" else "KL from the reference"
        label_axes(axes, title, "iteration", unit)
    grid[0, 0].legend(fontsize=9, loc="lower right")
    return figure


def shares_figure(rows: dict[str, dict[str, float]]) -> Figure:
    """One bar a row, divided among the phases: `rows` maps a label to shares that add to 1."""
    figure, axes = one_panel(9.6, 0.9 + 0.5 * len(rows))
    _stack(axes, rows)
    axes.set_xlim(0, 1)
    label_axes(axes, "", "share of an iteration", "")
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def seconds_figure(rows: dict[str, dict[str, float]], title: str) -> Figure:
    """One bar a row, as long as its iteration takes."""
    figure, axes = one_panel(9.6, 3.0)
    _stack(axes, rows)
    for place, seconds in enumerate(rows.values()):
        total = sum(seconds.values())
        axes.text(total, place, f" {total:,.1f} s", va="center", fontsize=9)
    axes.set_xlim(0, 1.15 * max(sum(seconds.values()) for seconds in rows.values()))
    label_axes(axes, title, "seconds an iteration", "")
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _stack(axes: Axes, rows: dict[str, dict[str, float]]) -> None:
    named = set()
    for place, seconds in enumerate(rows.values()):
        left = 0.0
        for phase, value in seconds.items():
            label = None if phase in named else phase
            colour = PHASES.get(phase, ACCENT)
            bar = {"left": left, "color": colour, "height": 0.62, "edgecolor": "white"}
            axes.barh(place, value, label=label, **bar)
            named.add(phase)
            left += value
    axes.set_yticks(range(len(rows)), list(rows), fontsize=9)
    axes.invert_yaxis()
