"""Finds the exercises of the notebooks: stub, check and folded solution."""

import ast
import builtins
import dis
import importlib
import re
from pathlib import Path
from types import CodeType

import nbformat

from helpers.kit.own import names_in
from helpers.tools.files import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTION = re.compile(r"<summary>Solution: (\w+)</summary>\s*```python\n(.*?)```", re.DOTALL)
CHECK = re.compile(r"^(?:\w+ = )?check_(\w+)\((\w+)\);?", re.MULTILINE)


def check_of(path: Path, name: str):
    """The check of an exercise, from the room of its lesson."""
    room = path.stem[3:].removesuffix("_sweeps")
    return getattr(importlib.import_module(f"helpers.lessons.{room}.checks"), f"check_{name}")


def read(path: Path):
    return nbformat.read(path, as_version=4)


def solutions(notebook) -> dict[str, str]:
    """Exercise name → source of its folded solution."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return dict(SOLUTION.findall(text))


def stub_cells(notebook) -> dict[str, int]:
    """Exercise name → index of the cell that holds its stub and check."""
    found = {}
    for index, cell in enumerate(notebook.cells):
        match = CHECK.search(cell.source) if cell.cell_type == "code" else None
        if match and f"def {match[2]}(" in cell.source:
            found[match[1]] = index
    return found


# counts what is called after its check
COUNTING = """\
import functools as _functools

_calls = {}


def _counted(name, function):
    _calls[name] = 0

    @_functools.wraps(function)
    def called(*given, **more):
        _calls[name] += 1
        return function(*given, **more)

    return called
"""


def solved(notebook):
    """The same cells with every stub replaced by its solution; the last prints the calls after its check."""
    answers, cells = solutions(notebook), [nbformat.v4.new_code_cell(COUNTING)]
    indices = {index: name for name, index in stub_cells(notebook).items()}
    for index, cell in enumerate(notebook.cells):
        copy = cell.copy()
        if index in indices:
            name = indices[index]
            copy["source"] = f"{answers[name]}\n\n{CHECK.search(cell.source)[0]}"
            if copy["source"].splitlines()[-1].startswith(f"{name} = "):
                copy["source"] += f"\n{name} = _counted('{name}', {name})"
        cells.append(copy)
    return [*cells, nbformat.v4.new_code_cell("print(_calls)")]


def bound(statement: ast.stmt) -> set[str]:
    """Names that a statement of a cell binds; not those inside functions and comprehensions."""
    code = compile(ast.Module([statement], []), "cell", "exec")
    return {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_NAME"}


def reads(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Global names a function reads each time it is called; its defaults are read once, when it is made."""
    whole = ast.Module([ast.Expr(function) if isinstance(function, ast.Lambda) else function], [])
    made = compile(ast.fix_missing_locations(whole), "cell", "exec").co_consts
    name = getattr(function, "name", "<lambda>")
    inside = [c for c in made if isinstance(c, CodeType) and c.co_name == name]
    return set(names_in(inside[-1])) - set(vars(builtins))


EXERCISES = [(path, name) for path in NOTEBOOKS for name in stub_cells(read(path))]
