"""Generalised advantage estimation: how much each token contributed to the score."""

import torch
from torch import Tensor

from helpers.tools.validate import require_number, require_tokens


def compute_gae(
    rewards: Tensor,
    values: Tensor,
    gamma: float = 0.99,
    lam: float = 0.95,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns of each token (Schulman et al. 2016, eq. 16): all [B, T].

    δ_t = r_t + γ·V_{t+1} − V_t,  A_t = Σ_l (γλ)^l·δ_{t+l},  returns = A + V.
    The value after the last counted token is 0: the response ends there, with an EOS or at the length
    limit. Masked positions are 0 and do not affect the others.
    ValueError: shapes, an empty mask, non-finite counted input, γ or λ outside [0, 1].
    """
    require_number("gamma", gamma, 0.0, 1.0)
    require_number("lam", lam, 0.0, 1.0)
    mask = require_tokens(mask, dims=2, optional=True, rewards=rewards, values=values)
    rewards = torch.where(mask, rewards, 0.0)
    values = torch.where(mask, values, 0.0)
    next_values = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    deltas = rewards + gamma * next_values - values  # (B, T)
    running = torch.zeros_like(deltas[:, 0])  # (B,)
    backwards = []
    for t in reversed(range(deltas.shape[1])):
        running = torch.where(mask[:, t], deltas[:, t] + gamma * lam * running, 0.0)
        backwards.append(running)
    advantages = torch.stack(backwards[::-1], dim=1)  # (B, T)
    return advantages, advantages + values
