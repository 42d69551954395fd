"""Figure of notebook 13: memory by kind."""

from matplotlib.figure import Figure

from helpers.kit.figures import label_axes, one_panel
from helpers.kit.palette import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW
from helpers.scale.memory import GIB, PHASES

MEMORY_KINDS = {"weights": BLUE, "bf16 copies": GREEN, "gradients": SKY, "Adam": PINK,
                "KV cache": GREY, "activations": YELLOW, "logits": ORANGE}  # fmt: skip
T4 = 15.0  # GiB of a free GPU


def memory_figure(ledgers: dict) -> Figure:
    """One bar a setting, by kind: what is held always, and what the worse phase adds; a line at a T4's."""
    figure, axes = one_panel(9.2, 0.55 * len(ledgers) + 1.2)
    held = list(ledgers.values())
    phases = [max(PHASES, key=lambda phase, x=x: x.total(phase=phase)) for x in held]
    left = [0.0] * len(held)
    for kind, colour in MEMORY_KINDS.items():
        pairs = zip(held, phases, strict=True)
        widths = [sum(x.total(kind=kind, phase=p) for p in ("always", y)) / GIB for x, y in pairs]
        if any(widths):
            axes.barh(list(ledgers), widths, left=left, color=colour, label=kind)
        left = [x + width for x, width in zip(left, widths, strict=True)]
    for row, end in enumerate(left):
        how = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        over = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # the dotted line
        axes.annotate(f"{end:.1f} GiB", (end, row), **how, bbox=over)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.axvline(T4, color="black", linestyle=":", linewidth=1.2)
    label_axes(axes, "", f"GiB at the worst moment (dotted: {T4:g})")
    axes.tick_params(axis="y", labelsize=9)
    figure.legend(loc="outside upper center", ncols=len(MEMORY_KINDS))
    return figure
