"""`python -m helpers.patching`: train, look how the reward was hacked, label that, train again. Two rounds.

Each round the last policy's responses are laid beside the reference's for the same prompts, the
simulated people choose, the pairs join the others, and reward model and policy start anew.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from helpers import reviews
from helpers.histories import Histories, keep_histories, load_histories, run_name, seed_of
from helpers.jobs import origin, parse_study, study_parser, study_status
from helpers.measure import MEASURES, measure
from helpers.recipes import labelled_pairs, train_reward_model
from helpers.reward_model import RewardModel, pair_accuracy
from helpers.reward_studies import ITERATIONS, SCHEDULE, SHOWN, run_config
from helpers.reward_sweep import gold_gaps, label_chances, relabel
from helpers.runs import RECORD, Run, record_run, save_run
from helpers.state import RLHFState, start_run
from helpers.storage import DATA, load_rows, read_jsonl, refresh_manifest, write_jsonl
from helpers.validate import require_count
from helpers.workers import report, run_all
from helpers.writing import write

FOLDER = DATA / "patching"
SUMMARY = "patching.json"
ROUNDS = 3  # 0: unpatched; 1 and 2: patched
PAIRS, ADDED = 1_000, 500  # pairs to begin with; pairs added in each round


@dataclass(frozen=True)
class Round:
    """One round of one seed: where its run and the pairs it leaves go."""

    number: int
    seed: int
    iterations: int
    runs: Path

    @property
    def name(self) -> str:
        return run_name(f"round_{self.number}", self.seed)

    @property
    def pairs_file(self) -> Path:
        """The pairs this round's policy gave rise to."""
        return self.runs / f"{self.name}.jsonl"


def hacked_pairs(state: RLHFState, count: int, seed: int) -> list[dict]:
    """`count` pairs of a response of the policy and one of the reference, labelled by the simulated
    people; a pair of two equal responses is left out.
    """
    require_count("count", count)
    models, generator = state.models, torch.Generator(device=state.models.device).manual_seed(seed)
    prompts = [state.prompts[i % len(state.prompts)] for i in range(count)]
    with torch.no_grad():
        written = [
            write(policy, models.tokenizer, prompts, state.config, generator).texts
            for policy in (models.actor, models.reference)
        ]
    rows = [
        {"prompt": prompt, "chosen": a[len(prompt) :].strip(), "rejected": b[len(prompt) :].strip()}
        for prompt, a, b in zip(prompts, *written, strict=True)
        if a != b
    ]
    chances = label_chances(gold_gaps(rows), reviews.LABEL_TEMPERATURE)
    return relabel(rows, chances, torch.Generator().manual_seed(seed))


def gather_pairs(this: Round) -> list[dict]:
    """The pairs to begin with, and those of the rounds before."""
    pairs = labelled_pairs(PAIRS, reviews.LABEL_TEMPERATURE, this.seed)
    earlier = (replace(this, number=number) for number in range(this.number))
    return pairs + [row for before in earlier for row in read_jsonl(before.pairs_file)]


def judge(model: RewardModel, state: RLHFState, hacked: list[dict]) -> dict:
    """How the reward model fares on pairs it never saw, and on those its own policy gave rise to."""
    test = load_rows("pairs_test.jsonl")[:1_000]
    return {
        "accuracy": pair_accuracy(model.score_texts, test),
        "accuracy_on_hacked": pair_accuracy(model.score_texts, hacked),
        **measure(state, state.models.actor, 4)[0],
    }


def run_round(this: Round) -> str:
    """Train a reward model on the pairs so far and a policy on it; keep the run and its pairs."""
    if (this.runs / this.name / RECORD).exists():
        report(this.iterations)
        return this.name
    model = train_reward_model(gather_pairs(this), seed=this.seed)
    config = run_config(this.seed, this.iterations)
    state = start_run(config, reward=model.score_texts, measures=MEASURES)
    run = Run(config, label=this.name)
    for _ in record_run(state, run, SCHEDULE):
        report(1)
    hacked = hacked_pairs(state, ADDED, seed=1_000 * this.number + this.seed)
    write_jsonl(this.pairs_file, hacked)
    run.final = judge(model, state, hacked)
    save_run(run, this.runs / this.name)
    return this.name


def run_rounds(seed: int, iterations: int, rounds: int, runs: Path) -> list[str]:
    """All rounds of one seed, one after the other: each needs what the one before left."""
    return [run_round(Round(number, seed, iterations, runs)) for number in range(rounds)]


def load_patching(folder: Path = FOLDER) -> Histories:
    """The study in a folder, the shipped one by default; FileProblem when something is broken."""
    return load_histories(folder, SUMMARY)


def run(arguments: list[str] | None) -> None:
    """Whatever is left to do; finished rounds are not run again."""
    parser = study_parser("patching", __doc__)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parse_study(parser, "patching", arguments)
    runs = options.work / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    how = (options.iterations, options.rounds, runs)
    tasks = [(run_rounds, (seed, *how)) for seed in sorted(set(options.seeds))]
    total = len(tasks) * options.rounds * options.iterations
    run_all(tasks, options.jobs, options.threads, total)
    keep(options, runs)


def keep(options: argparse.Namespace, runs: Path) -> None:
    """Histories of all, whole runs of one seed, and the pairs that seed gave rise to."""
    keep_histories(runs, options.out, SUMMARY, lambda name: seed_of(name) == SHOWN, origin(options))
    for path in sorted(runs.glob(f"*_seed_{SHOWN}.jsonl")):
        write_jsonl(options.out / path.name, read_jsonl(path))
    refresh_manifest(options.out)
    print(f"{len(load_patching(options.out).histories)} runs in {options.out.name}")


if __name__ == "__main__":
    sys.exit(study_status(run, None))
