"""Many runs in one small file: the history of each as columns, and a few of them whole beside it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helpers.runs import RECORD, Run, load_run, significant
from helpers.storage import FileProblem, atomic_folder, read_json, verify, write_json

METRICS = (
    "score gold grammatical kl approx_kl entropy response_length ended explained_variance "
    "policy_loss value_loss clip_fraction grad_norm first_ratio_error"
).split()

History = list[dict]  # one record per iteration, as `helpers.steps.iterate` gives it


@dataclass
class Histories:
    """Histories of all runs by name; some of the runs whole; how they were made."""

    histories: dict[str, History]
    runs: dict[str, Run]
    facts: dict


def run_name(kind: str, seed: int) -> str:
    """Name, and folder, of a run."""
    return f"{kind}_seed_{seed}"


def kind_of(name: str) -> str:
    """The inverse of `run_name`, without the seed."""
    return name.rsplit("_seed_", 1)[0]


def seed_of(name: str) -> int:
    """The inverse of `run_name`, the seed."""
    return int(name.rsplit("_seed_", 1)[1])


def as_columns(history: History) -> dict:
    """A history as one list per metric, five significant digits."""
    return significant({name: [record[name] for record in history] for name in METRICS})


def as_history(columns: dict) -> History:
    """The inverse of `as_columns`."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def keep_histories(
    runs: Path, out: Path, summary: str, whole: Callable[[str], bool], facts: dict
) -> None:
    """Every run below `runs` goes into `out/summary` as its history; those `whole(name)` are copied.

    Runs that are there already and were not made again stay, with the command that made them.
    """
    earlier = read_json(out / summary) if (out / summary).exists() else {}
    names = sorted(path.parent.name for path in runs.glob(f"*_seed_*/{RECORD}"))
    kept = [name for name in names if whole(name)]
    for name in kept:
        with atomic_folder(out / name) as temporary:
            shutil.copytree(runs / name, temporary, dirs_exist_ok=True)
    found = {name: load_run(runs / name) for name in names}
    parts = {
        "configs": {name: run.config.as_dict() for name, run in found.items()},
        "finals": {name: significant(run.final) for name, run in found.items()},
        "histories": {name: as_columns(run.history) for name, run in found.items()},
    }
    kept = sorted({*kept, *earlier.get("whole", [])})
    parts = {key: dict(sorted((earlier.get(key, {}) | new).items())) for key, new in parts.items()}
    if parts["histories"].keys() > found.keys():
        facts = facts | {
            "earlier": {k: v for k, v in earlier.items() if k not in (*parts, "whole")}
        }
    write_json(out / summary, facts | {"whole": kept} | parts)


def load_histories(folder: Path, summary: str) -> Histories:
    """What `keep_histories` wrote; FileProblem when something is missing, broken or altered."""
    verify(folder / summary)
    facts = read_json(folder / summary)
    try:
        histories = {name: as_history(columns) for name, columns in facts.pop("histories").items()}
        whole = facts["whole"]
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise FileProblem(f"{folder / summary} is not a file of histories: {problem}.") from None
    return Histories(histories, {name: load_run(folder / name) for name in whole}, facts)
