"""`python -m helpers train` and `trace`: start or resume a run, watch it, compare, save."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import ceil
from pathlib import Path

from tqdm.auto import tqdm

from helpers.checkpoints import list_checkpoints, require_unused, saved_config
from helpers.commands.inputs import (
    COURSE_SAMPLES,
    OTHER_SAMPLES,
    STOPPED,
    Inputs,
    keep_inputs,
    kept_inputs,
    say_held_out,
)
from helpers.commands.results import (
    METRICS,
    SHOWN,
    print_comparison,
    print_metrics,
    print_samples,
    save_results,
    write_csv,
)
from helpers.config import RLHFConfig
from helpers.data import work_folder
from helpers.loop import train_rlhf_loop
from helpers.models import has_review_vocabulary, resolve_device
from helpers.prompts import as_prompts
from helpers.scale.export import own_dtype, require_exportable, save_policy
from helpers.scale.forecast import forecast, require_room
from helpers.scale.guard import guard
from helpers.scale.held_out import TEXTS, HeldOut, write_texts
from helpers.scale.memory import GIB, estimate_memory, free_bytes, peak_bytes
from helpers.state import RLHFState, needs_normalizer
from helpers.steps import evaluate, iterate
from helpers.tools.files import hold_folder, require_free, require_writable
from helpers.tools.flags import command, setting
from helpers.tools.noise import below_0
from helpers.trace import Trace
from helpers.world.gold import gold_scores


@dataclass(kw_only=True)
class TrainOptions(Inputs):
    """Train a policy: trace one iteration, train, compare before and after, save."""

    save: Path | None = setting(
        None,
        "folder for checkpoints, metrics.csv and curves.png; if not given, in the clone's my_course/runs",
    )
    resume: Path | None = setting(None, "go on with the run in this folder, where it stopped")
    export: Path | None = setting(
        None, "folder for the trained policy at the end, as plain transformers loads it"
    )
    force: bool = setting(False, "go on even after an update that wrecked the policy")


@dataclass(kw_only=True)
class TraceOptions(Inputs):
    """Print the seven steps of one iteration with shapes and values; nothing is saved."""


def on_screen() -> bool:
    """Whether bars are watched: in a file or a pipe each drawing of one is more text."""
    return sys.stderr.isatty()


def bar(title: str, unit: str = "batch") -> Callable:
    """A progress bar to wrap batches in; drawn every ten seconds where nobody watches it."""
    pace = {} if on_screen() else {"mininterval": 10.0}
    return partial(tqdm, desc=title, unit=unit, **pace)


def start_or_resume(options: TrainOptions, settings: dict, ready: Callable) -> RLHFState:
    """The run of `--resume` where it stopped, else one at its beginning.

    `ready` is called with it before anything is sampled. The gold score is measured too where the policy
    samples the course's reviews. ValueError: a setting that a run was not started with.
    """
    if options.resume is not None:
        state = options.go_on(options.resume, replace(saved_config(options.resume), **settings))
        ready(state)
    else:
        config = RLHFConfig(**settings)
        resolve_device(config.device)
        print("Loading the models …", flush=True)
        state = options.begin(config, progress=bar("normaliser"), ready=ready)
    if has_review_vocabulary(state.models.tokenizer):
        state.measures["gold"] = gold_scores
    return state


def evaluated(options: TrainOptions, state: RLHFState) -> int:
    """Fresh responses measured before training, and as many after it."""
    course = has_review_vocabulary(state.models.tokenizer)
    return options.evaluation_samples or (COURSE_SAMPLES if course else OTHER_SAMPLES)


def announce(options: TrainOptions, folder: Path, state: RLHFState) -> None:
    """Say what the run needs and how long it takes. ValueError: it cannot fit, unless forced."""
    config, held_out = state.config, options.held_out(folder, state.config.seed)
    longest = max(map(len, state.models.tokenizer(list(state.prompts), verbose=False)["input_ids"]))
    what = (config.actor, state.models.reward, config, longest)
    try:
        estimate = estimate_memory(*what, **options.trained())
    except Exception as problem:  # noqa: BLE001 (some architectures cannot be counted)
        print(f"Memory: not estimated for this architecture ({type(problem).__name__}).")
    else:
        loaded = ("weights", "Adam") if options.resume is not None else ("weights",)
        free = free_bytes(state.models.device)
        print(require_room(estimate, free, loaded, options.force), flush=True)
    fitted = options.resume is None and needs_normalizer(state)
    measured = 2 * evaluated(options, state)
    if held_out is not None:
        every = held_out.every or config.checkpoint_every
        measured += held_out.samples * (1 + ceil((config.iterations - state.iteration) / every))
    print(forecast(state, fitted * config.normalizer_samples, measured), flush=True)


def unused_folder(name: str) -> Path:
    """`my_course/runs/name`, or `name_2`, `name_3`, … where an earlier run has that."""
    runs = work_folder() / "runs"
    names = (runs / (name if k == 1 else f"{name}_{k}") for k in count(1))
    return next(folder for folder in names if not list_checkpoints(folder))


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


def observer(state: RLHFState, force: bool) -> Callable:
    """What traces a run's first iteration and guards its updates."""
    show = tqdm.write if on_screen() else print  # `write` draws the bar anew after every line
    trace, check = Trace(state.models, state.config, show=show), guard(state, force)

    def observe(step: int, **tensors) -> None:
        if state.iteration == 0:
            trace(step, **tensors)
        check(step, **tensors)

    return observe


