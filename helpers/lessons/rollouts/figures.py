"""Figures of notebook 01: next words, batches, alignment, caches, memory, estimates. No maths here."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from helpers.kit.figures import label_axes, new_figure, one_panel
from helpers.kit.palette import GOLD, KL, POLICY, QUIET_INK, REFERENCE, REWARD, ink_on

TOKEN_KINDS = {  # the ground of a position: 0 padding, 1 prompt, 2 response or 3 stop token
    "padding": "#E3E3E3",
    "prompt": REFERENCE,
    "response": POLICY,
    "stop token": GOLD,
}
PAINT = list(TOKEN_KINDS.values())


def next_words(words: Sequence, probs: Sequence, title: str, draws: Sequence = ()) -> Figure:
    """Bars of the likeliest next words; `draws` are the shares of them among samples, as dots."""
    figure, axes = one_panel(8.0, 2.4)
    axes.bar(range(len(words)), probs, color=POLICY, width=0.7, label="probability")
    if len(draws):
        axes.plot(range(len(words)), draws, "o", color=GOLD, mec="black", label="share of draws")
        axes.legend()
    axes.set_xticks(range(len(words)), words, rotation=30, ha="right", fontsize=9)
    label_axes(axes, title, y="probability")
    return figure


def temperature_figure(
    words: Sequence, probs: Sequence, plain: Sequence, temperature: float, curve: tuple, most: float
) -> Figure:
    """Next words at a temperature beside temperature 1, and the entropy over all temperatures.

    `curve` is (temperatures, entropies, the entropy here); `most` the entropy of a uniform choice.
    """
    figure, grid = new_figure(1, 2, 8.4, 2.7)
    axes = grid[0, 0]
    axes.bar(range(len(words)), probs, color=POLICY, width=0.8, label=f"τ = {temperature:.2f}")
    axes.step(
        range(len(words)), plain, where="mid", color="black", lw=1.2, label="τ = 1", alpha=0.8
    )
    axes.set_xticks(range(len(words)), words, rotation=40, ha="right")
    axes.set_ylim(0, 1)
    axes.legend()
    label_axes(axes, "The twelve likeliest next words", y="probability")
    axes = grid[0, 1]
    temperatures, entropies, here = curve
    axes.plot(temperatures, entropies, color=POLICY, lw=1.8)
    axes.plot([temperature], [here], "o", color=GOLD, mec="black", ms=8)
    axes.axhline(most, color=REFERENCE, ls="--", lw=1)
    words = f"every word alike: {most:.2f}"
    axes.text(temperatures[0], 1.02 * most, words, va="bottom", fontsize=9, color="#555555")
    axes.set_ylim(0, most * 1.15)
    label_axes(axes, f"Entropy: {here:.2f} nats", "temperature τ", "nats", grid="both")
    return figure


def cache_figure(again: Sequence, cached: Sequence) -> Figure:
    """Milliseconds for each new token (the quickest try), computing everything again and with the cache."""
    figure, axes = one_panel(8.0, 2.5)
    steps = range(1, len(again) + 1)
    axes.plot(steps, again, color=KL, lw=1.8, label="everything again")
    axes.plot(steps, cached, color=POLICY, lw=1.8, ls="--", label="with the cache")
    axes.set_ylim(0, None)
    axes.legend(loc="upper left")
    label_axes(
        axes, "Time of each new token, the quickest of several tries", "new token", "milliseconds"
    )
    return figure


def length_figure(lengths: Sequence, stopped: Sequence, limit: int) -> Figure:
    """How many responses have each length, those that said EOS apart from those cut off."""
    figure, axes = one_panel(8.0, 2.2)
    below = [0] * limit
    for wanted, colour, label in ((True, POLICY, "said </s>"), (False, KL, "cut off")):
        some = [n for n, s in zip(lengths, stopped, strict=True) if bool(s) == wanted]
        counts = [some.count(n) for n in range(1, limit + 1)]
        axes.bar(range(1, limit + 1), counts, bottom=below, color=colour, label=label)
        below = [b + n for b, n in zip(below, counts, strict=True)]
    axes.set_ylim(0, 1.1 * max(below))  # the tallest bar stays below the frame
    axes.legend(loc="upper left")
    label_axes(axes, "How long the responses are", "tokens, </s> included", "responses")
    return figure


def batch_figure(tokens: list, kinds: list, numbers: list | None = None, title: str = "") -> Figure:
    """A batch as coloured cells: `tokens` and `kinds` (0 to 3) by row, with small `numbers`."""
    rows, columns = len(tokens), len(tokens[0])
    figure, axes = one_panel(0.62 * columns, 0.6 * rows + 0.75)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.axis("off")
    for r in range(rows):
        for c in range(columns):
            fill = PAINT[kinds[r][c]]
            ink = ink_on(fill)
            axes.add_patch(Rectangle((c + 0.03, r + 0.06), 0.94, 0.88, color=fill))
            word = tokens[r][c] if len(tokens[r][c]) < 8 else tokens[r][c][:6] + "…"
            axes.text(c + 0.5, r + 0.42, word, ha="center", va="center", fontsize=9, color=ink)
            if numbers is not None:
                axes.text(c + 0.5, r + 0.77, str(numbers[r][c]), ha="center", va="center",
                          fontsize=9, color=ink)  # fmt: skip
        patches = [Patch(color=fill, label=kind) for kind, fill in TOKEN_KINDS.items()]
    axes.legend(handles=patches, ncol=4, loc="upper left",
                bbox_to_anchor=(0, -0.01))  # fmt: skip
    axes.set_title(title)
    return figure


def position_ids_figure(widths: Sequence, without: Sequence, correct: Sequence) -> Figure:
    """Largest change of a log-prob against the number of pads in front, both ways."""
    figure, axes = one_panel(8.0, 2.5)
    axes.semilogy(widths, without, "o-", color=KL, label="positions counted from the left edge")
    axes.semilogy(widths, correct, "s--", color=POLICY, label="positions = cumsum(mask) − mask")
    axes.set_ylim(1e-8, 100)
    axes.grid(True)
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.62))
    title = "How far the log-probs of one text move with pads in front of it"
    label_axes(axes, title, "pads", "largest move, nats")
    return figure


def alignment_figure(tokens: Sequence, prompt_length: int) -> Figure:
    """Which position's logits choose which token: the output row stands one to the left."""
    count = len(tokens)
    figure, axes = one_panel(0.72 * count + 1.2, 2.3)
    axes.set(xlim=(-1.35, count), ylim=(2.62, -0.15))
    axes.axis("off")
    for c, token in enumerate(tokens):
        kind = "prompt" if c < prompt_length else "stop token" if c == count - 1 else "response"
        fill = TOKEN_KINDS[kind]
        ink = ink_on(fill)
        axes.add_patch(Rectangle((c + 0.03, 0), 0.94, 0.55, color=fill))
        axes.text(c + 0.5, 0.28, token, ha="center", va="center", fontsize=9, color=ink)
        used = prompt_length - 1 <= c < count - 1
        edge = POLICY if used else QUIET_INK
        axes.add_patch(Rectangle((c + 0.03, 1.5), 0.94, 0.5, fill=False, ec=edge, lw=1.5))
        axes.text(c + 0.5, 1.75, str(c), ha="center", va="center", fontsize=9, color=edge)
        if used:
            arrow = {"arrowstyle": "-|>", "color": POLICY, "lw": 1.4}
            axes.annotate("", (c + 1.5, 0.58), (c + 0.5, 1.47), arrowprops=arrow)
    axes.text(-0.1, 0.28, "tokens", ha="right", va="center", fontsize=9)
    axes.text(-0.1, 1.75, "logits at", ha="right", va="center", fontsize=9)
    first, last = prompt_length - 1, count - 2
    words = f"the response's T = {last - first + 1} log-probs come from positions P − 1 = {first} … {last}"
    axes.text(
        (first + last + 1) / 2, 2.4, words, ha="center", va="center", fontsize=9, color=POLICY
    )
    return figure


