"""Responses that another policy sampled: an older one, or the same one in lower precision.

Then three log-probs belong to each token: the sampler's, the trainer's (whose gradient is taken) and
the reference's (for the KL penalty). PPO's ratio starts at the trainer; these weights cover the way
from the sampler to it.
"""

import torch
from torch import Tensor

from helpers.groups import per_token
from helpers.tools.validate import require_choice


def truncated_importance_weights(
    logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, cap: float = 2.0, level: str = "token"
) -> Tensor:
    """Truncated importance weights min(π/π_sampler, cap): [B, T], [B, T], [B, T] → [B, T], 0 where masked.

    They multiply the advantages, and no gradient goes through them (Ionides 2008, eq. 3; for responses
    of a separate sampler, Yao et al. 2025). `level` "sequence": one weight for a response, the product
    of its tokens' ratios, which is exact before the cap; "token" leaves out what came before the token.
    ValueError: an unknown level.
    """
    require_choice("level", level, ("token", "sequence"))
    log_ratio = torch.where(mask, logprobs - sampler_logprobs, 0.0).detach()
    if level == "sequence":
        log_ratio = per_token(log_ratio.sum(dim=1), mask)
    return torch.where(mask, log_ratio.exp(), 0.0).clamp(max=cap)  # may be inf before
