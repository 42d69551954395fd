"""The course in Colab: what the setup cell asks for, and the address that badges and setup cells carry.

`python -m helpers.colab owner/name` writes a new address into every notebook, README.md and
pyproject.toml; without one it puts the present address where it is missing. The address is that of
`[project.urls]` in pyproject.toml; everything else here follows from it.
"""

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

from helpers.command import exit_status

ROOT = Path(__file__).resolve().parent.parent  # not from helpers.storage: that needs torch
MODULES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "matplotlib")
MODULES += ("ipywidgets", "tqdm")  # Colab has them all; nothing is ever installed there
PARTS = ("data/manifest.json", "helpers/loop.py", "helpers/writing.py", "pyproject.toml")

PLACEHOLDER = "OWNER/NAME"
SETUP = """\
import importlib, os, pathlib, subprocess, sys

here, part = pathlib.Path.cwd(), pathlib.Path(f".rlhf-{os.urandom(4).hex()}")
home = [p for p in (here, *here.parents, *here.glob("rlhf*")) if (p / "helpers/colab.py").is_file()]
if not home:  # opened alone, as in Colab: fetch the course once, whole or not at all
    clone = 'git clone --depth=1 "${COURSE_REPO:-https://github.com/OWNER/NAME}"'
    words = "No course fetched: check network and address; or upload its zip, or mount Drive, and %cd to it."
    if subprocess.getstatusoutput(f"GIT_TERMINAL_PROMPT=0 {clone} {part} && ls {part}/helpers")[0]:
        raise type("CourseMissing", (Exception,), {"_render_traceback_": lambda _: [words]})(words)
    home = [part.rename("rlhf-course-new" if os.path.exists("rlhf-course") else "rlhf-course")]
sys.path.insert(0, str(home[0].resolve()))
importlib.import_module("helpers.colab").ready()"""

COLAB = "https://colab.research.google.com"
BADGE = COLAB + "/assets/colab-badge.svg"
LINK = COLAB + "/github/OWNER/NAME/blob/main/notebooks/"
BADGE_LINE = re.compile(rf"^\[!\[Open in Colab\]\({re.escape(BADGE)}\)\]\([^)\n]*\)\n\n?", re.M)
README_LINK = re.compile(r"^\[c\d\d\]: .*\n", re.M)  # where the badges of README's table lead
ADDRESS = re.compile(r'^(Repository = "https://github\.com/)([^"]*)"$', re.M)


class CourseIncomplete(Exception):
    """Something the course needs is missing; a notebook shows the sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def ready() -> None:
    """Say that the course is here; CourseIncomplete when a file or a package it needs is not."""
    absent = [part for part in PARTS if not (ROOT / part).is_file()]
    if absent:
        words = (
            f"The course in {ROOT} is not whole, {', '.join(absent)} missing: delete that folder"
        )
        raise CourseIncomplete(f"{words}, restart the runtime and run this cell again.")
    absent = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if absent:
        words = f"This Python lacks {', '.join(absent)}: take a fresh Colab runtime"
        raise CourseIncomplete(f"{words}, or set up your own with `make course`.")
    print("The course is here.")


def address(root: Path = ROOT) -> str:
    """owner/name, as pyproject.toml has it."""
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    return urls["Repository"].removeprefix("https://github.com/")


def check_address(repo: str) -> str:
    """The same `repo`; ValueError unless it is owner/name as GitHub allows them."""
    owner, name = r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}", r"(?!\.{1,2}$)[\w.-]{1,100}(?<!\.git)"
    if not re.fullmatch(f"{owner}/{name}", repo, re.ASCII):
        raise ValueError(f"REPO: got {repo!r}, wants owner/name, as in github.com/owner/name.")
    return repo


def setup_source(repo: str) -> str:
    """The setup cell of every notebook."""
    return SETUP.replace(PLACEHOLDER, repo)


def link(stem: str, repo: str) -> str:
    """Where the badge of the notebook `stem` leads."""
    return f"{LINK.replace(PLACEHOLDER, repo)}{stem}.ipynb"


def first_cell(notebook: dict, kind: str) -> dict:
    """The first cell of this kind; one without words where there is none."""
    return next((cell for cell in notebook["cells"] if cell["cell_type"] == kind), {"source": []})


def dress_notebook(text: str, stem: str, repo: str) -> str:
    """A notebook's JSON with its badge under the title and its setup cell; outputs stay as they are."""
    notebook = json.loads(text)
    opening, setup = (first_cell(notebook, kind) for kind in ("markdown", "code"))
    title, _, rest = BADGE_LINE.sub("", "".join(opening["source"])).partition("\n")
    if not title.startswith("# ") or "sys.path.insert" not in "".join(setup["source"]):
        raise ValueError(f"{stem}.ipynb: has no title or no setup cell, wants both at its top.")
    badge = f"[![Open in Colab]({BADGE})]({link(stem, repo)})"
    opening["source"] = f"{title}\n\n{badge}\n\n{rest.lstrip()}".splitlines(keepends=True)
    setup["source"] = setup_source(repo).splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def dress_readme(text: str, stems: list[str], repo: str) -> str:
    """README with one link definition a notebook, where its link definitions stand."""
    first = README_LINK.search(text)
    if first is None:
        raise ValueError("README.md: has no line [c00]: …, wants one to put the badges' links at.")
    links = "".join(f"[c{stem[:2]}]: {link(stem, repo)}\n" for stem in stems)
    return text[: first.start()] + links + README_LINK.sub("", text[first.start() :])


def dress_course(repo: str, root: Path = ROOT) -> list[Path]:
    """Write the address everywhere it stands; → the files that changed. Nothing is written on a problem."""
    check_address(repo)
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    texts = {path: path.read_text(encoding="utf-8") for path in notebooks}
    texts = {p: (text, dress_notebook(text, p.stem, repo)) for p, text in texts.items()}
    readme, project = root / "README.md", root / "pyproject.toml"
    old = readme.read_text(encoding="utf-8")
    texts[readme] = old, dress_readme(old, [path.stem for path in notebooks], repo)
    old = project.read_text(encoding="utf-8")
    texts[project] = old, ADDRESS.sub(rf'\g<1>{repo}"', old)
    changed = [path for path, (old, new) in texts.items() if new != old]
    from helpers.storage import write_text  # here: it loads torch, which `ready` looks for first

    for path in changed:
        write_text(path, texts[path][1])
    return changed


def main(arguments: list[str] | None = None) -> int:
    """The command line; → its exit status."""
    given = sys.argv[1:] if arguments is None else arguments

    def run() -> None:
        if len(given) > 1:
            raise ValueError(f"REPO: got {len(given)} values, wants one owner/name.")
        repo = given[0] if given else address()
        changed = [path.name for path in dress_course(repo)]
        print(f"{repo}: {', '.join(changed) or 'all as it was'}")

    return exit_status(run, "Stopped; every file is whole.")


if __name__ == "__main__":
    sys.exit(main())