def choice_figure(context: str, words: Sequence, probs: Sequence, said: str, title: str) -> Figure:
    """Next-token bars at one step of a response, the word that was said in another colour."""
    figure, axes = one_panel(8.0, 2.5)
    colours = [GOLD if word == said else POLICY for word in words]
    axes.bar(range(len(words)), probs, color=colours, width=0.75)
    axes.set_xticks(range(len(words)), words, rotation=30, ha="right", fontsize=9)
    axes.set_ylim(0, 1.05)
    axes.legend(handles=[Patch(color=GOLD, label=f"looked up: {said}")], fontsize=9)
    label_axes(axes, f"{context}\n{title}", y="probability")
    return figure


def kl_histograms(estimates: dict, exact: float) -> Figure:
    """A histogram for each estimator, and on the right their means beside the exact one.

    `estimates` maps a name to its values, their mean and the standard error of the mean.
    """
    figure, grid = new_figure(1, len(estimates) + 1, 9.6, 2.7)
    for axes, (name, (values, *_)) in zip(grid.flat, estimates.items(), strict=False):
        axes.hist([min(max(v, -2), 3) for v in values], bins=50, range=(-2, 3), color=KL, log=True)
        axes.axvline(0, color="black", lw=0.8)
        axes.set_ylim(0.7, 2 * len(values))
        axes.set_xticks(range(-2, 4))
        axes.tick_params(labelleft=axes is grid[0, 0])
        label_axes(axes, f"{name} of each token", "nats")
    grid[0, 0].set_ylabel("tokens (log scale)")
    means_beside_exact(grid[0, -1], estimates, exact)
    return figure


def means_beside_exact(axes: Axes, estimates: dict, exact: float) -> None:
    """A mean and its standard error in each row, and the exact mean through all of them."""
    for row, (_, mean, error) in enumerate(estimates.values()):
        axes.errorbar(mean, row, xerr=error, fmt="o", color=KL, capsize=4)
    axes.axvline(exact, color=REWARD, lw=1.6, ls="--", label=f"exact: {exact:.3f}")
    axes.set_yticks(range(len(estimates)), list(estimates))
    axes.set_ylim(len(estimates) - 0.5, -1.1)  # from above; room for the legend
    axes.legend(loc="upper right")
    label_axes(axes, "Means ± standard error", "nats per token", grid="x")


def arms_figure(
    arms: dict, title: str, xlabel: str, ylabel: str, step: int = 1, first: int = 0
) -> Figure:
    """One curve per arm, from x = `first` on: `arms` maps a label to (numbers, colour)."""
    figure, axes = one_panel(8.0, 2.5)
    for style, (label, (numbers, colour)) in zip(("o-", "s--", "^:"), arms.items(), strict=False):
        at = [first + step * i for i in range(len(numbers))]
        axes.plot(at, numbers, style, color=colour, label=label)
    axes.set_xticks(at)
    axes.legend()
    label_axes(axes, title, xlabel, ylabel, grid="both")
    return figure
