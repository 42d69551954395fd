"""Explorers of notebook 01: temperature, and a response token by token. The tensors come ready-made."""

import torch
from torch import Tensor

from helpers.kit.sliders import Explorer, picker, slider
from helpers.lessons.rollouts.figures import choice_figure, temperature_figure
from helpers.ppo import entropy_from_logits

SHOWN_WORDS = 12  # words in a picture


def explore_temperature(contexts: list[str], logits: Tensor, vocabulary: list[str]) -> Explorer:
    """Next-word probabilities and their entropy at any temperature: logits [contexts, V]."""
    logits = logits.detach().float().cpu()
    temperatures = torch.linspace(0.1, 3.0, 59)
    curves = entropy_from_logits(logits.unsqueeze(1) / temperatures[:, None])  # (contexts, 59)
    most = float(torch.tensor(float(logits.shape[-1])).log())

    def draw(text: int, temperature: float):
        here = logits[text] / temperature
        best = logits[text].topk(SHOWN_WORDS).indices  # (SHOWN_WORDS,)
        curve = (temperatures.tolist(), curves[text].tolist(), float(entropy_from_logits(here)))
        probs, plain = here.softmax(-1)[best], logits[text].softmax(-1)[best]
        words = [vocabulary[i] for i in best]
        return temperature_figure(words, probs.tolist(), plain.tolist(), temperature, curve, most)

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
        place = start + t
        row = probs[place - 1 + read]  # (V,)
        said, best = words[place], row.topk(SHOWN_WORDS).indices.tolist()
        if vocabulary.index(said) not in best:
            best[-1] = vocabulary.index(said)
        chance = float(row[vocabulary.index(said)])
        number = f"probability {chance:.4f}, log-prob {torch.tensor(chance).log():+.2f}"
        context = " ".join(words[max(0, place - 8) : place]) + " …"
        shown = [float(row[i]) for i in best]
        return choice_figure(context, [vocabulary[i] for i in best], shown, said, number)

    reads = [
        ("logits of the token before (right)", 0),
        ("logits of the token itself (off by one)", 1),
    ]
    return Explorer(
        draw, t=slider("token t", 0, 0, length - 1, 1), read=picker("look up in", reads)
    )
