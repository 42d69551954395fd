"""kill -9 at any moment loses nothing: after `--resume` the run equals, bit for bit, one never killed.

Kills come at random times, and just before random operations on files: many while a checkpoint is written.
"""

import json
import random
import signal
import time
from pathlib import Path

import pytest
from conftest import strip
from crash_child import alive
from crash_harness import Outcome, contents, loop_flags, refused, seeds

from helpers.checkpoints import list_checkpoints, load_checkpoint, reached
from helpers.steps import iterate


def sweep_flags(world: Path, out: Path, work: Path) -> list:
    study = ["--betas", 0.1, "--seeds", 0, 1, "--iterations", 4]
    return [world / "actor", world / "reward", *study, "--out", out, "--work", work]


def newest(folder: Path) -> int:
    """The iteration of the newest checkpoint, 0 without one."""
    return max(map(reached, list_checkpoints(folder)), default=0)


def what_remains(folder: Path) -> dict:
    """Every file of the last checkpoint as bytes; its history without the seconds it took."""
    files = contents(list_checkpoints(folder)[-1])
    facts = json.loads(files.pop("state.json"))
    facts["history"] = strip(facts["history"])
    sums = {n: s for n, s in facts.pop("sha256").items() if not n.endswith("run.json")}
    del facts["seal"]
    files.pop("record/run.json", None)  # holds the seconds too; `run_of` compares it
    return files | facts | {"sums": sums}


def curves_of(folder: Path) -> dict:
    """The runs of a study that are not kept whole, without the seconds they took."""
    runs = json.loads((folder / "study.json").read_text())["runs"]
    for entry in runs.values():
        entry.get("history", {}).pop("seconds", None)
    assert any("history" in entry for entry in runs.values())
    return runs


def run_of(folder: Path) -> dict:
    """A finished run's record, without the seconds it took, and its policy."""
    facts = json.loads((folder / "run.json").read_text())
    del facts["history"]["seconds"]
    tensors = ("run.safetensors", "policy.safetensors")
    return facts | {name: (folder / name).read_bytes() for name in tensors}


def gone(session: int, seconds: float = 30.0) -> bool:
    """Whether every process of a session has ended by then."""
    end = time.monotonic() + seconds
    while alive(session) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive(session)


def moment(rng: random.Random, below: Path, seconds: float) -> dict:
    """When to kill: at a time, or just before an operation on a file (about 40 write a checkpoint)."""
    if rng.random() < 0.4:
        return {"seconds": rng.uniform(0.05, seconds)}
    return {"die_at": rng.randint(1, 50), "below": str(below)}


@pytest.fixture(scope="module")
def uninterrupted(world, harness, tmp_path_factory) -> tuple[Path, float]:
    """A run that nobody killed, and seconds within which it is not over here."""
    folder, started = tmp_path_factory.mktemp("whole"), time.monotonic()
    done = harness.run("loop", *loop_flags(world), "--save", folder)
    assert done.status == 0, done.err
    return folder, min(2.0, 0.4 * (time.monotonic() - started))


def killed_often(live, below: Path, rng: random.Random, seconds: float) -> tuple:
    """`live` with a fault, up to nine times, until it ends by itself → kills, lives, sessions."""
    lives, sessions, kills = [], [], 0
    for _ in range(60):
        fault = moment(rng, below, seconds) if kills < 9 else {}
        done = live(fault)
        lives.append((fault, done.status))
        sessions.append(done.session)
        kills += done.status != 0
        if done.status == 0:
            break
    return kills, lives, sessions


