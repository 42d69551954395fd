"""Generalised advantage estimation: how much each token contributed to the score."""

import torch
from torch import Tensor


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
    """
    mask = torch.ones_like(rewards, dtype=torch.bool) if mask is None else mask
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
