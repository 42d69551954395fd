"""One format for studies: jobs that a kill does not lose, and a file that gives back what was put in."""

import json
import shutil
from dataclasses import fields, replace

import pytest
from conftest import SMALL, tiny_models
from transformers import HfArgumentParser

from helpers.commands.study import STUDIES
from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.state import resolve_rates, start_run
from helpers.studies.beta_sweep import BetaSweepOptions
from helpers.studies.runs import Run, record_run
from helpers.studies.study import (
    STUDY,
    Job,
    StudyOptions,
    finished,
    keep_runs,
    load_study,
    origin,
    recorded_command,
    run_job,
    run_study,
)
from helpers.tools.files import FileProblem
from helpers.tools.flags import setting

SIZE = SMALL | {"iterations": 4, "learning_rate": 1e-3, "critic_learning_rate": 1e-3}
SHIPPED = ("beta_sweep", "kl_control", "clinic", "reward_hacking", "clip", "direct", "distilling")
SHIPPED += ("without_a_critic",)


class SmallOptions(StudyOptions, name="small"):
    """A study of these tests."""

    kind: str = setting("small", "what its runs are called")


def options(folder, **more) -> SmallOptions:
    return SmallOptions(out=folder / "out", work=folder / "work", **more)


def parse(kind: type, typed: str):
    (found,) = HfArgumentParser(kind).parse_args_into_dataclasses(typed.split())
    return found


def test_finished_jobs_are_not_made_again(tmp_path, monkeypatch):
    made = []

    def run_here(tasks, *rest):
        for function, (job, *places) in tasks:
            made.append(job.name)
            function(job, *places)

    def train(job, folder):
        return Run(job.config, [{"score": float(job.config.seed)}], final={"value": 1.0})

    def jobs(**changes):
        configs = [RLHFConfig(seed=seed, **SIZE | changes) for seed in (0, 1)]
        return [Job(kind, config, train) for config in configs for kind in ("a", "b")]

    monkeypatch.setattr("helpers.studies.study.run_all", run_here)
    run_study(jobs(), options(tmp_path))
    assert made == ["a_seed_0", "b_seed_0", "a_seed_1", "b_seed_1"]
    assert load_study(tmp_path / "out").run("b", 1).history == [{"score": 1.0}]
    run_study(jobs(), options(tmp_path, resume=True))
    shutil.rmtree(options(tmp_path).checkpoints)  # as in a clone: `study.json` alone is there
    run_study(jobs(), options(tmp_path, resume=True))
    assert len(made) == 4
    with pytest.raises(ValueError, match="--resume"):
        run_study(jobs(), options(tmp_path))
    with pytest.raises(FileProblem, match="other settings"):
        run_study(jobs(iterations=5), options(tmp_path, resume=True))


def kept(jobs: list[Job], options: SmallOptions) -> None:
    """What `run_study` does with jobs that have run."""
    keep_runs(options.results, finished(jobs, options), origin(options))


def made(job: Job, folder, prompts: list[str]) -> Run:
    """A job that has run, on tiny models."""
    measures = {name: lambda texts: [0.5] * len(texts) for name in ("gold", "grammatical")}
    state = start_run(job.config, tiny_models(), prompts=prompts, measures=measures)
    run = list(record_run(state, Run(job.config)))[-1]
    run.final = {"value": 0.123456789}
    run_job(replace(job, train=lambda *_: run), folder / "out", folder / "work")
    return run


