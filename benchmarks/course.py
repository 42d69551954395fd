"""`python -m benchmarks.course`: time and memory of the notebooks.

Each notebook runs from top to bottom in its own kernel, on a copy; learners' files go to a temporary
folder.
"""

import json
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from benchmarks.common import command, emit, quiet
from helpers.tools.files import ROOT
from helpers.tools.flags import setting

NOTEBOOKS = ROOT / "notebooks"
# last cell of the copy: peak memory of the kernel and of its children, and CPU time
LAST = """import json as _json, resource as _resource, time as _time
_own, _children = (_resource.getrusage(who).ru_maxrss for who in (0, -1))
print(_json.dumps([_own / 1024, _children / 1024, _time.process_time()]))"""


def run_notebook(path: Path) -> dict:
    """Seconds, CPU seconds, peak MiB, MB on disk and the slowest cells of one notebook."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(LAST))
    with tempfile.TemporaryDirectory() as work:
        environment = quiet() | {"RLHF_COURSE_WORK": work, "PYTHONPATH": str(ROOT)}
        client = NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": NOTEBOOKS}})
        began = time.perf_counter()
        client.execute(env=environment)
        seconds = time.perf_counter() - began
    own, children, cpu = json.loads(notebook.cells[-1].outputs[0].text)
    cells = sorted(cell_seconds(notebook.cells[:-1]), reverse=True)
    return {
        "notebook": path.stem,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_MiB": own,
        "peak_child_MiB": children,
        "MB": path.stat().st_size / 1e6,
        "slowest": [{"seconds": s, "cell": number, "code": code} for s, number, code in cells[:3]],
    }


def cell_seconds(cells: list) -> list[tuple[float, int, str]]:
    """(seconds, execution count, first line) of every code cell."""
    found = []
    for cell in cells:
        times = cell.metadata.get("execution", {})
        if "iopub.execute_input" in times and "shell.execute_reply" in times:
            began, ended = (
                datetime.fromisoformat(times[key])
                for key in ("iopub.execute_input", "shell.execute_reply")
            )
            first = next(line for line in cell.source.splitlines() if line.strip())
            found.append(((ended - began).total_seconds(), cell.execution_count, first))
    return found


def measure_notebooks(paths: list[Path]) -> list[dict]:
    """Run notebooks one after another: print a line for each, then the slowest cells of all."""
    wide = max([len(path.stem) for path in paths], default=0)
    print(f"{'notebook':{wide}s}  seconds    CPU s  peak MiB    MB", flush=True)
    found = []
    for path in paths:
        found.append(one := run_notebook(path))
        figures = f"{one['seconds']:7.0f}  {one['cpu_seconds']:7.0f}  {one['peak_MiB']:8.0f}"
        print(f"{path.stem:{wide}s}  {figures}  {one['MB']:.2f}", flush=True)
    for one in found:
        for cell in one["slowest"]:
            words = f"[{cell['cell']}] {cell['code'][:70]}"
            print(f"  {one['notebook']}: {cell['seconds']:.1f} s in {words}")
    return found


@dataclass
class Options:
    """Which notebooks."""

    notebooks: list[str] = setting([], "only these, as 02_gae; if none is named, all")


def run(options: Options) -> None:
    """Measure and print."""
    named = [NOTEBOOKS / f"{name}.ipynb" for name in options.notebooks]
    emit("course", {"notebooks": measure_notebooks(named or sorted(NOTEBOOKS.glob("*.ipynb")))})


if __name__ == "__main__":
    command("course", __doc__, Options, run)
