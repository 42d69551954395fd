"""Accuracy of reward models by number of pairs and label noise.

Recorded runs: pairs × label temperature × seed. The pairs of `data/` are labelled again by the
simulated labeller at each temperature. Notebook 05 shows the results with a slider.
"""

import torch
from torch import Tensor
from tqdm.auto import tqdm

from helpers.data import DATA, load_rows
from helpers.models import load_tokenizer
from helpers.reward_model import RewardModel, fit_reward_model, pair_texts, passes
from helpers.studies.runs import significant
from helpers.studies.study import Options, origin, read_study, write_study
from helpers.world.labelling import expected_accuracy, gold_gaps, label_chances, labelled_pairs
from helpers.world.small_models import make_encoder

TEMPERATURES = (0.25, 1.0, 3.0)  # points of gold score; the higher, the noisier the labels
SEEDS = {100: 3, 300: 3, 1_000: 3, 3_000: 2, 12_000: 2}  # pairs: fits of each size
TEST_PAIRS = 2_000
BINS = 8  # of the calibration curve


def calibration(gaps: Tensor, chances: Tensor) -> list[dict]:
    """Calibration curve: per bin, mean predicted probability, mean true probability, number of pairs.

    Each pair is ordered so that the model prefers the first: predictions are from 0.5 to 1.
    """
    predicted = torch.sigmoid(gaps.abs())
    actual = torch.where(gaps >= 0, chances, 1 - chances)
    which = ((predicted - 0.5) * 2 * BINS).long().clamp(max=BINS - 1)
    rows = []
    for k in range(BINS):
        inside = which == k
        if inside.any():
            means = float(predicted[inside].mean()), float(actual[inside].mean())
            rows.append({"predicted": means[0], "actual": means[1], "pairs": int(inside.sum())})
    return rows


def score_gaps(model: RewardModel, pairs: list[dict]) -> Tensor:
    """score(chosen) − score(rejected) before normalisation, which are log-odds: [N]."""
    chosen, rejected = map(model.score_texts, pair_texts(pairs))
    return (chosen - rejected) * float(model.score_std)


def measure_quality(gaps: Tensor, test_gaps: Tensor, temperature: float) -> dict:
    """Accuracy and calibration on test pairs."""
    chances = label_chances(test_gaps, temperature)
    return {
        "accuracy": expected_accuracy(gaps, chances),
        "gold_accuracy": expected_accuracy(gaps, (test_gaps.sign() + 1) / 2),
        "calibration": calibration(gaps, chances),
    }


def best_possible(test_gaps: Tensor, temperature: float) -> dict:
    """The same figures for a perfect reward model (the gold score and the labeller's temperature)."""
    found = measure_quality(test_gaps / temperature, test_gaps, temperature)
    return found | {"temperature": temperature}


def run_one(test: list[dict], count: int, temperature: float, seed: int) -> dict:
    """Train one reward model on `count` pairs labelled at `temperature`, all from the seed."""
    tokenizer = load_tokenizer("data/sft")
    pairs = labelled_pairs(count, temperature, seed)
    torch.manual_seed(seed)
    model = RewardModel(make_encoder(tokenizer), tokenizer)
    fit_reward_model(model, pairs, seed=seed)
    found = {"pairs": count, "temperature": temperature, "seed": seed}
    return found | measure_quality(score_gaps(model, test), gold_gaps(test), temperature)


def load_results() -> dict:
    """The saved results: a list `runs`, and `best`. FileProblem: missing or damaged."""
    results = read_study(DATA / "reward_quality", ("best", "test_pairs"))
    return results | {"runs": list(results["runs"].values())}


class RewardQualityOptions(Options, name="reward_quality"):
    """Reward quality: reward models fitted to few and many pairs, with clean and noisy labels."""

    def run(self) -> None:
        """Train all reward models, smallest first, then write the file."""
        test, runs = load_rows("pairs_test.jsonl")[:TEST_PAIRS], {}
        jobs = [(n, heat, seed) for n in SEEDS for seed in range(SEEDS[n]) for heat in TEMPERATURES]
        with tqdm(total=sum(size * passes(size) for size, *_ in jobs)) as bar:
            for size, heat, seed in jobs:
                name = f"{size}_pairs_temperature_{heat:g}_seed_{seed}"
                bar.set_description(name)
                runs[name] = run_one(test, size, heat, seed)
                bar.update(size * passes(size))
        best = [best_possible(gold_gaps(test), heat) for heat in TEMPERATURES]
        found = {"test_pairs": len(test), "best": best, "runs": runs}
        write_study(self.results, origin(self, torch.get_num_threads()) | significant(found))
        print(f"{len(runs)} runs in {self.results.name}")
