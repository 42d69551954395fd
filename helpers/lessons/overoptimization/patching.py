"""Patching: train, label the policy's hacked responses, train again. Two rounds.

In each round, the simulated labeller compares the last policy's responses with the reference's to the
same prompts, these pairs are added to the others, and a new reward model and policy are trained.
"""

from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar

import torch

from helpers.data import DATA, load_rows
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
from helpers.studies.runs import RECORD, Run, record_run, write_run
from helpers.studies.study import Job, Study, StudyOptions, keep_jobs, load_study, plan_jobs
from helpers.tools.files import atomic_folder, read_jsonl, write_jsonl
from helpers.tools.flags import setting
from helpers.tools.pool import advance, run_all
from helpers.tools.validate import require_count
from helpers.world.labelling import (
    LABEL_TEMPERATURE,
    gold_gaps,
    label_chances,
    labelled_pairs,
    relabel,
)

FOLDER = DATA / "patching"
PAIRS_FILE = "pairs.jsonl"  # in a round's folder: the pairs its policy gave rise to
ROUNDS = 3  # 0: unpatched; 1 and 2: patched
PAIRS, ADDED = 1_000, 500  # pairs to begin with; pairs added in each round


@dataclass(frozen=True)
class Round:
    """One round of one seed, and the folder of finished rounds."""

    number: int
    seed: int
    iterations: int
    out: Path
    work: Path

    @property
    def job(self) -> Job:
        """The round as a run of the study."""
        config = run_config(self.seed, self.iterations)
        return Job(f"round_{self.number}", config, whole=self.seed == WHOLE_RUN_SEED)

    @property
    def folder(self) -> Path:
        """Its run and the pairs it leaves."""
        return self.job.folder(self.out, self.work)


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


def gather_pairs(this: Round) -> list[dict]:
    """The initial pairs, and those of the earlier rounds."""
    pairs = labelled_pairs(PAIRS, LABEL_TEMPERATURE, this.seed)
    earlier = (replace(this, number=number) for number in range(this.number))
    return pairs + [row for before in earlier for row in read_jsonl(before.folder / PAIRS_FILE)]


def evaluate_round(model: RewardModel, state: RLHFState, hacked: list[dict]) -> dict:
    """Evaluate the reward model on test pairs and on the pairs of its own policy; and the policy."""
    test = load_rows("pairs_test.jsonl")[:1_000]
    return {
        "accuracy": pair_accuracy(model.score_texts, test),
        "accuracy_on_hacked": pair_accuracy(model.score_texts, hacked),
        **measure(state, state.models.actor, 4)[0],
    }


def run_round(this: Round) -> None:
    """Train a reward model on the pairs so far, and a policy with it; save the run and its pairs."""
    model, job = train_reward_model(gather_pairs(this), seed=this.seed), this.job
    state = start_run(job.config, reward=model.score_texts, measures=MEASURES)
    run = Run(job.config, label=job.name)
    for _ in record_run(state, run, SCHEDULE):
        advance(1)
    hacked = hacked_pairs(state, ADDED, seed=1_000 * this.number + this.seed)
    run.final = evaluate_round(model, state, hacked)
    with atomic_folder(this.folder) as temporary:
        write_run(run, temporary)
        write_jsonl(temporary / PAIRS_FILE, hacked)


def run_rounds(rounds: list[Round]) -> None:
    """The rounds of one seed in order: each needs the pairs of the one before."""
    for this in rounds:
        if not (this.folder / RECORD).exists():
            run_round(this)


def load_patching(folder: Path = FOLDER) -> Study:
    """Load the study, by default the shipped one. FileProblem: missing or damaged."""
    return load_study(folder)


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
    """Run the missing rounds."""
    places = options.iterations, options.results, options.checkpoints
    seeds = sorted(set(options.seeds))
    rounds = [[Round(n, seed, *places) for n in range(options.rounds)] for seed in seeds]
    jobs = [this.job for of_seed in rounds for this in of_seed]
    left = plan_jobs(jobs, options)
    if left:
        tasks = [(run_rounds, (of_seed,)) for of_seed in rounds]
        run_all(tasks, options.jobs, options.threads, options.iterations * len(left))
    keep_jobs(jobs, options)
    print(f"{len(load_study(options.results).runs)} runs in {options.results.name}")
