"""An update that wrecks the policy is noticed before it is saved: the guard of the two commands.

The loop in Python has none: a lesson breaks runs on purpose.
"""

from collections.abc import Callable

import torch

from helpers.rollouts import RolloutBatch, forward_logprobs
from helpers.state import RLHFState
from helpers.tools.parallel import total
from helpers.tools.validate import require

HIGHEST_KL = 5.0  # nats per token, of one update; the clinic's own faults reach 2.3


@torch.no_grad()
def approx_kl_after(state: RLHFState, rollout: RolloutBatch) -> float:
    """approx_kl after an update, on some responses of all processes: what a single step logs is 0.

    NaN counts as infinite.
    """
    config, device = state.config, state.models.device
    rows = torch.arange(len(rollout), device=device)[: config.micro_batch_size]
    some = rollout.rows(rows)
    now = forward_logprobs(state.models.actor, *some.tokens(), temperature=config.temperature)
    far = 0.5 * (now - some.logprobs).square()[some.response_mask].sum()
    return float((total(far) / total(some.response_mask.sum())).nan_to_num(float("inf")))


def guard(state: RLHFState, force: bool = False) -> Callable:
    """An observer of the loop that ends a run after such an update, unless forced to go on.

    It raises ValueError before the update is saved.
    """
    config = state.config

    def observe(step: int, **tensors) -> None:
        if step != 7 or force:
            return
        alone = config.gradient_steps == 1
        rollout, metrics = tensors["rollout"], tensors["metrics"]
        found = approx_kl_after(state, rollout) if alone else metrics["approx_kl"]
        got = f"{found:.3g} nats per token in update {state.iteration + 1}"
        lower = f"--learning-rate below {config.learning_rate:g}"
        wants = f"at most {HIGHEST_KL:g}: take a {lower}, or --force to go on"
        require(found <= HIGHEST_KL, "approx_kl", got, wants)

    return observe
