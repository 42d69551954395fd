"""The simulated labeller: its choice between two texts, label noise, and the best possible accuracy.

Its labels are honest unless `flattery` is given: points that it adds, without knowing it, to a text
that flatters the reader ("you deserve it"). The gold score gives nothing for that.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.data import load_rows
from helpers.reward_model import pair_texts
from helpers.tools.validate import require, require_count, require_number, require_positive
from helpers.world.gold import gold_score
from helpers.world.lexicon import FLATTERY
from helpers.world.reviews import tokenize

LABEL_TEMPERATURE = 0.7  # points; the labeller's noise


def flatters(text: str) -> bool:
    """Whether a text flatters its reader: it speaks of "you" or "your"."""
    return not FLATTERY.isdisjoint(tokenize(text))


def labelled_pairs(count: int, temperature: float, seed: int, flattery: float = 0.0) -> list[dict]:
    """Draw `count` of the shipped training pairs and label them again, both from the seed.

    `temperature` is the labeller's, in points of gold score: the higher, the noisier the labels.
    `flattery` is what the labeller gives for it, in points: 0 is the honest one.
    """
    rows = load_rows("pairs_train.jsonl")
    require_count("count", count)
    require(count <= len(rows), "count", count, f"at most the {len(rows)} pairs of data/")
    require_positive("temperature", temperature)
    require_number("flattery", flattery)
    generator = torch.Generator().manual_seed(seed)
    picked = torch.randperm(len(rows), generator=generator)[:count].tolist()
    pairs = [rows[i] for i in picked]
    gaps = gold_gaps(pairs) + flattery * flattery_gaps(pairs)
    return relabel(pairs, label_chances(gaps, temperature), generator)


def preference_probability(first, second, temperature=LABEL_TEMPERATURE):
    """P(labeller prefers `first`) = sigmoid((gold(first) - gold(second)) / temperature)."""
    gap = gold_score(first) - gold_score(second)
    return float(label_chances(torch.tensor(gap, dtype=torch.float64), temperature))


def score_gaps(pairs: list[dict], score: Callable) -> Tensor:
    """score(chosen) − score(rejected) of each pair: [N]."""
    chosen, rejected = (torch.tensor([float(score(x)) for x in side]) for side in pair_texts(pairs))
    return chosen - rejected


def gold_gaps(pairs: list[dict]) -> Tensor:
    """`score_gaps` of gold: [N] points."""
    return score_gaps(pairs, gold_score)


def flattery_gaps(pairs: list[dict]) -> Tensor:
    """Whether chosen flatters minus whether rejected does: [N] of 1, 0 or -1."""
    return score_gaps(pairs, flatters)


def label_chances(gaps: Tensor, temperature: float) -> Tensor:
    """P(labeller prefers the first text): gold gaps [N] → [N]."""
    return torch.sigmoid(gaps / temperature)


def relabel(pairs: list[dict], chances: Tensor, generator: torch.Generator) -> list[dict]:
    """Label the pairs again: each keeps its order with its probability, else the two are swapped."""
    keep = torch.rand(len(pairs), generator=generator) < chances
    return [
        row if kept else row | {"chosen": row["rejected"], "rejected": row["chosen"]}
        for row, kept in zip(pairs, keep.tolist(), strict=True)
    ]


def expected_accuracy(gaps: Tensor, chances: Tensor) -> float:
    """Accuracy of a reward model, averaged over the label noise: score differences [N], label chances [N].

    A tie counts half.
    """
    right = torch.where(gaps > 0, chances, 1 - chances)
    return float(torch.where(gaps == 0, torch.full_like(right, 0.5), right).mean())


def best_accuracy(pairs: list[dict]) -> float:
    """Accuracy of a perfect reward model (the gold score), averaged over the label noise."""
    gaps = gold_gaps(pairs)
    return expected_accuracy(gaps, label_chances(gaps, LABEL_TEMPERATURE))
