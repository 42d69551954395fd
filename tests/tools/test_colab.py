"""The setup cell finds or fetches the course; badges lead to the repository they stand in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from colab_session import FORK, lead_fork_to, opened, serve_session

from helpers.tools import colab
from helpers.tools.files import ROOT

pytestmark = pytest.mark.slow  # git and Python in processes of their own
README = (ROOT / "README.md").read_text("utf-8")
LEADS = re.search(r"google\.com/github/([^/]+/[^/]+)/blob/", README)
REPO = LEADS and LEADS[1]  # of the badges here; None: there are none
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HERE = "The course is here.\n"
MARK = "helpers/tools/colab.py"
WHO = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")


def git(*arguments: object) -> str:
    command = ["git", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def tiny_course(folder: Path) -> Path:
    """What the setup cell looks for, and nothing else."""
    for name in (*colab.PARTS, "helpers/__init__.py", "helpers/tools/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    for name in ("tools/colab.py", "tools/command.py"):
        shutil.copy(ROOT / "helpers" / name, folder / "helpers" / name)
    return folder


def commit(course: Path) -> str:
    """Commit all of this folder; → the commit."""
    git("-C", course, "add", ".")
    git("-C", course, *WHO, "commit", "-qm", "all of it")
    return git("-C", course, "rev-parse", "HEAD")


def repository(folder: Path, course: Path) -> Path:
    """A bare repository that holds this folder."""
    git("init", "-q", "-b", "main", course)
    commit(course)
    git("clone", "-q", "--bare", course, folder)
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Path:
    """The bare repository at the fork's address: three branches; `commit.txt` beside it names a commit."""
    folder = tmp_path_factory.mktemp("served")
    course = tiny_course(folder / "course")
    bare = repository(folder / "course.git", course)
    for name in ("next", "next-lesson/draft/2"):
        git("-C", course, "checkout", "-qb", name)
        (course / "branch.txt").write_text(name)
        (folder / "commit.txt").write_text(commit(course))
    git("-C", course, "push", "-q", bare, "--all")
    git("-C", bare, "config", "uploadpack.allowAnySHA1InWant", "true")  # as GitHub has it
    return bare


@pytest.fixture
def alone(tmp_path, served, monkeypatch) -> Path:
    """An empty folder, from which the fork's address, and no other, leads to the served repository."""
    for name, value in lead_fork_to(served, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")  # no test reaches for the network
    for name in ("COURSE_REPO", "COLAB_JUPYTER_IP", "KMP_TARGET_PORT"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "alone").mkdir()
    return tmp_path / "alone"


FETCH, FIND = colab.setup_cells(NOTEBOOKS[0].read_text("utf-8"))
SETUP = "\n".join("".join(cell["source"]) for cell in (FETCH, FIND))


def run(folder: Path, code: str = SETUP, **env: str):
    """The setup cell in a Python of its own."""
    command, env = [sys.executable, "-c", code], {**os.environ, **env}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def sentence(done) -> str:
    """The one sentence of a setup cell that failed."""
    assert done.returncode == 1 and done.stdout == ""
    return done.stderr.splitlines()[-1].removeprefix("CourseMissing: ")


@pytest.mark.parametrize(
    ("course", "notebook"),
    [(".", "."), (".", "notebooks"), ("rlhf-course-main", ".")],  # the last is an unpacked zip
)
def test_the_course_is_found_around_the_notebook(alone, course, notebook):
    tiny_course(alone / course)
    (alone / notebook).mkdir(exist_ok=True)
    before = sorted(alone.rglob("*"))
    done = run(alone / notebook, GIT_ALLOW_PROTOCOL="none", PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout == HERE
    assert sorted(alone.rglob("*")) == before


def test_alone_it_is_fetched_once_from_where_the_notebook_was_opened(alone):
    assert run(alone, **serve_session(opened())).stdout == HERE
    assert [path.name for path in alone.iterdir()] == ["rlhf-course"]
    assert not (alone / "rlhf-course/branch.txt").exists()
    second = run(alone, GIT_ALLOW_PROTOCOL="none")  # could not fetch if it tried
    assert (second.returncode, second.stdout, second.stderr) == (0, HERE, "")


@pytest.mark.parametrize("name", ["next", "next-lesson/draft/2", "a commit"])
def test_a_notebook_of_a_branch_or_commit_fetches_that(alone, served, name):
    commit = (served.parent / "commit.txt").read_text()
    asked, holds = (commit, "next-lesson/draft/2") if name == "a commit" else (name, name)
    assert run(alone, **serve_session(opened(asked))).stdout == HERE
    assert (alone / "rlhf-course/branch.txt").read_text() == holds


def test_a_repository_that_is_named_comes_first(alone, served, tmp_path):
    mine = shutil.copytree(served, tmp_path / "my fork.git")
    env = serve_session(opened(url="https://github.com/nobody/nothing"))
    assert run(alone, COURSE_REPO=f"file://{mine}", **env).stdout == HERE


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("fileId=1Bx_d0vXjUNrz", None),  # a copy on Drive
        ("notebooks/02_gae.ipynb", None),  # an upload, or another Jupyter
        (opened(url="https://evil.example/a/b"), None),
        ("", "<html>"),
        (None, None),  # no session
        (None, "nobody"),
    ],
)
def test_from_drive_or_elsewhere_it_says_what_to_do_and_fetches_nothing(alone, path, answer):
    env = {} if path is None else serve_session(path, answer)
    if answer == "nobody":
        env = {"COLAB_JUPYTER_IP": "127.0.0.1", "KMP_TARGET_PORT": "9"}
    words = sentence(run(alone, **env, PATH="/nowhere"))
    assert words.startswith("No course found: open this notebook from GitHub; or name its address")
    assert "COURSE_REPO" in words and "zip" in words and "Drive" in words
    assert not list(alone.iterdir())


