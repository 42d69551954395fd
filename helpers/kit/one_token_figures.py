"""Figures of notebook 07: whole next-token distributions, and their distance to π*."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.kit.figures import draw_bars, label_axes, log_ticks, one_panel, tick_words, token_ticks
from helpers.kit.palette import POLICY, REFERENCE

# reference, policy, optimum: told apart by lightness and, for the optimum, by having no filling
BAR_STYLES = {
    "reference": {"color": REFERENCE},
    "PPO": {"color": POLICY},
    "DPO": {"color": POLICY},
    "exact optimum π*": {"facecolor": "white", "edgecolor": "black", "linewidth": 1.2},
}


def draw_answers(
    axes: Axes, tokens: Sequence[str], series: dict[str, Sequence[float]], title: str
) -> None:
    """Probabilities of some answers; `series` maps a name of BAR_STYLES to one number a token."""
    bars = [(probs, {"label": name} | BAR_STYLES[name]) for name, probs in series.items()]
    draw_bars(axes, tokens, bars)
    token_ticks(axes, tick_words(tokens))
    axes.legend()
    label_axes(axes, title, "", "probability")


def answer_figure(
    tokens: Sequence[str], series: dict[str, Sequence[float]], title: str = ""
) -> Figure:
    """`draw_answers` on a figure of its own."""
    figure, axes = one_panel(9.0, 2.8)
    draw_answers(axes, tokens, series, title)
    return figure


def draw_distances(
    axes: Axes, curves: dict[float, tuple[Sequence, Sequence]], chosen: float
) -> None:
    """KL(π‖π*) over iterations on a log scale: `curves` maps β to (iterations, nats)."""
    for beta, (x, y) in curves.items():
        mine = beta == chosen
        how = {"color": POLICY, "linewidth": 2.2} if mine else {"color": REFERENCE, "alpha": 0.6}
        axes.plot(x, y, **how)
        place = {"xycoords": "data", "textcoords": "offset points", "va": "center"}
        colour = POLICY if mine else "0.4"
        axes.annotate(f"β = {beta:g}", (x[-1], y[-1]), (4, 0), fontsize=9, color=colour, **place)
    axes.set_xlim(0, 1.22 * max(x[-1] for x, _ in curves.values()))
    log_ticks(axes)
    title = "Distance KL(π‖π*), mean over prompts"
    label_axes(axes, title, "iteration", "nats per response", grid="both")
