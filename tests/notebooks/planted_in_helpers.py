"""Mistakes planted in copies of helpers/: do the lessons that teach the line notice, when nbval runs them?

`python tests/notebooks/planted_in_helpers.py [NAME …]`: a minute each; prints a table and how many were.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from planted import PLANTS, Plant  # noqa: E402

NBVAL = ("-q", "-x", "-p", "no:cacheprovider", "--nbval-lax", "--nbval-current-env")
NBVAL += ("--nbval-cell-timeout=580",)


def noticed(plant: Plant) -> str:
    """The lesson that fails with this mistake, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        shutil.copytree(ROOT / "helpers", course / "helpers")
        shutil.copytree(ROOT / "notebooks", course / "notebooks")
        shutil.copy(ROOT / "pyproject.toml", course)
        (course / "data").symlink_to(ROOT / "data")
        (course / "helpers" / plant.file).write_text(plant.edited(), encoding="utf-8")
        for lesson in plant.lessons.split():
            (notebook,) = (course / "notebooks").glob(f"{lesson}_*.ipynb")
            command = [sys.executable, "-m", "pytest", *NBVAL, str(notebook)]
            run = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
            if run.returncode == 1:
                return notebook.stem
            if run.returncode != 0:
                raise RuntimeError(f"{plant.name}: nbval did not run: {run.stdout}{run.stderr}")
    return ""


def main() -> None:
    """Plant all, or those named, and print who noticed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    began, named = time.monotonic(), sys.argv[1:]
    plants = [plant for plant in PLANTS if plant.lessons and (not named or plant.name in named)]
    count = 0
    with ThreadPoolExecutor(2) as pool:
        for plant, lesson in zip(plants, pool.map(noticed, plants), strict=True):
            print(f"{plant.name:40} {plant.file:24} {lesson or '– not noticed'}", flush=True)
            count += bool(lesson)
    print(f"{count} of {len(plants)} noticed, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
