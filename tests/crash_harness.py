"""The fault tests' side of a process that forks the course's commands and kills them with real signals.

`crash_child.py`, the other side, imports torch once. Each child is its own session.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Outcome:
    """How a child ended: exit status (−9 when killed), what it printed, what it left running."""

    status: int
    out: str
    err: str
    left: bool  # a process of its session was still there when it had ended
    session: int

    @property
    def problem(self) -> str:
        """The last line on stderr."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


@dataclass
class Nursery:
    """Starts children one after the other."""

    process: subprocess.Popen  # of crash_child.py

    def run(self, scene: str, *arguments, **faults) -> Outcome:
        """Run a scene of `crash_child.py` with these arguments and faults (`inject`, `watch`) to its end."""
        request = {"scene": scene, "arguments": list(map(str, arguments))} | faults
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Outcome(**json.loads(self.process.stdout.readline()))


def seeds(nightly: int) -> list:
    """Seeds of random moments: 0 in `make test`, and this many more in `make nightly`."""
    return [0, *(pytest.param(k, marks=pytest.mark.nightly) for k in range(1, nightly + 1))]


@pytest.fixture(scope="session")
def harness():
    """One for all fault tests."""
    if not hasattr(os, "memfd_create"):
        pytest.skip("forks, real signals and file limits: Linux")
    command = [sys.executable, ROOT / "tests" / "crash_child.py"]
    one = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | one, **pipes) as process:
        yield Nursery(process)
        process.kill()  # its children have ended; its own end takes seconds


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    """A folder with a tiny actor and a tiny reward model on disk."""
    from conftest import tiny_models

    from helpers.reward_model import RewardModel
    from helpers.tools.files import atomic_folder
    from helpers.world.small_models import make_encoder

    folder, models = tmp_path_factory.mktemp("world"), tiny_models()
    with atomic_folder(folder / "actor") as temporary:
        models.actor.save_pretrained(temporary)
        models.tokenizer.save_pretrained(temporary)
    reward = RewardModel(make_encoder(models.tokenizer, 1, 32), models.tokenizer)
    reward.score_std.fill_(0.5)  # normalised, so that no start samples the reference for it
    reward.save(folder / "reward")
    for above in (folder, *folder.parents[:3]):  # the test as another user reads it too
        above.chmod(above.stat().st_mode | 0o055)
    return folder


# flags of a run on shipped or own models that takes a second
SMALL = ["--iterations", "2", "--batch-size", "4", "--response-length", "4", "--device", "cpu"]
SMALL += ["--evaluation-samples", "8", "--normalizer-samples", "8"]


def loop_flags(world: Path, iterations: int = 6) -> list:
    """The flags of a run of a few seconds."""
    small = ["--iterations", iterations, "--batch-size", 4, "--response-length", 4]
    models = ["--actor", world / "actor", "--reward-model", world / "reward"]
    return [*models, *small, "--device", "cpu"]


def contents(folder: Path) -> dict:
    """Every file below a folder, as bytes; not the empty ones that locks leave."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def refused(done, words: str) -> None:
    """Check for one sentence with these words, status 2, no traceback."""
    assert done.status == 2, done.err
    assert done.problem.startswith("error: ") and words in done.problem, done.err
    assert "Traceback" not in done.err


@pytest.fixture(scope="session")
def finished(world, harness, tmp_path_factory) -> Path:
    """A finished run of three iterations; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("finished")
    assert harness.run("loop", *loop_flags(world, 3), "--save", folder / "run").status == 0
    return folder / "run"
