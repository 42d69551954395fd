"""Figures of lesson 12: memory by model and kind, time by phase, two ways to train side by side."""

from matplotlib.figure import Figure

from helpers.kit.figures import label_axes, new_figure, one_panel
from helpers.kit.palette import ACCENT, GOLD, KL, POLICY, REFERENCE, REWARD, VALUE
from helpers.scale.memory import PHASES

MEMORY_KINDS = {
    "weights": POLICY,
    "bf16 copies": REWARD,
    "gradients": ACCENT,
    "Adam": VALUE,
    "KV cache": REFERENCE,
    "activations": GOLD,
    "logits": KL,
}
GIB = 2**30


def memory_figure(ledgers: dict, limit: float | None = 15.0) -> Figure:
    """One bar a setting, by kind: what is held always, and what the worse phase adds; `limit` in GiB."""
    figure, axes = one_panel(9.2, 0.55 * len(ledgers) + 1.2)
    names = list(ledgers)
    shown = {
        kind: colour
        for kind, colour in MEMORY_KINDS.items()
        if any(ledger.total(kind=kind) for ledger in ledgers.values())
    }
    for row, ledger in enumerate(ledgers.values()):
        phase = max(PHASES, key=lambda phase: ledger.total(phase=phase))
        left = 0.0
        for kind, colour in shown.items():
            held = (ledger.total(kind=kind, phase=when) for when in ("always", phase))
            width = sum(held) / GIB
            label = kind if row == 0 else None
            axes.barh(row, width, left=left, color=colour, label=label, edgecolor="white")
            left += width
        ground = {
            "facecolor": "white",
            "edgecolor": "none",
            "pad": 1,
        }  # the limit's line stays behind
        axes.annotate(
            f"{left:.2g} GiB", (left, row), (6, 0), textcoords="offset points", va="center",
            fontsize=9, bbox=ground,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    if limit is not None:
        axes.axvline(limit, color="black", linestyle=":", linewidth=1.2)
        axes.text(limit, -0.62, f"{limit:g} GiB ", ha="right", va="center", fontsize=9)
    label_axes(axes, "", "GiB at the worst moment")
    axes.tick_params(axis="y", labelsize=9)
    figure.legend(loc="outside upper center", ncols=len(MEMORY_KINDS))
    return figure


WATCHED = (  # of a held-out measurement: title, unit
    ("reward", "Reward: what is trained on", "cosine"),
    ("next_turn", "Judge: what would be said next?", "nats"),
    ("on_topic", "Judge: is it about what was said?", "cosine"),
    ("distinct", "Different word pairs", "share"),
    ("kl", "KL from the reference", "nats per response"),
    ("ended", "Responses that ended", "share"),
)


def held_out_figure(rows: dict[float, list[dict]]) -> Figure:
    """Measurements on held-out situations along runs at several β: β → rows."""
    figure, grid = new_figure(2, 3, 9.2, 4.4)
    styles = [(POLICY, "-", "o"), (KL, "--", "s"), (REWARD, ":", "^"), (GOLD, "-.", "v")]
    for axes, (key, title, unit) in zip(grid.flat, WATCHED, strict=True):
        for (beta, measured), (colour, line, marker) in zip(rows.items(), styles, strict=False):
            x, y = ([row[name] for row in measured] for name in ("iteration", key))
            axes.plot(x, y, line, marker=marker, markersize=4, color=colour, label=f"β = {beta:g}")
        label_axes(axes, title, "iteration", unit, grid="both")
    grid[0, 0].legend()
    return figure
