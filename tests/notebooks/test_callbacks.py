"""A slider's function runs long after its cell: no later statement may give a name it reads another meaning.

Run All draws every slider before that happens, so no run of a notebook meets the fault; a reader's hand does.
"""

import ast
import json
import re

import pytest
from exercises import NOTEBOOKS, bound, reads

WIDGETS = re.compile(
    r"^helpers\.(page\.explorer|kit\.(sliders|live|predict|markup|\w+_widgets|two_policies))"
    r"|^helpers\.lessons\.\w+\.(widgets|labelling|live_trainer)"
)

IMPORTS = (ast.Import, ast.ImportFrom)
LISTENS = ("observe", "on_click")  # methods of any widget that keep a function
Program = dict[str, ast.FunctionDef]  # the functions of a notebook, by name


def handed_over(statement: ast.stmt, widgets: set[str]) -> list[ast.AST]:
    """What this statement gives to a widget: arguments of a call, or an assignment to `on_…`."""
    given = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            makes = getattr(node.func, "id", "") in widgets
            if makes or getattr(node.func, "attr", "") in LISTENS:
                given += [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "").startswith("on_"):
            given.append(node.value)
    return given


def callbacks(
    given: list[ast.AST], functions: Program, holders: dict[str, ast.AST]
) -> list[ast.AST]:
    """The functions in it: lambdas, functions by name, and those a name like `rewards` holds in a dict."""
    found, waiting = [], [node for value in given for node in ast.walk(value)]
    for node in waiting:  # grows
        if isinstance(node, ast.Name) and node.id in functions:
            found.append(functions[node.id])
        elif isinstance(node, ast.Name) and isinstance(holders.get(node.id), (ast.Dict, ast.List)):
            waiting += list(ast.walk(holders[node.id]))
        elif isinstance(node, ast.Lambda):
            found.append(node)
    return found


def all_reads(found: list[ast.AST], functions: Program) -> set[str]:
    """Global names that these functions read, and the notebook's functions that they call."""
    names, waiting = set(), list(found)
    while waiting:
        new = reads(waiting.pop()) - names
        names |= new
        waiting += [functions[name] for name in new & set(functions)]
    return names


def origin(statement: ast.stmt | None, name: str) -> tuple | None:
    """Where an import takes this name from; None for any other statement."""
    for alias in getattr(statement, "names", []) if isinstance(statement, IMPORTS) else []:
        if name == (alias.asname or alias.name).split(".")[0]:
            return getattr(statement, "module", None), alias.name
    return None


def harmless(one: ast.stmt | None, other: ast.stmt, name: str) -> bool:
    """Whether the second statement gives the name the meaning it had: the same import."""
    return origin(other, name) is not None and origin(one, name) == origin(other, name)


def bound_anew(cells: list[str]) -> set[str]:
    """Names that a widget's function reads and that get another meaning after the widget was made."""
    functions, holders, widgets, found = {}, {}, set(), set()
    last, watched = {}, {}  # name → the statement that bound it last; … when a widget first read it
    for statement in (statement for cell in cells for statement in ast.parse(cell).body):
        names = bound(statement)
        found |= {n for n in names & set(watched) if not harmless(watched[n], statement, n)}
        last |= dict.fromkeys(names, statement)
        if getattr(statement, "module", "") and WIDGETS.search(statement.module):
            widgets |= names
        if isinstance(statement, ast.FunctionDef):
            functions[statement.name] = statement
        if isinstance(statement, ast.Assign):
            holders |= dict.fromkeys(names, statement.value)
        live = callbacks(handed_over(statement, widgets), functions, holders)
        watched = {name: last.get(name) for name in all_reads(live, functions)} | watched
    return found


def code(path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_slider_reads_a_name_that_a_later_cell_binds_anew(path):
    assert bound_anew(code(path)) == set()


EXPLORER = "from helpers.kit.sliders import Explorer\n"
EXPLORER += "from helpers.lessons.kl_beta.live_trainer import LiveTrainer"
DRAW = "def draw(k):\n    return figure(k, reference)"


FOUND = [  # "reference" gets another meaning after a widget reads it
    ["reference = 1", DRAW, "Explorer(draw=draw)", "reference = 2"],
    ["reference = 1", DRAW, "Explorer(lambda k: draw(k))", "reference = 2"],
    [DRAW, "box.observe(draw)", "with x() as reference:\n    pass"],
    [DRAW, "trainer.on_run = draw", "reference, other = 1, 2"],
    [DRAW, "table = {'mine': draw}", "LiveTrainer(table)", "for reference in y:\n    pass"],
    ["from x import reference", DRAW, "Explorer(draw)", "from y import reference"],
]
SOUND = [
    [DRAW, "Explorer(draw)", "def draw(k): ..."],  # the explorer keeps the first one
    ["reference = 1", DRAW, "reference = 2", "Explorer(draw)"],  # before the slider
    [DRAW, "draw(1)", "reference = 2"],  # no slider
    ["def draw(k, reference=reference): return reference", "Explorer(draw)", "reference = 2"],
    ["def draw(k):\n    k = 2\n    return [x for x in k]", "Explorer(draw)", "k = x = 3"],
    [DRAW, "Explorer(draw)", "[reference for reference in y]"],
    ["from x import reference", DRAW, "Explorer(draw)", "from x import y, reference"],
]


def test_the_reader_above_finds_what_it_should_and_nothing_else():
    assert [bound_anew([EXPLORER, *cells]) for cells in FOUND] == [{"reference"}] * len(FOUND)
    assert [bound_anew([EXPLORER, *cells]) for cells in SOUND] == [set()] * len(SOUND)
