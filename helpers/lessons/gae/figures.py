"""Figures of notebook 02: responses and their credit, bias against variance, the double count."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from helpers.kit.figures import (
    label_axes,
    legend_below,
    new_figure,
    one_panel,
    token_ticks,
    zero_line,
)
from helpers.kit.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE


def _frame(panels: Sequence[Axes], tokens: Sequence[str], span: float) -> None:
    """One axis of ± `span` for all panels; the tokens stand below the last one."""
    for axes in panels:
        zero_line(axes)
        axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-span, span), xticks=[])
    token_ticks(panels[-1], tokens)
    # a legend beside the title, where no bar can reach it
    place = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
    panels[0].legend(ncols=3, borderpad=0, borderaxespad=0.3, **place)


def _signed(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")


def responses_figure(
    names: Sequence[str],
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    deltas: Tensor | None = None,
    advantages: Tensor | None = None,
) -> Figure:
    """Hand-worked responses side by side, all [B, T]; with `deltas`, credit in a second row."""
    rows, T = 1 if deltas is None else 2, mask.shape[1]
    figure, grid = new_figure(rows, len(names), 8.4, 0.9 + 1.4 * rows)
    for i, name in enumerate(names):
        n = int(mask[i].sum())
        steps = range(1, n + 1)
        top, *credit = grid[:, i]
        top.bar(steps, rewards[i, :n].tolist(), 0.5, color=REWARD, label="reward")
        top.plot(steps, values[i, :n].tolist(), "o-", color=VALUE, label="value")
        label_axes(top, name, y="" if i else "reward, value", grid="y")
        top.set_ylim(-1.4, 2.4)
        for low in credit:
            left, right = [s - 0.2 for s in steps], [s + 0.2 for s in steps]
            low.bar(left, deltas[i, :n].tolist(), 0.38, color=ACCENT, label="TD error δ")
            low.bar(right, advantages[i, :n].tolist(), 0.38, color=GOLD, label="advantage")
            label_axes(low, y="" if i else "credit", grid="y")
            low.set_ylim(-2.3, 1.3)
        for axes in grid[:, i]:
            zero_line(axes)
            axes.set(xlim=(0.4, T + 0.6), xticks=range(1, T + 1))
        axes.set_xlabel("token")
    legend_below(figure, *grid[:, 0])
    return figure


def credit_figure(
    tokens: Sequence[str],
    rewards: Sequence[float],
    values: Sequence[float],
    advantages: Sequence[float] | None = None,
    title: str = "",
    span: float | None = None,
) -> Figure:
    """One response: rewards and values above, advantages below, on axes of ± `span`."""
    rows, x = 1 if advantages is None else 2, range(len(tokens))
    figure, grid = new_figure(rows, 1, 8.4, 1.2 + 1.3 * rows)
    top, *credit = grid[:, 0]
    top.bar(x, rewards, 0.6, color=REWARD, label="reward")
    top.plot(x, values, "o-", markersize=4, color=VALUE, label="value before the token")
    label_axes(top, title, y="reward, value", grid="y")
    for low in credit:
        low.bar(x, advantages, 0.6, color=GOLD)
        label_axes(low, y="advantage", grid="y")
    largest = max(map(abs, (*rewards, *values, *(advantages or ()))))
    _frame(grid[:, 0], tokens, span or 1.15 * largest)
    return figure


def backward_walk_figure(
    tokens: Sequence[str], deltas: Sequence[float], decay: float, steps: int
) -> Figure:
    """The walk from the last token to the first, after `steps` tokens: δ above, what is known of A below.

    The newest advantage is drawn as its two parts, δ_t and decay · A_{t+1}.
    """
    n, known = len(tokens), [0.0] * (len(tokens) + 1)
    for t in reversed(range(n)):
        known[t] = deltas[t] + decay * known[t + 1]
    here, later = n - steps, decay * known[n - steps + 1]
    figure, grid = new_figure(2, 1, 8.4, 4.2)
    top, low = grid[:, 0]
    seen = range(here, n)
    if here:  # the legend's patch of no bars would be blue
        top.bar(range(here), deltas[:here], 0.6, color="#DDDDDD", label="not visited yet")
    top.bar(seen, [deltas[t] for t in seen], 0.6, color=ACCENT, label="TD error δ")
    if steps > 1:
        low.bar(seen[1:], known[here + 1 : n], 0.6, color=GOLD, label="advantage")
    low.bar([here - 0.15], [deltas[here]], 0.3, color=ACCENT)
    look = {"color": GOLD, "hatch": "//", "ec": "black", "label": "γλ · next advantage"}
    low.bar([here + 0.15], [later], 0.3, **look)
    words = "their sum: new advantage"
    low.plot([here], [known[here]], "D", color="black", markersize=5, label=words)
    new, more, both = map(_signed, (deltas[here], later, known[here]))
    label_axes(top, "TD error of each token", y="TD error", grid="y")
    sum_of = f"δ + γλ · next advantage = {new} {more[0]} {more[1:]} ≈ {both}"
    label_axes(low, f"“{tokens[here]}”:  {sum_of}", y="advantage", grid="y")
    legend_below(figure, low)
    _frame((top, low), tokens, 1.35 * max(map(abs, (*deltas, *known))))
    return figure


def tree_figure(levels: Sequence[Tensor], title: str) -> Figure:
    """A binary tree of beginnings, each at its value: `levels[t]` holds the 2^t values of length t.

    The branch of the last ones is drawn thick, with its values beside it.
    """
    figure, axes = one_panel(8.4, 4.2)
    for t, (before, after) in enumerate(zip(levels, levels[1:], strict=False)):
        ends = torch.stack([before.repeat_interleave(2), after])
        axes.plot((t, t + 1), ends, color="#BBBBBB", lw=0.7, zorder=1)
        axes.scatter([t + 1] * len(after), after, 10, color=VALUE, zorder=2)
    thick = [float(level[-1]) for level in levels]
    axes.plot(thick, "o-", color="black", linewidth=1.8, markersize=4)
    for t, value in enumerate(thick):
        axes.annotate(_signed(value), (t + 0.05, value + 0.5), fontsize=9)
    axes.set_xlim(-0.2, len(levels) - 0.5)
    label_axes(axes, title, "words", "true value", grid="y")
    return figure


def critic_check_figure(
    expected: Sequence,
    followed: Sequence,
    error: Sequence,
    lams: Sequence,
    bias2: Sequence,
    variance: Sequence,
) -> Figure:
    """Left: the critic's value of some prefixes against what followed.

    Right: bias², variance and their sum against λ there; a ring marks the smallest sum.
    """
    figure, grid = new_figure(1, 2, 8.4, 2.9)
    left, right = grid[0]
    low, high = min(*expected, *followed) - 0.2, max(*expected, *followed) + 0.2
    left.plot((low, high), (low, high), color=REFERENCE, linewidth=1, label="a perfect critic")
    look = {"fmt": "o", "color": VALUE, "ecolor": VALUE, "markersize": 5, "linewidth": 1}
    left.errorbar(expected, followed, yerr=error, **look, label="one beginning, ± 1 standard error")
    words = ("Predicted and sampled", "value: what the critic predicts", "what followed, mean")
    label_axes(left, *words, grid="y")
    left.legend(loc="upper left")
    left.set_ylim(low, high + 0.25 * (high - low))
    total = [b + v for b, v in zip(bias2, variance, strict=True)]
    right.plot(lams, bias2, "--", color=POLICY, linewidth=1.8, label="bias²")
    right.plot(lams, variance, "-.", color=KL, linewidth=1.8, label="variance")
    right.plot(lams, total, color="black", linewidth=2.2, label="sum: total error")
    best = min(range(len(total)), key=total.__getitem__)
    ring = {"markersize": 11, "markeredgewidth": 2, "color": GOLD}
    right.plot(lams[best], total[best], "o", fillstyle="none", **ring, label="its minimum")
    right.axvline(lams[best], color=GOLD, linewidth=1, zorder=0)
    label_axes(right, "Error of the advantage", "λ", "squared error", grid="y")
    right.set_ylim(bottom=0)
    right.legend()
    return figure


def double_count_figure(right: Tensor, wrong: Tensor, mask: Tensor) -> Figure:
    """Size of right and wrong advantages by position; and one against the other, token by token."""
    figure, grid = new_figure(1, 2, 8.0, 2.6)
    lines, dots = grid[0]
    longest = int((mask.sum(0) >= 8).sum())  # where at least eight responses still count
    for x, colour, style, label in ((right, GOLD, "-", "right"), (wrong, KL, "--", "wrong")):
        size = [float(x[:, t][mask[:, t]].abs().mean()) for t in range(longest)]
        lines.plot(range(1, longest + 1), size, style, color=colour, lw=2, label=label)
    words = "Size of an advantage, by position", "token", "mean |advantage|"
    label_axes(lines, *words, grid="y")
    lines.set_ylim(bottom=0)
    lines.xaxis.set_major_locator(MaxNLocator(integer=True))
    lines.legend()
    every = slice(None, None, max(1, int(mask.sum()) // 250))  # about 250 dots are enough
    dots.scatter(right[mask][every].tolist(), wrong[mask][every].tolist(), s=4, color=KL)
    zero_line(dots)
    dots.axvline(0, color="black", linewidth=0.8)
    words = "The same tokens, right and wrong", "right advantage", "wrong advantage"
    label_axes(dots, *words, grid="y")
    return figure
