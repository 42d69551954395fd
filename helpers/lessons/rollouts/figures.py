"""Figures of notebook 01: next words, lengths, a batch, alignment, estimates, curves. No maths here."""

from collections.abc import Sequence
from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from helpers.kit.figures import draw_lines, label_axes, new_figure, one_panel, token_ticks
from helpers.kit.palette import GOLD, KL, POLICY, QUIET_INK, REFERENCE, REWARD, ink_on

TOKEN_KINDS = {  # the ground of a position: 0 padding, 1 prompt, 2 response or 3 stop token
    "padding": "#E3E3E3",
    "prompt": REFERENCE,
    "response": POLICY,
    "stop token": GOLD,
}
PAINT = list(TOKEN_KINDS.values())


def draw_words(axes: Axes, words: Sequence, probs: Sequence, title: str) -> None:
    """A bar for each next word."""
    axes.bar(range(len(words)), probs, color=POLICY, width=0.75)
    token_ticks(axes, words)
    label_axes(axes, title, y="probability")


def next_words(words: Sequence, probs: Sequence, title: str, draws: Sequence) -> Figure:
    """The likeliest next words; `draws` are the shares of them among samples, as dots."""
    figure, axes = one_panel(8.0, 2.4)
    draw_words(axes, words, probs, title)
    axes.plot(range(len(words)), draws, "o", color=GOLD, mec="black", label="share of draws")
    axes.legend()
    return figure


def length_figure(lengths: Sequence, stopped: Sequence, limit: int) -> Figure:
    """How many responses have each length, those that said EOS apart from those cut off."""
    figure, axes = one_panel(8.0, 2.2)
    ended, cut = (
        [n for n, s in zip(lengths, stopped, strict=True) if bool(s) == x] for x in (1, 0)
    )
    bins = [n + 0.5 for n in range(limit + 1)]
    look = {"color": (POLICY, KL), "label": ("ends with </s>", "cut off"), "rwidth": 0.8}
    tops, *_ = axes.hist((ended, cut), bins, stacked=True, **look)
    axes.set_ylim(0, 1.1 * tops.max())  # the tallest bar stays below the frame
    axes.legend(loc="upper left")
    label_axes(axes, "How long the responses are", "tokens, </s> included", "responses")
    return figure


def draw_token(axes: Axes, x: int, y: float, height: float, fill: str, word: str) -> None:
    """A filled cell with a token in its upper half."""
    axes.add_patch(Rectangle((x + 0.03, y), 0.94, height, color=fill))
    write(axes, x + 0.5, y + 0.41 * height, word, ink_on(fill))


def write(axes: Axes, x: float, y: float, words: str, colour: str) -> None:
    """Words with their middle at a place."""
    axes.text(x, y, words, ha="center", va="center", fontsize=9, color=colour)


def batch_figure(tokens: list, kinds: list, numbers: list | None = None, title: str = "") -> Figure:
    """A batch as coloured cells: `tokens` and `kinds` (0 to 3) by row, with small `numbers`."""
    rows, columns = len(tokens), len(tokens[0])
    figure, axes = one_panel(0.62 * columns, 0.6 * rows + 0.75)
    axes.set(xlim=(0, columns), ylim=(rows, 0), title=title)
    axes.axis("off")
    for r, c in product(range(rows), range(columns)):
        fill, word = PAINT[kinds[r][c]], tokens[r][c]
        draw_token(axes, c, r + 0.06, 0.88, fill, word if len(word) < 8 else word[:6] + "…")
        if numbers is not None:
            write(axes, c + 0.5, r + 0.77, str(numbers[r][c]), ink_on(fill))
    patches = [Patch(color=fill, label=kind) for kind, fill in TOKEN_KINDS.items()]
    axes.legend(handles=patches, ncol=4, loc="upper left", bbox_to_anchor=(0, -0.01))
    return figure


def alignment_figure(tokens: Sequence, prompt_length: int) -> Figure:
    """Which position's logits choose which token: the output row stands one to the left."""
    count = len(tokens)
    figure, axes = one_panel(0.72 * count + 1.2, 2.3)
    axes.set(xlim=(-1.35, count), ylim=(2.62, -0.15))
    axes.axis("off")
    for c, token in enumerate(tokens):
        kind = "prompt" if c < prompt_length else "stop token" if c == count - 1 else "response"
        draw_token(axes, c, 0, 0.55, TOKEN_KINDS[kind], token)
        used = prompt_length - 1 <= c < count - 1
        edge = POLICY if used else QUIET_INK
        axes.add_patch(Rectangle((c + 0.03, 1.5), 0.94, 0.5, fill=False, ec=edge, lw=1.5))
        write(axes, c + 0.5, 1.75, str(c), edge)
        if used:
            arrow = {"arrowstyle": "-|>", "color": POLICY, "lw": 1.4}
            axes.annotate("", (c + 1.5, 0.58), (c + 0.5, 1.47), arrowprops=arrow)
    write(axes, -0.7, 0.28, "tokens", "black")
    write(axes, -0.7, 1.75, "logits at", "black")
    first, last = prompt_length - 1, count - 2
    words = f"its {last - first + 1} log-probs come from columns P − 1 = {first} … {last}"
    write(axes, (first + last + 1) / 2, 2.4, words, POLICY)
    return figure


def kl_histograms(estimates: dict, exact: float) -> Figure:
    """A histogram for each estimator, and on the right their means beside the exact one.

    `estimates` maps a name to its values, their mean and the standard error of the mean.
    """
    figure, grid = new_figure(1, len(estimates) + 1, 9.6, 2.7)
    *left, right = grid[0]
    for axes, (name, (values, *_)) in zip(left, estimates.items(), strict=True):
        axes.hist([min(max(v, -2), 3) for v in values], bins=50, range=(-2, 3), color=KL, log=True)
        axes.axvline(0, color="black", lw=0.8)
        axes.set(ylim=(0.7, 2 * len(values)), xticks=range(-2, 4))
        axes.tick_params(labelleft=axes is left[0])
        label_axes(axes, f"{name} of each token", "nats")
    left[0].set_ylabel("tokens (log scale)")
    for row, (_, mean, error) in enumerate(estimates.values()):
        right.errorbar(mean, row, xerr=error, fmt="o", color=KL, capsize=4)
    right.axvline(exact, color=REWARD, lw=1.6, ls="--", label=f"exact: {exact:.3f}")
    right.set_yticks(range(len(estimates)), list(estimates))
    right.set_ylim(len(estimates) - 0.5, -1.1)  # from above; room for the legend
    right.legend(loc="upper right")
    label_axes(right, "Means ± standard error", "nats per token", grid="x")
    return figure


def arms_figure(
    arms: dict, title: str, xlabel: str, ylabel: str, step: int = 1, first: int = 0
) -> Figure:
    """One curve per arm, from x = `first` on: `arms` maps a label to (numbers, colour)."""
    figure, axes = one_panel(8.0, 2.5)
    curves = {label: numbers for label, (numbers, _) in arms.items()}
    at = [first + step * i for i in range(len(next(iter(curves.values()))))]
    draw_lines(axes, at, curves, [colour for _, colour in arms.values()])
    axes.set_xticks(at)
    label_axes(axes, title, xlabel, ylabel, grid="both")
    return figure