def test_text_of_the_session_never_becomes_a_command(alone):
    harm = "touch oops"
    for name in (f'main"; {harm}; "', f"$({harm})", f"--upload-pack={harm}", f"`{harm}`"):
        assert "No course fetched from " in sentence(run(alone, **serve_session(opened(name))))
    assert not list(alone.rglob("oops")) and not list(alone.iterdir())


def test_what_cannot_be_fetched_is_one_sentence(alone, tmp_path):
    words = sentence(run(alone, COURSE_REPO=f"file://{tmp_path}/none"))
    assert words.startswith(f"No course fetched from file://{tmp_path}/none: check network")
    assert "zip" in words and not list(alone.iterdir())
    (tmp_path / "other").mkdir()
    (tmp_path / "other/README.md").write_text("another project")
    other = repository(tmp_path / "other.git", tmp_path / "other")
    assert "No course fetched" in sentence(run(alone, COURSE_REPO=f"file://{other}"))
    for env in ({"PATH": str(tmp_path)}, {"GIT_ALLOW_PROTOCOL": "none"}):  # no git, no network
        assert "No course fetched" in sentence(run(alone, COURSE_REPO=FORK, **env))
    assert not list(alone.iterdir())
    assert run(alone, COURSE_REPO=FORK).stdout == HERE


@pytest.mark.parametrize("ends", ["exit 137", "kill -9 $CELL"])
def test_a_fetch_or_kernel_that_is_killed_leaves_no_course(alone, tmp_path, ends):
    asked, broken = tmp_path / "asked", tmp_path / "bin/git"
    broken.parent.mkdir()
    half = f"mkdir -p helpers/tools; : > {MARK}; echo $GIT_TERMINAL_PROMPT > {asked}"
    broken.write_text(f"#!/bin/sh\n{half}; {ends}\n")
    broken.chmod(0o755)
    code = 'import os; os.environ["CELL"] = str(os.getpid())\n' + SETUP
    done = run(alone, code, COURSE_REPO=FORK, PATH=f"{broken.parent}:{os.environ['PATH']}")
    assert asked.read_text() == "0\n"  # git is told not to ask for a password
    if "exit" in ends:
        assert "No course fetched" in sentence(done) and not list(alone.iterdir())
    else:
        assert done.returncode == -9
        assert [entry.name[:6] for entry in alone.iterdir()] == [".rlhf-"]
    assert run(alone, COURSE_REPO=FORK).stdout == HERE
    assert (alone / "rlhf-course/pyproject.toml").is_file()


def test_half_a_course_in_the_way_is_left_alone(alone):
    (alone / "rlhf-course/my_course").mkdir(parents=True)
    assert run(alone, COURSE_REPO=FORK).stdout == HERE
    assert (alone / "rlhf-course/my_course").is_dir() and (alone / "rlhf-course-new").is_dir()
    assert run(alone, GIT_ALLOW_PROTOCOL="none").stdout == HERE


