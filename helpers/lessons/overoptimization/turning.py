"""Over-optimisation: gold score against distance from the reference; the curves of Gao et al. 2022."""

import math
import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.state import History
from helpers.tools.validate import (
    require,
    require_choice,
    require_count,
    require_positive,
    require_shape,
    require_tensor,
)

FORMS = ("rl", "best_of_n")


@dataclass(frozen=True)
class GoldCurve:
    """gold(d) − gold(0) = d·(α − β·log d) for "rl", d·(α − β·d) for "best_of_n" (Gao et al. 2022, eq. 1).

    d = √KL(π‖π_ref) in √nats; gold in points. `r_squared`: share of the variance explained.
    """

    form: str
    alpha: float
    beta: float
    r_squared: float
    rmse: float  # points

    def __call__(self, d: Tensor) -> Tensor:
        """Gold gained at distance d, in points: any shape → the same shape."""
        return d * (self.alpha - self.beta * _bend(d, self.form))

    @property
    def peak(self) -> float:
        """d at the maximum of the curve; inf if it never falls."""
        if self.beta <= 0:
            return float("inf")
        ratio = torch.tensor(self.alpha / self.beta)
        return float((ratio - 1).exp() if self.form == "rl" else ratio / 2)


def _bend(d: Tensor, form: str) -> Tensor:
    return d.clamp(min=1e-12).log() if form == "rl" else d


def fit_gold_curve(d: Tensor, gained: Tensor, form: str = "rl") -> GoldCurve:
    """Fit α and β by least squares to distances d [N] (√nats) and gold gained [N] (points).

    ValueError: fewer than three points above d = 0, shapes, an unknown form.
    """
    require_choice("form", form, FORMS)
    require_tensor("d", d, dims=1)
    require_shape("gained", gained, d.shape, like="d")
    inside = d > 0
    d, gained = d[inside].double(), gained[inside].double()
    require(len(d) >= 3, "d", f"{len(d)} points above 0", "at least three")
    columns = torch.stack([d, -d * _bend(d, form)], dim=1)  # (N, 2)
    alpha, beta = torch.linalg.lstsq(columns, gained.unsqueeze(1)).solution.flatten().tolist()
    residual = gained - columns @ torch.tensor([alpha, beta], dtype=torch.float64)
    total = (gained - gained.mean()).square().sum()
    r_squared = float(1 - residual.square().sum() / total) if total > 0 else 0.0
    return GoldCurve(form, alpha, beta, r_squared, float(residual.square().mean().sqrt()))


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
    step: float = 0.2,
) -> dict:
    """Several runs → "d" [T] and, for "gold" and "score", (mean, lowest, highest) over them, [T] each.

    Taken at equal distances (√nats), as far as every run came; `start` is subtracted from (gold, score),
    then each is divided by its `std`.
    """
    grid = [step * k for k in range(1, 200)]
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
    """A moment of a run (the peak of its smoothed gold score, or a stop), and the end of the run."""

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
    """The peak of a run's smoothed gold score."""
    gold, kl, proxy = (
        smooth([record[name] for record in history], width) for name in ("gold", "kl", "score")
    )
    top = max(range(len(gold)), key=gold.__getitem__)
    return Turn(top + 1, kl[top], gold[top], proxy[top], gold[-1], proxy[-1])


def kl_at_fall(history: History, drop: float, width: int = 5) -> float | None:
    """KL (nats) where a run's smoothed gold score first is `drop` points below its peak, or None.

    ValueError: drop ≤ 0.
    """
    require_positive("drop", drop)
    turn = turning_point(history, width)
    gold, kl = (smooth([record[name] for record in history], width) for name in ("gold", "kl"))
    after = range(turn.iteration, len(gold))
    return next((kl[i] for i in after if gold[i] <= turn.gold - drop), None)


def stop_at_kl(history: History, limit: float, width: int = 5) -> Turn | None:
    """The run at the last iteration before its smoothed KL exceeds `limit` (nats).

    None if the first iteration exceeds it.
    """
    kl = smooth([record["kl"] for record in history], width)
    inside = next((i for i, value in enumerate(kl) if value > limit), len(kl))
    if inside == 0:
        return None
    gold, proxy = (
        smooth([record[name] for record in history], width) for name in ("gold", "score")
    )
    at = inside - 1
    return Turn(at + 1, kl[at], gold[at], proxy[at], gold[-1], proxy[-1])
