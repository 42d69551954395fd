"""`python -m helpers.reward_sweep`: how good a reward model gets with how many pairs and how much noise.

Real runs, saved: pairs × label temperature × seed. The pairs of `data/` are labelled anew by the
simulated labeller at each temperature. Notebook 05 shows them behind a slider.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch
import transformers
from torch import Tensor
from tqdm.auto import tqdm

from helpers import reviews
from helpers.models import load_tokenizer
from helpers.reward_model import RewardModel, fit_reward_model, pair_texts
from helpers.sft import make_encoder
from helpers.storage import (
    DATA,
    load_rows,
    map_floats,
    read_json,
    refresh_manifest,
    verify,
    write_json,
)
from helpers.validate import require

RESULTS = DATA / "reward_sweep" / "results.json"
# pairs: passes over them. Few pairs need more passes, or the fit is over before it has begun.
EPOCHS = {100: 12, 300: 8, 1_000: 4, 3_000: 3, 12_000: 2}
TEMPERATURES = (0.25, 1.0, 3.0)  # points of gold score; the higher, the noisier the labels
SEEDS = {100: 2, 300: 2, 1_000: 2, 3_000: 1, 12_000: 1}  # runs of each size
TEST_PAIRS = 1_000
BINS = 8  # of the calibration curve


def gold_gaps(pairs: list[dict]) -> Tensor:
    """gold(chosen) − gold(rejected) of each pair, as they stand: [N] points."""
    chosen, rejected = pair_texts(pairs)
    return torch.tensor(reviews.gold_scores(chosen)) - torch.tensor(reviews.gold_scores(rejected))


def label_chances(gaps: Tensor, temperature: float) -> Tensor:
    """P(the labeller prefers the one that stands first): gold gaps [N] → [N]."""
    return torch.sigmoid(gaps / temperature)


def relabel(pairs: list[dict], chances: Tensor, generator: torch.Generator) -> list[dict]:
    """The same pairs, labelled anew: each keeps its order with its chance, else it is turned round."""
    keep = torch.rand(len(pairs), generator=generator) < chances
    return [
        row if kept else row | {"chosen": row["rejected"], "rejected": row["chosen"]}
        for row, kept in zip(pairs, keep.tolist(), strict=True)
    ]


def expected_accuracy(gaps: Tensor, chances: Tensor) -> float:
    """How often the higher score is the labeller's choice, averaged over the labeller's noise.

    `gaps` are score differences [N], `chances` those of `label_chances` [N]. A tie counts half.
    """
    right = torch.where(gaps > 0, chances, 1 - chances)
    return float(torch.where(gaps == 0, torch.full_like(right, 0.5), right).mean())


def expected_loss(gaps: Tensor, chances: Tensor) -> float:
    """Bradley–Terry loss of score differences [N], averaged over the labeller's noise: nats."""
    sure = torch.nn.functional.logsigmoid
    return float(-(chances * sure(gaps) + (1 - chances) * sure(-gaps)).mean())


def calibration(gaps: Tensor, chances: Tensor, bins: int = BINS) -> list[dict]:
    """Pairs in bins of the predicted probability: mean predicted, mean true chance, how many.

    Each pair is turned so that the model's favourite stands first: predictions from 0.5 to 1.
    """
    predicted = torch.sigmoid(gaps.abs())
    actual = torch.where(gaps >= 0, chances, 1 - chances)
    which = ((predicted - 0.5) * 2 * bins).long().clamp(max=bins - 1)
    rows = []
    for k in range(bins):
        inside = which == k
        if inside.any():
            means = float(predicted[inside].mean()), float(actual[inside].mean())
            rows.append({"predicted": means[0], "actual": means[1], "pairs": int(inside.sum())})
    return rows


def score_gaps(model: RewardModel, pairs: list[dict]) -> Tensor:
    """score(chosen) − score(rejected) in raw scores, the log-odds it was trained as: [N]."""
    chosen, rejected = map(model.score_texts, pair_texts(pairs))
    return (chosen - rejected) * float(model.score_std)


