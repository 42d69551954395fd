"""The setup cell finds or fetches the course; badges, setup cells, README and files name one address."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from helpers import colab
from helpers.storage import ROOT

REPO = colab.address()
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HERE = "The course is here.\n"


def git(*arguments: object) -> None:
    subprocess.run(["git", *map(str, arguments)], check=True, capture_output=True)


def tiny_course(folder: Path) -> Path:
    """What the setup cell looks for, and nothing else."""
    for name in (*colab.PARTS, "helpers/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    for name in ("colab.py", "command.py"):
        shutil.copy(ROOT / "helpers" / name, folder / "helpers" / name)
    return folder


def repository(folder: Path, course: Path) -> Path:
    """A bare repository that holds this folder."""
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    git("init", "-q", course)
    git("-C", course, "add", ".")
    git("-C", course, *who, "commit", "-qm", "all of it")
    git("clone", "-q", "--bare", course, folder)
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    return repository(folder / "course.git", tiny_course(folder / "course"))


@pytest.fixture
def alone(tmp_path, served, monkeypatch) -> Path:
    """An empty folder, in which the course's address leads to the served repository."""
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "file://{served}"]\n\tinsteadOf = https://github.com/{REPO}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")  # no test reaches for the network
    monkeypatch.delenv("COURSE_REPO", raising=False)
    (tmp_path / "alone").mkdir()
    return tmp_path / "alone"


def run(folder: Path, code: str = colab.setup_source(REPO), **env: str):
    """The setup cell in a Python of its own."""
    command, env = [sys.executable, "-c", code], {**os.environ, **env}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def sentence(done) -> str:
    """The one sentence of a setup cell that failed."""
    assert done.returncode == 1 and done.stdout == ""
    return done.stderr.splitlines()[-1]


def test_the_course_is_found_around_the_notebook(alone):
    (tiny_course(alone) / "notebooks").mkdir()
    assert run(alone / "notebooks", GIT_ALLOW_PROTOCOL="none").stdout == HERE
    assert run(alone, GIT_ALLOW_PROTOCOL="none").stdout == HERE
    assert not list(alone.glob("rlhf*")) and not list(alone.glob("notebooks/*"))


def test_alone_it_is_fetched_once(alone):
    assert run(alone).stdout == HERE
    assert [path.name for path in alone.iterdir()] == ["rlhf-course"]
    second = run(alone, GIT_ALLOW_PROTOCOL="none")  # could not fetch if it tried
    assert (second.returncode, second.stdout, second.stderr) == (0, HERE, "")


def test_what_is_imported_afterwards_is_the_fetched_one(alone):
    code = colab.setup_source(REPO) + "\nimport helpers.colab, os; os.chdir('/')\n"
    done = run(alone, code + "import helpers.command\nprint(helpers.command.__file__)")
    assert done.stdout == f"{HERE}{alone}/rlhf-course/helpers/command.py\n"


def test_an_unpacked_zip_is_found(alone):
    tiny_course(alone / "rlhf-course-main")
    assert run(alone, GIT_ALLOW_PROTOCOL="none").stdout == HERE


def test_another_repository_can_be_named(alone, served, tmp_path):
    mine = shutil.copytree(served, tmp_path / "my fork.git")
    assert run(alone, COURSE_REPO=f"file://{mine}", GIT_CONFIG_GLOBAL="/dev/null").stdout == HERE


def test_a_wrong_address_is_one_sentence(alone, tmp_path):
    words = sentence(run(alone, COURSE_REPO=f"file://{tmp_path}/none"))
    assert words.startswith("CourseMissing: No course fetched") and "zip" in words
    assert not list(alone.iterdir())
    (tmp_path / "other").mkdir()
    (tmp_path / "other/README.md").write_text("another project")
    other = repository(tmp_path / "other.git", tmp_path / "other")
    assert "No course fetched" in sentence(run(alone, COURSE_REPO=f"file://{other}"))
    assert run(alone).stdout == HERE


def test_without_git_or_network_it_is_the_same_sentence(alone, tmp_path):
    assert "No course fetched" in sentence(run(alone, PATH=str(tmp_path)))
    assert "No course fetched" in sentence(run(alone, GIT_ALLOW_PROTOCOL="none"))


def test_a_fetch_cut_short_is_never_taken_for_the_course(alone, tmp_path):
    asked = tmp_path / "asked"
    broken = tmp_path / "bin/git"
    broken.parent.mkdir()
    leave_half = 'for last; do :; done; mkdir -p "$last/helpers"; : > "$last/helpers/colab.py"'
    broken.write_text(f'#!/bin/sh\n{leave_half}; echo "$GIT_TERMINAL_PROMPT" > {asked}; exit 137\n')
    broken.chmod(0o755)
    path = f"{broken.parent}:{os.environ['PATH']}"
    assert "No course fetched" in sentence(run(alone, PATH=path))
    assert asked.read_text() == "0\n"  # git is told not to ask for a password
    assert run(alone).stdout == HERE and (alone / "rlhf-course/pyproject.toml").is_file()


