"""CONTRIBUTING.md: one page, whose examples run; CITATION.cff says what it must."""

import re
import shutil
import subprocess

import nbformat
import yaml

from helpers.kit.figures import new_figure
from helpers.tools.files import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_the_examples_run_as_they_stand(tmp_path, monkeypatch, capsys):
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "02_gae.ipynb", tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    shown = {}
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)):
        exec(compile(example, f"example {number} of CONTRIBUTING.md", "exec"), shown)
    assert number == 3
    printed = capsys.readouterr().out
    assert "not right yet" in printed and printed.endswith("\n0.0\n")
    assert isinstance(shown["length_figure"]([shown["record"]] * 2), type(new_figure()[0]))
    lesson = nbformat.read(tmp_path / "notebooks" / "14_my_topic.ipynb", as_version=4)
    nbformat.validate(lesson)
    fetch, find = lesson.cells[1:3]
    assert "git fetch" in fetch.source and "ready()" in find.source
    assert not fetch.outputs + find.outputs
    assert len(TEXT.splitlines()) <= 130  # one page


def test_the_hook_runs_make_check_and_its_failure_stops_the_commit(tmp_path):
    (install,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "Makefile").write_text("check:\n\t@echo checked; exit 3\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["sh", "-ec", install], cwd=tmp_path, check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    commit = ["git", *who, "commit", "-q", "--allow-empty", "-m", "x"]
    done = subprocess.run(commit, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "checked" in done.stdout + done.stderr


def test_the_citation_file_has_what_the_format_asks_for():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert said["cff-version"] == "1.2.0" and said["type"] == "software"
    assert said["title"] and said["message"] and said["license"] == "MIT"
    assert said["authors"] == [{"name": "The RLHF course contributors"}]
    assert not {"url", "repository-code", "doi", "identifiers"} & set(said), "an invented address"
