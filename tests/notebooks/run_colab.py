"""Notebooks as Colab opens them: alone in an empty folder, on Colab's versions. `make test-colab` runs it.

Each is read from HEAD and run in an empty folder, where the setup cell asks a session like Colab's and gets
HEAD. Errors inside widgets count, though they fail no cell. jupyter_client 7.4 now and then loses a reply
and hangs; a notebook that ran into the time limit is run once more, and its row says so.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from colab_session import lead_fork_to, opened, serve_session  # noqa: E402

BRANCH = "lessons/draft"
LIMIT = 240  # seconds a cell may take
STATE = "application/vnd.jupyter.widget-state+json"
COMPLAINT = re.compile(
    r"""\b[A-Z]\w*(?:Error|Exception|Problem): .*|"ename": "\w+".{0,80}|Traceback \(most recent.*"""
)


def git(*arguments: str) -> str:
    """What a git command in the repository prints."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout


def as_in_colab(folder: Path) -> None:
    """Serve the session, and make git take a bare copy of HEAD for FORK, in this process and its kernels."""
    bare = folder / "course.git"
    git("clone", "-q", "--bare", "--depth=1", ROOT.as_uri(), str(bare))
    git("-C", str(bare), "update-ref", f"refs/heads/{BRANCH}", "HEAD")
    os.environ |= lead_fork_to(bare, folder) | serve_session(opened(BRANCH))
    os.environ |= {"IPYTHONDIR": str(folder / "ipython")}
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else each kernel prints a warning
    for name in ("COURSE_REPO", "RLHF_COURSE_WORK", "PYTHONPATH"):
        os.environ.pop(name, None)


def complaints(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Errors that failed no cell: in what widgets hold, and on stderr."""
    widgets = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    held = [(w["model_name"], json.dumps(w["state"], default=str)) for w in widgets.values()]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    held += [("stderr", output["text"]) for output in outputs if output.get("name") == "stderr"]
    for where, text in held:
        if match := COMPLAINT.search(text):
            yield f"{where}: {match[0][:160]}"


def run_alone(stem: str) -> list[str]:
    """Run one notebook in an empty folder; → what went wrong. CellTimeoutError when it hangs."""
    notebook = nbformat.reads(git("show", f"HEAD:notebooks/{stem}.ipynb"), as_version=4)
    for cell in notebook.cells:
        cell.update({"outputs": [], "execution_count": None} if cell.cell_type == "code" else {})
    with tempfile.TemporaryDirectory(prefix="alone-") as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", resources=place)
        try:
            client.execute()
        except CellExecutionError as problem:
            return [f"{problem.ename}: {problem.evalue}"]
        fetched = (Path(folder) / "rlhf-course/helpers/tools/colab.py").is_file()
        return [*complaints(notebook), *([] if fetched else ["it fetched no course"])]


def run_twice(stem: str) -> tuple[str, list[str]]:
    """Run a notebook, once more if it hangs; → a word for its row, and what went wrong."""
    for word in ("ok", "ok, at the second try (the first lost a reply)"):
        try:
            problems = run_alone(stem)
            return ("failed" if problems else word), problems
        except (CellTimeoutError, RuntimeError) as problem:  # the latter: no kernel
            last = [f"{type(problem).__name__}, twice: {str(problem).splitlines()[0][:160]}"]
    return "failed", last


def main(stems: list[str]) -> int:
    """Run these notebooks of HEAD, all of them by default; → 0, or 1 when one failed."""
    there = [Path(name).stem for name in git("ls-tree", "--name-only", "HEAD:notebooks").split()]
    there = [stem for stem in there if re.match(r"\d\d_", stem)]
    if unknown := set(stems) - set(there):
        print(f"NOTEBOOKS: got {', '.join(sorted(unknown))}, wants some of {', '.join(there)}.")
        return 2
    print(f"{'notebook':24} seconds", flush=True)
    failed = False
    with tempfile.TemporaryDirectory(prefix="colab-") as folder:
        as_in_colab(Path(folder))
        for stem in stems or there:
            start = time.monotonic()
            word, problems = run_twice(stem)
            print(f"{stem:24} {time.monotonic() - start:7.0f}  {word}", flush=True)
            print(*(f"    {problem}\n" for problem in problems), sep="", end="", flush=True)
            failed |= bool(problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
