"""Logs: every record arrives while the run goes on, and what is not installed is said before it begins."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from helpers import loop
from helpers.__main__ import main
from helpers.tools import logs
from helpers.tools.logs import logged

RECORDS = [{"iteration": k, "score": 0.1 * k} for k in (1, 2, 3)]


def fake(monkeypatch, name: str, **attributes) -> ModuleType:
    """A package of this name, as if it were installed."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.fixture
def written(monkeypatch, tmp_path):
    """What the two logs have been told."""
    told = SimpleNamespace(scalars=[], wandb=[], closed=[])

    class Writer:
        def __init__(self, folder):
            told.folder = folder

        def __enter__(self):
            return self

        def __exit__(self, *problem):
            told.closed.append("tensorboard")

        def add_scalar(self, name, value, step):
            told.scalars.append((name, value, step))

        def flush(self):
            pass

    def init(**settings):
        told.settings = settings
        log = lambda record, step: told.wandb.append((step, record))  # noqa: E731
        return SimpleNamespace(log=log, finish=lambda: told.closed.append("wandb"))

    fake(monkeypatch, "tensorboard")
    fake(monkeypatch, "torch.utils.tensorboard", SummaryWriter=Writer)
    fake(monkeypatch, "wandb", init=init)
    return told


def test_each_record_is_written_as_it_comes(written, tmp_path):
    run = logged(iter(RECORDS), ["tensorboard", "wandb"], tmp_path / "run", {"seed": 3})
    assert next(run) == RECORDS[0]
    assert written.scalars == [("iteration", 1, 1), ("score", 0.1, 1)]
    assert written.wandb == [(1, RECORDS[0])] and not written.closed
    assert list(run) == RECORDS[1:]
    assert len(written.wandb) == 3 and sorted(written.closed) == ["tensorboard", "wandb"]
    assert written.folder.endswith("tensorboard") and written.settings["config"] == {"seed": 3}


def test_train_logs_each_iteration_while_it_trains(written, tmp_path, monkeypatch):
    """Of the command: the first record is written before the second iteration begins."""
    begun, iterate = [], loop.iterate

    def watched(*given, **more):
        begun.append([step for name, _, step in written.scalars if name == "score"])
        return iterate(*given, **more)

    monkeypatch.setattr(loop, "iterate", watched)
    small = "--iterations 3 --batch-size 4 --response-length 4 --evaluation-samples 8".split()
    flags = [*small, "--device", "cpu", "--log-to", "tensorboard", "--save", str(tmp_path)]
    assert main(["train", *flags]) == 0
    assert begun == [[], [1], [1, 2]] and written.folder == str(tmp_path / "tensorboard")
    assert {name for name, *_ in written.scalars} >= {"score", "kl", "entropy", "clip_fraction"}


def test_a_run_that_is_stopped_closes_its_logs(written, tmp_path):
    run = logged(iter(RECORDS), ["wandb"], tmp_path)
    next(run)
    run.close()
    assert written.closed == ["wandb"]


def test_without_logs_nothing_is_written(tmp_path):
    assert list(logged(iter(RECORDS), [], tmp_path)) == RECORDS and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("to", "says"),
    [(["lunch"], "log_to: got 'lunch', wants one of"), (["wandb"], "pip install wandb")],
)
def test_what_is_not_there_is_said_before_training(monkeypatch, tmp_path, to, says):
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=says):
        logged(iter(RECORDS), to, tmp_path)
