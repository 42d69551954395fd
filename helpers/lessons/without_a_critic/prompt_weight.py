"""What a group's baseline does to the expected gradient, exactly: rewards of 0 and 1 to one prompt."""

import torch
from torch import Tensor

from helpers.groups import GRPO_EPSILON
from helpers.tools.validate import require_choice, require_count, require_number


def prompt_weight(p: float, group_size: int, method: str = "rloo") -> Tensor:
    """Expected length of the gradient that a prompt sends, with right answers of probability p: a scalar.

    The gradient is with respect to the log-odds of p, in units of reward, summed over all groups of K
    answers by their binomial probabilities. "rloo" gives p(1 − p), which is the exact gradient of p;
    "centred" (r − mean) (K − 1)/K of it; "grpo" E[ĉ(1 − ĉ)/(std + 1e-4)], ĉ being the share of right
    ones: near √(p(1 − p)) for a large K, as if arcsin √p were maximised. ValueError: p, K, method.
    """
    require_number("p", p, 0.0, 1.0)
    require_count("group_size", group_size, low=2)
    right = torch.arange(group_size + 1, dtype=torch.float64)
    chances = torch.distributions.Binomial(group_size, torch.tensor(p, dtype=torch.float64))
    variance = right / group_size * (1 - right / group_size)  # of the rewards in the group, over K
    unbiased = group_size / (group_size - 1)
    weights = {
        "rloo": unbiased * variance,
        "centred": variance,
        "grpo": variance / ((unbiased * variance).sqrt() + GRPO_EPSILON),
    }
    require_choice("method", method, tuple(weights))
    return (chances.log_prob(right).exp() * weights[method]).sum()
