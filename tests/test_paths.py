"""Paths that the Makefile, CI and the READMEs name are there."""

import re

import pytest

from helpers.tools.files import ROOT

PATH = re.compile(
    r"(?<![\w/.])(?:tests|helpers|benchmarks|notebooks)/[\w./-]+\.(?:py|txt|ipynb|gif)\b"
)
NAMING = ["Makefile", ".ci/run", "README.md", *ROOT.glob(".github/workflows/*.yml")]
FOLDERS = ("tests", "helpers", "helpers/commands", "notebooks", "benchmarks", "data")
NAMING += [ROOT / folder / "README.md" for folder in FOLDERS]


@pytest.mark.parametrize("file", NAMING, ids=lambda file: str((ROOT / file).relative_to(ROOT)))
def test_paths_are_there(file):
    named = PATH.findall((ROOT / file).read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_test_that_the_table_of_faults_names_is_there():
    named = re.findall(r"`(test_\w+\.py)`", (ROOT / "tests" / "README.md").read_text("utf-8"))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / "tests/faults" / name).exists()] == []


@pytest.mark.parametrize("word", ["WIDGET_TESTS", "CHECKED"])
def test_what_the_makefile_builds_a_path_of_is_there(word):
    (line,) = re.findall(rf"^{word} := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.M)
    built = re.findall(r"\$\(addprefix ([\w/]+),([^)]*)\)", line)
    paths = [ROOT / (prefix + name) for prefix, names in built for name in names.split()]
    assert len(paths) >= 4 and [path for path in paths if not path.exists()] == []
