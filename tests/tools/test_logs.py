"""TensorBoard: every record arrives while the run goes on."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from helpers import loop
from helpers.__main__ import main
from helpers.tools import logs
from helpers.tools.logs import logged

RECORDS = [{"iteration": k, "score": 0.1 * k} for k in (1, 2, 3)]


@pytest.fixture
def written(monkeypatch):
    """What TensorBoard has been told, as if it were installed."""
    told = SimpleNamespace(scalars=[], closed=False)

    class Writer:
        def __init__(self, folder):
            told.folder = folder

        def __enter__(self):
            return self

        def __exit__(self, *problem):
            told.closed = True

        def add_scalar(self, name, value, step):
            told.scalars.append((name, value, step))

        def flush(self):
            pass

    for name in ("tensorboard", "torch.utils.tensorboard"):
        module = ModuleType(name)
        module.__spec__, module.SummaryWriter = ModuleSpec(name, None), Writer
        monkeypatch.setitem(sys.modules, name, module)
    return told


def test_each_record_is_written_as_it_comes_and_a_run_that_is_stopped_closes_its_log(
    written, tmp_path
):
    run = logged(iter(RECORDS), tmp_path / "run")
    assert next(run) == RECORDS[0]
    assert written.scalars == [("iteration", 1, 1), ("score", 0.1, 1)] and not written.closed
    assert next(run) == RECORDS[1]
    run.close()
    assert written.closed and written.folder == str(tmp_path / "run/tensorboard")


@pytest.mark.slow
def test_train_logs_each_iteration_while_it_trains(written, tmp_path, monkeypatch):
    """Of the command: the first record is written before the second iteration begins."""
    begun, iterate = [], loop.iterate

    def watched(*given, **more):
        begun.append([step for name, _, step in written.scalars if name == "score"])
        return iterate(*given, **more)

    monkeypatch.setattr(loop, "iterate", watched)
    small = "--iterations 3 --batch-size 4 --response-length 4 --evaluation-samples 8".split()
    assert main(["train", *small, "--device", "cpu", "--save", str(tmp_path)]) == 0
    assert begun == [[], [1], [1, 2]] and written.folder == str(tmp_path / "tensorboard")
    assert {name for name, *_ in written.scalars} >= {"score", "kl", "entropy", "clip_fraction"}


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    assert list(logged(iter(RECORDS), tmp_path)) == RECORDS and not list(tmp_path.iterdir())