@pytest.mark.slow
def test_a_kept_study_gives_back_what_was_put_in_and_later_runs_join_it(prompts, tmp_path):
    jobs = [Job("small", RLHFConfig(seed=seed, **SIZE), whole=seed == 0) for seed in (0, 1)]
    runs = [made(job, tmp_path, prompts) for job in jobs]
    kept(jobs, options(tmp_path))
    study = load_study(tmp_path / "out")
    assert [(run.kind, run.config.seed) for run in study.runs] == [("small", 0), ("small", 1)]
    assert [run.config for run in study.runs] == [job.config for job in jobs]
    assert [bool(run.snapshots) for run in study.runs] == [True, False]
    assert not (tmp_path / "out" / "small_seed_1").exists()
    assert [run.final for run in study.runs] == [{"value": 0.12346}] * 2
    for run, whole in zip(study.runs, runs, strict=True):
        assert run.column("kl") == [float(f"{x:.5g}") for x in whole.column("kl")]
    assert study.of_kind("small", (1,)) == [study.run("small", 1)] == [study.runs[1]]
    with pytest.raises(ValueError, match=r"run: got 'small', seed 2, wants a seed of \[0, 1\]"):
        study.run("small", 2)
    with pytest.raises(ValueError, match=r"run: got 'large', seed 0, wants one of \['small'\]"):
        study.run("large")
    assert "earlier" not in study.facts
    later = Job("other", RLHFConfig(**SIZE))
    made(later, tmp_path, prompts)
    kept([later], options(tmp_path, kind="other"))
    both = load_study(tmp_path / "out")
    assert [run.kind for run in both.runs] == ["small", "small", "other"]
    assert [run.history for run in both.runs[:2]] == [run.history for run in study.runs]
    assert both.facts["command"] == study.facts["command"] + " --kind other"
    assert both.facts["earlier"] == [study.facts]
    kept([*jobs, later], options(tmp_path))  # all of them made by one command
    assert "earlier" not in load_study(tmp_path / "out").facts


SPOILED = "kl_sign_seed_1"
SPOILS = {
    "other metrics": lambda study: study["runs"][SPOILED]["history"]["kl"].pop(),
    "no kind": lambda study: study["runs"][SPOILED].pop("kind"),
    "other config": lambda study: study["runs"][SPOILED]["config"].update(unheard_of=1),
    "no run": lambda study: study.update(runs={SPOILED: 3}),
    "no runs": lambda study: study.pop("runs"),
    "cut": lambda study: None,
}


@pytest.mark.parametrize("how", SPOILS)
def test_a_broken_study_is_refused_in_one_sentence(tmp_path, how):
    study = json.loads((DATA / "clinic" / STUDY).read_text())
    study["runs"] = {name: run for name, run in study["runs"].items() if name.endswith("_1")}
    (tmp_path / STUDY).write_text(json.dumps(study))
    assert len(load_study(tmp_path).runs) == len(study["runs"]) > 20
    SPOILS[how](study)
    (tmp_path / STUDY).write_text(json.dumps(study)[: -9 if how == "cut" else None])
    with pytest.raises(FileProblem, match=STUDY):
        load_study(tmp_path)


def test_what_is_shipped_says_how_it_was_made_in_words_that_can_be_typed():
    for path in DATA.glob(f"*/{STUDY}"):
        facts = json.loads(path.read_text())
        for made in (facts, *facts.get("earlier", [])):
            words = made["command"].removeprefix("python -m helpers ").split()
            assert words[0] in ("sweep", "study") and made["versions"]
            name = "beta_sweep" if words[0] == "sweep" else words.pop(1)
            found = parse(STUDIES[name], " ".join(words[1:]))
            assert recorded_command(found) == made["command"]
            assert found.results.as_posix() == f"data/{path.parent.name}"


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_is_what_its_command_makes(name):
    study, jobs = load_study(DATA / name), STUDIES[name]().plan()
    made = {run.label: (run.kind, run.config, bool(run.snapshots)) for run in study.runs}
    planned = {job.name: (job.kind, resolve_rates(job.config), job.whole) for job in jobs}
    assert made == planned and f" --out data/{name}" in study.facts["command"]
    if name not in ("direct", "distilling"):  # their histories have fewer rows
        assert all(len(run.history) == run.config.iterations for run in study.runs)


def test_every_option_of_every_study_has_its_help():
    for kind in STUDIES.values():
        assert kind.__doc__ and all(one.metadata["help"] for one in fields(kind)), kind


def test_two_recordings_of_one_study_keep_their_checkpoints_apart(tmp_path):
    options = STUDIES["reward_hacking"]
    studies = [options(out=tmp_path / name) for name in ("plain", "with_a_price")]
    usual = options()
    assert len({one.checkpoints for one in (*studies, usual)}) == 3
    assert usual.checkpoints.name == "reward_hacking_checkpoints"


def test_the_recorded_command_says_how_and_not_where_it_was_interrupted():
    typed = "--betas 0.1 1 --work /somewhere --resume --out data/beta_sweep --jobs 1"
    kept = "python -m helpers sweep --out data/beta_sweep --jobs 1 --betas 0.1 1"
    assert recorded_command(parse(BetaSweepOptions, typed)) == kept
    elsewhere = parse(BetaSweepOptions, "--work /somewhere")
    assert recorded_command(elsewhere) == "python -m helpers sweep"
