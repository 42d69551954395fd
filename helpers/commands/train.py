"""`python -m helpers train` and `trace`: start or resume a run, watch it, compare, save."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from tqdm.auto import tqdm

from helpers.checkpoints import list_checkpoints, require_unused, saved_config
from helpers.commands.inputs import Inputs, for_evaluation, keep_inputs, kept_inputs
from helpers.commands.results import (
    print_comparison,
    print_metrics,
    print_samples,
    save_results,
)
from helpers.config import RLHFConfig
from helpers.data import work_folder
from helpers.loop import train_rlhf_loop
from helpers.models import (
    count_parameters,
    fingerprint,
    has_review_vocabulary,
    resolve_device,
)
from helpers.scale.export import require_exportable, save_policy
from helpers.scale.held_out import HeldOut
from helpers.scale.memory import peak_memory_gb
from helpers.scale.random_models import random_gpt2_models, random_prompts
from helpers.state import RLHFState, start_run
from helpers.steps import evaluate, iterate
from helpers.tools.command import exit_status
from helpers.tools.files import hold_folder, require_free, require_writable
from helpers.tools.flags import FlagParser, only, setting
from helpers.tools.logs import installed, logged
from helpers.tools.validate import require, require_count
from helpers.trace import Trace
from helpers.world.gold import gold_scores

ABSURD_KL = 5.0  # nats per token, of one update; the clinic's own faults reach 2.3


@dataclass(kw_only=True)
class TrainOptions(Inputs):
    """What `train` asks beside the settings of the run."""

    save: Path | None = setting(
        None, "folder for checkpoints, metrics.csv and curves.png; left out: one in my_course/runs"
    )
    resume: Path | None = setting(None, "go on with the run in this folder, where it stopped")
    export: Path | None = setting(
        None, "folder for the trained policy at the end, as plain transformers loads it"
    )
    evaluation_samples: int = setting(2000, "fresh responses measured before and after")
    log_to: list[str] = setting(
        [], "tensorboard or wandb, each iteration; if not given, TensorBoard where installed"
    )
    force: bool = setting(False, "go on even after an update that wrecked the policy")

    def __post_init__(self):
        super().__post_init__()
        require_count("evaluation_samples", self.evaluation_samples, low=2)


@dataclass(kw_only=True)
class TraceOptions(Inputs):
    """What `trace` asks beside the settings of the run."""

    resume: Path | None = setting(None, "trace the next iteration of the run in this folder")
    random_gpt2: bool = setting(False, "random models of GPT-2's size, nothing to download")


def bar(title: str) -> Callable:
    """A progress bar to wrap batches in."""
    return partial(tqdm, desc=title, unit="batch")


def start(settings: dict, inputs: Inputs) -> RLHFState:
    """A run at its beginning; the gold score is watched where the policy writes the course's reviews."""
    config = RLHFConfig(**settings)
    resolve_device(config.device)
    print("Loading the models …", flush=True)
    return watch_gold(inputs.begin(config, progress=bar("normaliser")))


def resume(folder: Path, settings: dict, inputs: Inputs) -> RLHFState:
    """The run in a folder where it stopped; ValueError for a setting it was not started with."""
    wanted = replace(saved_config(folder), **settings)
    return watch_gold(inputs.go_on(folder, wanted))


def watch_gold(state: RLHFState) -> RLHFState:
    """Measure the gold score too, where it means something."""
    if has_review_vocabulary(state.models.tokenizer):
        state.measures["gold"] = gold_scores
    return state


def unused_folder(name: str) -> Path:
    """`my_course/runs/name`, or `name_2`, `name_3`, … where an earlier run has that."""
    runs = work_folder() / "runs"
    names = (runs / (name if k == 1 else f"{name}_{k}") for k in count(1))
    return next(folder for folder in names if not list_checkpoints(folder))


def start_or_resume(options: TrainOptions, settings: dict) -> tuple[RLHFState, Path]:
    """The run, and the folder its results go to."""
    if options.resume is not None:
        require_free(options.resume)
        inputs = kept_inputs(options, options.resume)
        return resume(options.resume, settings, inputs), options.resume
    config = RLHFConfig(**settings)
    folder = options.save or unused_folder(f"beta_{config.kl_coef}_seed_{config.seed}")
    require_free(folder)
    require_unused(folder)
    state = start(settings, options)
    keep_inputs(options, folder)
    return state, folder


@contextmanager
def stop_after_iteration() -> Iterator[list]:
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


def refuse_absurd(state: RLHFState, metrics: dict) -> None:
    """ValueError after an update that moved the policy absurdly far; it is not saved."""
    got = f"{metrics['approx_kl']:.3g} nats per token in update {state.iteration + 1}"
    lower = f"--learning-rate below {state.config.learning_rate:g}"
    wants = f"at most {ABSURD_KL:g}: take a {lower}, or --force to go on"
    require(metrics["approx_kl"] <= ABSURD_KL, "approx_kl", got, wants)


