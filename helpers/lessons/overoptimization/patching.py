"""Patching: train, label the policy's hacked responses, train again. Two rounds.

In each round, the simulated labeller compares the last policy's responses with the reference's to the
same prompts, these pairs are added to the others, and a new reward model and policy are trained.
"""

from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar

import torch

from helpers.data import load_rows
from helpers.lessons.overoptimization.study import (
    ITERATIONS,
    SCHEDULE,
    WHOLE_RUN_SEED,
    run_config,
    train_reward_model,
)
from helpers.reward_model import RewardModel, pair_accuracy
from helpers.sampling import sample_texts
from helpers.state import RLHFState, start_run
from helpers.studies.measure import MEASURES, measure
from helpers.studies.runs import Run, record_run
from helpers.studies.study import Job, StudyOptions, run_study, save_run
from helpers.tools.files import read_jsonl, write_jsonl
from helpers.tools.flags import setting
from helpers.tools.pool import advance
from helpers.tools.validate import require_count
from helpers.world.labelling import (
    LABEL_TEMPERATURE,
    gold_gaps,
    label_chances,
    labelled_pairs,
    relabel,
)

PAIRS_FILE = "pairs.jsonl"  # in a round's folder: the pairs its policy gave rise to
ROUNDS = 3  # 0: unpatched; 1 and 2: patched
PAIRS, ADDED = 1_000, 500  # pairs to begin with; pairs added in each round


def round_job(seed: int, iterations: int, number: int) -> Job:
    """One round of one seed as a run of the study."""
    train, config = partial(run_round, number), run_config(seed, iterations)
    return Job(f"round_{number}", config, whole=seed == WHOLE_RUN_SEED, train=train)


def hacked_pairs(state: RLHFState, count: int, seed: int) -> list[dict]:
    """`count` labelled pairs of a response of the policy and one of the reference.

    Pairs of two equal responses are left out.
    """
    require_count("count", count)
    models, generator = state.models, torch.Generator(device=state.models.device).manual_seed(seed)
    prompts = list(islice(cycle(state.prompts), count))
    with torch.no_grad():
        written = [
            sample_texts(policy, models.tokenizer, prompts, count, state.config, generator, count)
            for policy in (models.actor, models.reference)
        ]
    rows = [
        {"prompt": prompt, "chosen": a[len(prompt) :].strip(), "rejected": b[len(prompt) :].strip()}
        for prompt, a, b in zip(prompts, *written, strict=True)
        if a != b
    ]
    chances = label_chances(gold_gaps(rows), LABEL_TEMPERATURE)
    return relabel(rows, chances, torch.Generator().manual_seed(seed))


def gather_pairs(number: int, job: Job, work: Path, out: Path) -> list[dict]:
    """The initial pairs, and those of the rounds before this `number`, of full runs or in `work`."""
    found = labelled_pairs(PAIRS, LABEL_TEMPERATURE, job.config.seed)
    for k in range(number):
        earlier = round_job(job.config.seed, job.config.iterations, k)
        found += read_jsonl((out if job.whole else work) / earlier.name / PAIRS_FILE)
    return found


def evaluate_round(model: RewardModel, state: RLHFState, hacked: list[dict]) -> dict:
    """Evaluate the reward model on test pairs and on the pairs of its own policy; and the policy."""
    test = load_rows("pairs_test.jsonl")[:1_000]
    return {
        "accuracy": pair_accuracy(model.score_texts, test),
        "accuracy_on_hacked": pair_accuracy(model.score_texts, hacked),
        **measure(state, state.models.actor, 4)[0],
    }


def run_round(number: int, job: Job, folder: Path, out: Path) -> dict:
    """Train a reward model on the pairs so far, and a policy with it; save the run and its pairs."""
    seed, pairs = job.config.seed, gather_pairs(number, job, folder.parent, out)
    model = train_reward_model(pairs, seed=seed)
    state = start_run(job.config, reward=model.score_texts, measures=MEASURES)
    run = Run(job.config, label=job.name)
    for _ in record_run(state, run, SCHEDULE):
        advance(1)
    hacked = hacked_pairs(state, ADDED, seed=1_000 * number + seed)
    run.final = evaluate_round(model, state, hacked)

    def save_pairs(folder: Path) -> None:
        write_jsonl(folder / PAIRS_FILE, hacked)

    save_pairs(folder)
    return save_run(job, run, out, save_pairs)


@dataclass(kw_only=True)
class PatchingOptions(StudyOptions):
    """Patching: train, label the policy's hacked responses, train again."""

    name: ClassVar[str] = "patching"
    iterations: int = setting(ITERATIONS, "iterations of each round")
    rounds: int = setting(ROUNDS, "rounds, the unpatched one among them")

    def __post_init__(self):
        super().__post_init__()
        require_count("--rounds", self.rounds)


def run(options: PatchingOptions) -> None:
    """Run the missing rounds; each needs the pairs of those before it on its seed."""
    jobs = [
        round_job(seed, options.iterations, number)
        for seed in sorted(set(options.seeds))
        for number in range(options.rounds)
    ]
    run_study(jobs, options, in_order=lambda job: job.config.seed)