def measure(gaps: Tensor, test_gaps: Tensor, temperature: float) -> dict:
    """What a run is judged by, on held-out pairs."""
    chances = label_chances(test_gaps, temperature)
    return {
        "accuracy": expected_accuracy(gaps, chances),
        "gold_accuracy": expected_accuracy(gaps, (test_gaps.sign() + 1) / 2),
        "loss": expected_loss(gaps, chances),
        "calibration": calibration(gaps, chances),
    }


def best_possible(test_gaps: Tensor, temperature: float) -> dict:
    """The same measures for somebody who knows the gold score and the labeller's temperature."""
    return measure(test_gaps / temperature, test_gaps, temperature) | {"temperature": temperature}


def run_one(world: dict, count: int, temperature: float, seed: int, device: str) -> dict:
    """Train one reward model on `count` pairs labelled at `temperature`; everything from the seed."""
    started, generator = time.perf_counter(), torch.Generator().manual_seed(seed)
    picked = torch.randperm(len(world["train"]), generator=generator)[:count]
    chances = label_chances(world["train_gaps"][picked], temperature)
    pairs = relabel([world["train"][i] for i in picked.tolist()], chances, generator)
    torch.manual_seed(seed)
    model = RewardModel(make_encoder(world["tokenizer"]), world["tokenizer"]).to(device)
    losses = []
    fit_reward_model(
        model,
        pairs,
        EPOCHS[count],
        seed=seed,
        on_step=lambda step, steps, loss: losses.append(loss),
    )
    result = {"pairs": count, "temperature": temperature, "seed": seed, "steps": len(losses)}
    result |= measure(score_gaps(model, world["test"]), world["test_gaps"], temperature)
    last = losses[-max(1, len(losses) // EPOCHS[count]) :]
    result["train_loss"] = math.fsum(last) / len(last)  # over the last pass
    result["train_accuracy"] = float((score_gaps(model, pairs[:1000]) > 0).float().mean())
    return result | {"seconds": time.perf_counter() - started}


def sweep(sizes: tuple = tuple(EPOCHS), device: str = "cpu", bar: bool = True) -> dict:
    """All runs of these sizes, smallest first."""
    require(set(sizes) <= set(EPOCHS), "sizes", sizes, f"some of {tuple(EPOCHS)}")
    train, test = load_rows("pairs_train.jsonl"), load_rows("pairs_test.jsonl")[:TEST_PAIRS]
    world = {"train": train, "test": test, "tokenizer": load_tokenizer("data/sft")}
    world |= {"train_gaps": gold_gaps(train), "test_gaps": gold_gaps(test)}
    jobs = [(n, t, s) for n in sizes for s in range(SEEDS[n]) for t in TEMPERATURES]
    results, progress = [], tqdm(total=sum(n * EPOCHS[n] for n, *_ in jobs), disable=not bar)
    for job in jobs:
        progress.set_description("{} pairs, temperature {}, seed {}".format(*job))
        results.append(run_one(world, *job, device))
        progress.update(job[0] * EPOCHS[job[0]])
    progress.close()
    best = [best_possible(world["test_gaps"], t) for t in TEMPERATURES]
    report = {"test_pairs": len(test), "best": best, "runs": results}
    return map_floats(report, lambda x: round(x, 4))


def load_results() -> dict:
    """The saved sweep; FileProblem when it is not there, broken or altered."""
    verify(RESULTS)
    return read_json(RESULTS)


def main(arguments: list[str] | None = None) -> int:
    """Command line: run everything, then write the file in one piece."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(EPOCHS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    facts = {
        "command": "python -m helpers.reward_sweep",
        "seeds": "0 and up, in each run's `seed`",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "threads": torch.get_num_threads(),
        "epochs": {str(size): EPOCHS[size] for size in options.sizes},
    }
    results = sweep(tuple(options.sizes), options.device)
    write_json(options.out, facts | results)
    refresh_manifest(options.out)
    print(f"{len(results['runs'])} runs in {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
