"""Studies: plan runs, run them in processes, save them in one format, load them.

A study is a list of `Job`s. Each has a kind ("kl_sign", "beta_0.1") and, in its config, a seed. A run
is saved completely, in its own folder, or as its history only. `study.json` lists all runs and the
command that made them. Folder names are for readers: no code parses them.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import torch
import transformers
from safetensors.torch import save_file

from helpers.checkpoints import list_checkpoints, load_checkpoint
from helpers.config import DirectConfig, RLHFConfig, config_from_dict
from helpers.data import refresh_manifest, verify, work_folder
from helpers.state import Reward, RLHFState, resolve_rates, start_run
from helpers.studies.measure import EVALUATED, MEASURES, measure
from helpers.studies.runs import (
    RECORD,
    Run,
    as_columns,
    as_history,
    load_run,
    record_run,
    resume_run,
    significant,
    write_run,
)
from helpers.tools.files import (
    FileProblem,
    atomic_folder,
    hold_folder,
    read_json,
    write_json,
    write_text,
)
from helpers.tools.flags import setting
from helpers.tools.pool import advance, run_all
from helpers.tools.validate import require, require_count

STUDY, POLICY = "study.json", "policy.safetensors"
METRICS = (  # of a run that is kept as its history only
    "score gold grammatical flattery kl approx_kl entropy response_length ended explained_variance "
    "policy_loss value_loss clip_fraction grad_norm first_ratio_error"
).split()
STOPPED = "Stopped; --resume goes on from the last checkpoints."


# --- options, which the command line is made from -------------------------------------------------


@dataclass(kw_only=True)
class Options:
    """Options of every study; `name` is its sub-command and the folder of its results."""

    name: ClassVar[str]
    command: ClassVar[str] = "study {name}"
    out: Path | None = setting(None, "folder of the results; without it my_course/NAME")

    @property
    def results(self) -> Path:
        """The folder of the results."""
        return self.out or work_folder() / self.name


@dataclass(kw_only=True)
class StudyOptions(Options):
    """Options of a study of several training runs."""

    SETTINGS: ClassVar[dict] = {}  # of all its runs
    seeds: list[int] = setting([0, 1, 2], "each kind of run is made on each of these seeds")
    iterations: int = setting(100, "iterations of each run")
    jobs: int = setting(2, "runs at a time, each in a process of its own")
    threads: int = setting(1, "threads of each run")
    resume: bool = setting(False, "go on with what is there")
    work: Path | None = setting(
        None, "folder of checkpoints; without it my_course/…_checkpoints, named as --out is"
    )

    def __post_init__(self):
        for count in ("iterations", "jobs", "threads"):
            require_count(f"--{count}", getattr(self, count))

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints, and of runs that are saved as history only: one for each `out`."""
        return self.work or work_folder() / f"{self.results.name}_checkpoints"

    def config(self, seed: int, **changes: object) -> RLHFConfig:
        """The settings of one run: the study's own, then these changes."""
        own = {"iterations": self.iterations, "seed": seed, "device": "cpu"}
        return RLHFConfig(**self.SETTINGS | own | changes)

    def configs(self, seed: int) -> dict[str, RLHFConfig | DirectConfig]:
        """The settings of the runs on this seed, by kind. Each study says what they are."""
        raise NotImplementedError

    def job(self, kind: str, config: RLHFConfig | DirectConfig) -> "Job":
        """How one of them is trained and saved."""
        return Job(kind, config)

    def plan(self) -> list["Job"]:
        """The jobs for each seed and kind."""
        seeds = sorted(set(self.seeds))
        return [self.job(*one) for seed in seeds for one in self.configs(seed).items()]

    def run(self) -> None:
        """Run what is missing."""
        run_study(self.plan(), self)


def recorded_command(options: Options) -> str:
    """The command line with these options, without the folder of checkpoints and `--resume`."""
    words, usual = ["python -m helpers", options.command.format(name=options.name)], type(options)()
    for name in (one.name for one in fields(options) if one.name not in ("work", "resume")):
        value = getattr(options, name)
        if value != getattr(usual, name):
            values = value if isinstance(value, list) else [value]
            texts = (f"{x:g}" if isinstance(x, float) else str(x) for x in values)
            words += [f"--{name.replace('_', '-')}", *texts]
    return " ".join(words)


