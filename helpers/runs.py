"""A recorded run: what a policy measured, wrote and would have said next, iteration by iteration.

The sweep, the clinic and the live trainer all record through `record_run`, so that a run made a
minute ago can be laid beside a shipped one.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from helpers.checkpoints import list_checkpoints, require_unused, save_checkpoint
from helpers.config import RLHFConfig
from helpers.rollouts import forward_logprobs, response_logits
from helpers.state import RLHFState
from helpers.steps import ignore, iterate
from helpers.storage import (
    FileProblem,
    atomic_folder,
    map_floats,
    read_json,
    read_tensors,
    verify,
    write_text,
)
from helpers.validate import require_count
from helpers.writing import encode_prompts, plain_tokens, write

# a shipped prompt of each domain; the same in every run, so that runs can be compared
WATCHED = (
    "i saw this film",
    "the food was",
    "this is a hotel",
    "we read this book",
    "the battery",
    "we went to this concert",
)
SAMPLES = 3  # responses kept for each watched prompt at each snapshot
RECORD, TENSORS = "run.json", "run.safetensors"


@dataclass
class Sample:
    """One response, token by token, with what policy and reference thought of each token (nats)."""

    tokens: list[str]
    logprobs: list[float]
    ref_logprobs: list[float]
    text: str  # prompt + response
    score: float  # the proxy, normalised
    gold: float | None = None  # the gold score, when the run measures it

    @property
    def drift(self) -> list[float]:
        """log π − log π_ref of each token, nats: above 0 where the policy says it more often."""
        pairs = zip(self.logprobs, self.ref_logprobs, strict=True)
        return [policy - reference for policy, reference in pairs]


@dataclass
class Snapshot:
    """A policy at one iteration: what it wrote for the watched prompts, and its next token."""

    iteration: int
    samples: dict[str, list[Sample]]  # by prompt
    next_logprobs: dict[str, Tensor]  # by prompt: [V] log-probs of the first response token


@dataclass
class Run:
    """One training run: settings, one record per iteration, snapshots, a last measurement."""

    config: RLHFConfig
    history: list[dict] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    final: dict = field(default_factory=dict)  # on fresh responses, see `helpers.sweeps.measure`
    label: str = ""  # how the run is called on a page
    responses: dict[str, Tensor] = field(
        default_factory=dict
    )  # `score`, `kl` [P, n] behind `final`

    def column(self, name: str) -> list[float]:
        """One measurement over the iterations."""
        return [record[name] for record in self.history]

    def at(self, iteration: int) -> Snapshot:
        """The latest snapshot not after `iteration`."""
        earlier = [shot for shot in self.snapshots if shot.iteration <= iteration]
        return earlier[-1] if earlier else self.snapshots[0]


def snapshot_schedule(iterations: int, count: int = 16) -> list[int]:
    """Iterations to keep, 0 and the last among them, closer together early, where most happens."""
    require_count("count", count, low=2)
    steps = (round(iterations * (k / (count - 1)) ** 2) for k in range(count))
    return sorted(set(steps))


@torch.no_grad()
def take_snapshot(state: RLHFState, prompts: tuple = WATCHED, samples: int = SAMPLES) -> Snapshot:
    """Let the actor answer the watched prompts, always with the same random numbers.

    It draws from a generator of its own: a run is the same with snapshots or without.
    """
    models, config = state.models, state.config
    generator = torch.Generator(device=models.device).manual_seed(config.seed)
    asked = [prompt for prompt in prompts for _ in range(samples)]
    written = write(models.actor, models.tokenizer, asked, config, generator)
    reference = forward_logprobs(models.reference, *written.tokens(), config.temperature)
    scores = state.score(written.texts).tolist()
    golds = state.measures["gold"](written.texts) if "gold" in state.measures else None
    kept: dict[str, list[Sample]] = {prompt: [] for prompt in prompts}
    for row, prompt in enumerate(asked):
        counted = written.response_mask[row]
        ids = written.response_tensors[row][counted].tolist()
        sample = Sample(
            plain_tokens(models.tokenizer, ids),
            written.logprobs[row][counted].tolist(),
            reference[row][counted].tolist(),
            written.texts[row],
            scores[row],
            None if golds is None else float(golds[row]),
        )
        kept[prompt].append(sample)
    return Snapshot(state.iteration, kept, next_token(state, models.actor, prompts))


@torch.no_grad()
def next_token(state: RLHFState, policy, prompts: tuple = WATCHED) -> dict[str, Tensor]:
    """Log-probs of the first response token for each prompt: [V] nats, on the CPU."""
    queries = encode_prompts(state.models.tokenizer, list(prompts), state.models.device)
    nothing = torch.full_like(queries[0][:, :1], state.models.tokenizer.pad_token_id)
    counts = torch.ones_like(nothing, dtype=torch.bool)
    logits = response_logits(policy, *queries, nothing, counts, state.config.temperature)[:, 0]
    return dict(zip(prompts, logits.log_softmax(dim=-1).cpu(), strict=True))


def record_run(
    state: RLHFState,
    run: Run | None = None,
    schedule: list[int] | None = None,
    prompts: tuple = WATCHED,
    save_dir: Path | None = None,
    observe: Callable = ignore,
) -> Iterator[Run]:
    """Train to the end and record; yields the same, growing `Run` after each iteration.

    Stop asking whenever you like: the run holds what there is. With `save_dir` a checkpoint, with
    the record so far inside, is written every `config.checkpoint_every` iterations; to go on, give
    its state and its run (`load_checkpoint`, `resume_run`).
    """
    schedule = snapshot_schedule(state.config.iterations) if schedule is None else schedule
    run = run or Run(state.config)
    run.history = state.history
    if save_dir is not None:
        require_unused(save_dir, state.iteration)
    if state.iteration == 0 and not run.snapshots:
        run.snapshots.append(take_snapshot(state, prompts))
    while state.iteration < state.config.iterations:
        iterate(state, observe)
        if state.iteration in schedule:
            run.snapshots.append(take_snapshot(state, prompts))
        done = state.iteration == state.config.iterations
        if save_dir is not None and (done or state.iteration % state.config.checkpoint_every == 0):
            save_checkpoint(state, save_dir, lambda path: write_run(run, path / "record"))
        yield run


def significant(value: object, digits: int = 5) -> object:
    """The same nested value, its floats rounded to so many significant digits."""
    return map_floats(value, lambda x: float(f"{x:.{digits}g}"))


def _facts(run: Run) -> dict:
    """A run as plain values; history as columns, which are shorter."""
    names = list(run.history[-1]) if run.history else []
    return {
        "label": run.label,
        "config": run.config.as_dict(),
        "final": run.final,
        "history": {name: run.column(name) for name in names},
        "snapshots": [
            {
                "iteration": shot.iteration,
                "samples": {p: [vars(s) for s in rows] for p, rows in shot.samples.items()},
            }
            for shot in run.snapshots
        ],
    }


def write_run(run: Run, folder: Path) -> None:
    """`run.json` (five significant digits) and `run.safetensors` (next-token log-probs in float16,
    the responses of the last measurement) into this folder.
    """
    prompts = list(run.snapshots[0].next_logprobs)
    stacked = [torch.stack([shot.next_logprobs[p] for p in prompts]) for shot in run.snapshots]
    facts = significant(_facts(run) | {"prompts": prompts})
    write_text(folder / RECORD, json.dumps(facts, separators=(",", ":")) + "\n")
    save_file({"next_logprobs": torch.stack(stacked).half()} | run.responses, folder / TENSORS)


def save_run(run: Run, folder: Path) -> None:
    """`write_run`, whole or not at all."""
    with atomic_folder(folder) as temporary:
        write_run(run, temporary)


def resume_run(folder: Path) -> Run:
    """The record inside the newest checkpoint of a run's folder."""
    found = list_checkpoints(folder)
    if not found:
        raise FileProblem(f"No checkpoint below {folder}: wants {folder}/checkpoints/iteration_*.")
    return load_run(found[-1] / "record")


def load_run(folder: Path) -> Run:
    """The run in a folder; FileProblem when a file is missing, broken or altered."""
    verify(folder)
    facts, tensors = read_json(folder / RECORD), read_tensors(folder / TENSORS)
    try:
        after = tensors.pop("next_logprobs").float()  # (snapshots, prompts, V)
        columns = facts["history"]
        history = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        shots = [
            Snapshot(
                shot["iteration"],
                {p: [Sample(**one) for one in some] for p, some in shot["samples"].items()},
                dict(zip(facts["prompts"], rows, strict=True)),
            )
            for shot, rows in zip(facts["snapshots"], after, strict=True)
        ]
        config = RLHFConfig.from_dict(facts["config"])
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise FileProblem(f"{folder} does not hold a whole run: {problem}.") from None
    return Run(config, history, shots, facts["final"], facts["label"], tensors)
