"""Studies: plan runs, run them in processes, save them in one format, load them.

A study is a list of `Job`s. Each has a kind ("kl_sign", "beta_0.1"), a config with a seed, and a function
that makes its `Run`. A run is saved completely, in its own folder, or as its history only. `study.json`
lists all runs and the command that made them. Folder names are for readers: no code parses them.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
import transformers

from helpers.checkpoints import list_checkpoints, load_checkpoint, newest_checkpoint
from helpers.config import DirectConfig, RLHFConfig, config_from_dict
from helpers.data import DATA, refresh_manifest, verify, work_folder
from helpers.state import Reward, RLHFState, resolve_rates, start_run
from helpers.studies.measure import EVALUATED, MEASURES, measure
from helpers.studies.runs import (
    RECORD,
    Run,
    as_columns,
    as_history,
    load_run,
    record_run,
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

STUDY = "study.json"
WHOLE_RUN_SEED = 0  # of most studies the seed whose runs are kept whole
STOPPED = "Stopped; --resume goes on from the last checkpoints."


# --- a job, and how it is trained -----------------------------------------------------------------


def begin(job: "Job", folder: Path, prompts: list | None = None, **own: object) -> RLHFState:
    """A job's run at its newest checkpoint in `folder`, or at its beginning."""
    if list_checkpoints(folder):
        state = load_checkpoint(folder, job.config, **own)
    else:
        state = start_run(job.config, prompts=prompts, **own)
    advance(state.iteration)
    return state


def record(
    job: "Job",
    folder: Path,
    evaluated: int = EVALUATED,
    reward: Reward | None = None,
    within: Callable[[], AbstractContextManager] = nullcontext,
    checkpoints: bool = True,
    schedule: list[int] | None = None,
    keep_policy: bool = False,
) -> Run:
    """Train a job by the loop, and evaluate it on so many fresh responses to each prompt.

    `within` holds while it trains. Without `checkpoints` a run that was cut off begins anew.
    """
    state = begin(job, folder, reward=reward, measures=MEASURES)
    run = load_run(newest_checkpoint(folder) / "record") if state.iteration else Run(job.config)
    with within():
        for _ in record_run(state, run, schedule, save_dir=folder if checkpoints else None):
            advance(1)
    run.final, run.responses = measure(state, state.models.actor, evaluated)
    if keep_policy:  # without the head, tied to the word embeddings
        weights = state.models.actor.named_parameters()
        run.policy = {name: x.data.half().contiguous() for name, x in weights}
    return run


@dataclass(frozen=True)
class Job:
    """One run of a study. `train(job, folder)` makes it in another process: it must be picklable."""

    kind: str
    config: RLHFConfig | DirectConfig
    train: Callable[["Job", Path], Run] = record
    whole: bool = False  # also its snapshots are kept, in a folder of its own

    @property
    def name(self) -> str:
        """The name of the run in `study.json`, and of its folder."""
        return run_name(self.kind, self.config.seed)

    def result(self, out: Path, work: Path) -> Path:
        """The file that a finished run leaves."""
        return out / self.name / RECORD if self.whole else work / f"{self.name}.json"


def run_name(kind: str, seed: int) -> str:
    """The name of a run of this kind on this seed."""
    return f"{kind}_seed_{seed}"


# --- options, which the command line is made from -------------------------------------------------


@dataclass(kw_only=True)
class Options:
    """Options of every study, a subclass: `class …(StudyOptions, name=…, iterations=…)`."""

    name: ClassVar[str]  # the folder of its results
    command: ClassVar[str]  # what `python -m helpers` is given
    out: Path | None = setting(None, "folder of the results; without it my_course/NAME")

    def __init_subclass__(cls, name: str = "", command: str = "study {}", **usual: object):
        """Make it a dataclass; `usual`: other defaults of inherited options."""
        cls.name, cls.command = name, command.format(name)
        inherited = {option.name: option for option in fields(cls)}
        for option, default in usual.items():
            cls.__annotations__[option] = inherited[option].type
            setattr(cls, option, setting(default, **inherited[option].metadata))
        dataclass(kw_only=True)(cls)

    @property
    def results(self) -> Path:
        """The folder of the results."""
        return self.out or work_folder() / self.name


