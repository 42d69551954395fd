"""The course in Colab: the two setup cells of every notebook, and badges that lead to this repository.

`python -m helpers colab` writes badges for the repository that `git remote get-url origin` names
(or for owner/name, where one is given) into all notebooks and README.md, and the setup cells where
they differ.
"""

import argparse
import importlib.util
import json
import re
import subprocess
from pathlib import Path

from helpers.tools.command import exit_status

ROOT = Path(__file__).resolve().parents[2]  # not from helpers.tools.files: that needs torch
MODULES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "matplotlib")
MODULES += ("ipywidgets", "tqdm")  # Colab has them all; nothing is ever installed there
PARTS = ("data/manifest.json", "helpers/loop.py", "helpers/sampling.py", "pyproject.toml")

# both stand in every notebook, since Colab opens one alone; nothing is fetched from an address nobody gave
FETCH = r"""# @title In Colab alone: fetch the course (elsewhere this cell does nothing)
import json, os, pathlib, re, subprocess, tempfile, urllib.parse, urllib.request

here, mark = pathlib.Path.cwd(), "helpers/tools/colab.py"
if not any((p / mark).is_file() for p in (here, *here.parents, *here.glob("rlhf*"))):
    repo, branch = os.environ.get("COURSE_REPO"), "HEAD"
    why = "found: open this notebook from GitHub"
    try:
        if not repo:  # Colab's session tells where the notebook came from
            asked = "http://{COLAB_JUPYTER_IP}:{KMP_TARGET_PORT}/api/sessions".format(**os.environ)
            path = json.load(urllib.request.urlopen(asked, timeout=5))[0]["path"]
            form = r"fileId=(https://github\.com/[^/]+/[^/]+)/blob/(.+)/notebooks/"
            repo, branch = re.match(form, urllib.parse.unquote(path)).groups()
        why = f"fetched from {repo}: check network and address"
        with tempfile.TemporaryDirectory(prefix=".rlhf-", dir=here) as part:  # whole or not at all
            fetch = 'git init -q && git fetch -q --depth=1 -- "$REPO" "$BRANCH"'
            fetch += f" && git checkout -q FETCH_HEAD && ls {mark}"
            env = os.environ | {"REPO": repo, "BRANCH": branch, "GIT_TERMINAL_PROMPT": "0"}
            subprocess.check_output(f"({fetch}) 2>&1", shell=True, cwd=part, env=env)
            os.rename(part, "rlhf-course-new" if os.path.exists("rlhf-course") else "rlhf-course")
    except Exception:
        words = f"No course {why}; or name its address (%env COURSE_REPO=https://…), upload its zip or mount "
        words += "Drive (and %cd to it), and run this cell again."
        bare = {"_render_traceback_": lambda _: [words]}  # the sentence, and no traceback
        raise type("CourseMissing", (Exception,), bare)(words) from None"""
FIND = r"""# @title Run this cell first: it finds the course
import importlib, pathlib, sys

here, mark = pathlib.Path.cwd(), "helpers/tools/colab.py"
home = [p for p in (here, *here.parents, *here.glob("rlhf*")) if (p / mark).is_file()]
assert home, "No course is here: run the cell above, which fetches it."
sys.path.insert(0, str(home[0].resolve()))
importlib.import_module("helpers.tools.colab").ready()"""
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # in Colab; in JupyterLab

COLAB = "https://colab.research.google.com"
BADGE = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]"
A_BADGE = rf"{re.escape(BADGE)}\([^)\n]*\)"
BADGE_LINE = re.compile(rf"^{A_BADGE}\n\n?", re.M)
README_ROW = re.compile(rf"^(\| \d\d \| \[[^]]*\]\(notebooks/(\w+)\.ipynb\))(?: {A_BADGE})?", re.M)
BADGE_REPO = re.compile(rf"{re.escape(COLAB)}/github/([^/]+/[^/]+)/blob/")
REMOTE = re.compile(r"(?:https://(?:[^@/]+@)?|ssh://git@|git@)github\.com[/:](.+?)(?:\.git)?/?")
ADDRESS = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9])*/(?!\.{1,2}$)[A-Za-z0-9_.-]+(?<!\.git)")


