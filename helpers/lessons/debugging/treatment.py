"""Train with a reader's own function for steps 5 and 6: the run that lesson 09 repairs in code."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.lessons.debugging.study import ITERATIONS, rerun
from helpers.rollouts import forward_values
from helpers.sampling import Responses
from helpers.state import RLHFState
from helpers.studies.faults import Fault
from helpers.studies.runs import Run
from helpers.tools.validate import require


class Credit:
    """`total_rewards` and `estimate_advantages` of the loop, both from one function.

    `function(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam)` gives rewards,
    advantages, returns: [B, T] each.
    """

    def __init__(self, function: Callable):
        self.function, self.found = function, None

    @torch.no_grad()
    def total_rewards(
        self, state: RLHFState, responses: Responses, scores: Tensor, ref_logprobs: Tensor
    ) -> Tensor:
        """Step 5. ValueError: not three tensors of the responses' shape."""
        critic, config = state.models.critic, state.config
        values = responses.in_parts(lambda *tokens: forward_values(critic, *tokens))
        given = scores, responses.logprobs, ref_logprobs, values, responses.response_mask
        found = self.function(*given, state.kl_coef, config.gamma, config.lam)
        shapes = [x.shape for x in found] if isinstance(found, (tuple, list)) else None
        wants = f"rewards, advantages, returns of shape {tuple(values.shape)}"
        require(shapes == [values.shape] * 3, "function", f"results {shapes}", wants)
        rewards, *rest = found
        self.found = values, *rest
        return rewards

    def estimate_advantages(
        self, state: RLHFState, responses: Responses, rewards: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Step 6: values, advantages, returns, as they were found in step 5."""
        return self.found


def treat(
    function: Callable,
    iterations: int = ITERATIONS,
    seed: int = 0,
    shown: Callable[[Run], None] | None = None,
) -> Run:
    """Train the clinic's run with this function as steps 5 and 6; `shown(run)` after each iteration."""
    credit = Credit(function)
    steps = {name: getattr(credit, name) for name in ("total_rewards", "estimate_advantages")}
    return rerun(Fault("treated", "", "", "", steps), iterations, seed, shown)