def test_half_a_course_in_the_way_is_left_alone(alone):
    (alone / "rlhf-course/my_course").mkdir(parents=True)
    assert run(alone).stdout == HERE
    assert (alone / "rlhf-course/my_course").is_dir() and (alone / "rlhf-course-new").is_dir()
    assert run(alone, GIT_ALLOW_PROTOCOL="none").stdout == HERE


def test_a_course_with_holes_says_so(alone):
    (tiny_course(alone / "rlhf-course") / "data/manifest.json").unlink()
    assert "not whole, data/manifest.json missing" in sentence(run(alone))


def test_a_package_that_is_missing_is_named(monkeypatch, capsys):
    colab.ready()
    assert capsys.readouterr().out == HERE
    monkeypatch.setattr(colab, "MODULES", ("numpy", "no_such_package"))
    with pytest.raises(colab.CourseIncomplete, match="lacks no_such_package: take a fresh Colab"):
        colab.ready()


def test_a_notebook_shows_the_sentence_and_no_traceback(alone):
    code = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor", history_manager=None)
done = shell.run_cell({colab.setup_source(REPO)!r})
assert type(done.error_in_exec).__name__ == "CourseMissing" and not done.success
"""
    done = run(alone, code, COURSE_REPO="file:///none")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"No course fetched: [^\n]*\.\n", done.stdout + done.stderr)


# ------------------------------------------------------------------ the address


@pytest.fixture
def copy(tmp_path) -> Path:
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=lambda *_: ["images"])
    return tmp_path


def texts(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}


def test_one_address_everywhere():
    assert colab.check_address(REPO) == REPO
    readme = (ROOT / "README.md").read_text()
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        title, empty, badge = cells[0].source.splitlines()[:3]
        lead = f"https://colab.research.google.com/github/{REPO}/blob/main/notebooks/{path.name}"
        assert title.startswith("# ") and badge.endswith(f"]({lead})") and not empty
        code = next(cell for cell in cells if cell.cell_type == "code")
        assert code.source == colab.setup_source(REPO)
        number = path.stem[:2]
        assert f"](notebooks/{path.name})" in readme and f"[c{number}]: {lead}\n" in readme
        assert f"[![Open in Colab][colab]][c{number}]" in readme


def test_a_new_address_changes_badges_and_setup_cells_only(copy):
    before = texts(copy)
    assert len(colab.dress_course("some-one/a.fork", copy)) == len(NOTEBOOKS) + 2
    after = texts(copy)
    assert colab.address(copy) == "some-one/a.fork" and REPO not in "".join(after.values())
    assert {name: text.replace("some-one/a.fork", REPO) for name, text in after.items()} == before
    assert colab.dress_course("some-one/a.fork", copy) == [] and texts(copy) == after
    colab.dress_course(REPO, copy)
    assert texts(copy) == before


def test_a_notebook_without_badge_gets_one_and_keeps_the_rest(copy):
    path = copy / "notebooks" / NOTEBOOKS[0].name
    wanted = path.read_text()
    old = json.loads(wanted)
    old["cells"][0]["source"] = [s for s in old["cells"][0]["source"] if "colab" not in s][:1] + [
        "\n",
        *old["cells"][0]["source"][4:],
    ]
    setup = next(cell for cell in old["cells"] if cell["cell_type"] == "code")
    setup["source"] = ["import sys\n", "sys.path.insert(0, '..')"]
    path.write_text(json.dumps(old, indent=1, ensure_ascii=False) + "\n")
    assert colab.dress_course(REPO, copy) == [path] and path.read_text() == wanted


def test_a_new_notebook_gets_its_link(copy):
    shutil.copy(copy / "notebooks" / NOTEBOOKS[-1].name, copy / "notebooks/99_more.ipynb")
    colab.dress_course(REPO, copy)
    readme = (copy / "README.md").read_text()
    assert f"[c99]: {colab.link('99_more', REPO)}\n" in readme and readme.count("[c00]: ") == 1


@pytest.mark.parametrize(
    "repo",
    [
        "",
        "course",
        "a/b/c",
        "https://github.com/a/b",
        "a/b.git",
        "-a/b",
        "a--b/c",
        "a/..",
        "a b/c",
        "ä/b",
    ],
)
def test_anything_but_owner_and_name_is_refused(repo, copy, capsys, monkeypatch):
    before = texts(copy)
    with pytest.raises(ValueError, match="wants owner/name"):
        colab.dress_course(repo, copy)
    assert texts(copy) == before
    assert colab.main([repo]) == 2
    words = capsys.readouterr().err
    assert words.startswith("error: REPO: got ") and words.count("\n") == 1


def test_one_bad_notebook_and_nothing_is_written(copy):
    (copy / "notebooks/98_bad.ipynb").write_text('{"cells": []}')
    before = texts(copy)
    with pytest.raises(ValueError, match="98_bad.ipynb"):
        colab.dress_course("some-one/else", copy)
    assert texts(copy) == before


def test_the_command_says_what_it_did(capsys):
    assert colab.main([]) == 0
    assert capsys.readouterr().out == f"{REPO}: all as it was\n"


def test_no_notebook_needs_a_file_beside_it():
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                assert not re.search(r"\]\((?!https?:|#|attachment:)", cell.source), cell.source
                assert not re.search(r"<img(?![^>]*alt=)", cell.source)
