"""The RLHF loop. `python -m helpers.loop` traces one step, then trains, and shows what changed.

Left out, on purpose: several GPUs, mixed precision, generation engines. One process, one device.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from tqdm.auto import tqdm

from helpers import reviews
from helpers.checkpoints import list_checkpoints, load_checkpoint, require_unused, save_checkpoint
from helpers.command import exit_status
from helpers.config import RLHFConfig
from helpers.disk import require_writable
from helpers.models import count_parameters, fingerprint, resolve_device
from helpers.random_models import random_gpt2_models, random_prompts
from helpers.report import (
    peak_memory_gb,
    print_comparison,
    print_metrics,
    print_samples,
    save_results,
)
from helpers.state import Models, Reward, RLHFState, start_run
from helpers.steps import evaluate, ignore, iterate
from helpers.storage import work_folder
from helpers.trace import Trace


def train_rlhf_loop(
    config: RLHFConfig | None = None,
    models: Models | None = None,
    reward: Reward | None = None,
    prompts: list[str] | None = None,
    measures: dict[str, Callable] | None = None,
    save_dir: str | Path | None = None,
    state: RLHFState | None = None,
    observe: Callable = ignore,
) -> Iterator[dict]:
    """Run RLHF, yielding one record (a dict of floats) per iteration; `list(...)` collects them.

    Pass `models` to keep hold of the trained actor, `reward` (list of texts → scores) in place of
    the reward model, `measures` (name → list of texts → numbers) to watch other scores without
    training on them. With `save_dir` a checkpoint is written every `config.checkpoint_every`
    iterations and at the end; a `state` from `load_checkpoint` goes on where it stopped.
    """
    state = state or start_run(config or RLHFConfig(), models, reward, prompts, measures)
    total, every = state.config.iterations, state.config.checkpoint_every
    if save_dir is not None:
        require_unused(save_dir, state.iteration)
    while state.iteration < total:
        record = iterate(state, observe)
        if save_dir is not None and (state.iteration % every == 0 or state.iteration == total):
            save_checkpoint(state, save_dir)
        yield record


@contextmanager
def polite_interrupt() -> Iterator[list]:
    """The first Ctrl-C asks the loop to stop after this iteration; the second stops at once."""
    asked: list[bool] = []

    def ask(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(True)

    previous = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


def train_with_bar(state: RLHFState, folder: Path) -> bool:
    """Train with a progress bar; False if Ctrl-C ended it early."""
    total = state.config.iterations
    with polite_interrupt() as asked, tqdm(total=total, initial=state.iteration) as bar:
        for record in train_rlhf_loop(state=state, save_dir=folder):
            shown = {"reward": "score", "KL": "kl", "entropy": "entropy", "clip": "clip_fraction"}
            bar.set_postfix({name: f"{record[key]:.2f}" for name, key in shown.items()})
            bar.update()
            if asked:
                return state.iteration == total
    return True


def speaks_reviews(state: RLHFState) -> bool:
    """Whether the policy writes the course's own reviews, so that the gold score means something."""
    return set(reviews.VOCABULARY) <= set(state.models.tokenizer.get_vocab())


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Flags left out are None, so that `--resume` can tell a changed setting from a missing one."""
    parser = argparse.ArgumentParser(prog="python -m helpers.loop", description=__doc__)
    parser.add_argument("--kl-coef", type=float, help="β, the price of a nat of KL (0.1)")
    parser.add_argument("--iterations", type=int, help="rollout + update, so many times (60)")
    parser.add_argument("--batch-size", type=int, help="responses per rollout (64)")
    parser.add_argument("--response-length", type=int, help="tokens at most (24)")
    parser.add_argument("--actor", help="folder or hub name of a causal LM (data/sft)")
    parser.add_argument("--reward-model", help="folder or hub name of an encoder (data/reward)")
    parser.add_argument("--device", help="auto, cpu, cuda, mps")
    parser.add_argument("--seed", type=int, help="of everything random (0)")
    parser.add_argument("--save", type=Path, metavar="DIR", help="checkpoints, CSV and PNG go here")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in DIR")
    parser.add_argument("--trace-only", action="store_true", help="one traced step, no training")
    parser.add_argument("--random-gpt2", action="store_true", help="random models of GPT-2's size")
    return parser.parse_args(arguments)


def changed_settings(options: argparse.Namespace) -> dict:
    """The config fields that were given on the command line."""
    names = ("kl_coef", "iterations", "batch_size", "response_length", "actor", "reward_model")
    names += ("device", "seed")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def trace_random_gpt2(options: argparse.Namespace) -> None:
    """The seven steps at GPT-2's size: batch 4, 64-token prompts, 128-token responses."""
    settings = {"seed": 0, "batch_size": 4, "response_length": 128} | changed_settings(options)
    config = RLHFConfig(**settings, num_ppo_epochs=1, learning_rate=1e-5, normalize_scores=False)
    models = random_gpt2_models(config.seed, config.device)
    for role in ("actor", "critic", "reward", "reference"):
        print(f"{role:12s}{count_parameters(getattr(models, role)) / 1e6:8.1f} M parameters")
    state = start_run(config, models, prompts=random_prompts(config.batch_size, config.seed))
    iterate(state, Trace(models, config))
    print(f"peak memory {peak_memory_gb():.2f} GB")


