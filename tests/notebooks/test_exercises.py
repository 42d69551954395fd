"""Exercises of the notebooks: stubs run and say so, folded solutions pass, and 'run all' works twice."""

import ast

import nbformat
import pytest
import torch
from exercises import (
    CHECK,
    EXERCISES,
    NOTEBOOKS,
    bound,
    check_of,
    read,
    reads,
    solutions,
    solved,
    stub_cells,
)
from nbclient import NotebookClient

ids = [f"{path.stem}-{name}" for path, name in EXERCISES]


def test_there_are_at_least_twenty_and_each_has_a_solution_and_two_hints():
    assert len(EXERCISES) >= 20
    for path in NOTEBOOKS:
        notebook = read(path)
        assert set(stub_cells(notebook)) == set(solutions(notebook))
        text = "\n".join(cell.source for cell in notebook.cells)
        for number in (1, 2):
            assert text.count(f"<summary>Hint {number}</summary>") >= len(stub_cells(notebook))


@pytest.mark.parametrize(("path", "name"), EXERCISES, ids=ids)
def test_the_folded_solution_is_that_of_its_check(path, name):
    """Which passes it: `kit/test_answers.py`."""
    assert solutions(read(path))[name].strip() == check_of(path, name).exercise.solution.strip()


@pytest.mark.parametrize(("path", "name"), EXERCISES, ids=ids)
def test_what_a_solution_uses_stands_in_a_cell_before_it(path, name):
    notebook, solution = read(path), ast.parse(solutions(read(path))[name]).body
    cells = notebook.cells[: stub_cells(notebook)[name] + 1]
    before = [x for c in cells if c.cell_type == "code" for x in ast.parse(c.source).body]
    known = set().union(*map(bound, before + solution))
    assert set().union(*(reads(x) for x in solution if isinstance(x, ast.FunctionDef))) <= known


@pytest.mark.parametrize(("path", "name"), EXERCISES, ids=ids)
def test_the_stub_is_not_attempted_yet(path, name):
    notebook, check = read(path), check_of(path, name)
    source = notebook.cells[stub_cells(notebook)[name]].source
    names = {"torch": torch}
    exec(compile(CHECK.sub("", source), name, "exec"), names)
    report = getattr(check, "report", check)(names[name])  # the clinic's check gives it at once
    assert report.status == "not attempted"


@pytest.mark.parametrize(("path", "name"), EXERCISES, ids=ids)
def test_what_the_learner_writes_is_used_later(path, name):
    """A later cell reads the name that the check hands back, and none takes it for something else before."""
    notebook = read(path)
    later = notebook.cells[stub_cells(notebook)[name] + 1 :]
    trees = [ast.parse(cell.source) for cell in later if cell.cell_type == "code"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    read_later = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
    assert name in read_later, "no later cell reads it"
    aliases = [x for x in nodes if isinstance(x, ast.alias)]
    assert name not in {x.asname or x.name for x in aliases}, "an import takes its place"


@pytest.mark.nightly  # `make test` runs each notebook once, through nbval
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_run_all_works_again_in_the_same_kernel_and_with_the_solutions(path, monkeypatch, tmp_path):
    """First as shipped, then, in the same kernel, with every stub replaced by its solution."""
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path))
    notebook = read(path)
    cells = [cell.copy() for cell in [*notebook.cells, *solved(notebook)]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    twice = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(twice, timeout=580, kernel_name="python3", resources=resources).execute()
    counting, *again, calls = twice.cells[len(notebook.cells) :]
    outputs = [output for cell in again for output in cell.get("outputs", [])]
    assert not [o for o in outputs if o.get("name") == "stderr"]
    for name, index in stub_cells(notebook).items():
        said = str(again[index]["outputs"]).lower()
        assert "correct" in said and "not attempted" not in said, name
    counts = ast.literal_eval(calls.outputs[0].text)
    assert [name for name, count in counts.items() if not count] == []
