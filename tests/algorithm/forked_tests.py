"""Runs pytest in forks of one process that has torch and the models' code already: seconds a run, saved."""

import os
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

READY = ["torch", "transformers.models.gpt2.modeling_gpt2", "hypothesis"]
READY += ["transformers.models.distilbert.modeling_distilbert", "transformers.models.auto"]

WITHOUT = ["-p", "no:cacheprovider", "-p", "no:nbval"]  # the latter imports for two seconds


def _pytest(folder: Path, arguments: list[str]) -> None:
    """In the fork: pytest in `folder`, where no module of this checkout is to be found."""
    tests = Path(__file__).resolve().parents[1]
    ours = {tests.parent, tests, *tests.iterdir()}
    sys.path[:] = [place for place in sys.path if place and Path(place).resolve() not in ours]
    os.chdir(folder)
    os.environ["HYPOTHESIS_PROFILE"] = "no shrinking"
    with open("printed", "w") as printed:
        for number in (1, 2):
            os.dup2(printed.fileno(), number)
    sys.exit(int(pytest.main([*WITHOUT, *arguments])))


def run_pytest(folder: Path, *arguments: str, seconds: float = 300) -> tuple[int, str]:
    """pytest's exit status and what it printed, run in `folder`."""
    context = get_context("forkserver")
    context.set_forkserver_preload(READY)
    process = context.Process(target=_pytest, args=(folder, list(arguments)))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"pytest took more than {seconds:.0f} s")
    return process.exitcode, (folder / "printed").read_text()