def train_with_bar(
    state: RLHFState, folder: Path, options: TrainOptions, held_out: HeldOut | None
) -> bool:
    """Train with a progress bar and a log; False if Ctrl-C ended it early."""
    total, shown = state.config.iterations, ("score", "kl", "entropy", "clip_fraction")
    observe = observer(state, options.force)
    records = train_rlhf_loop(state=state, save_dir=folder, observe=observe)
    if held_out is not None:
        records = held_out.watch(state, records)
    with (
        stop_after_iteration() as asked,
        bar("iterations", "it")(total=total, initial=state.iteration) as progress,
    ):
        for record in records:
            write_csv(folder / METRICS, state.history)  # what is read is what has been trained
            numbers = {name: f"{record[name]:.2f}" for name in shown}
            progress.set_postfix(numbers, refresh=False)  # `update` draws it
            progress.update()
            if asked:
                return state.iteration == total
    return True


def prepare(options: TrainOptions, settings: dict) -> tuple[TrainOptions, Path]:
    """The options, of a run that goes on those it was started with where no flag is given now; its folder.

    ValueError: another run uses the folder or has used it, or the policy could not be exported.
    """
    folder = options.resume or options.save
    if folder is None:
        config = RLHFConfig(**settings)
        folder = unused_folder(f"beta_{config.kl_coef}_seed_{config.seed}")
    require_free(folder)
    if options.resume is None:
        require_unused(folder)
    else:
        given = options.export
        options = kept_inputs(options, folder)
        if options.export != given:
            print(f"At the end the policy goes to {options.export}, as the run was started.")
    if options.export is not None:  # before training, not after
        require_exportable(options.export)
        require_writable(options.export.absolute().parent)
    return options, folder


@command("helpers train", TrainOptions, RLHFConfig, stopped=STOPPED)
def train(options: TrainOptions, settings: dict) -> None:
    """Train with the first iteration traced; the same prompts before and after; save."""
    started = time.perf_counter()
    options, folder = prepare(options, settings)
    state = start_or_resume(options, settings, partial(announce, options, folder))
    if options.resume is None:
        keep_inputs(options, folder)
    require_writable(folder)
    with hold_folder(folder):
        count = evaluated(options, state)
        held_out = options.held_out(folder, state.config.seed)
        say_held_out(state, held_out, own=options.prompts is not None)
        asked = state  # with the held-out prompts in place of those trained on, if there are any
        if held_out is not None:
            prompts = as_prompts(held_out.prompts, state.models.tokenizer)
            asked = replace(state, prompts=prompts)
        fewer = "" if options.evaluation_samples else ": --evaluation-samples N for fewer"
        print(
            f"Measuring {count} responses before training and as many after it{fewer}.", flush=True
        )
        size = state.config.batch_size  # as the forecast of the memory has it
        before = evaluate(
            state.models.reference, asked, count, progress=bar("before"), batch_size=size
        )
        whole = train_with_bar(state, folder, options, held_out)
        after = evaluate(state.models.actor, asked, count, progress=bar("after"), batch_size=size)
        print(f"\nThe same prompts, before and after (of {len(after[1])} fresh responses)")
        print_samples(before[1][:SHOWN], after[1])
        print_comparison(before[0], after[0])
        print_metrics(state.history)
        kls = [float(after[0]["kl"].mean()), *(record["kl"] for record in state.history)]
        print(
            f"{below_0(kls)}\nIs anything wrong here? python -m helpers diagnose {folder}".lstrip()
        )
        save_results(state, folder)
        for name, (found, texts) in {"before": before, "after": after}.items():
            write_texts(folder / TEXTS / f"{name}.jsonl", texts, found)
        if held_out is not None:
            print(held_out.report())
        word = "Saved" if whole else f"Stopped after {state.iteration} iterations; saved"
        seconds = time.perf_counter() - started
        if options.export is not None:
            dtype = own_dtype(state.models.actor)
            save_policy(state, options.export, dtype=dtype)
            print(f"Policy exported to {options.export}, in {str(dtype)[6:]} as its base")
        cost = f"{seconds:.0f} s, peak memory {peak_bytes() / GIB:.2f} GiB"
        print(f"{word} in {folder}, texts in {folder / TEXTS} ({cost})")


@command("helpers trace", TraceOptions, RLHFConfig, stopped=STOPPED)
def trace(options: TraceOptions, settings: dict) -> None:
    """One traced iteration; nothing is saved."""
    state = options.begin(RLHFConfig(**settings))
    iterate(state, Trace(state.models, state.config))
