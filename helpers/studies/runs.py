"""A recorded run: metrics, samples and next-token distributions of a policy, by iteration.

The sweep, the clinic and lesson 07 all use `record_run`, so a new run can be compared with a
shipped one.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from helpers.config import RLHFConfig, config_from_dict
from helpers.data import verify
from helpers.loop import run_iterations
from helpers.rollouts import response_logits
from helpers.sampling import Responses, encode_prompts, plain_tokens, sample_responses
from helpers.state import History, RLHFState
from helpers.steps import iterate, reference_logprobs
from helpers.tools.files import read_json, read_tensors, write_text
from helpers.tools.pool import advance

# a shipped prompt of each domain; the same in every run, so that runs can be compared
WATCHED_PROMPTS = (
    "i saw this film",
    "the fish was",
    "the room was",
    "i listened to",
    "i heard this concert",
    "the camera was",
)
SAMPLES = 3  # responses kept for each watched prompt at each snapshot
RECORD, TENSORS, POLICY = "run.json", "run.safetensors", "policy.safetensors"


@dataclass
class Sample:
    """One response with the log-probs of each token under policy and reference (nats)."""

    tokens: list[str]
    logprobs: list[float]
    ref_logprobs: list[float]
    text: str  # prompt + response
    score: float  # the proxy, normalised
    gold: float | None = None  # the gold score, when the run measures it

    @property
    def drift(self) -> list[float]:
        """log π − log π_ref of each token, nats: above 0 if the policy makes it more likely."""
        pairs = zip(self.logprobs, self.ref_logprobs, strict=True)
        return [policy - reference for policy, reference in pairs]


@dataclass
class Snapshot:
    """A policy at one iteration: responses to the watched prompts, and next-token distributions."""

    iteration: int
    samples: dict[str, list[Sample]]  # by prompt
    next_logprobs: dict[str, Tensor]  # by prompt: [V] log-probs of the first response token


@dataclass
class Run:
    """One training run: config, one record per iteration, snapshots, a final evaluation."""

    config: RLHFConfig
    history: list[dict] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    final: dict = field(default_factory=dict)  # on fresh responses, see `measure.measure`
    label: str = ""  # how the run is called on a page
    responses: dict[str, Tensor] = field(default_factory=dict)  # `score`, `kl` [P, n] of `final`
    kind: str = ""  # what distinguishes it in its study, beside the seed
    policy: dict[str, Tensor] = field(default_factory=dict)  # its last weights, if they are kept

    def column(self, name: str) -> list[float]:
        """One metric over the iterations."""
        return [record[name] for record in self.history]

    def at(self, iteration: int) -> Snapshot:
        """The latest snapshot not after `iteration`."""
        earlier = [shot for shot in self.snapshots if shot.iteration <= iteration]
        return earlier[-1] if earlier else self.snapshots[0]


def snapshot_schedule(iterations: int) -> list[int]:
    """Iterations of the snapshots, at most 16 with 0 and the last; denser at the beginning."""
    return sorted({round(iterations * (k / 15) ** 2) for k in range(16)})


@torch.no_grad()
def take_snapshot(state: RLHFState) -> Snapshot:
    """Sample responses to the watched prompts, always with the same random numbers.

    It has its own generator, so snapshots do not change a run.
    """
    models, config = state.models, state.config
    generator = torch.Generator(device=models.device).manual_seed(config.seed)
    asked = [prompt for prompt in WATCHED_PROMPTS for _ in range(SAMPLES)]
    responses = sample_responses(models.actor, models.tokenizer, asked, config, generator)
    scores, judge = state.score(responses.texts).tolist(), state.measures.get("gold")
    golds = list(map(float, judge(responses.texts))) if judge else [None] * len(asked)
    both = responses.logprobs, reference_logprobs(state, responses)
    found = as_samples(models.tokenizer, responses, both, scores, golds)
    rows = {prompt: found[k * SAMPLES :][:SAMPLES] for k, prompt in enumerate(WATCHED_PROMPTS)}
    return Snapshot(state.iteration, rows, next_token(state, models.actor, WATCHED_PROMPTS))


def as_samples(
    tokenizer, responses: Responses, both: tuple, scores: list[float], golds: list[float | None]
) -> list[Sample]:
    """Each response with its counted tokens; `both`: log-probs [B, T] of policy and reference."""
    found = []
    for row, text in enumerate(responses.texts):
        counted = responses.response_mask[row]
        ids = responses.response_tensors[row][counted].tolist()
        logprobs = (x[row][counted].tolist() for x in both)
        tokens = plain_tokens(tokenizer, ids)
        found.append(Sample(tokens, *logprobs, text, scores[row], golds[row]))
    return found


@torch.no_grad()
def next_token(state: RLHFState, policy, prompts: tuple) -> dict[str, Tensor]:
    """Log-probs of the first response token for each prompt: [V] nats each, on the CPU."""
    queries = encode_prompts(state.models.tokenizer, list(prompts), state.models.device)
    nothing = torch.full_like(queries[0][:, :1], state.models.tokenizer.pad_token_id)
    counts = torch.ones_like(nothing, dtype=torch.bool)
    tokens, temperature = (*queries, nothing, counts), state.config.temperature
    logits = response_logits(policy, *tokens, temperature=temperature)[:, 0]
    return dict(zip(prompts, logits.log_softmax(dim=-1).cpu(), strict=True))


def record_run(
    state: RLHFState,
    run: Run | None = None,
    schedule: list[int] | None = None,
    save_dir: Path | None = None,
) -> Iterator[Run]:
    """Train and record; yields the same, growing `Run` after each iteration.

    You can stop iterating at any time and use the run as it is. With `save_dir`, a checkpoint with the
    record so far is written every `config.checkpoint_every` iterations; to continue, pass its state
    (`load_checkpoint`) and its run, the record (`load_run`).
    """
    schedule = snapshot_schedule(state.config.iterations) if schedule is None else schedule
    run = run or Run(state.config)
    run.config, run.history = state.config, state.history  # with the learning rates it resolved

    def watched(state: RLHFState) -> dict:
        if state.iteration == 0 and not run.snapshots:
            run.snapshots.append(take_snapshot(state))
        record = iterate(state)
        if state.iteration in schedule:
            run.snapshots.append(take_snapshot(state))
        return record

    def keep(checkpoint: Path) -> None:
        write_run(run, checkpoint / "record")

    yield from (run for _ in run_iterations(state, watched, save_dir, keep))


def train_measured(
    state: RLHFState,
    measure: Callable[[RLHFState], dict],
    every: int,
    step: Callable[[RLHFState], dict] = iterate,
    folder: Path | None = None,
    first: dict | None = None,
) -> Run:
    """Train by `step`; rows of `measure` every so many iterations and at the end are the `curve`.

    Until the end they stand in the records, so that checkpoints in `folder` keep them. `first` is a row
    before training.
    """

    def measured(state: RLHFState) -> dict:
        began = time.process_time()
        record = step(state)
        record["cpu_seconds"] = time.process_time() - began
        if state.iteration % every == 0 or state.iteration == state.config.iterations:
            record["measured"] = {"iteration": state.iteration} | measure(state)
        return record

    for _ in run_iterations(state, measured, folder):
        advance(1)
    rows = [record.pop("measured") for record in state.history if "measured" in record]
    final = {"cpu_seconds": fsum(record.pop("cpu_seconds") for record in state.history)}
    curve = as_columns(rows if first is None else [{"iteration": 0} | first, *rows])
    final |= {"curve": curve, "base": str(state.models.actor.dtype)}
    return Run(state.config, state.history, final=final)


def significant(value: object, digits: int = 5) -> object:
    """Round every float in nested dicts and lists to this many significant digits, for JSON."""
    if isinstance(value, dict):
        return {key: significant(item, digits) for key, item in value.items()}
    if isinstance(value, list):
        return [significant(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def as_columns(history: History) -> dict:
    """A history as one list per metric, which is shorter, with five significant digits."""
    names = history[-1] if history else ()
    return significant({name: [record[name] for record in history] for name in names})


def as_history(columns: dict) -> History:
    """The inverse of `as_columns`."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def write_run(run: Run, folder: Path) -> None:
    """Write `run.json` (five significant digits), `run.safetensors` and a kept policy to this folder.

    The tensors are next-token log-probs in float16 and the responses of the final evaluation.
    """
    prompts = list(run.snapshots[0].next_logprobs)
    stacked = [torch.stack([shot.next_logprobs[p] for p in prompts]) for shot in run.snapshots]
    samples = [{p: list(map(vars, s)) for p, s in s.samples.items()} for s in run.snapshots]
    iterations = (shot.iteration for shot in run.snapshots)
    shots = [{"iteration": i, "samples": s} for i, s in zip(iterations, samples, strict=True)]
    facts = {"label": run.label, "config": run.config.as_dict(), "final": run.final}
    facts["history"] = as_columns(run.history)
    facts = significant(facts | {"snapshots": shots, "prompts": prompts})
    write_text(folder / RECORD, json.dumps(facts, separators=(",", ":")) + "\n")
    save_file({"next_logprobs": torch.stack(stacked).half()} | run.responses, folder / TENSORS)
    if run.policy:
        save_file(run.policy, folder / POLICY)


def load_run(folder: Path) -> Run:
    """Load a folder's run. FileProblem: a file is missing or damaged. KeyError: it is of another kind."""
    verify(folder)
    facts, tensors = read_json(folder / RECORD), read_tensors(folder / TENSORS)
    after = tensors.pop("next_logprobs").float()  # (snapshots, prompts, V)
    shots = [
        Snapshot(
            shot["iteration"],
            {p: [Sample(**one) for one in some] for p, some in shot["samples"].items()},
            dict(zip(facts["prompts"], rows, strict=True)),
        )
        for shot, rows in zip(facts["snapshots"], after, strict=True)
    ]
    config, history = config_from_dict(facts["config"]), as_history(facts["history"])
    return Run(config, history, shots, facts["final"], facts["label"], tensors)
