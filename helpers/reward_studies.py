"""`python -m helpers.reward_studies`: the same PPO without a leash, against reward models of many makes.

Number of pairs, label noise, size, ensembles: one thing changed at a time, three seeds each. The
histories of all runs are kept, and whole runs of one seed.
"""

import argparse
import sys
from pathlib import Path

from helpers.config import RLHFConfig
from helpers.histories import Histories, keep_histories, kind_of, load_histories, run_name, seed_of
from helpers.jobs import origin, parse_study, run_study, study_parser, study_status
from helpers.recipes import RewardRecipe
from helpers.storage import DATA, read_json, refresh_manifest
from helpers.studies import Study

FOLDER = DATA / "reward_studies"
HELD = DATA / "reward_studies_held"  # the same with β = 0.03, for four sizes of the pairs
SUMMARY = "reward_studies.json"
ITERATIONS = 40
SHOWN = 0  # the seed whose runs are kept whole
SCHEDULE = [0, 5, 10, 20, 30, 40]  # iterations of the snapshots
BASE = "base"  # 1,000 pairs, the labeller's own noise, 2 layers × 128, one model
RECIPES = {
    BASE: {},
    "pairs_30": {"pairs": 30},
    "pairs_100": {"pairs": 100},
    "pairs_300": {"pairs": 300},
    "pairs_3000": {"pairs": 3_000},
    "pairs_12000": {"pairs": 12_000},
    "noise_0.1": {"temperature": 0.1},
    "noise_3": {"temperature": 3.0},
    "size_1x32": {"layers": 1, "width": 32},
    "size_3x192": {"layers": 3, "width": 192},
    "ensemble_mean": {"members": 4, "combine": "mean"},
    "ensemble_worst": {"members": 4, "combine": "worst"},
}
FACTORS = {  # what a slider moves through, in order, and how each is called there
    "preference pairs": {"pairs_30": "30", "pairs_100": "100", "pairs_300": "300", BASE: "1,000",
                         "pairs_3000": "3,000", "pairs_12000": "12,000"},
    "label noise (labeller's temperature)": {"noise_0.1": "0.1", BASE: "0.5", "noise_3": "3"},
    "reward-model size": {"size_1x32": "1 × 32", BASE: "2 × 128", "size_3x192": "3 × 192"},
    "ensemble": {BASE: "one model", "ensemble_mean": "mean of 4", "ensemble_worst": "worst of 4"},
}  # fmt: skip


def run_config(seed: int, iterations: int = ITERATIONS, kl_coef: float = 0.0) -> RLHFConfig:
    """With β = 0 nothing holds the policy, so what differs between runs is the reward alone."""
    return RLHFConfig(
        kl_coef=kl_coef, seed=seed, iterations=iterations, learning_rate=3e-4, device="cpu"
    )


def reward_study(
    kinds: list[str], seeds: list[int], iterations: int = ITERATIONS, kl_coef: float = 0.0
) -> Study:
    """Each kind of reward model on each seed; the seed is the run's and its reward model's."""
    pairs = [(kind, seed) for seed in sorted(set(seeds)) for kind in kinds]
    return {run_name(kind, seed): run_config(seed, iterations, kl_coef) for kind, seed in pairs}


def recipe(name: str) -> RewardRecipe:
    """The reward model of a run, by the run's name."""
    return RewardRecipe(seed=seed_of(name), **RECIPES[kind_of(name)])


def job_fields(name: str) -> dict:
    """What is special about a run of this study."""
    short = {"evaluated": 4, "checkpoints": False, "schedule": SCHEDULE}
    return short | {"reward": recipe(name)}


def load_reward_studies(folder: Path = FOLDER) -> Histories:
    """The study in a folder, the shipped one by default; FileProblem when something is broken."""
    return load_histories(folder, SUMMARY)


def require_same_price(out: Path, kl_coef: float) -> None:
    """Refuses a folder that holds runs at another β: they would stand in one table as if alike."""
    configs = read_json(out / SUMMARY, ("configs",))["configs"] if (out / SUMMARY).exists() else {}
    for there in sorted({config["kl_coef"] for config in configs.values()} - {kl_coef}):
        got = f"{kl_coef:g} for {out.name}, whose runs have {there:g}"
        raise ValueError(f"--kl-coef: got {got}, wants the same, or another folder as --out.")


def run(arguments: list[str] | None) -> None:
    """Whatever is left to do, then how many there are."""
    parser = study_parser("reward_studies", __doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--kl-coef", type=float, default=0.0, help="β of all runs (0)")
    options = parse_study(parser, "reward_studies", arguments)
    require_same_price(options.out, options.kl_coef)
    runs = options.work / "runs"  # most are kept as a history only, in --out
    everywhere = argparse.Namespace(**vars(options) | {"out": runs})
    study = reward_study(options.kinds, options.seeds, options.iterations, options.kl_coef)
    run_study(study, everywhere, job_fields)
    keep_histories(runs, options.out, SUMMARY, lambda name: seed_of(name) == SHOWN, origin(options))
    refresh_manifest(options.out)
    print(f"{len(load_reward_studies(options.out).histories)} runs in {options.out.name}")


if __name__ == "__main__":
    sys.exit(study_status(run, None))
