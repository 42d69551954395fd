"""How a reward model is made: which pairs, how noisy, how large, how many of them. Made when first asked.

A recipe is a reward like any other (a list of texts in, scores out), so a run can be given one.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from helpers import reviews
from helpers.models import freeze, load_tokenizer
from helpers.reward_model import RewardModel, fit_reward_model, normalize, pair_texts
from helpers.reward_sweep import gold_gaps, label_chances, relabel
from helpers.sft import make_encoder
from helpers.storage import load_rows
from helpers.validate import require, require_choice, require_count, require_positive

COMBINE = ("mean", "worst")  # of several reward models: their mean, or the least of their scores


def passes(pairs: int) -> int:
    """Passes over the pairs: few pairs need more, or the fit is over before it has begun."""
    return max(2, min(12, round(4_000 / pairs)))


def labelled_pairs(count: int, temperature: float, seed: int) -> list[dict]:
    """`count` of the shipped training pairs, drawn and labelled anew from the seed.

    `temperature` is the simulated labeller's, in points of gold score: the higher, the noisier.
    """
    rows = load_rows("pairs_train.jsonl")
    require_count("count", count)
    require(count <= len(rows), "count", count, f"at most the {len(rows)} pairs of data/")
    require_positive("temperature", temperature)
    generator = torch.Generator().manual_seed(seed)
    picked = torch.randperm(len(rows), generator=generator)[:count].tolist()
    pairs = [rows[i] for i in picked]
    return relabel(pairs, label_chances(gold_gaps(pairs), temperature), generator)


def train_reward_model(
    pairs: list[dict], layers: int = 2, width: int = 128, seed: int = 0, epochs: int | None = None
) -> RewardModel:
    """A reward model from scratch, fitted to these pairs and normalised on their texts; frozen."""
    tokenizer = load_tokenizer("data/sft")
    torch.manual_seed(seed)
    model = RewardModel(make_encoder(tokenizer, layers, width), tokenizer)
    fit_reward_model(model, pairs, epochs or passes(len(pairs)), seed=seed)
    chosen, rejected = pair_texts(pairs)
    return freeze(normalize(model, (chosen + rejected)[:2_000]))


@dataclass(frozen=True)
class RewardRecipe:
    """One reward model, or several that are asked together. Trains when it is first called."""

    pairs: int = 1_000
    temperature: float = reviews.LABEL_TEMPERATURE  # of the labeller, points of gold score
    layers: int = 2
    width: int = 128
    members: int = 1  # reward models, differing in their start and in the order of the pairs
    combine: str = "mean"
    seed: int = 0

    def __post_init__(self):
        require_choice("combine", self.combine, COMBINE)
        require_count("members", self.members)

    @cached_property
    def models(self) -> list[RewardModel]:
        """The trained members; all see the same pairs with the same labels."""
        pairs = labelled_pairs(self.pairs, self.temperature, self.seed)
        seeds = range(self.seed * self.members, (self.seed + 1) * self.members)
        with torch.enable_grad():  # whoever asks first may do so under no_grad
            return [train_reward_model(pairs, self.layers, self.width, seed) for seed in seeds]

    def __call__(self, texts: list[str]) -> Tensor:
        """Scores [B] of whole texts: the members' mean, or for each text the least of them."""
        scores = torch.stack([model.score_texts(texts) for model in self.models])
        return scores.mean(dim=0) if self.combine == "mean" else scores.amin(dim=0)
