"""Over-optimisation: gold against distance from the reference, and the curves of Gao et al. 2022."""

import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.histories import History
from helpers.validate import (
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
        """Gold gained at distance d: any shape → the same, points."""
        return d * (self.alpha - self.beta * _bend(d, self.form))

    @property
    def peak(self) -> float:
        """d where the curve is highest; inf when it never turns."""
        if self.beta <= 0:
            return float("inf")
        ratio = torch.tensor(self.alpha / self.beta)
        return float((ratio - 1).exp() if self.form == "rl" else ratio / 2)


def _bend(d: Tensor, form: str) -> Tensor:
    return d.clamp(min=1e-12).log() if form == "rl" else d


def fit_gold_curve(d: Tensor, gained: Tensor, form: str = "rl") -> GoldCurve:
    """Least squares for α and β through points d [N] (√nats), gained [N] (points). ValueError: fewer
    than three points above d = 0, other shapes, an unknown form.
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
    """Mean over a window of `width` iterations around each, narrower at the ends."""
    require_count("width", width)
    half = width // 2
    return [statistics.fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


@dataclass(frozen=True)
class Turn:
    """Where a run's gold score, smoothed, was highest, and what had become of it at the end."""

    iteration: int
    kl: float  # nats per response, there
    gold: float  # points, there
    proxy: float  # reference std, there
    last_gold: float
    last_proxy: float

    @property
    def lost(self) -> float:
        """Points of gold between the peak and the end."""
        return self.gold - self.last_gold


def turning_point(history: History, width: int = 5) -> Turn:
    """The peak of the smoothed gold score of a run, and its end."""
    gold, kl, proxy = (
        smooth([record[name] for record in history], width) for name in ("gold", "kl", "score")
    )
    top = max(range(len(gold)), key=gold.__getitem__)
    return Turn(top + 1, kl[top], gold[top], proxy[top], gold[-1], proxy[-1])


def fall(history: History, drop: float, width: int = 5) -> float | None:
    """The KL (nats) at which a run's smoothed gold has first fallen `drop` points below its peak;
    None if it never has. ValueError: drop ≤ 0.
    """
    require_positive("drop", drop)
    turn = turning_point(history, width)
    gold, kl = (smooth([record[name] for record in history], width) for name in ("gold", "kl"))
    after = range(turn.iteration, len(gold))
    return next((kl[i] for i in after if gold[i] <= turn.gold - drop), None)


def stop_at_kl(history: History, limit: float, width: int = 5) -> Turn | None:
    """The run stopped at the last iteration before its smoothed KL passes `limit` (nats); None if
    it does so at once. `gold`, `proxy` are there, `last_*` at the run's end.
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
