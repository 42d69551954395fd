"""Explorers of notebook 01: temperature, and a response token by token. The tensors come ready-made."""

import torch
from matplotlib.patches import Patch
from torch import Tensor

from helpers.kit.figures import label_axes, new_figure, one_panel
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


def explore_choices(
    words: list[str], start: int, logits: Tensor, vocabulary: list[str]
) -> Explorer:
    """Walk through a response: what could have been said and what was, aligned well or one too late.

    `words` is the whole text of L tokens, its response from `start`; `logits` [L, V] of a full forward.
    """
    probs = logits.detach().float().softmax(-1).cpu()
    length = len(words) - start

    def draw(t: int, read: int):
        figure, axes = one_panel(8.0, 2.5)
        place = start + t
        row = probs[place - 1 + read]  # (V,)
        said, best = words[place], row.topk(SHOWN_WORDS).indices.tolist()
        if vocabulary.index(said) not in best:
            best[-1] = vocabulary.index(said)
        chance = row[vocabulary.index(said)]
        title = " ".join(words[max(0, place - 8) : place]) + " …\n"
        title += f"probability {chance:.4f}, log-prob {chance.log():+.2f}"
        shown = [vocabulary[i] for i in best]
        colours = [GOLD if word == said else POLICY for word in shown]
        draw_words(axes, shown, row[best], title, colours)
        axes.set_ylim(0, 1.05)
        axes.legend(handles=[Patch(color=GOLD, label=f"looked up: {said}")])
        return figure

    reads = [
        ("logits of the token before (right)", 0),
        ("logits of the token itself (off by one)", 1),
    ]
    return Explorer(
        draw, t=slider("token t", 0, 0, length - 1, 1), read=picker("look up in", reads)
    )
