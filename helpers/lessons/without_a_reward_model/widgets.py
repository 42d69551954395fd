"""The sliders of notebook 11: pairs and labels in a world of a few answers; recorded runs by β."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from helpers.kit.figures import draw_seeds, label_axes, new_figure
from helpers.kit.one_token_figures import answer_figure
from helpers.kit.palette import BLUE, REFERENCE
from helpers.kit.sliders import Explorer, picker, stops
from helpers.lessons.without_a_reward_model.figures import large_type
from helpers.lessons.without_a_reward_model.study import Direct
from helpers.theory.optimum import kl_divergence

PRICED = {  # key of a row: title, unit
    "kl": ("KL from the reference", "nats per response"),
    "gold": ("Gold score (never trained on)", "points"),
}
METHODS = [("offline: 300 pairs, again and again", "offline"), ("online: fresh pairs", "online")]


def pairs_explorer(
    answers: Sequence[str], ref_probs: Tensor, best: Tensor, fits: dict[tuple[str, int], Tensor]
) -> Explorer:
    """How near DPO comes to π*: `fits` maps (kind of labels, number of pairs) to its policy [N]."""
    labels = list(dict.fromkeys(kind for kind, _ in fits))
    counts = sorted({count for _, count in fits})

    def draw(kind: str, count: int):
        policy = fits[kind, counts[count]]
        series = {"reference": ref_probs, "DPO": policy, "exact optimum π*": best}
        distance = float(kl_divergence(policy, best))
        title = f"{counts[count]} pairs, {kind}: KL(π‖π*) = {distance:.3f} nats"
        return answer_figure(answers, {name: x.tolist() for name, x in series.items()}, title)

    return Explorer(
        draw, kind=picker("labels", labels), count=stops("pairs", counts, len(counts) // 2)
    )


def price_explorer(study: Direct) -> Explorer:
    """Recorded runs offline and online; the chosen β in blue, its seeds as thin lines."""
    betas = study.betas("offline")

    @large_type
    def draw(method: str, beta: int):
        chosen, runs = betas[beta], {b: study.of_kind(f"{method}_{b:g}") for b in betas}
        figure, grid = new_figure(1, len(PRICED), 9.2, 3.4)
        figure.suptitle(f"{method}, β = {chosen:g}")
        for axes, (key, (title, unit)) in zip(grid[0], PRICED.items(), strict=True):
            steps, lines = runs[chosen][0].column("iteration"), iter(("--", ":", "-."))
            for b, of in runs.items():
                curves = [run.column(key) for run in of]
                if b == chosen:
                    draw_seeds(axes, steps, curves, BLUE, f"β = {b:g}")
                else:
                    style = dict(color=REFERENCE, linewidth=1.6, label=f"β = {b:g}")
                    axes.plot(steps, np.mean(curves, axis=0), next(lines), **style)
            axes.legend(loc="best")
            label_axes(axes, title, "gradient steps", unit, grid="y")
        return figure

    return Explorer(draw, method=picker("pairs", METHODS), beta=stops("β", betas))
