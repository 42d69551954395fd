"""A study run for keeps: each run in a process of its own, resumable after a kill, measured at its end."""

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from helpers.checkpoints import list_checkpoints, load_checkpoint
from helpers.command import exit_status
from helpers.config import RLHFConfig
from helpers.measure import EVALUATED, MEASURES, measure
from helpers.runs import RECORD, Run, record_run, resume_run, save_run
from helpers.state import Reward, RLHFState, start_run
from helpers.storage import FileProblem, atomic_file, read_json, work_folder
from helpers.studies import Study
from helpers.validate import require, require_count
from helpers.workers import report, run_all

POLICY = "policy.safetensors"


@dataclass(frozen=True)
class Job:
    """One run of a study, and where its checkpoints (`work`) and its result (`out`) go.

    `reward` and `within` travel to another process: wants functions or objects that can be pickled.
    """

    name: str
    config: RLHFConfig
    work: Path
    out: Path
    keep_policy: bool = False  # the last policy too, in half precision
    evaluated: int = EVALUATED  # fresh responses to each prompt, at the end
    reward: Reward | None = None  # stands in for the config's reward model
    within: Callable[[], AbstractContextManager] = nullcontext  # what holds while it trains
    checkpoints: bool = True  # False: a short run, begun anew when it was cut off
    schedule: list[int] | None = None  # iterations of the snapshots


def begin(job: Job) -> tuple[RLHFState, Run]:
    """The run at its newest checkpoint, or at its beginning."""
    folder = job.work / job.name
    if list_checkpoints(folder):
        state = load_checkpoint(folder, job.config, reward=job.reward, measures=MEASURES)
        return state, resume_run(folder)
    state = start_run(job.config, reward=job.reward, measures=MEASURES)
    return state, Run(job.config, label=job.name)


def finish(job: Job, state: RLHFState, run: Run) -> None:
    """Measure the last policy and put the run where results go; `run.json` comes last."""
    run.final, run.responses = measure(state, state.models.actor, job.evaluated)
    if job.keep_policy:
        weights = state.models.actor.state_dict()
        weights.pop("lm_head.weight", None)  # tied to the word embeddings
        halves = {name: tensor.half().contiguous() for name, tensor in weights.items()}
        with atomic_file(job.out / "policies" / job.name / POLICY) as temporary:
            save_file(halves, temporary)
    save_run(run, job.out / job.name)


def run_job(job: Job) -> str:
    """Train one run from where it stands to its end, measure it, keep it."""
    state, run = begin(job)
    report(state.iteration)
    save_dir = job.work / job.name if job.checkpoints else None
    with job.within():
        for _ in record_run(state, run, job.schedule, save_dir=save_dir):
            report(1)
    finish(job, state, run)
    return job.name


def plan(
    study: Study, out: Path, work: Path, resume: bool, fields: Callable[[str], dict]
) -> list[Job]:
    """The jobs that are left; `fields` gives a run's own fields of `Job` by its name.

    Runs that have begun are kept: without `resume` they are refused.
    """
    jobs = [Job(name, config, work, out, **fields(name)) for name, config in study.items()]
    begun = [job for job in jobs if (out / job.name).exists() or (work / job.name).exists()]
    for job in begun:
        _refuse_other_settings(job)
    got = f"{out}, where {len(begun)} of these runs have begun"
    require(resume or not begun, "--out", got, "--resume, or other folders")
    return [job for job in jobs if not (out / job.name).exists()]


def _refuse_other_settings(job: Job) -> None:
    """A finished run counts only if it was made with the settings asked for."""
    path = job.out / job.name / RECORD
    if path.exists() and RLHFConfig.from_dict(read_json(path, ("config",))["config"]) != job.config:
        raise FileProblem(f"{path} was made with other settings: wants another --out.")


def run_study(
    study: Study,
    options: argparse.Namespace,
    fields: Callable[[str], dict] = lambda name: {},
    first: list[tuple[Callable, tuple]] = (),
) -> None:
    """Run what is left of a study, `first` before it, as the command line's options say."""
    jobs = plan(study, options.out, options.work, options.resume, fields)
    tasks = [*first, *((run_job, (job,)) for job in jobs)]
    if tasks:
        total = sum(job.config.iterations for job in jobs)
        run_all(tasks, options.jobs, options.threads, total)


def study_parser(name: str, description: str) -> argparse.ArgumentParser:
    """The options every study has."""
    parser = argparse.ArgumentParser(prog=f"python -m helpers.{name}", description=description)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--threads", type=int, default=1, help="of each run (1)")
    parser.add_argument("--resume", action="store_true", help="go on with what is there")
    parser.add_argument("--out", type=Path, help=f"results (my_course/{name})")
    parser.add_argument("--work", type=Path, help=f"checkpoints (my_course/{name}_checkpoints)")
    return parser


def parse_study(
    parser: argparse.ArgumentParser, name: str, arguments: list[str] | None
) -> argparse.Namespace:
    """Parsed options with their defaults filled in; ValueError for a count below 1."""
    options = parser.parse_args(arguments)
    options.command = recorded_command(name, sys.argv[1:] if arguments is None else arguments)
    for count in ("iterations", "jobs", "threads"):
        require_count(f"--{count}", getattr(options, count))
    options.out = options.out or work_folder() / name
    options.work = options.work or work_folder() / f"{name}_checkpoints"
    return options


def recorded_command(name: str, arguments: list[str]) -> str:
    """The command line as it is kept: without where checkpoints went and whether it was resumed."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument not in ("--resume", "--work") and "--work=" not in argument:
            kept.append(argument)
        skip = argument == "--work"
    return " ".join(["python -m", f"helpers.{name}", *kept])


def origin(options: argparse.Namespace) -> dict:
    """How a result was made: command, versions, threads."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"command": options.command, "versions": versions, "threads": options.threads}


def study_status(run: Callable[[list[str] | None], None], arguments: list[str] | None) -> int:
    """Run a study's command; → its exit status."""
    return exit_status(
        lambda: run(arguments), "Stopped; --resume goes on from the last checkpoints."
    )
