"""TensorBoard: every record arrives while the run goes on."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from unittest.mock import MagicMock

import pytest

from helpers import loop
from helpers.__main__ import main
from helpers.tools import logs
from helpers.tools.logs import logged

RECORDS = [{"iteration": k, "score": 0.1 * k} for k in (1, 2, 3)]


@pytest.fixture
def writer(monkeypatch):
    """TensorBoard's SummaryWriter, as if it were installed: remembers what it was told."""
    made = MagicMock()
    made.return_value.__enter__.return_value = made.return_value
    for name in ("tensorboard", "torch.utils.tensorboard"):
        module = ModuleType(name)
        module.__spec__, module.SummaryWriter = ModuleSpec(name, None), made
        monkeypatch.setitem(sys.modules, name, module)
    return made


def scalars(writer) -> list[tuple]:
    """(name, value, step) of all that was written."""
    return [call.args for call in writer.return_value.add_scalar.call_args_list]


def test_each_record_is_written_as_it_comes_and_a_run_that_is_stopped_closes_its_log(
    writer, tmp_path
):
    run, closed = logged(iter(RECORDS), tmp_path / "run"), writer.return_value.__exit__
    assert next(run) == RECORDS[0]
    assert scalars(writer) == [("iteration", 1, 1), ("score", 0.1, 1)] and not closed.called
    assert next(run) == RECORDS[1]
    run.close()
    assert closed.called
    writer.assert_called_once_with(str(tmp_path / "run/tensorboard"))


@pytest.mark.slow
def test_train_logs_each_iteration_while_it_trains(writer, tmp_path, monkeypatch):
    """Of the command: the first record is written before the second iteration begins."""
    begun, iterate = [], loop.iterate

    def watched(*given, **more):
        begun.append([step for name, _, step in scalars(writer) if name == "score"])
        return iterate(*given, **more)

    monkeypatch.setattr(loop, "iterate", watched)
    small = "--iterations 3 --batch-size 4 --response-length 4 --evaluation-samples 8".split()
    assert main(["train", *small, "--device", "cpu", "--save", str(tmp_path)]) == 0
    assert begun == [[], [1], [1, 2]]
    writer.assert_called_once_with(str(tmp_path / "tensorboard"))
    assert {name for name, *_ in scalars(writer)} >= {"score", "kl", "entropy", "clip_fraction"}


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    assert list(logged(iter(RECORDS), tmp_path)) == RECORDS and not list(tmp_path.iterdir())
