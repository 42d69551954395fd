"""A judge with two planted biases, and answers of two policies at the same KL to try it on. For lesson 12."""

from collections import defaultdict
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.data import load_pairs
from helpers.reward_model import load_reward_model, pair_texts
from helpers.world.gold import gold_scores

NOISE = 2.0  # points of gold score: the judge is less sure than the labeller of lesson 05
POSITION, LENGTH = 0.8, 0.2  # log-odds for the text shown first; for each word more


class Answers(NamedTuple):
    """A policy's answers, one for each comparison."""

    texts: list[str]
    words: Tensor  # (N,) how long each is
    gold: Tensor  # (N,)


def two_policies(n: int = 4, bonus: float = 0.3) -> tuple[Answers, Answers]:
    """Best of n by score + bonus · words, and best of n by the score alone, to the same prompts.

    Each chooses among n samples of its own of the SFT policy (held-out pairs), so the bound on the KL is one.
    """
    pairs, samples = load_pairs("data/pairs_test.jsonl"), defaultdict(list)
    for row, *texts in zip(pairs, *pair_texts(pairs), strict=True):
        samples[row["prompt"]] += texts
    cut = [x[k : k + 2 * n] for x in samples.values() for k in range(0, len(x) - 2 * n + 1, 2 * n)]
    texts = sum(cut, [])
    words = torch.tensor([float(len(text.split())) for text in texts]).view(-1, 2, n)
    scores = load_reward_model(device="cpu").score_texts(texts).view(-1, 2, n)
    best = (scores + torch.tensor([[bonus], [0.0]]) * words).argmax(2)  # (N, 2)
    found = []
    for side in (0, 1):
        chosen = [row[side * n + k] for row, k in zip(cut, best[:, side].tolist(), strict=True)]
        length = words[:, side].gather(1, best[:, side, None])[:, 0]
        found.append(Answers(chosen, length, torch.tensor(gold_scores(chosen))))
    return tuple(found)


def judge_probability(first: Answers, second: Answers, position=POSITION, length=LENGTH) -> Tensor:
    """Probability that the judge prefers the text shown first: [N]. With both biases 0 the judge is fair."""
    longer = first.words - second.words
    return torch.sigmoid((first.gold - second.gold) / NOISE + position + length * longer)


def judge(first: Answers, second: Answers, seed: int) -> Tensor:
    """Whether the judge prefers the text shown first, drawn once for each pair: [N] bool."""
    probability = judge_probability(first, second)
    return torch.rand(len(probability), generator=torch.Generator().manual_seed(seed)) < probability


def wilson(rate: float | Tensor, n: int, z: float = 1.96) -> tuple:
    """Wilson's interval of a rate among n, 95 %: (low, high), also where the rate is 0 or 1 (1927)."""
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    return middle - half, middle + half
