"""How reward models are made: labels and their noise, several models asked together."""

from types import SimpleNamespace

import torch

from helpers.lessons.overoptimization import study as recipes
from helpers.lessons.overoptimization.study import RewardRecipe
from helpers.reward_model import join
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
    assert sure == 1.0 and 0.75 < usual < 1.0 and 0.4 < noisy < 0.62


def test_the_seed_picks_the_pairs_and_noise_changes_their_labels_alone():
    drawn = [labelled_pairs(200, *how) for how in ((1e-3, 0), (1e-3, 0), (30.0, 0), (30.0, 1))]
    clean, again, noisy, other = drawn
    sides = [[{row["chosen"], row["rejected"]} for row in rows] for rows in drawn]
    assert clean == again != noisy != other and sides[0] == sides[2] != sides[3]


def test_an_ensemble_takes_the_mean_or_the_least_of_its_members_text_by_text():
    scores = [1.0, -2.0], [-3.0, 4.0]
    for combine, wants in (("mean", [-1.0, 1.0]), ("worst", [-3.0, -2.0])):
        ensemble = RewardRecipe(members=2, combine=combine)
        ensemble.__dict__["models"] = [
            SimpleNamespace(score_texts=lambda texts, row=row: torch.tensor(row)) for row in scores
        ]
        assert ensemble(["a", "b"]).tolist() == wants


def test_members_share_the_pairs_and_no_two_recipes_share_a_seed(monkeypatch):
    asked = []

    def train(pairs, layers, width, seed):
        asked.append((len(pairs), layers, width, seed))
        return SimpleNamespace()

    monkeypatch.setattr(recipes, "train_reward_model", train)
    for seed in (0, 1):
        ensemble = RewardRecipe(pairs=20, layers=1, width=32, members=4, seed=seed)
        assert len(ensemble.models) == 4 and ensemble.models is ensemble.models
    assert [row[3] for row in asked] == list(range(8))
    assert {row[:3] for row in asked} == {(20, 1, 32)}
