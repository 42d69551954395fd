"""Two processes, one folder: the second is refused in one sentence, until the first has ended, however."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import new_run
from crash_harness import contents, loop_flags, refused

from helpers.loop import train_rlhf_loop
from helpers.studies.runs import record_run
from helpers.studies.study import Job, run_job
from helpers.tools.files import ROOT, FileProblem, hold_folder

HOLDER = """
import sys
from pathlib import Path
from helpers.tools.files import hold_folder
with hold_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A folder, and another process that holds it."""
    folder = tmp_path / "run_seed_0"  # as a study calls a run of kind "run"
    command = [sys.executable, "-c", HOLDER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        yield folder, holder
        holder.kill()


def run_study_job(folder: Path) -> None:
    run_job(Job("run", new_run().config), folder.parent / "out", folder.parent)


TRAINERS = {
    "train_rlhf_loop": lambda folder: list(train_rlhf_loop(state=new_run(), save_dir=folder)),
    "record_run": lambda folder: list(record_run(new_run(), save_dir=folder)),
    "a study's job": run_study_job,
}


def test_the_second_process_is_refused_until_the_first_is_killed(held):
    folder, holder = held
    for train in TRAINERS.values():
        with pytest.raises(FileProblem, match=f"{folder} is in use by another process"):
            train(folder)
    assert contents(folder) == {}
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert len(TRAINERS["train_rlhf_loop"](folder)) == 2


@pytest.mark.parametrize("end", ["close", "throw"])
def test_a_loop_that_is_left_frees_its_folder(world, harness, tmp_path, end):
    folder = tmp_path / "run"
    loop, again = (train_rlhf_loop(state=new_run(), save_dir=folder) for _ in range(2))
    next(loop)
    next(again)  # the same process: a cell run twice
    again.close()
    arguments = ("loop", *loop_flags(world, 1), "--save", folder)
    refused(harness.run(*arguments), f"{folder} is in use by another process")
    if end == "close":
        loop.close()
    else:
        with pytest.raises(KeyboardInterrupt):
            loop.throw(KeyboardInterrupt())
    assert harness.run(*arguments).status == 0


def test_a_disk_without_locks_is_used_without(tmp_path, monkeypatch):
    """Some network disks have none; what filelock does there would outlive a kill."""

    def missing(*arguments):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)
    with pytest.warns(UserWarning, match="flock"), hold_folder(tmp_path / "run"):
        assert not any((tmp_path / "run").iterdir())
