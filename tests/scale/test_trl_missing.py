"""Without trl, or with a version that has no PPOTrainer: one sentence, and lesson 13 runs on."""

import contextlib
import io
import json
import re
import sys
from importlib import metadata

import pytest

from benchmarks import trl_ppo as trl
from helpers.config import RLHFConfig
from helpers.tools.files import ROOT


@pytest.fixture(params=["none", "1.11.0", "1.16.0"])
def version(request, monkeypatch):
    """This version of trl is installed; its import fails, since nothing may import it."""
    found = metadata.version

    def told(name):
        if name == "trl" and request.param == "none":
            raise metadata.PackageNotFoundError(name)
        return request.param if name == "trl" else found(name)

    monkeypatch.setattr(metadata, "version", told)
    monkeypatch.setitem(sys.modules, "trl", None)
    return request.param


def test_its_settings_and_trainer_say_so_too(version, tmp_path):
    calls = (
        lambda: trl.trl_config(RLHFConfig(), str(tmp_path)),
        lambda: trl.make_trainer(RLHFConfig(), None, [], str(tmp_path)),
    )
    for call in calls:
        with pytest.raises(ValueError, match=f"trl: got {version}, wants"):
            call()


def test_lesson_13_runs_on_and_says_which_version_it_found(version):
    """Its cells that ask whether trl is there, run as they stand: no import of trl, one sentence each."""
    notebook = json.loads((ROOT / "notebooks/13_scaling_out.ipynb").read_text(encoding="utf-8"))
    code = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    asking = [source for source in code if "has_grpo" in source]
    assert len(asking) == 2 and asking[0].count("has_grpo =") == 1
    space: dict = {"RLHFConfig": RLHFConfig, "models": None, "state": None}
    exec(asking[0], space)
    space["has_grpo"] = False  # whatever is installed here
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(asking[1], space)
    assert f"trl or datasets is not here (trl: {version})" in told.getvalue()
    assert not re.search(r"^\s*(?:import|from) trl", "\n".join(code), re.M)