@pytest.mark.parametrize("seed", seeds(9))
def test_a_loop_killed_often_ends_as_if_never_killed(world, harness, uninterrupted, tmp_path, seed):
    rng, (whole, seconds) = random.Random(seed), uninterrupted

    def live(fault: dict) -> Outcome:
        before = newest(folder)
        flags = ["--resume", folder] if before else [*loop_flags(world), "--save", folder]
        done = harness.run("loop", *flags, **fault)
        assert done.status in (0, -signal.SIGKILL), (fault, done.err)
        assert newest(folder) >= before, fault
        return done

    for attempt in range(8):  # a machine may be quicker than it was: then once more, and sooner
        folder = tmp_path / str(attempt)
        folder.mkdir()
        kills, lives, _ = killed_often(live, folder, rng, seconds / 2**attempt)
        assert what_remains(folder) == what_remains(whole), (seed, lives)
        if kills > 4:
            break
    assert kills > 4, (seed, lives)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_sweep_killed_often_ends_as_if_never_killed(world, harness, tmp_path, seed):
    rng, started, all_sessions = random.Random(seed), time.monotonic(), []
    whole = sweep_flags(world, tmp_path / "whole", tmp_path / "whole_work")
    assert harness.run("sweeps", *whole).status == 0
    seconds = min(3.0, 0.4 * (time.monotonic() - started))

    def live(fault: dict) -> Outcome:
        """Killed: the parent alone, its whole session, or one worker before an operation on a file."""
        fault |= {"whole_session": rng.random() < 0.5}
        done = harness.run("sweeps", *flags, "--resume", **fault)
        assert done.status in (0, -signal.SIGKILL) or "die_at" in fault, (fault, done.err)
        assert "Traceback" not in done.err, (fault, done.err)
        return done

    for attempt in range(8):  # as above: sooner, where the machine was quicker than before
        place = tmp_path / str(attempt)
        place.mkdir()
        flags = sweep_flags(world, place / "out", place / "work")
        kills, lives, sessions = killed_often(live, place, rng, seconds / 2**attempt)
        all_sessions += sessions
        first = "beta_0.1_seed_0"  # it is kept whole; the other's curves stand in study.json
        assert run_of(place / "out" / first) == run_of(tmp_path / "whole" / first), lives
        assert curves_of(place / "out") == curves_of(tmp_path / "whole"), lives
        for name in (first, "beta_0.1_seed_1"):
            one, other = place / "work" / name, tmp_path / "whole_work" / name
            assert what_remains(one) == what_remains(other), lives
        if kills > 4:
            break
    assert all(gone(session) for session in all_sessions)
    assert kills > 4, lives


def test_ctrl_c_saves_what_there_is_and_the_run_goes_on(world, harness, tmp_path):
    flags = [*loop_flags(world, 10_000), "--save", tmp_path]
    rows = str(tmp_path / "metrics.csv")  # bars are drawn too seldom to wait for one
    done = harness.run("loop", *flags, signal="SIGINT", stop_in=rows, stop_at="\n12,")
    assert done.status == 0, done.err
    assert "Stopped after" in done.out and str(tmp_path) in done.out
    state = load_checkpoint(tmp_path)
    assert 12 <= state.iteration < 10_000 and len(state.history) == state.iteration
    iterate(state)


def test_ctrl_c_ends_a_sweep_with_a_word_and_leaves_no_process(world, harness, tmp_path):
    flags = sweep_flags(world, tmp_path / "out", tmp_path / "work")
    flags += ["--iterations", 100_000]  # no machine is through with them in this time
    done = harness.run("sweeps", *flags, signal="SIGINT", whole_session=True, seconds=1.5)
    assert done.status == 130 and "Traceback" not in done.err, done.err
    assert done.problem == "Stopped; --resume goes on from the last checkpoints."
    assert not done.left


def test_a_worker_killed_from_outside_is_told_in_one_sentence(world, harness, tmp_path):
    """As the operating system does when memory runs out."""
    flags = sweep_flags(world, tmp_path / "out", tmp_path / "work")
    done = harness.run("sweeps", *flags, die_at=90, below=str(tmp_path))
    refused(done, "was killed (out of memory?); continue with --resume.")


def test_workers_do_not_outlive_a_parent_that_was_killed(harness):
    """Spawned, as in a real sweep."""
    done = harness.run("orphans", stop_at="working")
    assert done.status == -signal.SIGKILL and "working" in done.err
    assert gone(done.session)
