"""`python -m benchmarks.course`: time and memory of the notebooks, each run as a copy in its own kernel.

The slowest cells: `pytest --nbval-lax --durations=20 notebooks`.
"""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

from benchmarks.common import command, emit, quiet, show
from helpers.tools.files import ROOT
from helpers.tools.flags import setting

NOTEBOOKS = ROOT / "notebooks"
# last cell of the copy: peak memory of the kernel and of its children, and CPU time
LAST = """import json as _json, resource as _resource, time as _time
_own, _children = (_resource.getrusage(who).ru_maxrss for who in (0, -1))
print(_json.dumps([_own / 1024, _children / 1024, _time.process_time()]))"""


def run_notebook(path: Path) -> dict:
    """Seconds, CPU seconds, peak MiB and MB on disk of one notebook."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(LAST))
    with tempfile.TemporaryDirectory() as work:
        environment = quiet() | {"RLHF_COURSE_WORK": work, "PYTHONPATH": str(ROOT)}
        client = NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": NOTEBOOKS}})
        began = time.perf_counter()
        client.execute(env=environment)
        seconds = time.perf_counter() - began
    own, children, cpu = json.loads(notebook.cells[-1].outputs[0].text)
    return {
        "notebook": path.stem,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_MiB": own,
        "peak_child_MiB": children,
        "MB": path.stat().st_size / 1e6,
    }


@dataclass
class Options:
    """Which notebooks."""

    notebooks: list[str] = setting([], "only these, as 02_gae; if none is named, all")


def run(options: Options) -> None:
    """Run them one after another; print a table."""
    named = [NOTEBOOKS / f"{name}.ipynb" for name in options.notebooks]
    found = [run_notebook(path) for path in tqdm(named or sorted(NOTEBOOKS.glob("*.ipynb")))]
    columns = ["notebook", "seconds", "cpu_seconds", "peak_MiB", "MB"]
    show(columns, [[one[name] for name in columns] for one in found])
    emit("course", {"notebooks": found})


if __name__ == "__main__":
    command("course", __doc__, Options, run)
