"""The large exercise of notebook 03 with one thing changed, and the pieces of wrong versions."""

from collections.abc import Callable

import torch
from torch import Tensor

FLOOR = 0.05


def counted(x: Tensor, mask: Tensor) -> Tensor:
    """The entries that count, in one row."""
    return x[mask]


def spread(x: Tensor) -> Tensor:
    """Unbiased variance; 0 for a single number."""
    return (x - x.mean()).square().sum() / max(len(x) - 1, 1)


def whitened_by_row(a: Tensor, mask: Tensor) -> Tensor:
    """Each row by its own statistics."""
    rows = [
        torch.where(m, (x - x[m].mean()) / (spread(x[m]) + 1e-8).sqrt(), 0.0)
        for x, m in zip(a, mask, strict=True)
    ]
    return torch.stack(rows)


def rollout_with(
    pick=counted, mean=torch.mean, var=spread, below=lambda a, m, s: a - m, reached=None,
    target=lambda a, white, v, mask: a + v, gauge=None, up=None, explained=None, white=None,
    rows_mean=None, rows_var=None, var_of=None, up_of_returns=False,
) -> Callable:  # fmt: skip
    """`whiten_rollout` with one thing changed. The names say what; without changes it is right."""

    def wrong(advantages, values, mask, floor):
        seen = pick(advantages, mask)
        whole_var = rows_var or var_of
        m = rows_mean(advantages, mask) if rows_mean else mean(seen)
        v = whole_var(advantages, mask) if whole_var else var(seen)
        s = v.sqrt()
        small = (reached or (lambda v, s, floor: s < floor))(v, s, floor)
        scaled = below(advantages, m, s) if small else (advantages - m) / (v + 1e-8).sqrt()
        scaled = scaled if white is None or small else white(advantages, mask)
        whitened = torch.where(mask, scaled, 0.0)
        returns = torch.where(mask, target(advantages, whitened, values, mask), 0.0)
        pushes = returns if up_of_returns else whitened
        share = (up or (lambda w, a, k: (w[k] > 0).float().mean()))(pushes, advantages, mask)
        ev = (
            explained or (lambda a, v, r, k: 1 - spread((r - v)[k]) / spread(r[k]).clamp(min=1e-12))
        )(advantages, values, returns, mask)
        gauges = [m, s, share, ev] if gauge is None else gauge(m, s, v, share, ev)
        return whitened, returns, torch.stack([torch.as_tensor(g) for g in gauges])

    return wrong


def scaled(x: Tensor, mask: Tensor) -> Tensor:
    """x by the mean and deviation of what counts, 0 where masked."""
    return torch.where(mask, (x - x[mask].mean()) / (spread(x[mask]) + 1e-8).sqrt(), 0.0)


def biased_scaled(x: Tensor, mask: Tensor) -> Tensor:
    """Whitened by the variance with divisor n."""
    return torch.where(
        mask, (x - x[mask].mean()) / (x[mask].var(unbiased=False) + 1e-8).sqrt(), 0.0
    )


def row_statistics(x: Tensor, mask: Tensor, of: Callable) -> Tensor:
    """One number for each row's counted entries: [B]."""
    return torch.stack([of(row[counted]) for row, counted in zip(x, mask, strict=True)])


def correlation(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """Of the counted entries; NaN for one alone."""
    counted = torch.stack([values[mask], returns[mask]])
    return torch.corrcoef(counted)[0, 1] if counted.shape[1] > 1 else counted.new_tensor(torch.nan)


def of_returns(advantages, values, mask, floor):
    """The statistics of the returns."""
    r = advantages + values
    mean, var = (lambda a, k: r[k].mean()), (lambda a, k: spread(r[k]))
    return _whitened_by(mean, var)(advantages, values, mask, floor)


def of_values(advantages, values, mask, floor):
    """The statistics of the values."""
    mean, var = (lambda a, k: values[k].mean()), (lambda a, k: spread(values[k]))
    return _whitened_by(mean, var)(advantages, values, mask, floor)


def _whitened_by(mean: Callable, var: Callable) -> Callable:
    return rollout_with(rows_mean=mean, var_of=var)


def exchanged(advantages, values, mask, floor):
    """The first two results in each other's place."""
    whitened, returns, gauges = own(advantages, values, mask, floor)
    return returns, whitened, gauges


def share_explained(values: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Explained variance against another target."""
    return 1 - spread((target - values)[mask]) / spread(target[mask]).clamp(min=1e-12)


own = rollout_with()


def whiten_rollout(advantages: Tensor, values: Tensor, mask: Tensor, floor: float) -> tuple:
    """Whitened advantages, returns [B, T] and four gauges [4], as the exercise asks for them."""
    return own(advantages, values, mask, floor)


def everything(x: Tensor, mask: Tensor) -> Tensor:
    """All positions, padding too."""
    return x.flatten()


def with_zeros(x: Tensor, mask: Tensor) -> Tensor:
    """All positions, padding as zeros."""
    return torch.where(mask, x, 0.0).flatten()