class CourseIncomplete(Exception):
    """Something the course needs is missing; a notebook shows the sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def ready() -> None:
    """Say that the course is here; CourseIncomplete when a file or a package it needs is not."""
    if absent := ", ".join(part for part in PARTS if not (ROOT / part).is_file()):
        words = f"The course in {ROOT} is not whole, {absent} missing: delete that folder"
        raise CourseIncomplete(f"{words}, restart the runtime and run this cell again.")
    if absent := ", ".join(name for name in MODULES if not importlib.util.find_spec(name)):
        words = f"This Python lacks {absent}: take a fresh Colab runtime"
        raise CourseIncomplete(f"{words}, or set up your own with `make course`.")
    print("The course is here.")


def remote_address(root: Path = ROOT) -> str:
    """owner/name of the remote `origin`; ValueError where that is no repository on github.com."""
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    url = subprocess.run(command, capture_output=True, text=True).stdout.strip() or "none"
    match = REMOTE.fullmatch(url)
    if match is None or not ADDRESS.fullmatch(match[1]):
        url = re.sub("//.*@", "//", url)  # no password in a message
        words = "wants one on github.com, or `make colab REPO=owner/name`"
        raise ValueError(f"git remote origin: got {url}, {words}.")
    return match[1]


def badge(stem: str, repo: str) -> str:
    """The badge that opens the notebook `stem` of `repo` in Colab."""
    return f"{BADGE}({COLAB}/github/{repo}/blob/main/notebooks/{stem}.ipynb)"


def read_pages(root: Path) -> dict[Path, str]:
    """The text of every notebook, then of README.md."""
    pages = [*sorted((root / "notebooks").glob("*.ipynb")), root / "README.md"]
    return {page: page.read_text(encoding="utf-8") for page in pages}


def badge_addresses(root: Path = ROOT) -> set[str]:
    """Every owner/name that a badge leads to; empty where there are no badges."""
    return {repo for text in read_pages(root).values() for repo in BADGE_REPO.findall(text)}


def dress_notebook(text: str, stem: str, repo: str | None) -> str:
    """A notebook's JSON with its badge under the title (none without `repo`) and its setup cells, folded."""
    notebook = json.loads(text)
    cells = notebook["cells"]
    opening = next((cell for cell in cells if cell["cell_type"] == "markdown"), {"source": []})
    title, _, rest = BADGE_LINE.sub("", "".join(opening["source"])).partition("\n")
    codes = [k for k, cell in enumerate(cells) if cell["cell_type"] == "code"]
    if not title.startswith("# ") or "sys.path.insert" not in "".join(cells[codes[1]]["source"]):
        raise ValueError(f"{stem}.ipynb: has no title or no setup cell, wants both at its top.")
    head = title if repo is None else f"{title}\n\n{badge(stem, repo)}"
    opening["source"] = f"{head}\n\n{rest.lstrip()}".splitlines(keepends=True)
    for place, source in zip(codes, (FETCH, FIND), strict=False):
        cells[place] |= {"source": source.splitlines(keepends=True), "metadata": FOLDED}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def dress_readme(text: str, repo: str | None) -> str:
    """README with a badge behind each notebook of its table; with none without `repo`."""
    if README_ROW.search(text) is None:
        raise ValueError("README.md: has no row | 00 | [title](notebooks/….ipynb), wants a table.")
    if repo is None:
        return README_ROW.sub(r"\1", text)
    return README_ROW.sub(lambda row: f"{row[1]} {badge(row[2], repo)}", text)


def dress_course(repo: str | None, root: Path = ROOT) -> list[Path]:
    """Write this address into all badges, None: no badges; → the files that changed, none on a problem."""
    from helpers.tools.files import write_text  # here: it loads torch; `ready` looks for that first

    if repo is not None and not ADDRESS.fullmatch(repo):
        raise ValueError(f"REPO: got {repo!r}, wants owner/name, as in github.com/owner/name.")
    changed = {}
    for page, text in read_pages(root).items():
        readme = page.suffix == ".md"
        new = dress_readme(text, repo) if readme else dress_notebook(text, page.stem, repo)
        changed |= {page: new} if new != text else {}
    for page, new in changed.items():
        write_text(page, new)
    return list(changed)


def main(arguments: list[str]) -> int:
    """`python -m helpers colab`; → its exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers colab", description=__doc__)
    parser.add_argument("repo", nargs="?", metavar="owner/name", help="default: git's origin")
    given = parser.parse_args(arguments)

    def run() -> None:
        repo = remote_address() if given.repo is None else given.repo
        changed = [path.name for path in dress_course(repo)]
        print(f"{repo}: {', '.join(changed) or 'all as it was'}")

    return exit_status(run, "Stopped; every file is whole.")
