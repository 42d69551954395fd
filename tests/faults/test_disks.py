"""Full and read-only disks: one sentence, exit status 2, and existing files are kept."""

import json
import os
import subprocess

import pytest
from crash_harness import contents, loop_flags, refused

from helpers.checkpoints import list_checkpoints, load_checkpoint


@pytest.mark.parametrize("limit", [5_000, 100_000, 500_000])
def test_a_disk_that_fills_up_is_told_and_leaves_nothing_half(world, harness, tmp_path, limit):
    done = harness.run("loop", *loop_flags(world, 3), "--save", tmp_path / "run", file_limit=limit)
    refused(done, "was not written")
    assert list_checkpoints(tmp_path / "run") == []
    left = contents(tmp_path)  # what the run was told, whole
    assert set(left) <= {"run/inputs.json"} and all(map(json.loads, left.values()))
    again = harness.run("loop", *loop_flags(world, 3), "--save", tmp_path / "run")
    assert again.status == 0 and load_checkpoint(tmp_path / "run").iteration == 3


@pytest.fixture
def small_disk(tmp_path):
    """A file system that holds one checkpoint, and little more."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1000k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system of its own wants root, and a mount that is allowed")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_keeps_the_last_checkpoint_and_the_run_goes_on(world, harness, small_disk):
    run = small_disk / "run"
    refused(harness.run("loop", *loop_flags(world, 4), "--save", run), "No space left")
    assert [path.name for path in list_checkpoints(run)] == ["iteration_00001"]
    refused(harness.run("loop", "--resume", run), "No space left")
    assert load_checkpoint(run).iteration == 1
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert harness.run("loop", "--resume", run).status == 0
    assert load_checkpoint(run).iteration == 4


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/run"])
def test_a_place_that_cannot_be_written_is_told_before_training(world, harness, place):
    done = harness.run("loop", *loop_flags(world), "--save", place)
    refused(done, place.rsplit("/", 1)[0])
    assert "it/s" not in done.err  # no training was lost to it


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="becomes another user: wants root")
def test_a_read_only_folder_is_told_before_training(world, harness, tmp_path):
    done = harness.run("loop", *loop_flags(world), "--save", tmp_path / "run", as_nobody=True)
    refused(done, "Permission denied")
    assert "it/s" not in done.err and contents(tmp_path) == {}


@pytest.mark.parametrize("where", [(), ("elsewhere",)])
def test_a_kill_at_any_operation_leaves_the_old_folder_or_the_new_one(harness, tmp_path, where):
    for number in range(1, 40):
        place = tmp_path / str(number)
        assert harness.run("replace", place / "model").status == 0
        for file in (place / "model").iterdir():
            file.write_text("old")
        fault = {"die_at": number, "below": str(place)}
        done = harness.run("replace", place / "model", *where, **fault)
        found = {text for path in place.glob("model") for text in contents(path).values()}
        kept = [path for path in place.iterdir() if len(contents(path)) == 3]
        assert found in ({b"old"}, {b"new"}) or (where and len(kept) == 2)
        if done.status == 0:
            break
    assert 10 < number < 39  # every operation had its turn
