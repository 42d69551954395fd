"""The slider of notebook 07: policy, reference and exact optimum at each β."""

from torch import Tensor

from helpers.kit.figures import new_figure
from helpers.kit.one_token_figures import draw_answers, draw_distances
from helpers.kit.sliders import Explorer, picker, stops
from helpers.studies.one_token import OneTokenRun

SHOWN_ANSWERS = 10  # answers with a bar of their own


def leading_tokens(run: OneTokenRun, row: int) -> Tensor:
    """The answers that matter to policy, reference or optimum, the optimum's first: [SHOWN_ANSWERS]."""
    optimum, probs = run.optimum[row], run.tensors["probs"][row]
    largest = (optimum + probs + run.tensors["ref_probs"][row]).topk(SHOWN_ANSWERS).indices
    return largest[optimum[largest].argsort(descending=True)]


def one_token_explorer(
    runs: dict[float, OneTokenRun], tokens: list[str], method: str = "PPO"
) -> Explorer:
    """β and the prompt; `runs` as `load_one_token` gives them, `tokens` the vocabulary's names [V].

    `method` is what the policy's bars are called: "PPO" or "DPO".
    """
    curves = {
        beta: ([x["iteration"] for x in run.curve], [x["distance"] for x in run.curve])
        for beta, run in runs.items()
    }

    def draw(place: int, prompt: str):
        beta, run = list(runs.items())[place]
        row = run.watched.index(prompt)
        shown = leading_tokens(run, row)
        series = {
            "reference": run.tensors["ref_probs"][row][shown].tolist(),
            method: run.tensors["probs"][row][shown].tolist(),
            "exact optimum π*": run.optimum[row][shown].tolist(),
        }
        distance = float(run.tensors["distance"][run.prompts.index(prompt)])
        title = f"“{prompt} …” at β = {beta:g}: KL(π‖π*) = {distance:.3f}"
        names = [tokens[token] for token in shown.tolist()]
        figure, grid = new_figure(1, 2, 10.4, 3.4)
        grid[0, 0].get_gridspec().set_width_ratios([1.6, 1])
        draw_answers(grid[0, 0], names, series, title)
        draw_distances(grid[0, 1], curves, beta)
        return figure

    prompts = picker("prompt", next(iter(runs.values())).watched)
    return Explorer(draw, place=stops("β", list(runs)), prompt=prompts)
