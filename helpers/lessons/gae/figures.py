"""Figures of notebook 02: rollouts and their credit, bias against variance, the double count."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from helpers.kit.figures import label_axes, new_figure, one_panel
from helpers.kit.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE


def _zero(axes: Axes) -> None:
    axes.axhline(0, color="black", linewidth=0.8)


def _legend_above(axes: Axes) -> None:
    """A legend beside the title, where no bar can reach it."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderpad=0, borderaxespad=0.3)


def _signed(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")


def rollouts_figure(
    names: Sequence[str],
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    deltas: Tensor | None = None,
    advantages: Tensor | None = None,
) -> Figure:
    """Hand-worked rollouts side by side, all [B, T]; with `deltas`, credit in a second row."""
    rows = 1 if deltas is None else 2
    figure, grid = new_figure(rows, len(names), 8.4, 0.5 + 1.5 * rows)
    for i, name in enumerate(names):
        n = int(mask[i].sum())
        steps = range(1, n + 1)
        top = grid[0, i]
        top.bar(steps, rewards[i, :n].tolist(), 0.5, color=REWARD, label="reward")
        top.plot(steps, values[i, :n].tolist(), "o-", color=VALUE, label="value")
        label_axes(top, name, y="reward, value" if i == 0 else "", grid="y")
        panels = [top]
        if deltas is not None:
            low = grid[1, i]
            left, right = [s - 0.2 for s in steps], [s + 0.2 for s in steps]
            low.bar(left, deltas[i, :n].tolist(), 0.38, color=ACCENT, label="TD error δ")
            low.bar(right, advantages[i, :n].tolist(), 0.38, color=GOLD, label="advantage")
            label_axes(low, y="credit" if i == 0 else "", grid="y")
            low.set_ylim(-2.3, 1.3)
            panels.append(low)
        for axes in panels:
            _zero(axes)
            axes.set_xlim(0.4, mask.shape[1] + 0.6)
            axes.set_xticks(range(1, mask.shape[1] + 1))
        top.set_ylim(-1.4, 2.4)
        panels[-1].set_xlabel("token")
    handles = [axes.get_legend_handles_labels() for axes in grid[:, 0]]
    marks = [mark for pair in handles for mark in pair[0]]
    words = [word for pair in handles for word in pair[1]]
    figure.legend(marks, words, loc="outside lower center", ncols=len(words))
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
    rows = 1 if advantages is None else 2
    figure, grid = new_figure(rows, 1, 8.4, 1.2 + 1.3 * rows)
    x, top = range(len(tokens)), grid[0, 0]
    span = span or 1.15 * max(map(abs, (*rewards, *values, *(advantages or ()))))
    top.bar(x, rewards, 0.6, color=REWARD, label="reward")
    top.plot(x, values, "o-", markersize=4, color=VALUE, label="value before the token")
    label_axes(top, title, y="reward, value", grid="y")
    _legend_above(top)
    panels = [top]
    if advantages is not None:
        low = grid[1, 0]
        low.bar(x, advantages, 0.6, color=GOLD)
        label_axes(low, y="advantage", grid="y")
        top.set_xticks([])
        panels.append(low)
    for axes in panels:
        _zero(axes)
        axes.set_xlim(-0.6, len(tokens) - 0.4)
        axes.set_ylim(-span, span)
    panels[-1].set_xticks(x, tokens, rotation=40, ha="right", fontsize=9)
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
    here = n - steps
    figure, grid = new_figure(2, 1, 8.4, 4.2)
    top, low = grid[:, 0]
    seen = range(here, n)
    if here:  # the legend's patch of no bars would be blue
        top.bar(range(here), deltas[:here], 0.6, color="#DDDDDD", label="not visited yet")
    top.bar(seen, [deltas[t] for t in seen], 0.6, color=ACCENT, label="TD error δ")
    if steps > 1:
        low.bar(seen[1:], known[here + 1 : n], 0.6, color=GOLD, label="advantage")
    low.bar([here - 0.15], [deltas[here]], 0.3, color=ACCENT)
    low.bar([here + 0.15], [decay * known[here + 1]], 0.3, color=GOLD, hatch="//", ec="black",
            label="γλ · next advantage")  # fmt: skip
    low.plot(
        [here], [known[here]], "D", color="black", markersize=5, label="their sum: new advantage"
    )
    parts = deltas[here], decay * known[here + 1], known[here]
    new, later, both = map(_signed, parts)
    label_axes(top, "The news of each token", y="TD error", grid="y")
    sum_of = f"δ + γλ · next advantage = {new} {later[0]} {later[1:]} ≈ {both}"
    label_axes(low, f"“{tokens[here]}”:  {sum_of}", y="advantage", grid="y")
    _legend_above(top)
    figure.legend(*low.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    span = 1.35 * max(map(abs, (*deltas, *known)))
    for axes in (top, low):
        _zero(axes)
        axes.set_xlim(-0.6, n - 0.4)
        axes.set_ylim(-span, span)
    top.set_xticks([])
    low.set_xticks(range(n), tokens, rotation=40, ha="right", fontsize=9)
    return figure


def tree_figure(levels: Sequence[Tensor], title: str, words: tuple[str, str]) -> Figure:
    """A binary tree of prefixes, coloured by value: `levels[t]` holds the 2^t values of length t.

    The topmost branch is drawn thick, with its values beside it.
    """
    figure, axes = one_panel(8.4, 4.2)
    span = max(float(level.abs().max()) for level in levels)
    place = [[(i + 0.5) / len(level) for i in range(len(level))] for level in levels]
    for t in range(1, len(levels)):
        for i, y in enumerate(place[t]):
            ends = (place[t - 1][i // 2], y)
            axes.plot((t - 1, t), ends, color="#CCCCCC", linewidth=0.7, zorder=1)
    top = [row[-1] for row in place]
    axes.plot(range(len(levels)), top, color="black", linewidth=1.8, zorder=1)
    for t, level in enumerate(levels):
        axes.annotate(_signed(float(level[-1])), (t, top[t] + 0.05), fontsize=9, ha="center")
    x = [t for t, level in enumerate(levels) for _ in level]
    y = [here for row in place for here in row]
    colours = [value for level in levels for value in level.tolist()]
    look = {"cmap": "PuOr_r", "vmin": -span, "vmax": span, "edgecolors": "black"}
    sizes = [64 * 0.72**t for t in x]
    dots = axes.scatter(x, y, c=colours, s=sizes, linewidths=0.3, zorder=2, **look)
    figure.colorbar(dots, ax=axes, pad=0.01).set_label("true value", fontsize=9)
    axes.annotate(words[1], (0.42, 0.68), fontsize=9, ha="right")
    axes.annotate(words[0], (0.42, 0.26), fontsize=9, ha="right")
    axes.set_ylim(0, 1.12)
    axes.set_title(title)
    axes.set_xlabel("words written")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure


def draw_tradeoff(axes: Axes, lams: Sequence, bias2: Sequence, variance: Sequence, title: str):
    """Bias², variance and their sum against λ; a ring marks the smallest sum."""
    total = [b + v for b, v in zip(bias2, variance, strict=True)]
    axes.plot(lams, bias2, "--", color=POLICY, linewidth=1.8, label="bias²")
    axes.plot(lams, variance, "-.", color=KL, linewidth=1.8, label="variance")
    axes.plot(lams, total, color="black", linewidth=2.2, label="sum: total error")
    best = min(range(len(total)), key=total.__getitem__)
    ring = {"markersize": 11, "markeredgewidth": 2, "color": GOLD}
    axes.plot(lams[best], total[best], "o", fillstyle="none", **ring, label="its minimum")
    axes.axvline(lams[best], color=GOLD, linewidth=1, zorder=0)
    label_axes(axes, f"{title}   best λ = {lams[best]:.2f}", "λ", "squared error", grid="y")
    axes.set_ylim(bottom=0)
    axes.legend()


def tradeoff_figure(lams: Sequence, bias2: Sequence, variance: Sequence, title: str = "") -> Figure:
    """The trade-off on one panel."""
    figure, axes = one_panel(5.0, 2.6)
    draw_tradeoff(axes, lams, bias2, variance, title)
    return figure


def critic_check_figure(
    expected: Sequence,
    followed: Sequence,
    error: Sequence,
    lams: Sequence,
    bias2: Sequence,
    variance: Sequence,
) -> Figure:
    """Left: the critic's value of some prefixes against what followed. Right: the trade-off there."""
    figure, grid = new_figure(1, 2, 8.4, 2.9)
    left, right = grid[0]
    low, high = min(*expected, *followed) - 0.2, max(*expected, *followed) + 0.2
    left.plot((low, high), (low, high), color=REFERENCE, linewidth=1, label="a perfect critic")
    look = {"fmt": "o", "color": VALUE, "ecolor": VALUE, "markersize": 5, "linewidth": 1}
    left.errorbar(expected, followed, yerr=error, **look, label="one beginning, ± 1 standard error")
    words = ("The critic, held to account", "value: what the critic expects", "what followed, mean")
    label_axes(left, *words, grid="y")
    left.legend(loc="upper left")
    left.set_ylim(low, high + 0.25 * (high - low))
    draw_tradeoff(right, lams, bias2, variance, "Real model")
    return figure


def double_count_figure(right: Tensor, wrong: Tensor, mask: Tensor) -> Figure:
    """Size of right and wrong advantages by position; and one against the other, token by token."""
    figure, grid = new_figure(1, 2, 8.0, 2.6)
    longest = int((mask.sum(0) >= 8).sum())  # where at least eight responses still count
    for x, colour, style, label in ((right, GOLD, "-", "right"), (wrong, KL, "--", "wrong")):
        size = [float(x[:, t][mask[:, t]].abs().mean()) for t in range(longest)]
        grid[0, 0].plot(range(1, longest + 1), size, style, color=colour, lw=2, label=label)
    label_axes(
        grid[0, 0], "Size of an advantage, by position", "token", "mean |advantage|", grid="y"
    )
    grid[0, 0].set_ylim(bottom=0)
    grid[0, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
    grid[0, 0].legend()
    dots = grid[0, 1]
    every = slice(None, None, max(1, int(mask.sum()) // 250))  # about 250 dots are enough
    dots.scatter(right[mask][every].tolist(), wrong[mask][every].tolist(), s=4, color=KL)
    _zero(dots)
    dots.axvline(0, color="black", linewidth=0.8)
    label_axes(
        dots, "The same tokens, right and wrong", "right advantage", "wrong advantage", grid="y"
    )
    return figure
