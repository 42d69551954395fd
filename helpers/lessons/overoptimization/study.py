"""Reward hacking: the same training against reward models made in different ways.

A recipe (number of pairs, label noise, size, ensemble) is a reward function; it trains its reward
models when it is first called.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from helpers.models import freeze, load_tokenizer
from helpers.reward_model import RewardModel, fit_reward_model, normalize, pair_texts
from helpers.studies.study import WHOLE_RUN_SEED, Job, StudyOptions, loader, record
from helpers.world.labelling import LABEL_TEMPERATURE, labelled_pairs
from helpers.world.small_models import make_encoder


def train_reward_model(
    pairs: list[dict], layers: int = 2, width: int = 128, seed: int = 0
) -> RewardModel:
    """Train a reward model from scratch on these pairs; normalised on their texts, and frozen."""
    tokenizer = load_tokenizer("data/sft")
    torch.manual_seed(seed)
    model = RewardModel(make_encoder(tokenizer, layers, width), tokenizer)
    fit_reward_model(model, pairs, seed=seed)
    chosen, rejected = pair_texts(pairs)
    return freeze(normalize(model, (chosen + rejected)[:2_000]))


@dataclass(frozen=True)
class RewardRecipe:
    """One reward model or an ensemble, trained when first called."""

    pairs: int = 1_000
    temperature: float = LABEL_TEMPERATURE  # of the labeller, points of gold score
    flattery: float = 0.0  # points that the labeller gives for it; 0 is the honest one
    layers: int = 2
    width: int = 128
    members: int = 1  # reward models, differing in their start and in the order of the pairs
    combine: str = "mean"  # or "worst": the least of their scores
    seed: int = 0

    @cached_property
    def models(self) -> list[RewardModel]:
        """The trained members; all use the same labelled pairs."""
        pairs = labelled_pairs(self.pairs, self.temperature, self.seed, self.flattery)
        seeds = range(self.seed * self.members, (self.seed + 1) * self.members)
        with torch.enable_grad():  # whoever asks first may do so under no_grad
            return [train_reward_model(pairs, self.layers, self.width, seed) for seed in seeds]

    def __call__(self, texts: list[str]) -> Tensor:
        """Scores [B] of texts: the mean or the minimum over the members."""
        scores = torch.stack([model.score_texts(texts) for model in self.models])
        return scores.mean(dim=0) if self.combine == "mean" else scores.amin(dim=0)


SCHEDULE = [0, 5, 10, 20, 30, 40]  # iterations of the snapshots
BASE = "base"  # 1,000 pairs, the labeller's own noise, 2 layers × 128, one model
RECIPES = {BASE: {}} | {f"pairs_{n}": {"pairs": n} for n in (30, 100, 300, 3_000, 12_000)}
RECIPES |= {
    "noise_0.1": {"temperature": 0.1},
    "noise_3": {"temperature": 3.0},
    "size_1x32": {"layers": 1, "width": 32},
    "size_3x192": {"layers": 3, "width": 192},
    "ensemble_mean": {"members": 4, "combine": "mean"},
    "ensemble_worst": {"members": 4, "combine": "worst"},
    "flattered": {"pairs": 12_000, "flattery": 2.0},
}
FACTORS = {  # what a slider moves through, in order, and how each is called there
    "preference pairs": {"pairs_30": "30", "pairs_100": "100", "pairs_300": "300", BASE: "1,000",
                         "pairs_3000": "3,000", "pairs_12000": "12,000"},
    "label noise (labeller's temperature)": {"noise_0.1": "0.1", BASE: "0.7", "noise_3": "3"},
    "reward-model size": {"size_1x32": "1 × 32", BASE: "2 × 128", "size_3x192": "3 × 192"},
    "ensemble": {BASE: "one model", "ensemble_mean": "mean of 4", "ensemble_worst": "worst of 4"},
    "labeller": {"pairs_12000": "honest", "flattered": "with a weakness"},
}  # fmt: skip


def name_of(kind: str) -> str:
    """What a kind of run changes, in words: "pairs: 300", "noise: 3"."""
    if kind == BASE:
        return "base: 1,000 pairs"
    if kind == "flattered":  # two things differ from the base
        return "12,000 pairs, other labellers"
    factor, label = next((name, kinds[kind]) for name, kinds in FACTORS.items() if kind in kinds)
    return f"{factor.split(' (')[0].split()[-1]}: {label}"


def recipe(kind: str, seed: int) -> RewardRecipe:
    """The reward model of a run."""
    return RewardRecipe(seed=seed, **RECIPES[kind])


load_reward_studies = loader("reward_hacking")


class RewardHackingOptions(StudyOptions, name="reward_hacking", iterations=40):
    """Reward hacking: the same training against reward models made in thirteen ways."""

    SETTINGS = {"learning_rate": 3e-4, "critic_learning_rate": 1e-3}

    def jobs_on(self, seed: int) -> list[Job]:
        """β is 0: only the reward differs. The seed is that of the run and of its reward model."""
        config, whole = self.config(seed, kl_coef=0.0), seed == WHOLE_RUN_SEED
        train = partial(record, evaluated=4, checkpoints=False, schedule=SCHEDULE)
        return [Job(x, config, partial(train, reward=recipe(x, seed)), whole) for x in RECIPES]
