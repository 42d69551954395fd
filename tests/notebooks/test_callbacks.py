"""A slider's function runs long after its cell: no later statement may give a name it reads another meaning.

No run of a notebook meets that fault; a reader's hand does. Asked of every function of a lesson.
"""

import ast
import json

import pytest
from exercises import NOTEBOOKS, bound, reads

HARMLESS = {  # read by functions that no widget keeps
    "07_kl_beta_sweeps": {"config", "kl_coef", "name"},
    "10_without_a_critic": {"rewards", "words"},
}


def bound_anew(cells: list[str]) -> set[str]:
    """Names that a function reads and a later statement binds; imports bind the same again."""
    read, found = set(), set()
    for statement in (statement for cell in cells for statement in ast.parse(cell).body):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            found |= bound(statement) & read
        made = [x for x in ast.walk(statement) if isinstance(x, (ast.FunctionDef, ast.Lambda))]
        read |= {name for one in made for name in reads(one)}
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_function_reads_a_name_that_a_later_cell_binds_anew(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    _, _, *code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert bound_anew(code) <= HARMLESS.get(path.stem, set())


DRAW = "def draw(k):\n    return figure(k, reference)"
FOUND = [  # "reference" gets another meaning after a function reads it
    ["reference = 1", DRAW, "reference = 2"],
    ["table = {'mine': lambda k: reference}", "for reference in y:\n    pass"],
]
SOUND = [
    ["reference = 1", "reference = 2", DRAW, "def draw(k): ..."],
    ["def draw(k, reference=reference): return reference", "reference = 2"],
    ["def draw(k):\n    k = 2\n    return [x for x in k]", "k = x = 3"],
    [DRAW, "[reference for reference in y]"],
    ["from x import reference", DRAW, "from x import reference"],
]


def test_the_reader_above_finds_what_it_should_and_nothing_else():
    assert [bound_anew(cells) for cells in FOUND] == [{"reference"}] * len(FOUND)
    assert [bound_anew(cells) for cells in SOUND] == [set()] * len(SOUND)
