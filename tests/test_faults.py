"""kill -9 at any moment loses nothing: after `--resume` the run is, bit for bit, the one never killed.

Kills come at random times, and just before random operations on files, so that many fall inside the
writing of a checkpoint. The seeds of the moments stand in every test's name or message.
"""

import json
import random
import signal
from pathlib import Path

import pytest
from nursery import loop_flags

from helpers.checkpoints import list_checkpoints


def sweep_flags(world: Path, out: Path, work: Path) -> list:
    study = ["--betas", 0.1, "--seeds", 0, 1, "--iterations", 4]
    return [world / "actor", world / "reward", *study, "--out", out, "--work", work]


def newest(folder: Path) -> int:
    """The iteration of the newest checkpoint, 0 without one."""
    found = list_checkpoints(folder)
    return int(found[-1].name.split("_")[1]) if found else 0


def what_remains(folder: Path) -> dict:
    """Every file of the last checkpoint as bytes; its history without the seconds it took."""
    last = list_checkpoints(folder)[-1]
    files = {f.relative_to(last).as_posix(): f.read_bytes() for f in last.rglob("*") if f.is_file()}
    facts = json.loads(files.pop("state.json"))
    facts["history"] = [{k: v for k, v in r.items() if k != "seconds"} for r in facts["history"]]
    sums = {n: s for n, s in facts.pop("sha256").items() if not n.endswith("run.json")}
    del facts["seal"]
    files.pop("record/run.json", None)  # holds the seconds too; `run_of` compares it
    return files | facts | {"sums": sums}


def run_of(folder: Path) -> dict:
    """A finished run's record without the seconds it took."""
    facts = json.loads((folder / "run.json").read_text())
    del facts["history"]["seconds"]
    return facts | {"tensors": (folder / "run.safetensors").read_bytes()}


def moment(rng: random.Random, below: Path, seconds: float, operations: int) -> dict:
    """When to kill: after a time, or just before an operation on a file."""
    if rng.random() < 0.5:
        return {"seconds": rng.uniform(0.05, seconds)}
    return {"die_at": rng.randint(1, operations), "below": str(below)}


@pytest.fixture(scope="module")
def uninterrupted(world, nursery, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    done = nursery.run("loop", *loop_flags(world), "--save", folder)
    assert done.status == 0, done.err
    return folder


KILLS = {"loop": 0, "sweeps": 0}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_loop_killed_again_and_again_ends_as_if_never_killed(
    world, nursery, uninterrupted, tmp_path, seed
):
    rng, lives = random.Random(seed), []
    for _ in range(60):
        resume = bool(list_checkpoints(tmp_path))
        flags = ["--resume", tmp_path] if resume else [*loop_flags(world), "--save", tmp_path]
        before = newest(tmp_path)
        fault = moment(rng, tmp_path, 2.5, 60) if len(lives) < 9 else {}
        done = nursery.run("loop", *flags, **fault)
        lives.append((fault, done.status, newest(tmp_path)))
        assert done.status in (0, -signal.SIGKILL), (seed, lives, done.err)
        assert newest(tmp_path) >= before, (seed, lives)
        if done.status == 0 and len(lives) > 9:
            break
    KILLS["loop"] += sum(status < 0 for _, status, _ in lives)
    assert what_remains(tmp_path) == what_remains(uninterrupted), (seed, lives)


@pytest.mark.parametrize("seed", [0])
def test_a_sweep_killed_again_and_again_ends_as_if_never_killed(world, nursery, tmp_path, seed):
    rng, lives = random.Random(seed), []
    whole = sweep_flags(world, tmp_path / "whole", tmp_path / "whole_work")
    assert nursery.run("sweeps", *whole).status == 0
    flags = sweep_flags(world, tmp_path / "out", tmp_path / "work")
    for _ in range(60):
        fault = {}
        if len(lives) < 10:
            fault = moment(rng, tmp_path, 4.0, 120) | {"whole_session": rng.random() < 0.5}
        done = nursery.run("sweeps", *flags, "--resume", **fault)
        lives.append((fault, done.status))
        assert done.status in (0, -signal.SIGKILL) or "die_at" in fault, (seed, lives, done.err)
        assert "Traceback" not in done.err, (seed, lives, done.err)
        if done.status == 0 and len(lives) > 10:
            break
    KILLS["sweeps"] += sum(status != 0 for _, status in lives)
    for name in ("beta_0.1_seed_0", "beta_0.1_seed_1"):
        one, other = tmp_path / "out" / name, tmp_path / "whole" / name
        assert run_of(one) == run_of(other), (seed, lives)
        one, other = tmp_path / "work" / name, tmp_path / "whole_work" / name
        assert what_remains(one) == what_remains(other), (seed, lives)
    policy = "policies/beta_0.1_seed_0/policy.safetensors"
    assert (tmp_path / "out" / policy).read_bytes() == (tmp_path / "whole" / policy).read_bytes()
