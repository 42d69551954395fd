"""Build `data/` from a seed: corpus, prompts, SFT model, preference pairs, reward model.

`python -m helpers data`, or `make data`. The manifest records the command and the figures.
"""

import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import transformers
from tqdm.auto import tqdm

from helpers.config import RLHFConfig
from helpers.data import DATA, write_manifest
from helpers.models import load_actor, load_tokenizer, quiet_loading
from helpers.reward_model import RewardModel, fit_reward_model, join, normalize, pair_accuracy
from helpers.sampling import sample_texts
from helpers.tools.files import read_jsonl, write_jsonl, write_text
from helpers.tools.flags import command, setting
from helpers.tools.validate import require_count
from helpers.world import reviews
from helpers.world.labelling import best_accuracy, preference_probability
from helpers.world.small_models import (
    fit_language_model,
    make_encoder,
    make_policy,
    make_tokenizer,
    perplexity,
)

CORPUS, HELD_OUT = 60_000, 2_000  # reviews for training and for testing
PROMPTS = 128  # used by every PPO run
PAIRS, TEST_PAIRS = 20_000, 4_000
SFT_STEPS = 1_500  # gradient steps of 128 reviews
NORMALIZING_TEXTS = 4_096  # reference samples for the reward model's mean and standard deviation


def progress(description: str):
    """An `on_step` callback that shows a progress bar with the loss."""
    bar = tqdm(desc=description, mininterval=1.0)

    def on_step(step: int, steps: int, loss: float) -> None:
        bar.total = steps
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        bar.update()

    return on_step


def build_corpus(folder: Path, seed: int) -> None:
    """Write `corpus.txt`, `held_out.txt` (one review per line) and `prompts.jsonl`."""
    rng = random.Random(seed)
    lines = [reviews.sample_review(rng) for _ in range(CORPUS + HELD_OUT)]
    write_text(folder / "corpus.txt", "\n".join(lines[:CORPUS]) + "\n")
    write_text(folder / "held_out.txt", "\n".join(lines[CORPUS:]) + "\n")
    prompts = reviews.sample_prompts(PROMPTS, rng)
    write_jsonl(folder / "prompts.jsonl", [{"prompt": prompt} for prompt in prompts])


def build_sft(folder: Path, seed: int) -> dict:
    """Train and save `sft/` (tokenizer and policy); return its held-out perplexity and the grammar's."""
    corpus = (folder / "corpus.txt").read_text().splitlines()
    held_out = (folder / "held_out.txt").read_text().splitlines()
    torch.manual_seed(seed)
    tokenizer = make_tokenizer(reviews.VOCABULARY)
    model = make_policy(tokenizer)
    fit_language_model(model, tokenizer, corpus, SFT_STEPS, seed=seed, on_step=progress("SFT"))
    with quiet_loading():
        model.save_pretrained(folder / "sft")
    tokenizer.save_pretrained(folder / "sft")
    return {
        "sft_perplexity": perplexity(model, tokenizer, held_out),
        "grammar_perplexity": reviews.perplexity(held_out),
    }


def sample_continuations(folder: Path, prompts: list[str], seed: int, bar: str = "") -> list[str]:
    """One response of the SFT model to each prompt, without the prompt."""
    actor, tokenizer = load_actor(str(folder / "sft"), "cpu"), load_tokenizer(str(folder / "sft"))
    progress = partial(tqdm, desc=bar, disable=not bar, mininterval=1.0)
    what = (prompts, len(prompts), RLHFConfig(), torch.Generator().manual_seed(seed))
    texts = sample_texts(actor, tokenizer, *what, progress=progress)
    return [text.completion for text in texts]


