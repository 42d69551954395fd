"""Tests of the tests: each mistake of planted.py makes them fail. In forks of a process that has torch."""

import os
import sys
from importlib.machinery import SourceFileLoader
from multiprocessing import get_context
from pathlib import Path

import pytest
from planted import PLANTS, ROOT, Plant

READY = ["torch", "transformers.models.gpt2.modeling_gpt2", "hypothesis", "pytest"]
READY += ["transformers.models.distilbert.modeling_distilbert", "transformers.models.auto"]
# the last imports for two seconds
OPTIONS = ["-x", "-p", "no:cacheprovider", "-p", "no:nbval"]


def run_tests(plant: Plant, printed: Path) -> None:
    """In the fork: its tests by pytest, on helpers with this mistake."""
    for number in (1, 2):
        os.dup2(os.open(printed, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    path, whole = str(ROOT / "helpers" / plant.file), SourceFileLoader.get_code

    def get_code(loader, name):
        planted = loader.path == path
        return compile(plant.edited(), path, "exec") if planted else whole(loader, name)

    SourceFileLoader.get_code = get_code
    os.environ["HYPOTHESIS_PROFILE"] = "no shrinking"
    os.chdir(ROOT)
    sys.exit(int(pytest.main([*OPTIONS, *plant.tests])))


SPAWNED = "statistics of one process"  # its processes read the file as it is
READ = [plant for plant in PLANTS if plant.name != SPAWNED]


@pytest.mark.nightly  # it finds no mistake in the course, but a test that has become blind
@pytest.mark.parametrize("plant", READ, ids=lambda plant: plant.name)
def test_a_planted_bug_is_noticed(tmp_path, plant):
    context = get_context("forkserver")
    context.set_forkserver_preload(READY)
    process = context.Process(target=run_tests, args=(plant, tmp_path / "printed"))
    process.start()
    process.join(300)
    printed = (tmp_path / "printed").read_text()
    assert process.exitcode == 1, printed[-2000:]  # 1: tests ran, and some failed
    assert "FAILURES" in printed
