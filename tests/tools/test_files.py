"""Files are written whole or not at all, and what is wrong with one is said in a sentence."""

import pytest

from helpers.data import find_folder, work_folder
from helpers.tools import files
from helpers.tools.files import FileProblem, read_jsonl, write_text


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "notes.txt"
    write_text(path, "old")
    monkeypatch.setattr(files.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_text(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"prompt": "a", "chosen": "b"}\n{"prom', "line 2"),
        ('{"prompt": "a"}\n', "lacks"),
        ("[1]\n", "lacks"),
        (None, "pairs.jsonl is missing"),
    ],
)
def test_a_broken_line_and_a_missing_file_are_named(tmp_path, text, says):
    path = tmp_path / "pairs.jsonl"
    if text:
        path.write_text(text)
    with pytest.raises(FileProblem, match=says):
        read_jsonl(path, ("prompt", "chosen"))


def test_a_slip_in_a_path_never_becomes_a_download():
    for name in ("data/sfft", "./model", "/nowhere", "", "  "):
        with pytest.raises(FileProblem, match="No folder"):
            find_folder(name)
    assert find_folder("HuggingFaceTB/SmolLM2-135M") is None


def test_the_learner_s_folder_is_on_drive_when_that_is_mounted(tmp_path, monkeypatch):
    monkeypatch.delenv("RLHF_COURSE_WORK", raising=False)
    monkeypatch.setattr("helpers.data.DRIVE", tmp_path)
    assert work_folder() == tmp_path / "my_course" and work_folder().is_dir()
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path / "mine"))
    assert work_folder() == tmp_path / "mine"
