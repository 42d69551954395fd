"""The house: a drawer imports only from what stands before it, and no module is named after a lesson."""

import ast
import re
import sys
from itertools import chain
from pathlib import Path

import pytest

HELPERS = Path(__file__).resolve().parents[1] / "helpers"
# the second floor is the open files', which stand in no drawer
FLOORS = ("tools", "", "world theory scale", "studies", "kit", "page", "lessons", "commands")
FLOOR = {drawer: i for i, drawers in enumerate(FLOORS) for drawer in drawers.split()}
OPEN, TOP = 1, len(FLOORS)


def floor_of(module: str) -> int:
    """The floor of `gae`, `plots.gae`, `__main__` …: 0 is tools, which everybody may use."""
    first = module.partition(".")[0]
    return TOP if first == "__main__" else FLOOR.get(first, OPEN)


def drawer_of(module: str) -> str:
    """The folder below `helpers/` a module stands in; "" for an open file."""
    first = module.partition(".")[0]
    return first if first in FLOOR else ""


def in_lesson(module: str) -> str:
    """The lesson in whose room a module stands; "" for one that stands in none."""
    return module.split(".")[1] if module.startswith("lessons.") else ""


def imported(source: str) -> set[str]:
    """What a source imports of helpers, wherever in the file: {"gae", "plots.base", …}."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    relative = {name for name in found if name.startswith(".")}
    assert not relative, f"wants absolute imports, got {relative}"
    return {name.removeprefix("helpers.") for name in found if name.startswith("helpers.")}


def against_the_order(file: str, source: str) -> list[str]:
    """The imports of one file of helpers/ that point upward, or sideways into another drawer."""
    here = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found = []
    for name in sorted(imported(source)):
        up = floor_of(name) > floor_of(here)
        beside = floor_of(name) == floor_of(here) and drawer_of(name) != drawer_of(here)
        room = in_lesson(here) and in_lesson(name) and in_lesson(name) != in_lesson(here)
        if up or beside or room:
            found.append(f"{file} imports helpers.{name}")
    return found


def files() -> list[str]:
    return sorted(path.relative_to(HELPERS).as_posix() for path in HELPERS.rglob("*.py"))


def test_imports_point_one_way():
    wrong = [against_the_order(file, (HELPERS / file).read_text("utf-8")) for file in files()]
    assert list(chain(*wrong)) == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("tools/files.py", "from helpers.config import RLHFConfig"),
        ("theory/optimum.py", "from helpers.world.gold import gold_score"),
        ("kit/figures.py", "def draw():\n    from helpers.lessons.gae import figures"),
        ("ppo.py", "from helpers import __main__"),
        ("lessons/gae/checks.py", "from helpers.lessons.whitening.checks import check_masked_mean"),
    ],
)
def test_an_import_against_the_order_is_found(file, line):
    assert len(against_the_order(file, line)) == 1


def test_no_module_is_named_after_a_lesson_s_number():
    assert [file for file in files() if re.search(r"lesson\d|\d\d", file)] == []


def test_beside_a_notebook_no_module_hides_one_of_python_s_own():
    """A kernel starts where its notebook stands, and looks there first."""
    beside = {path.parent for path in HELPERS.rglob("*.ipynb") if ".ipynb_" not in str(path)}
    assert beside == {HELPERS / "page"}
    names = {path.stem for folder in beside for path in folder.glob("*.py")}
    assert names & sys.stdlib_module_names == {"__init__"} & sys.stdlib_module_names


def listed() -> dict[str, str]:
    """The rows of helpers/README.md: file or drawer → what is said of it."""
    rows = re.findall(
        r"^\| \[.+?\]\((.+?)\) \| (.+) \|$", (HELPERS / "README.md").read_text("utf-8"), re.M
    )
    assert len(rows) == len(dict(rows)), "a file is listed twice"
    return dict(rows)


def test_the_reading_order_lists_every_open_file_and_drawer_and_nothing_else():
    drawers = list(FLOOR)
    open_files = {path.name for path in HELPERS.glob("*.py")} - {"__init__.py"}
    named = list(listed())
    assert named[0] == "one_page.py"
    assert set(named[: -len(drawers)]) == open_files
    assert named[-len(drawers) :] == drawers, "the drawers, in the order of imports"
    assert {path.parent.name for path in HELPERS.glob("*/__init__.py")} == set(drawers)


def test_a_file_that_a_drawer_s_line_names_is_in_that_drawer():
    named = {f"{d}/{f}" for d, said in listed().items() for f in re.findall(r"`(\w+\.py)`", said)}
    assert len(named) > 5
    assert sorted(named - set(files())) == []