def observer(state: RLHFState, force: bool) -> Callable:
    """Traces the first iteration of a run and stops after an absurd update, before it is saved."""
    trace = Trace(state.models, state.config, show=tqdm.write)

    def observe(step: int, **tensors) -> None:
        if state.iteration == 0:
            trace(step, **tensors)
        if step == 7 and not force:
            refuse_absurd(state, tensors["metrics"])

    return observe


def train_with_bar(
    state: RLHFState, folder: Path, options: TrainOptions, held_out: HeldOut | None
) -> bool:
    """Train with a progress bar and logs; False if Ctrl-C ended it early."""
    force, log_to = options.force, options.log_to
    total, shown = state.config.iterations, ("score", "kl", "entropy", "clip_fraction")
    records = train_rlhf_loop(state=state, save_dir=folder, observe=observer(state, force))
    if held_out is not None:
        records = held_out.watch(state, records)
    records = logged(records, log_to or installed(), folder, state.config.as_dict())
    with (
        stop_after_iteration() as asked,
        tqdm(total=total, initial=state.iteration, desc="iterations") as progress,
    ):
        for record in records:
            progress.set_postfix({name: f"{record[name]:.2f}" for name in shown})
            progress.update()
            if asked:
                return state.iteration == total
    return True


def train_and_compare(options: TrainOptions, settings: dict) -> None:
    """Train with the first iteration traced; the same prompts before and after; save."""
    started = time.perf_counter()
    if options.export is not None:  # before training, not after
        require_exportable(options.export)
        require_writable(options.export.absolute().parent)
    state, folder = start_or_resume(options, settings)
    require_writable(folder)
    with hold_folder(folder):
        reference = fingerprint(state.models.reference)
        samples = {"count": options.evaluation_samples}
        held_out = kept_inputs(options, folder).held_out(folder, state.config.seed)
        asked = for_evaluation(state, held_out)
        before = evaluate(state.models.reference, asked, **samples, progress=bar("before"))
        whole = train_with_bar(state, folder, options, held_out)
        after = evaluate(state.models.actor, asked, **samples, progress=bar("after"))
        if fingerprint(state.models.reference) != reference:
            raise RuntimeError("The reference model was changed by training: that is a bug.")
        print(f"\nThe same prompts, before and after (of {len(after[1])} fresh responses)")
        print_samples(before[1], after[1])
        print_comparison(before[0], after[0])
        print_metrics(state.history)
        save_results(state, folder)
        if held_out is not None:
            print(held_out.report())
        word = "Saved" if whole else f"Stopped after {state.iteration} iterations; saved"
        seconds = time.perf_counter() - started
        if options.export is not None:
            print(f"Policy exported to {save_policy(state, options.export)}")
        print(f"{word} in {folder} ({seconds:.0f} s, peak memory {peak_memory_gb():.2f} GB)")


def trace_random_gpt2(settings: dict) -> None:
    """The seven steps at GPT-2's size: batch 4, 64-token prompts, 128-token responses."""
    small = {"batch_size": 4, "response_length": 128, "num_ppo_epochs": 1}
    config = RLHFConfig(**small | {"normalize_scores": False} | settings)
    models = random_gpt2_models(config.seed, config.device)
    for role in ("actor", "critic", "reward", "reference"):
        print(f"{role:12s}{count_parameters(getattr(models, role)) / 1e6:8.1f} M parameters")
    state = start_run(config, models, prompts=random_prompts(config.batch_size, config.seed))
    iterate(state, Trace(models, state.config))
    print(f"peak memory {peak_memory_gb():.2f} GB")


def trace_one(options: TraceOptions, settings: dict) -> None:
    """One traced iteration; nothing is saved."""
    if options.random_gpt2:
        return trace_random_gpt2(settings)
    if options.resume:
        inputs = kept_inputs(options, options.resume)
        state = resume(options.resume, settings, inputs)
    else:
        state = start(settings, options)
    iterate(state, Trace(state.models, state.config))
    return None


def run_command(name: str, what: str, options: type, run: Callable, arguments: list[str]) -> int:
    """Parse the flags of a command, options and settings of the run, and run it; → exit status."""

    def parse_and_run() -> None:
        parser = FlagParser(options, RLHFConfig, prog=f"python -m helpers {name}", description=what)
        given = parser.given(arguments)
        chosen = only(options, given)
        run(chosen, {key: value for key, value in given.items() if not hasattr(chosen, key)})

    return exit_status(parse_and_run, "Stopped at once; the last checkpoint stays.")


def train(arguments: list[str]) -> int:
    """`python -m helpers train`; → its exit status."""
    what = "Train a policy: trace one iteration, train, compare before and after, save."
    return run_command("train", what, TrainOptions, train_and_compare, arguments)


def trace(arguments: list[str]) -> int:
    """`python -m helpers trace`; → its exit status."""
    what = "Print the seven steps of one iteration with shapes and values; nothing is saved."
    return run_command("trace", what, TraceOptions, trace_one, arguments)
