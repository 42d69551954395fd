"""The course in Colab: the two setup cells of every notebook, and badges that lead to this repository.

`python -m helpers colab` writes badges for the repository that `git remote get-url origin` names
(or for owner/name, where one is given) into all notebooks and README.md, and the setup cells of the
first notebook into those where they differ.
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

COLAB = "https://colab.research.google.com"
BADGE = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]"
A_BADGE = rf"{re.escape(BADGE)}\([^)\n]*\)"
BADGE_LINE = re.compile(rf"^{A_BADGE}\n\n?", re.M)
README_ROW = re.compile(rf"^(\| \d\d \| \[[^]]*\]\(notebooks/(\w+)\.ipynb\))(?: {A_BADGE})?", re.M)
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


def setup_cells(text: str) -> list[dict]:
    """The first two code cells of a notebook's JSON: one fetches the course in Colab, one finds it.

    Both stand in every notebook, since Colab opens one alone; nothing is fetched from an address that
    nobody gave.
    """
    codes = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return [{name: cell[name] for name in ("source", "metadata")} for cell in codes[:2]]


def dress_notebook(text: str, stem: str, repo: str | None, setup: list[dict] = ()) -> str:
    """A notebook's JSON with its badge under the title (none without `repo`), and these setup cells."""
    notebook = json.loads(text)
    cells = notebook["cells"]
    opening = next((cell for cell in cells if cell["cell_type"] == "markdown"), {"source": []})
    title, _, rest = BADGE_LINE.sub("", "".join(opening["source"])).partition("\n")
    codes = [k for k, cell in enumerate(cells) if cell["cell_type"] == "code"]
    if not title.startswith("# ") or "sys.path.insert" not in "".join(cells[codes[1]]["source"]):
        raise ValueError(f"{stem}.ipynb: has no title or no setup cell, wants both at its top.")
    head = title if repo is None else f"{title}\n\n{badge(stem, repo)}"
    opening["source"] = f"{head}\n\n{rest.lstrip()}".splitlines(keepends=True)
    for place, cell in zip(codes, setup, strict=False):
        cells[place] |= cell
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def dress_readme(text: str, repo: str | None) -> str:
    """README with a badge behind each notebook of its table; with none without `repo`."""
    if README_ROW.search(text) is None:
        raise ValueError("README.md: has no row | 00 | [title](notebooks/….ipynb), wants a table.")
    return README_ROW.sub(lambda row: f"{row[1]} {badge(row[2], repo)}" if repo else row[1], text)


def dress_course(repo: str | None, root: Path = ROOT) -> list[Path]:
    """Write this address into all badges, None: no badges; → the files that changed, none on a problem."""
    from helpers.tools.files import write_text  # here: it loads torch; `ready` looks for that first

    if repo is not None and not ADDRESS.fullmatch(repo):
        raise ValueError(f"REPO: got {repo!r}, wants owner/name, as in github.com/owner/name.")
    pages, changed = read_pages(root), {}
    setup = setup_cells(next(iter(pages.values())))
    for page, text in pages.items():
        readme = page.suffix == ".md"
        new = dress_readme(text, repo) if readme else dress_notebook(text, page.stem, repo, setup)
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