def test_a_course_with_holes_says_so(alone):
    (tiny_course(alone / "rlhf-course") / "data/manifest.json").unlink()
    done = run(alone)
    assert done.returncode == 1 and "not whole, data/manifest.json missing" in done.stderr


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
done = shell.run_cell({SETUP!r})
assert type(done.error_in_exec).__name__ == "CourseMissing" and not done.success
"""
    done = run(alone, code, COURSE_REPO="file:///none")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert re.fullmatch(r"No course fetched from file:///none: [^\n]*\.\n", said)


# ------------------------------------------------------------------ the address


@pytest.fixture
def copy(tmp_path) -> Path:
    """README and notebooks in a folder of their own, without badges."""
    shutil.copy(ROOT / "README.md", tmp_path / "README.md")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=lambda *_: ["images"])
    colab.dress_course(None, tmp_path)
    return tmp_path


def texts(root: Path) -> dict[str, str]:
    return {page.name: text for page, text in colab.read_pages(root).items()}


def test_badges_here_lead_to_one_address_and_every_setup_cell_is_the_same(copy):
    assert len(FETCH["source"]) <= 25 and len(FIND["source"]) <= 8
    colab.dress_course(REPO, copy)
    assert texts(copy) == texts(ROOT)
    for path in NOTEBOOKS:
        assert colab.setup_cells(path.read_text("utf-8")) == [FETCH, FIND]
        assert f"](notebooks/{path.name})" in README


def test_an_address_changes_badges_only_and_every_notebook_has_one(copy):
    bare = texts(copy)
    assert "colab.research" not in "".join(bare.values())
    assert len(colab.dress_course("some-one/a.fork", copy)) == len(NOTEBOOKS) + 1
    dressed = texts(copy)
    for path in NOTEBOOKS:
        leads = f"https://colab.research.google.com/github/some-one/a.fork/blob/main/notebooks/{path.name}"
        cell = nbformat.reads(dressed[path.name], as_version=4).cells[0]
        title, empty, badge, after = cell.source.splitlines()[:4]
        assert title.startswith("# ") and badge.endswith(f"]({leads})") and not empty + after
        row = next(x for x in dressed["README.md"].splitlines() if f"(notebooks/{path.name})" in x)
        assert row.startswith(f"| {path.name[:2]} | ") and row.count(f"]({leads})") == 1
    assert colab.dress_course("some-one/a.fork", copy) == [] and texts(copy) == dressed
    colab.dress_course("some-one/else", copy)
    for name, text in texts(copy).items():
        assert text == dressed[name].replace("some-one/a.fork", "some-one/else")
    colab.dress_course(None, copy)
    assert texts(copy) == bare


def test_anything_but_owner_and_name_is_refused(copy, capsys):
    before, url = texts(copy), "https://github.com/a/b"
    for repo in ("", "course", "a/b/c", url, "a/b.git", "a--b/c", "a/..", "a b/c", "ä/b"):
        with pytest.raises(ValueError, match="wants owner/name"):
            colab.dress_course(repo, copy)
        assert colab.main([repo]) == 2
        words = capsys.readouterr().err
        assert words.startswith("error: REPO: got ") and words.count("\n") == 1
    assert texts(copy) == before


# ------------------------------------------------------------------ git's remote


ORIGINS = {  # of git's origin: whether it names some-one/a.fork
    "https://github.com/some-one/a.fork": True,
    "https://github.com/some-one/a.fork/": True,
    "https://name:token@github.com/some-one/a.fork.git": True,
    "git@github.com:some-one/a.fork.git": True,
    "ssh://git@github.com/some-one/a.fork.git": True,
    "https://gitlab.com/some-one/a.fork": False,
    "/srv/git/course.git": False,
    "https://name:token@evil.example/github.com/some-one/a.fork": False,
    "https://github.com/some-one": False,
    "git@github.com:some-one/a/b.git": False,
    "none": False,
}


@pytest.mark.parametrize("url", ORIGINS)
def test_the_address_is_that_of_git_s_origin_or_one_sentence(tmp_path, url, monkeypatch, capsys):
    """In which there is no password."""
    if url != "none":
        git("init", "-q", tmp_path)
        git("-C", tmp_path, "remote", "add", "origin", url)
    if ORIGINS[url]:
        assert colab.remote_address(tmp_path) == "some-one/a.fork"
        return
    monkeypatch.setattr(colab.remote_address, "__defaults__", (tmp_path,))
    before = texts(ROOT)
    assert colab.main([]) == 2 and texts(ROOT) == before
    words = capsys.readouterr().err
    assert words.startswith("error: git remote origin: got ") and words.count("\n") == 1
    assert "wants one on github.com, or `make colab REPO=owner/name" in words
    assert "token" not in words and ("got none," in words) == (url == "none")
