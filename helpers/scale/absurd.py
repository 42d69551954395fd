"""An update that wrecks the policy is noticed before it is saved: the guard of the two commands.

The loop in Python has none: a lesson breaks runs on purpose.
"""

from collections.abc import Callable

from helpers.state import RLHFState
from helpers.tools.validate import require

ABSURD_KL = 5.0  # nats per token, of one update; the clinic's own faults reach 2.3


def refuse_absurd(state: RLHFState, metrics: dict) -> None:
    """ValueError after an update that moved the policy absurdly far; it is not saved."""
    got = f"{metrics['approx_kl']:.3g} nats per token in update {state.iteration + 1}"
    lower = f"--learning-rate below {state.config.learning_rate:g}"
    wants = f"at most {ABSURD_KL:g}: take a {lower}, or --force to go on"
    require(metrics["approx_kl"] <= ABSURD_KL, "approx_kl", got, wants)


def guard(state: RLHFState, force: bool = False) -> Callable:
    """An observer of the loop that ends a run after an absurd update, unless forced to go on."""

    def observe(step: int, **tensors) -> None:
        if step == 7 and not force:
            refuse_absurd(state, tensors["metrics"])

    return observe