def origin(options: Options, threads: int) -> dict:
    """How a result was made: command, versions, threads."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"command": recorded_command(options), "versions": versions, "threads": threads}


# --- planning and running -------------------------------------------------------------------------


def run_name(kind: str, seed: int) -> str:
    """The name of a run in `study.json`, and of its folder."""
    return f"{kind}_seed_{seed}"


@dataclass(frozen=True)
class Job:
    """One run of a study: how it is trained and saved.

    `reward`, `within` and `train` are sent to another process, so they must be picklable.
    """

    kind: str
    config: RLHFConfig | DirectConfig
    whole: bool = True  # False: only its entry in `study.json` is kept
    keep_policy: bool = False  # the last policy too, in half precision
    evaluated: int = EVALUATED  # fresh responses to each prompt, at the end
    reward: Reward | None = None  # stands in for the config's reward model
    within: Callable[[], AbstractContextManager] = nullcontext  # what holds while it trains
    checkpoints: bool = True  # False: a short run, begun anew when it was cut off
    schedule: list[int] | None = None  # iterations of the snapshots
    train: Callable | None = None  # what trains it in place of `record`, with the same arguments

    @property
    def name(self) -> str:
        return run_name(self.kind, self.config.seed)

    def result(self, out: Path, work: Path) -> Path:
        """The file that a finished run leaves."""
        return out / self.name / RECORD if self.whole else work / f"{self.name}.json"


def record(job: Job, folder: Path, out: Path) -> dict:
    """Train a run from the newest checkpoint in `folder`, or from its beginning, and evaluate it.

    Returns its entry in `study.json`; a full run is saved below `out`.
    """
    own = {"reward": job.reward, "measures": MEASURES}
    if list_checkpoints(folder):
        state, run = load_checkpoint(folder, job.config, **own), resume_run(folder)
    else:
        state, run = start_run(job.config, **own), Run(job.config, label=job.name)
    advance(state.iteration)
    with job.within():
        save_dir = folder if job.checkpoints else None
        for _ in record_run(state, run, job.schedule, save_dir=save_dir):
            advance(1)
    run.final, run.responses = measure(state, state.models.actor, job.evaluated)
    return save_run(job, run, out, state if job.keep_policy else None)


def save_run(job: Job, run: Run, out: Path, state: RLHFState | None = None) -> dict:
    """Save a full run (with the policy of a state, in half precision); returns its entry in `study.json`."""
    if job.whole:
        with atomic_folder(out / job.name) as temporary:
            write_run(run, temporary)
            if state is not None:  # without the head, tied to the word embeddings
                weights = state.models.actor.named_parameters()
                halves = {name: x.data.half().contiguous() for name, x in weights}
                save_file(halves, temporary / POLICY)
        return {"kind": job.kind, "whole": True}
    names = [name for name in METRICS if name in run.history[0]]  # a critic's, if there is one
    return as_entry(job.kind, run.config, as_columns(run.history, names), run.final)


def run_job(job: Job, out: Path, work: Path) -> None:
    """Train and save a run; nobody else may work on it meanwhile."""
    with hold_folder(work / job.name):
        entry = (job.train or record)(job, work / job.name, out)
        if not job.whole:
            write_json(job.result(out, work), entry)


def plan_jobs(jobs: list[Job], options: StudyOptions) -> list[Job]:
    """The jobs to do. ValueError: some begun, and no `--resume`. FileProblem: done with other settings."""
    left, begun = [], 0
    for job in jobs:
        path = job.result(options.results, options.checkpoints)
        if not path.exists():
            left.append(job)
            begun += bool(list_checkpoints(options.checkpoints / job.name))
            continue
        begun += 1
        saved = config_from_dict(read_json(path, ("config",))["config"])
        if replace(saved, device=job.config.device) != resolve_rates(job.config):
            raise FileProblem(f"{path} was made with other settings: wants another --out.")
    got = f"{options.results}, where {begun} of these runs have begun"
    require(options.resume or not begun, "--out", got, "--resume, or other folders")
    return left


def restore(jobs: list[Job], options: StudyOptions) -> None:
    """Entries of `study.json` as the files that their runs left: what is recorded is not made again."""
    recorded = read_study(options.results)["runs"] if (options.results / STUDY).exists() else {}
    for job in jobs:
        path = job.result(options.results, options.checkpoints)
        if not job.whole and job.name in recorded and not path.exists():
            write_json(path, recorded[job.name])


def run_study(jobs: list[Job], options: StudyOptions) -> None:
    """Run the unfinished jobs of a study; then write its `study.json`, and say how many there are."""
    restore(jobs, options)
    left = plan_jobs(jobs, options)
    if left:
        tasks = [(run_job, (job, options.results, options.checkpoints)) for job in left]
        run_all(tasks, options.jobs, options.threads, sum(job.config.iterations for job in left))
    keep_jobs(jobs, options)
    print(f"{len(load_study(options.results).runs)} runs in {options.results.name}")


# --- study.json -----------------------------------------------------------------------------------


def as_entry(kind: str, config: RLHFConfig, history: dict, final: dict) -> dict:
    """The entry in `study.json` of a run without its own folder; `history` as columns."""
    return {
        "kind": kind,
        "config": config.as_dict(),
        "history": history,
        "final": significant(final),
    }


def keep_jobs(jobs: list[Job], options: StudyOptions) -> None:
    """Write the finished jobs to `study.json`."""
    places = options.results, options.checkpoints
    entries = {
        job.name: {"kind": job.kind, "whole": True} if job.whole else read_json(job.result(*places))
        for job in jobs
    }
    keep_runs(options.results, entries, origin(options, options.threads))


def keep_runs(folder: Path, runs: dict[str, dict], facts: dict) -> None:
    """Add runs and facts to a folder's `study.json`.

    Existing runs that were not made again are kept; `earlier` lists how they were made.
    """
    there = (folder / STUDY).exists()
    before = read_json(folder / STUDY, ("runs",)) if there else {"runs": {}}
    earlier = before.pop("earlier", [])
    if there and not before["runs"].keys() <= runs.keys():
        made = {name: before[name] for name in ("command", "versions", "threads") if name in before}
        kept = [one for one in (*earlier, made) if one["command"] != facts["command"]]
        facts = facts | {"earlier": [one for i, one in enumerate(kept) if one not in kept[:i]]}
    write_study(folder, before | facts | {"runs": before["runs"] | runs})


def write_study(folder: Path, facts: dict) -> None:
    """Write `study.json` with one line per fact and run, so that a diff shows which run changed."""
    facts = dict(facts)
    runs = _lines(facts.pop("runs"))
    write_text(folder / STUDY, f'{{{_lines(facts)},\n"runs":{{\n{runs}\n}}}}\n')
    refresh_manifest(folder)


def _lines(values: dict) -> str:
    write = json.JSONEncoder(separators=(",", ":")).encode
    return ",\n".join(f"{write(name)}:{write(value)}" for name, value in values.items())


def read_study(folder: Path, names: tuple = ()) -> dict:
    """Read a `study.json`. FileProblem: missing, damaged, or without one of the keys."""
    verify(folder / STUDY)
    return read_json(folder / STUDY, ("runs", *names))


@dataclass
class Study:
    """Recorded runs in the order of the study, and how they were made."""

    runs: list[Run]
    facts: dict

    def of_kind(self, kind: str, seeds: Iterable[int] | None = None) -> list[Run]:
        """The runs of one kind, by seed; only those on `seeds`, if given."""
        found = (run for run in self.runs if run.kind == kind)
        wanted = (run for run in found if seeds is None or run.config.seed in seeds)
        return sorted(wanted, key=lambda run: run.config.seed)

    def run(self, kind: str, seed: int = 0) -> Run:
        """The run of this kind on this seed. ValueError: there is none."""
        found = self.of_kind(kind, (seed,))
        seeds = [run.config.seed for run in self.of_kind(kind)]
        known = f"a seed of {seeds}" if seeds else f"one of {sorted({r.kind for r in self.runs})}"
        require(len(found) > 0, "run", f"{kind!r}, seed {seed}", known)
        return found[0]


def load_study(folder: Path, kind: type[Study] = Study, names: tuple = ()) -> Study:
    """Load the study in a folder. FileProblem: missing, damaged, or without a fact of these names."""
    facts = read_study(folder, names)
    try:
        runs = [_load_entry(folder, name, entry) for name, entry in facts.pop("runs").items()]
    except FileProblem:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise FileProblem(f"{folder / STUDY} is not a study of runs: {problem}.") from None
    return kind(runs, facts)


def _load_entry(folder: Path, name: str, entry: dict) -> Run:
    if entry.get("whole"):
        run = load_run(folder / name)
    else:
        config = config_from_dict(entry["config"])
        run = Run(config, as_history(entry["history"]), final=entry["final"])
    run.kind, run.label = entry["kind"], name
    return run
