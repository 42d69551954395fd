"""The metrics of a log under this course's names and in its units. `names.toml` is the table of names."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from helpers.lessons.debugging.measures import first_three, mean
from helpers.tools.validate import require, require_choice

LIBRARIES = {
    "course": "this course",
    "trl_ppo": "TRL PPO",
    "trl_group": "TRL GRPO, RLOO",
    "trl_dpo": "TRL DPO",
    "verl": "verl",
    "openrlhf": "OpenRLHF",
    "other": "other names",
}
STEPS = ("iteration", "step", "global_step", "training/global_step", "_step", "Step", "episode")
SMALL = 1e-6  # a standard deviation below this is 0
UNSCALED = {"score": "reward", "value_loss": "raw_value_loss"}  # of a run that does not normalise

Series = dict[float, float]  # iteration → value


@dataclass(frozen=True)
class Metric:
    """A metric: its unit, what to log for it, what a strange value may mean, its names by library."""

    unit: str
    log: str
    wrong: str
    names: dict[str, list[str]]  # the newest first


def _metric(entry: dict) -> Metric:
    names = {library: entry.pop(library) for library in LIBRARIES if library in entry}
    return Metric(**entry, names=names)


_TABLE = tomllib.loads((Path(__file__).parent / "names.toml").read_text("utf-8"))
METRICS = {key: _metric(entry) for key, entry in _TABLE.items()}


def as_columns(rows: Iterable[dict[str, float]]) -> dict[str, Series]:
    """Rows → name → series; where no column counts iterations, the row's number does."""
    columns: dict[str, Series] = {}
    for number, row in enumerate(rows, start=1):
        at = next((row[name] for name in STEPS if name in row), number)
        for name, value in row.items():
            columns.setdefault(name, {})[at] = value
    return columns


def plain(column: str) -> str:
    """A column's name without what loggers put before it: the run's name, and `train/`."""
    return column.rpartition(" - ")[2].strip().removeprefix("train/")


def find_names(columns: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The library whose names most columns have (not this course, if others tie); metric → column."""
    here = {plain(column): column for column in columns}

    def in_words_of(library: str) -> dict[str, str]:
        known = {key: metric.names.get(library, ()) for key, metric in METRICS.items()}
        found = {
            key: [here[name] for name in names if name in here] for key, names in known.items()
        }
        return {key: some[0] for key, some in found.items() if some}

    library = max(LIBRARIES, key=lambda name: (len(in_words_of(name)), name != "course"))
    return library, in_words_of("other") | in_words_of(library)


def reward_scale(found: dict[str, Series]) -> float:
    """The rewards' standard deviation in the first three rows; 1 beside a `score`, 0 if not logged."""
    if "score" in found or not found.get("reward_std"):
        return float("score" in found)
    values = list(found["reward_std"].values())
    scale = mean(values[first_three(values)])
    return scale if scale > SMALL else 0.0


def in_our_units(found: dict[str, Series]) -> dict[str, Series]:
    """A log's metrics and those made of them: per response, and in standard deviations of the reward."""
    made, scale = dict(found), reward_scale(found)
    for key, source, unit in (
        ("score", "reward", scale),
        ("value_loss", "raw_value_loss", scale * scale),  # inf where a power would raise
    ):
        series = made.pop(key, None) or found.get(source)
        if series and unit:
            made[key] = {x: value / unit for x, value in series.items()}
    if "score" in found:
        made.setdefault("reward", found["score"])
    lengths = found.get("response_length", {})
    for key, source in (("kl", "kl_per_token"), ("kl_k3", "k3_per_token")):
        each = found.get(source, {})
        made.setdefault(key, {x: value * lengths[x] for x, value in each.items() if x in lengths})
    if "eos_count" in found and len(found.get("episode", ())) > 1:
        seen = list(found["episode"].values())
        batch = (seen[-1] - seen[0]) / (len(seen) - 1)
        made["ended"] = {x: count / batch for x, count in found["eos_count"].items() if batch > 0}
    if "not_ended" in found:
        made.setdefault("ended", {x: 1.0 - share for x, share in found["not_ended"].items()})
    return {key: series for key, series in made.items() if series}


def metrics_of(
    rows: Iterable[dict[str, float]], own: dict[str, str] | None = None
) -> tuple[str, dict[str, Series]]:
    """The library that wrote a log, and its metrics; `own`: metric → column, where it has names of its own.

    ValueError: no such metric or column, or no column that is a metric.
    """
    columns, own = as_columns(rows), own or {}
    listed = ", ".join(columns) or "none"
    for key, column in own.items():
        require_choice("names", key, tuple(METRICS))
        require(column in columns, "names", repr(column), f"one of the log's columns: {listed}")
    library, names = find_names(columns)
    if "score" in names and columns.get("raw_score") == columns[names["score"]]:
        names = {UNSCALED.get(key, key): column for key, column in names.items()}
    names = {key: column for key, column in names.items() if column not in own.values()} | own
    known = "one that docs/names.md has, or names (--names kl=COLUMN …) that say which is which"
    require(bool(names), "log", f"the columns {listed}", known)
    return library, in_our_units({key: columns[column] for key, column in names.items()})
