"""Responses that another policy wrote: an older one, or the same one in lower precision.

Then three log-probs belong to each token: the sampler's (who wrote it), the trainer's (whom the gradient
is for) and the reference's (for the KL penalty). PPO's ratio starts at the trainer; these weights cover
the way from the sampler to it.
"""

import torch
from torch import Tensor

from helpers.groups import per_token
from helpers.tools.validate import require_choice, require_positive, require_tokens


def truncated_importance_weights(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    mask: Tensor,
    cap: float = 2.0,
    level: str = "token",
    above: str = "truncate",
) -> Tensor:
    """Truncated importance weights min(π/π_sampler, cap): [B, T], [B, T], [B, T] → [B, T], 0 where masked.

    They multiply the advantages, and no gradient goes through them (Ionides 2008, eq. 3; for responses
    of a separate sampler, Yao et al. 2025). `level` "sequence": one weight for a response, the product
    of its tokens' ratios, which is exact before the cap; "token" leaves out what came before the token.
    `above` "mask" drops what exceeds the cap instead (weight 0). ValueError: shapes, a row without
    counted tokens, non-finite log-probs, cap ≤ 0, an unknown level or choice.
    """
    require_positive("cap", cap)
    require_choice("level", level, ("token", "sequence"))
    require_choice("above", above, ("truncate", "mask"))
    what = {"logprobs": logprobs, "sampler_logprobs": sampler_logprobs}
    require_tokens(mask, dims=2, every_row=True, **what)
    log_ratio = torch.where(mask, logprobs - sampler_logprobs, 0.0).detach()
    if level == "sequence":
        log_ratio = per_token(log_ratio.sum(dim=1), mask)
    weights = torch.where(mask, log_ratio.exp(), 0.0)  # may be inf, which the cap takes away
    return weights.clamp(max=cap) if above == "truncate" else weights.masked_fill(weights > cap, 0)
