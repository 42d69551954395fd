"""How reward models are made: labels and their noise, several models asked together."""

from types import SimpleNamespace

import pytest
import torch

from helpers.lessons.overoptimization import study as recipes
from helpers.lessons.overoptimization.study import RewardRecipe
from helpers.reward_model import join, passes
from helpers.world.gold import gold_score
from helpers.world.labelling import labelled_pairs


def share_following_gold(temperature: float) -> float:
    """Share of 400 freshly labelled pairs whose chosen response has the higher gold, ties left out."""
    follows = []
    for pair in labelled_pairs(400, temperature, seed=1):
        a, b = (gold_score(join(pair["prompt"], pair[side])) for side in ("chosen", "rejected"))
        follows += [a > b] if abs(a - b) > 0.02 else []
    return sum(follows) / len(follows)


def test_the_higher_the_temperature_the_noisier_the_labels():
    sure, usual, noisy = (share_following_gold(temperature) for temperature in (1e-3, 0.5, 30.0))
    assert sure == 1.0
    assert 0.75 < usual < 1.0
    assert 0.4 < noisy < 0.62


def test_labels_come_from_the_seed_alone():
    assert labelled_pairs(50, 0.5, seed=3) == labelled_pairs(50, 0.5, seed=3)
    assert labelled_pairs(50, 0.5, seed=3) != labelled_pairs(50, 0.5, seed=4)


def test_noise_changes_labels_and_not_the_pairs():
    clean, noisy = (labelled_pairs(200, temperature, seed=0) for temperature in (1e-3, 30.0))
    sides = [[{row["chosen"], row["rejected"]} for row in rows] for rows in (clean, noisy)]
    assert sides[0] == sides[1] and clean != noisy


@pytest.mark.parametrize(
    ("count", "temperature", "name"),
    [(0, 0.5, "count"), (10**9, 0.5, "count"), (2.5, 0.5, "count"), (10, 0.0, "temperature")],
)
def test_labelling_refuses_bad_values(count, temperature, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        labelled_pairs(count, temperature, seed=0)


@pytest.mark.parametrize(("field", "value"), [("combine", "median"), ("members", 0)])
def test_a_recipe_refuses_bad_values(field, value):
    with pytest.raises(ValueError, match=f"^{field}:"):
        RewardRecipe(**{field: value})


class Stub:
    """A reward model whose score is a number times the length of the text."""

    def __init__(self, factor: float):
        self.factor = factor

    def score_texts(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([self.factor * len(text) for text in texts])


@pytest.mark.parametrize(("combine", "wants"), [("mean", [1.0, 2.0]), ("worst", [-3.0, -6.0])])
def test_an_ensemble_asks_all_its_members(combine, wants):
    ensemble = RewardRecipe(members=3, combine=combine)
    ensemble.__dict__["models"] = [Stub(-1.0), Stub(1.0), Stub(1.5)]
    one = {"mean": [0.5, 1.0], "worst": [-1.0, -2.0]}[combine]
    assert ensemble(["a", "bb"]).tolist() == one
    ensemble.__dict__["models"] = [Stub(-3.0), Stub(1.0), Stub(5.0)]
    assert ensemble(["a", "bb"]).tolist() == wants


def test_the_worst_case_is_taken_text_by_text():
    ensemble = RewardRecipe(members=2, combine="worst")
    ensemble.__dict__["models"] = [
        SimpleNamespace(score_texts=lambda texts: torch.tensor([1.0, -2.0])),
        SimpleNamespace(score_texts=lambda texts: torch.tensor([-3.0, 4.0])),
    ]
    assert ensemble(["a", "b"]).tolist() == [-3.0, -2.0]


def test_members_share_the_pairs_and_no_two_recipes_share_a_seed(monkeypatch):
    asked = []

    def train(pairs, layers, width, seed):
        asked.append((len(pairs), layers, width, seed))
        return Stub(1.0)

    monkeypatch.setattr(recipes, "train_reward_model", train)
    for seed in (0, 1):
        ensemble = RewardRecipe(pairs=20, layers=1, width=32, members=4, seed=seed)
        assert len(ensemble.models) == 4 and ensemble.models is ensemble.models
    assert [row[3] for row in asked] == list(range(8))
    assert {row[:3] for row in asked} == {(20, 1, 32)}


def test_few_pairs_are_passed_over_more_often():
    counts = [passes(pairs) for pairs in (100, 300, 1_000, 3_000, 12_000)]
    assert counts == sorted(counts, reverse=True) and counts[-1] >= 2