class StudyOptions(Options):
    """Options of a study of several training runs."""

    SETTINGS: ClassVar[dict] = {}  # of all its runs
    seeds: list[int] = setting([0, 1, 2], "each kind of run is made on each of these seeds")
    iterations: int = setting(100, "iterations of each run")
    jobs: int = setting(2, "runs at a time, each in a process of its own")
    only: list[str] = setting([], "only these kinds of runs")
    resume: bool = setting(False, "go on with what is there")
    work: Path | None = setting(
        None, "folder of checkpoints; without it my_course/…_checkpoints, named as --out is"
    )

    def __post_init__(self):
        for count in ("iterations", "jobs"):
            require_count(f"--{count}", getattr(self, count))

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints, and of runs that are saved as history only: one for each `out`."""
        return self.work or work_folder() / f"{self.results.name}_checkpoints"

    def config(self, seed: int, **changes: object) -> RLHFConfig:
        """The settings of one run: the study's own, then these changes."""
        own = {"iterations": self.iterations, "seed": seed, "device": "cpu"}
        return RLHFConfig(**self.SETTINGS | own | changes)

    def jobs_on(self, seed: int) -> Iterable[Job]:
        """The runs on this seed. Each study says what they are."""
        raise NotImplementedError

    def plan(self) -> list[Job]:
        """The jobs that are asked for. ValueError: `only` names another kind."""
        jobs = [job for seed in sorted(set(self.seeds)) for job in self.jobs_on(seed)]
        known = dict.fromkeys(job.kind for job in jobs)
        wants = f"some of {', '.join(known)}"
        require(known.keys() >= set(self.only), "--only", self.only, wants)
        return [job for job in jobs if job.kind in (self.only or known)]

    def run(self) -> None:
        """Run what is missing."""
        run_study(self.plan(), self)


def recorded_command(options: Options) -> str:
    """The command line with these options, without the folder of checkpoints and `--resume`."""
    words, usual = ["python -m helpers", options.command], type(options)()
    for name in (one.name for one in fields(options) if one.name not in ("work", "resume")):
        value = getattr(options, name)
        if value != getattr(usual, name):
            values = value if isinstance(value, list) else [value]
            texts = (f"{x:g}" if isinstance(x, float) else str(x) for x in values)
            words += [f"--{name}", *texts]
    return " ".join(words)


def origin(options: Options, threads: int = 1) -> dict:
    """How a result was made: command, versions, threads."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"command": recorded_command(options), "versions": versions, "threads": threads}


# --- planning and running -------------------------------------------------------------------------


def run_job(job: Job, out: Path, work: Path) -> None:
    """Train and save a run; nobody else may work on it meanwhile."""
    with hold_folder(work / job.name):
        run = job.train(job, work / job.name)
        run.kind, run.label = job.kind, job.name
        if job.whole:
            with atomic_folder(out / job.name) as temporary:
                write_run(run, temporary)
        else:
            write_json(job.result(out, work), as_entry(run))


def finished(jobs: list[Job], options: StudyOptions) -> dict[str, dict]:
    """Entries in `study.json` of the jobs that are done. FileProblem: one with other settings.

    What is recorded there is not made again, though its own file be gone.
    """
    recorded = read_study(options.results)["runs"] if (options.results / STUDY).exists() else {}
    found = {}
    for job in jobs:
        place = job.result(options.results, options.checkpoints)
        if place.exists():
            saved = read_json(place, ("config",))
        elif not job.whole and "config" in recorded.get(job.name, {}):
            place, saved = options.results / STUDY, recorded[job.name]
        else:
            continue
        config = config_from_dict(saved["config"])
        if replace(config, device=job.config.device) != resolve_rates(job.config):
            raise FileProblem(f"{place}: {job.name} has other settings: wants another --out.")
        found[job.name] = {"kind": job.kind, "whole": True} if job.whole else saved
    return found


def run_study(jobs: list[Job], options: StudyOptions) -> None:
    """Run the unfinished jobs of a study; then write its `study.json`, and say how many there are.

    ValueError: some have begun, and no `--resume`.
    """
    done = finished(jobs, options)
    left = [job for job in jobs if job.name not in done]
    begun = len(done) + sum(bool(list_checkpoints(options.checkpoints / x.name)) for x in left)
    got = f"{options.results}, where {begun} of these runs have begun"
    require(options.resume or not begun, "--out", got, "--resume, or other folders")
    if left:
        tasks = [(run_job, (job, options.results, options.checkpoints)) for job in left]
        run_all(tasks, options.jobs, 1, sum(job.config.iterations for job in left))
    keep_runs(options.results, finished(jobs, options), origin(options))
    print(f"{len(load_study(options.results).runs)} runs in {options.results.name}")


# --- study.json -----------------------------------------------------------------------------------


def as_entry(run: Run) -> dict:
    """The entry in `study.json` of a run without its own folder; its seconds differ each time."""
    facts = {"kind": run.kind, "config": run.config.as_dict(), "history": as_columns(run.history)}
    return facts | {"final": significant(run.final)}


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


def loader(name: str, kind: type[Study] = Study) -> Callable[[], Study]:
    """What loads the study of this name in data/."""
    return partial(load_study, DATA / name, kind)


def _load_entry(folder: Path, name: str, entry: dict) -> Run:
    if entry.get("whole"):
        run = load_run(folder / name)
    else:
        config = config_from_dict(entry["config"])
        run = Run(config, as_history(entry["history"]), final=entry["final"])
    run.kind, run.label = entry["kind"], name
    return run