def begin(options: argparse.Namespace) -> tuple[RLHFState, Path]:
    """A new run, or the one to resume, and the folder its results go to."""
    if options.resume is not None:
        saved = load_checkpoint(options.resume, measures={"gold": reviews.gold_scores})
        wanted = replace(saved.config, **changed_settings(options))
        for name, value in wanted.as_dict().items():
            if value != getattr(saved.config, name):
                kept = getattr(saved.config, name)
                raise ValueError(f"{name}: got {value!r}, wants {kept!r}, as the run was started.")
        return saved, options.resume
    config = RLHFConfig(**changed_settings(options))
    resolve_device(config.device)
    folder = options.save or unused_folder(f"beta_{config.kl_coef}_seed_{config.seed}")
    require_unused(folder)
    state = start_run(config)
    if speaks_reviews(state):
        state.measures["gold"] = reviews.gold_scores
    return state, folder


def unused_folder(name: str) -> Path:
    """`my_course/runs/name`, or `name_2`, `name_3`, … where an earlier run has that."""
    runs = work_folder() / "runs"
    names = (runs / (name if k == 1 else f"{name}_{k}") for k in count(1))
    return next(folder for folder in names if not list_checkpoints(folder))


def run(options: argparse.Namespace) -> None:
    """Trace the first iteration, train through the others, compare, save."""
    if options.random_gpt2:
        return trace_random_gpt2(options)
    started = time.perf_counter()
    state, folder = begin(options)
    reference = fingerprint(state.models.reference)
    if options.trace_only:
        iterate(state, Trace(state.models, state.config))
        return None
    require_writable(folder)
    before, texts_before = evaluate(state.models.reference, state)
    if state.iteration == 0:
        iterate(state, Trace(state.models, state.config))
    whole = train_with_bar(state, folder)
    after, texts_after = evaluate(state.models.actor, state)
    if fingerprint(state.models.reference) != reference:
        raise RuntimeError("The reference model was changed by training: that is a bug.")
    print(f"\nThe same prompts, before and after (of {len(texts_after)} fresh responses)")
    print_samples(texts_before, texts_after)
    print_comparison(before, after)
    print_metrics(state.history)
    save_results(state, folder)
    word = "Saved" if whole else f"Stopped after {state.iteration} iterations; saved"
    seconds = time.perf_counter() - started
    print(f"{word} in {folder} ({seconds:.0f} s, peak memory {peak_memory_gb():.2f} GB)")
    return None


def main(arguments: list[str] | None = None) -> int:
    """The command; → its exit status."""
    return exit_status(lambda: run(parse(arguments)), "Stopped at once; the last checkpoint stays.")


if __name__ == "__main__":
    sys.exit(main())
