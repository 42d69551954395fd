"""Over-optimisation: gold score against distance from the reference; where it turns (Gao et al. 2023)."""

import math
import statistics
from dataclasses import dataclass

import torch

from helpers.state import History
from helpers.tools.validate import require_count


def smooth(values: list[float], width: int = 5) -> list[float]:
    """Moving average over a window of `width` iterations, narrower at the ends."""
    require_count("width", width)
    half = width // 2
    return [statistics.fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def value_at(history: History, distance: float, name: str = "gold") -> float:
    """A smoothed column of a run where it first comes as far as `distance` (√nats); NaN: it never does.

    Between two iterations it is interpolated along d = √KL.
    """
    kl, values = (smooth([record[column] for record in history]) for column in ("kl", name))
    d = torch.tensor(kl).clamp(min=0).sqrt().cummax(dim=0).values.tolist()
    after = next((i for i, reached in enumerate(d) if reached >= distance), None)
    if after is None:
        return math.nan
    if after == 0:
        return values[0]
    share = (distance - d[after - 1]) / (d[after] - d[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])


def band(
    histories: list[History],
    start: tuple[float, float] = (0.0, 0.0),
    std: tuple[float, float] = (1.0, 1.0),
) -> dict:
    """Several runs → "d" [T] and, for "gold" and "score", (mean, lowest, highest) over them, [T] each.

    Taken at equal distances (√nats), as far as every run came; `start` is subtracted from (gold, score),
    then each is divided by its `std`.
    """
    grid = [0.2 * k for k in range(1, 200)]
    found = {}
    for name, zero, unit in zip(("gold", "score"), start, std, strict=True):
        rows = [[(value_at(h, d, name) - zero) / unit for d in grid] for h in histories]
        found[name] = torch.tensor(rows)  # (runs, T)
    reached = ~found["gold"].isnan().any(dim=0)
    inside = {name: x[:, reached] for name, x in found.items()}
    spread = {name: (x.mean(0), x.amin(0), x.amax(0)) for name, x in inside.items()}
    return {"d": torch.tensor(grid)[reached]} | spread


@dataclass(frozen=True)
class Turn:
    """Where a run's smoothed gold score has its peak, and the end of the run."""

    iteration: int
    kl: float  # nats per response, at that iteration
    gold: float  # points, at that iteration
    proxy: float  # reference std, at that iteration
    last_gold: float
    last_proxy: float

    @property
    def lost(self) -> float:
        """Gold lost from this iteration to the end, in points."""
        return self.gold - self.last_gold


def turning_point(history: History, width: int = 5) -> Turn:
    """The peak of a run's smoothed gold score, its iteration counted from 1; all columns smoothed."""
    names = ("kl", "gold", "score")
    kl, gold, proxy = (smooth([record[name] for record in history], width) for name in names)
    top = max(range(len(gold)), key=gold.__getitem__)
    return Turn(top + 1, kl[top], gold[top], proxy[top], gold[-1], proxy[-1])
