"""The sliders of notebook 11: pairs and labels in a world of a few answers; recorded runs by β."""

from collections.abc import Sequence

import ipywidgets
from torch import Tensor

from helpers.kit.one_token_figures import answer_figure
from helpers.kit.sliders import WIDE, Explorer, picker, stops
from helpers.lessons.without_a_reward_model.figures import price_figure
from helpers.lessons.without_a_reward_model.study import Direct
from helpers.theory.optimum import kl_divergence

METHODS = (("offline: 300 pairs, again and again", "offline"), ("online: fresh pairs", "online"))


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


def price_explorer(study: Direct, start: int = 0) -> Explorer:
    """Recorded runs offline and online; the chosen β in blue, its seeds as thin lines."""
    betas = study.betas("offline")

    def draw(method: str, beta: int):
        runs = {b: study.of_kind(f"{method}_{b:g}") for b in betas}
        steps = runs[betas[0]][0].column("iteration")
        names = ("kl", "gold", "grammatical")
        curves = {
            b: {name: [run.column(name) for run in of] for name in names} for b, of in runs.items()
        }
        return price_figure(steps, curves, betas[beta], f"{method}, β = {betas[beta]:g}")

    method = ipywidgets.Dropdown(options=METHODS, description="pairs", style=WIDE)
    return Explorer(draw, method=method, beta=stops("β", betas, start))
