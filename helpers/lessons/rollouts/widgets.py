"""The explorer of notebook 01: temperature. The logits come ready-made."""

import torch
from torch import Tensor

from helpers.kit.figures import label_axes, new_figure
from helpers.kit.palette import GOLD, POLICY, REFERENCE
from helpers.kit.sliders import Explorer, picker, slider
from helpers.lessons.rollouts.figures import draw_words
from helpers.ppo import entropy_from_logits

SHOWN_WORDS = 12  # words in a picture


def explore_temperature(contexts: list[str], logits: Tensor, vocabulary: list[str]) -> Explorer:
    """Next-word probabilities and their entropy at any temperature: logits [contexts, V]."""
    logits = logits.detach().float().cpu()
    temperatures = torch.linspace(0.1, 3.0, 59)
    curves = entropy_from_logits(logits.unsqueeze(1) / temperatures[:, None])  # (contexts, 59)
    most = float(torch.tensor(float(logits.shape[-1])).log())

    def draw(text: int, temperature: float):
        figure, grid = new_figure(1, 2, 8.4, 2.7)
        bars, line = grid[0]
        here = logits[text] / temperature
        best = logits[text].topk(SHOWN_WORDS).indices  # (SHOWN_WORDS,)
        words, plain = [vocabulary[i] for i in best], logits[text].softmax(-1)[best]
        draw_words(bars, words, here.softmax(-1)[best], "The twelve likeliest next words")
        bars.step(range(len(words)), plain, where="mid", color="black", lw=1.2, label="τ = 1")
        bars.set_ylim(0, 1)
        bars.legend(title=f"bars: τ = {temperature:.2f}")
        entropy = float(entropy_from_logits(here))
        line.plot(temperatures, curves[text], color=POLICY, lw=1.8)
        line.plot([temperature], [entropy], "o", color=GOLD, mec="black", ms=8)
        line.axhline(most, color=REFERENCE, ls="--", lw=1)
        said = f"every word alike: {most:.2f}"
        line.text(temperatures[0], 1.02 * most, said, va="bottom", fontsize=9, color="#555555")
        line.set_ylim(0, most * 1.15)
        label_axes(line, f"Entropy: {entropy:.2f} nats", "temperature τ", "nats", grid="both")
        return figure

    options = [(f"{text} …", i) for i, text in enumerate(contexts)]
    return Explorer(
        draw, text=picker("text", options), temperature=slider("τ", 1.0, 0.1, 3.0, 0.05)
    )