def build_pairs(folder: Path, seed: int) -> None:
    """Write `pairs_train.jsonl` and `pairs_test.jsonl`: two responses each, ordered by the labeller.

    Half of the prompts are those of PPO, half are others, so that the reward model generalises.
    """
    rng = random.Random(seed + 1)
    fixed = [row["prompt"] for row in read_jsonl(folder / "prompts.jsonl")]
    others = reviews.sample_prompts(300, rng)
    pick = [rng.choice(fixed if rng.random() < 0.5 else others) for _ in range(PAIRS + TEST_PAIRS)]
    responses = sample_continuations(folder, pick + pick, seed + 1, "responses to compare")
    rows = []
    halves = responses[: len(pick)], responses[len(pick) :]
    for prompt, first, second in zip(pick, *halves, strict=True):
        chance = preference_probability(join(prompt, first), join(prompt, second))
        better = rng.random() < chance
        chosen, rejected = (first, second) if better else (second, first)
        rows.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    write_jsonl(folder / "pairs_train.jsonl", rows[:PAIRS])
    write_jsonl(folder / "pairs_test.jsonl", rows[PAIRS:])


def build_reward_model(folder: Path, seed: int) -> dict:
    """Train and save `reward/`: fitted to all training pairs, normalised on reference samples."""
    tokenizer = load_tokenizer(str(folder / "sft"))
    pairs, test = (read_jsonl(folder / f"pairs_{part}.jsonl") for part in ("train", "test"))
    torch.manual_seed(seed)
    encoder = make_encoder(tokenizer)
    policy = load_actor(str(folder / "sft"), "cpu")
    with torch.no_grad():  # start from the policy's word embeddings: saves thousands of pairs
        words = policy.get_input_embeddings().weight
        encoder.get_input_embeddings().weight.copy_(words)
    model = RewardModel(encoder, tokenizer)
    on_step = progress("reward model")
    fit_reward_model(model, pairs, learning_rate=1e-3, seed=seed, on_step=on_step)
    prompts = [row["prompt"] for row in read_jsonl(folder / "prompts.jsonl")]
    prompts = [prompts[i % len(prompts)] for i in range(NORMALIZING_TEXTS)]
    responses = sample_continuations(folder, prompts, seed + 2)
    normalize(model, [join(*both) for both in zip(prompts, responses, strict=True)])
    model.save(folder / "reward")
    found, best = pair_accuracy(model.score_texts, test), best_accuracy(test)
    return {
        "reward_accuracy": found,
        "best_possible_accuracy": best,
        "gap_closed": (found - 0.5) / (best - 0.5),
    }


def install(built: Path, destination: Path, facts: dict) -> None:
    """Move a finished build over the old files; other folders of `data/` are not touched."""
    destination.mkdir(parents=True, exist_ok=True)
    for item in built.iterdir():
        target = destination / item.name
        if target.is_dir():
            shutil.rmtree(target)
        shutil.move(item, target)
    for file in destination.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)  # safetensors makes files readable by us only
    write_manifest(destination, facts)


@dataclass(kw_only=True)
class BuildOptions:
    """Build data/ from a seed: corpus, prompts, SFT model, preference pairs, reward model."""

    seed: int = setting(0, "of everything random")
    out: Path = setting(DATA, "folder to write")

    def __post_init__(self):
        require_count("seed", self.seed, low=0)


@command("helpers data", BuildOptions, stopped="Stopped; nothing was written.")
def main(options: BuildOptions) -> None:
    """Build into a temporary folder, install when all of it is there, print the figures."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rlhf_data_") as temporary:
        figures = {}
        for stage in (build_corpus, build_sft, build_pairs, build_reward_model):
            figures |= stage(Path(temporary), options.seed) or {}
        facts = {
            "command": f"python -m helpers data --seed {options.seed}",
            "seed": options.seed,
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "threads": torch.get_num_threads(),
            "figures": {name: round(value, 4) for name, value in figures.items()},
        }
        install(Path(temporary), options.out, facts)
    for name, value in figures.items():
        print(f"{name:24s} {value:.4f}")
    print(f"written to {options.out} in {time.perf_counter() - started:.0f} s")
