"""Paths that Makefile, CI and READMEs name are there; figures in docs/ are those of the recorded runs."""

import re
from statistics import fmean

import pytest

from helpers.tools.files import ROOT

PATH = re.compile(
    r"(?<![\w/.])(?:tests|helpers|benchmarks|notebooks)/[\w./-]+\.(?:py|txt|ipynb|gif)\b"
)
NAMING = ["Makefile", ".ci/run", "README.md", *ROOT.glob(".github/workflows/*.yml")]
FOLDERS = ("tests", "helpers", "helpers/commands", "notebooks", "benchmarks", "data")
NAMING += [ROOT / folder / "README.md" for folder in FOLDERS]


@pytest.mark.parametrize("file", NAMING, ids=lambda file: str((ROOT / file).relative_to(ROOT)))
def test_paths_are_there(file):
    named = PATH.findall((ROOT / file).read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_test_that_the_table_of_faults_names_is_there():
    named = re.findall(r"`(test_\w+\.py)`", (ROOT / "tests" / "README.md").read_text("utf-8"))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / "tests/faults" / name).exists()] == []


@pytest.mark.parametrize("word", ["WIDGET_TESTS", "CHECKED"])
def test_what_the_makefile_builds_a_path_of_is_there(word):
    (line,) = re.findall(rf"^{word} := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.M)
    built = re.findall(r"\$\(addprefix ([\w/]+),([^)]*)\)", line)
    paths = [ROOT / (prefix + name) for prefix, names in built for name in names.split()]
    assert len(paths) >= 3 and [path for path in paths if not path.exists()] == []


PAGE = (ROOT / "docs" / "choosing_beta.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip().replace("−", "-") for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|")
]
BY_BETA = [row for row in ROWS if len(row) == 7 and re.match(r"\d", row[0])]
SHARES = dict(row for row in ROWS if len(row) == 2 and row[1].startswith("0."))


@pytest.mark.parametrize("row", BY_BETA, ids=[f"beta {row[0]}" for row in BY_BETA])
def test_rows_of_choosing_beta_are_the_recorded_sweep(sweep, row: list[str]) -> None:
    beta = float(row[0])
    runs = [run for run in sweep.runs if run.config.kl_coef == beta]
    kl = fmean(run.final["kl"] for run in runs)
    length = fmean(x for run in runs for x in run.column("response_length")[-10:])
    early = fmean(fmean(run.column("kl")[20:30]) / run.final["kl"] for run in runs)
    gold = [run.final["gold"] for run in runs]
    assert row[1:4] == [f"{x:.2f}" for x in (kl, kl / length, beta * kl)]
    assert row[4:6] == [f"{fmean(gold):.2f}", ", ".join(f"{x:.2f}" for x in gold)]
    assert row[6] == f"{early:.2f}"


def test_the_shares_of_a_kl_in_the_loss_are_those_of_benchmarks() -> None:
    table = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| GRPO")]
    # of several tables the first counts
    efficiency = {row[0].strip(): row[5].strip() for row in reversed(rows)}
    names = ["", ", KL as k3 in the loss", ", k3 in the loss, ratio", ", k3 in the loss, no std"]
    names += [", k3 in the loss, no std, ratio"]
    assert list(SHARES.values()) == [efficiency[f"GRPO{name}"] for name in names]
