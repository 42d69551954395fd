"""The sweep of notebook 05: its measures agree with the course's own, and its saved file is whole."""

import pytest
import torch

from helpers.data import load_rows
from helpers.lessons.reward_model import study as reward_sweep
from helpers.reward_model import held_out_accuracy, pair_texts
from helpers.world import labelling

PAIRS = load_rows("pairs_test.jsonl")[:60]


def test_the_best_accuracy_is_how_often_the_labeller_prefers_the_better_text():
    chances = map(labelling.preference_probability, *pair_texts(PAIRS))
    expected = sum(max(p, 1 - p) for p in chances) / len(PAIRS)
    assert labelling.best_accuracy(PAIRS) == pytest.approx(expected, abs=1e-5)


def test_nobody_beats_the_one_who_knows():
    gaps = labelling.gold_gaps(PAIRS)
    best = reward_sweep.best_possible(gaps, 1.0)
    worse = reward_sweep.measure_quality(gaps + torch.randn(len(gaps)), gaps, 1.0)
    assert best["accuracy"] >= worse["accuracy"]
    for row in best["calibration"]:
        assert row["predicted"] == pytest.approx(row["actual"], abs=1e-5)
    assert sum(row["pairs"] for row in best["calibration"]) == len(PAIRS)


def test_a_tie_counts_half():
    assert labelling.expected_accuracy(torch.zeros(2), torch.tensor([0.9, 0.2])) == 0.5


def test_relabelling_turns_some_pairs_round_and_loses_none():
    generator = torch.Generator().manual_seed(0)
    assert labelling.relabel(PAIRS, torch.ones(len(PAIRS)), generator) == PAIRS
    turned = labelling.relabel(PAIRS, torch.zeros(len(PAIRS)), generator)
    assert [row["chosen"] for row in turned] == [row["rejected"] for row in PAIRS]
    half = labelling.relabel(PAIRS, torch.full((len(PAIRS),), 0.5), generator)
    same = sum(a == b for a, b in zip(half, PAIRS, strict=True))
    assert 15 < same < 45


def test_the_saved_sweep_is_whole_and_says_how_it_was_made():
    results = reward_sweep.load_results()
    jobs = {(run["pairs"], run["temperature"], run["seed"]) for run in results["runs"]}
    sizes, heats = reward_sweep.SEEDS, reward_sweep.TEMPERATURES
    assert jobs == {(n, t, s) for n in sizes for t in heats for s in range(reward_sweep.SEEDS[n])}
    assert {"command", "versions", "threads", "test_pairs"} <= set(results)
    ceiling = {best["temperature"]: best["accuracy"] for best in results["best"]}
    assert all(run["accuracy"] <= ceiling[run["temperature"]] for run in results["runs"])


class Memory:
    """A model that knows the pairs it was fitted to, and is wrong about every other."""

    def __init__(self, pairs: list[dict]):
        chosen, rejected = pair_texts(pairs)
        self.known = dict.fromkeys(rejected, -1.0) | dict.fromkeys(chosen, 1.0)

    def score_texts(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([self.known.get(text, len(text) / 100) for text in texts])


def test_held_out_accuracy_is_of_pairs_that_were_not_fitted():
    pairs = [{"prompt": "a", "chosen": f"b{i:02}", "rejected": f"longer {i:02}"} for i in range(10)]
    fitted = []

    def fit(some: list[dict]) -> Memory:
        fitted.append(len(some))
        return Memory(some)

    assert held_out_accuracy(fit, pairs, folds=3) == 0.0  # the longer one wins with a stranger
    assert fitted == [6, 7, 7]
    swapped = [pair | {"chosen": pair["rejected"], "rejected": pair["chosen"]} for pair in pairs]
    assert held_out_accuracy(Memory, swapped, folds=4) == 1.0
    with pytest.raises(ValueError, match="pairs: got 3 of them, wants at least 4"):
        held_out_accuracy(Memory, pairs[:3])
