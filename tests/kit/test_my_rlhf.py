"""`my_rlhf.py`: saved by lesson 06, with the methods of lessons 10 and 11; it trains from a shell."""

import subprocess
import sys

import pytest

from helpers.groups import rloo_advantages
from helpers.kit.my_rlhf import FILE, add_method
from helpers.kit.recorded import trainer_config
from helpers.lessons.your_trainer.checks import COURSE, NAMES
from helpers.lessons.your_trainer.file import save_trainer
from tests.notebooks.exercises import NOTEBOOKS, read, solutions

SMALL = {"iterations": 2, "batch_size": 4, "minibatch_size": 4, "response_length": 6}
ORDER = "torch.randperm(len(prompts))"
ADDED = {"rloo": "rloo_advantages", "dpo": "dpo_loss"}


def written(tmp_path, change=lambda source: source) -> dict:
    """The lessons' solutions as functions of a module, whose source Python can find."""
    lessons = (path for path in NOTEBOOKS if path.stem[:2] in ("06", "10", "11"))
    found = {name: text for path in lessons for name, text in solutions(read(path)).items()}
    path = tmp_path / "answers.py"
    sources = "\n\n\n".join(found[name] for name in (*NAMES, *ADDED.values()))
    path.write_text(change(f"import torch\n\n\n{sources}"), "utf-8")
    names = {"__name__": "answers"}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    return names


def save(functions: dict, folder, **changes):
    return save_trainer(functions, trainer_config(**SMALL | changes), folder / FILE)


def trained(path, *arguments: str) -> str:
    """What the file prints, run away from the course."""
    command = [sys.executable, "-I", str(path), *arguments]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_run_through_all_solutions_trains_from_the_shell_by_each_method(tmp_path, capsys):
    functions = written(tmp_path)
    path = save(functions, tmp_path)
    assert path == tmp_path / FILE and f"Saved as {FILE}" in capsys.readouterr().out
    add_method("dpo", functions["dpo_loss"], path)
    save(functions, tmp_path, seed=3)  # lesson 06 again: what lesson 11 added stays
    add_method("rloo", functions["rloo_advantages"], path)
    text = path.read_text("utf-8")
    assert "helpers" not in text.partition("DATA =")[0] and "seed=3" in text
    for method in ("ppo", *ADDED):
        assert text.count(f"def train_{method}(") == (method in ADDED)
        lines = trained(path, "2", method).splitlines()
        assert lines[0].startswith("iteration   1   score") and len(lines) == 2
        assert abs(float(lines[0].split()[-1])) < 1e-3  # the policy begins as the reference
    assert trained(path, "1").count("\n") == 1


def test_what_is_the_course_s_is_neither_saved_nor_added(tmp_path, capsys):
    functions = written(tmp_path)
    assert save(functions | {"update": COURSE["update"]}, tmp_path) is None
    assert capsys.readouterr().out == "Not saved: the course's own stand in for update.\n"
    add_method("rloo", rloo_advantages, tmp_path / FILE)
    assert capsys.readouterr().out.startswith("Not added: rloo_advantages is the course's.")
    add_method("rloo", functions["rloo_advantages"], tmp_path / FILE)
    assert capsys.readouterr().out.startswith(f"Not added: there is no {FILE} yet.")
    assert not (tmp_path / FILE).exists()


def test_helper_functions_are_saved_and_values_of_the_notebook_are_told(tmp_path, capsys):
    def changed(before: str, order: str):
        change = lambda text: before + text.replace(f"= {ORDER}", f"= {order}")  # noqa: E731
        return save(written(tmp_path, change), tmp_path), capsys.readouterr().out

    helpers = "import torch\n\n\ndef _first(order, n):\n    return order[:n]\n\n\n"
    helpers += "def _order(n, k):\n    return _first(torch.randperm(n), k)\n\n\n"
    helpers += "def _unused():\n    return 0\n\n\n"
    path, _ = changed(helpers, "_order(len(prompts), batch_size)")
    text = path.read_text("utf-8")
    assert text.count("def _first(") == text.count("def _order(") == 1 and "_unused" not in text
    path, said = changed("import torch\nmixed = torch.randperm\n", "mixed(len(prompts))")
    assert path is None and "'mixed' is not defined" in said
