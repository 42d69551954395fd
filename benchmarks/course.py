"""`python -m benchmarks.course`: time and memory of the notebooks, of imports, and until the first page.

Each notebook runs from top to bottom in its own kernel, on a copy; learners' files go to a temporary
folder. Imports are timed in new processes. The first page is `make course`, already set up, until the
server delivers notebook 00.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from benchmarks.common import emit, quiet, show
from helpers.tools.command import exit_status
from helpers.tools.files import ROOT
from helpers.tools.validate import require
from tests.browser.conftest import free_port

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


def modules() -> list[str]:
    """Every module of helpers that can be imported without running anything."""
    paths = sorted((ROOT / "helpers").rglob("*.py"))
    names = (path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in paths)
    return [name.removesuffix(".__init__") for name in names]


def import_seconds(module: str, repeats: int) -> dict:
    """Median wall and CPU seconds of `import module` in a new interpreter."""
    code = (
        "import time; w, c = time.perf_counter(), time.process_time(); "
        f"import {module}; print(time.perf_counter() - w, time.process_time() - c)"
    )
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=quiet()
        )
        require(done.returncode == 0, "module", module, f"one that imports: {done.stderr[-300:]}")
        runs.append([float(x) for x in done.stdout.split()])
    walls, cpus = zip(*runs, strict=True)
    return {
        "module": module,
        "seconds": statistics.median(walls),
        "cpu_seconds": statistics.median(cpus),
    }


def slowest_imports(names: list[str], repeats: int, shown: int = 8) -> list[dict]:
    """Import every module once, then the slowest ones and torch alone `repeats` times."""

    def slowest(some: list[str], times: int) -> list[dict]:
        found = [import_seconds(name, times) for name in some]
        return sorted(found, key=lambda one: -one["cpu_seconds"])

    once = [one["module"] for one in slowest(names, 1)]
    return slowest(["torch, transformers", *once[:shown]], repeats)


def open_seconds() -> float:
    """Seconds of `make course`, already set up, until the server delivers notebook 00."""
    port, token = free_port(), "benchmark"
    flags = [f"PORT={port}", "BROWSER_FLAG=--no-browser"]
    command = ["make", "--old-file=.venv/.course", "course", *flags]
    url = f"http://127.0.0.1:{port}/api/contents/notebooks/00_the_loop.ipynb?token={token}"
    began = time.perf_counter()
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = quiet() | {"JUPYTER_TOKEN": token}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **silent)
    try:
        while time.perf_counter() - began < 180:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    json.load(answer)
                return time.perf_counter() - began
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("the server did not answer within 180 s.")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


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


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Command-line options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.course", description=__doc__)
    parser.add_argument("--notebooks", nargs="*", metavar="02_gae", help="only these (all)")
    parser.add_argument("--modules", nargs="*", metavar="helpers.gae", help="only these (all)")
    parser.add_argument("--repeats", type=int, default=3, help="of imports and of opening (3)")
    return parser.parse_args(arguments)


def run(arguments: list[str] | None) -> None:
    """Command line: measure, print tables and a JSON line."""
    options = parse(arguments)
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    if options.notebooks is not None:
        paths = [NOTEBOOKS / f"{name}.ipynb" for name in options.notebooks]
    names = modules() if options.modules is None else options.modules
    notebooks = measure_notebooks(paths)
    imports = slowest_imports(names, options.repeats)
    print("\nslowest imports, each in a new interpreter")
    rows = [[one["module"], one["seconds"], one["cpu_seconds"]] for one in imports]
    show(["module", "seconds", "CPU s"], rows)
    opened = statistics.median(open_seconds() for _ in range(options.repeats))
    print(f"\nmake course, already set up, until the server delivers notebook 00: {opened:.1f} s")
    emit("course", {"notebooks": notebooks, "imports": imports, "open_seconds": opened})


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped."))
