"""Checkpoints cut, altered or of another run: one sentence, exit status 2, nothing overwritten."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from conftest import new_run, tiny_models
from crash_harness import contents, loop_flags, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.checkpoints import NEEDED, list_checkpoints, load_checkpoint, save_checkpoint
from helpers.commands.train import unused_folder
from helpers.loop import train_rlhf_loop
from helpers.models import load_tokenizer
from helpers.steps import iterate
from helpers.studies.runs import record_run
from helpers.tools.files import FileProblem
from helpers.world.small_models import make_policy


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A run's folder with one checkpoint that holds a record too, as studies write it."""
    folder = tmp_path_factory.mktemp("checkpoint")
    state = new_run()
    next(record_run(state))
    save_checkpoint(state, folder, lambda path: (path / "more.json").write_text("{}"))
    return folder


def damaged(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    shutil.copytree(checkpoint, tmp_path / "copy")
    return list_checkpoints(tmp_path / "copy")[-1]


@settings(deadline=None, max_examples=60, database=None)
@given(data=st.data())
def test_any_byte_changed_and_any_cut_is_noticed(checkpoint, tmp_path_factory, data):
    last = damaged(checkpoint, tmp_path_factory.mktemp("harm"))
    file = data.draw(st.sampled_from(sorted(f for f in last.rglob("*") if f.is_file())))
    whole = file.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    other = bytes([whole[place] ^ data.draw(st.integers(1, 255))])
    cut = data.draw(st.booleans())
    file.write_bytes(whole[:place] if cut else whole[:place] + other + whole[place + 1 :])
    if file.name == "state.json" and not cut:
        try:  # a blank more or less, or 1E5 for 1e5, is the same JSON
            if json.loads(file.read_bytes()) == json.loads(whole):
                return
        except ValueError:
            pass
    with pytest.raises(FileProblem, match=file.name):
        load_checkpoint(last.parent.parent, models=tiny_models())


@pytest.mark.parametrize("name", NEEDED)
def test_a_state_without_one_of_its_facts_is_refused(checkpoint, tmp_path, name):
    path = damaged(checkpoint, tmp_path) / "state.json"
    facts = json.loads(path.read_text())
    del facts[name]
    path.write_text(json.dumps(facts))
    with pytest.raises(FileProblem, match=rf"state.json lacks .*{name}"):
        load_checkpoint(tmp_path / "copy", models=tiny_models())


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "[" * 100_000])
def test_json_that_is_something_else_is_refused(checkpoint, tmp_path, text):
    (damaged(checkpoint, tmp_path) / "state.json").write_text(text)
    with pytest.raises(FileProblem, match="state.json"):
        load_checkpoint(tmp_path / "copy", models=tiny_models())


HARM = {
    "state.json": lambda b: b[: len(b) // 2],
    "state.safetensors": lambda b: b[:-1],
    "actor/model.safetensors": lambda b: b[:-1] + bytes([b[-1] ^ 1]),
}


@pytest.mark.parametrize("name", HARM)
def test_the_command_refuses_damage_and_writes_nothing(finished, harness, tmp_path, name):
    file = damaged(finished, tmp_path) / name
    file.write_bytes(HARM[name](file.read_bytes()))
    before = contents(tmp_path)
    refused(harness.run("loop", "--resume", tmp_path / "copy"), name)
    assert contents(tmp_path) == before


@pytest.fixture
def moved(world, finished, tmp_path) -> Path:
    """The finished run's actor folder, to be damaged; it is restored afterwards."""
    shutil.copytree(world / "actor", tmp_path / "kept")
    yield world / "actor"
    shutil.rmtree(world / "actor")
    shutil.copytree(tmp_path / "kept", world / "actor")


def test_a_run_is_not_resumed_against_another_model(moved, finished, harness):
    torch.manual_seed(9)
    make_policy(load_tokenizer(str(moved)), layers=2, width=32).save_pretrained(moved)
    before = contents(finished)
    refused(harness.run("loop", "--resume", finished), "another reference model")
    assert contents(finished) == before


def test_a_run_is_not_resumed_with_another_tokenizer(moved, finished, harness):
    path = moved / "tokenizer.json"
    facts = json.loads(path.read_text())
    words = facts["model"]["vocab"]
    words["film"], words["soup"] = words["soup"], words["film"]
    path.write_text(json.dumps(facts))
    refused(harness.run("loop", "--resume", finished), "another tokenizer")


# --- two runs, one folder -------------------------------------------------------------------------


def test_a_second_run_in_one_folder_is_refused(world, finished, harness, monkeypatch, tmp_path):
    before = contents(finished)
    done = harness.run("loop", *loop_flags(world, 2), "--save", finished)
    refused(done, "where a run has reached iteration 3, wants another folder")
    assert contents(finished) == before
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path))
    shutil.copytree(finished, tmp_path / "runs" / "beta")
    assert unused_folder("beta").name == "beta_2"


def test_a_cell_that_saves_may_be_run_twice_and_loses_no_run(checkpoint):
    before = contents(checkpoint)
    with pytest.raises(ValueError, match="save_dir.*iteration 1, wants another folder"):
        list(train_rlhf_loop(state=new_run(), save_dir=checkpoint))
    assert contents(checkpoint) == before


def test_what_a_kill_left_half_goes_after_an_hour_and_not_before(checkpoint, tmp_path):
    state = load_checkpoint(damaged(checkpoint, tmp_path).parent.parent, models=tiny_models())
    folder = tmp_path / "copy" / "checkpoints"
    for name, age in ((".iteration_00002.old.tmp", 4000), (".iteration_00002.new.tmp", 60)):
        (folder / name).mkdir()
        os.utime(folder / name, (time.time() - age,) * 2)
    iterate(state)
    save_checkpoint(state, tmp_path / "copy")
    assert {path.name for path in folder.glob(".*")} == {".iteration_00002.new.tmp"}


def test_checkpoints_are_in_order_beyond_five_digits(tmp_path):
    names = ["iteration_99999", "iteration_100000", "iteration_2_copy", ".iteration_3.tmp"]
    for name in names:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert [path.name for path in list_checkpoints(tmp_path)] == names[:2]
