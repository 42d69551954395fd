"""The large exercise of notebook 04: `ppo_update_step`, judged as the update of notebook 06 is.

The learner's function is put into the place of step 7 of a trainer: the same recorded rollout, the same
gradients looked at, the same mistakes.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report
from helpers.checks.judging.runner import MISSING, attempt, is_stub
from helpers.checks.ppo.update_looks import (
    MORE_MISTAKES,
    attention,
    each_minibatch,
    every_step_clipped,
    extra_term,
    no_step,
    other_settings,
)
from helpers.checks.trainer.course_steps import ValueModel, split
from helpers.checks.trainer.step_judge import TIME_LIMIT, judge_step
from helpers.checks.trainer.steps_and_loop import STEPS
from helpers.rollouts import RolloutBatch

STEP = replace(STEPS["update"], mistakes=[*STEPS["update"].mistakes, *MORE_MISTAKES])
NAME = "ppo_update_step"
SIGNATURE = f"{NAME}(policy, value_network, rollout, optimizer, config)"
LOSSES = ("policy_loss", "value_loss")  # which it may call


class Critic(nn.Module):
    """A critic with one logit a token, as the value network that the helpers call."""

    def __init__(self, trunk: nn.Module):
        super().__init__()
        self.trunk = trunk

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        """Values after each token: [B, L] → [B, L]."""
        return ValueModel(self.trunk)(input_ids, attention_mask, position_ids)


def as_rollout(rollout: tuple) -> RolloutBatch:
    """A trainer's rollout `(ids, mask, logprobs, values, advantages, returns)` as a `RolloutBatch`."""
    ids, mask, logprobs, values, advantages, returns = rollout
    unused = torch.zeros_like(logprobs)
    per_token = (logprobs, unused, values, unused, advantages, returns)
    return RolloutBatch(*split(ids, mask, logprobs.shape[1]), *per_token, unused[:, 0])


def as_update(function: Callable) -> Callable:
    """`ppo_update_step` under the signature of a trainer's step 7."""

    def update(actor, critic, optimizer, rollout, config):
        return function(actor, Critic(critic), as_rollout(rollout), optimizer, config)

    update.__wrapped__ = function  # whose lines an error names
    return update


def unwritten(function: Callable) -> str:
    """The loss of an earlier exercise that this function calls and that is still a stub, or ""."""
    known = getattr(function, "__globals__", {})
    called = getattr(getattr(function, "__code__", None), "co_names", ())
    zeros, counts = torch.zeros(1, 1), torch.ones(1, 1).bool()
    for name in LOSSES:
        if name in called and callable(known.get(name)):
            outcome = attempt(known[name], (zeros, zeros, zeros, counts, 0.2), seconds=1.0)
            if outcome.state == MISSING:
                return name
    return ""


def looked_further(function: Callable, report: Report) -> Report:
    """The report, after a further look at what passed, was not recognised, or made no step."""
    looks = {
        CORRECT: (other_settings, each_minibatch, every_step_clipped),
        "unrecognised": (attention, extra_term),
        "no optimizer.step": (no_step,),
    }
    for look in looks.get(report.mistake or report.status, ()):
        outcome = attempt(look, (function,), TIME_LIMIT)
        if outcome.value:
            name, says = outcome.value
            return replace(report, status=MISTAKE, mistake=name, message=says)
    return report


def check_ppo_update_step(function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """Check your `ppo_update_step(policy, value_network, rollout, optimizer, config)`."""
    stub = not callable(function) or is_stub(function)
    report = judge_step(STEP, NotImplemented if stub else as_update(function), seconds)
    if not stub:
        report = looked_further(as_update(function), report)
    report = replace(report, exercise=NAME)
    if report.status == NOT_ATTEMPTED:
        says = f"Write {SIGNATURE} and run the cell again. The notebook works without it, too."
        return replace(report, message=says)
    missing = unwritten(function) if report.status == MISTAKE else ""
    if missing:
        says = f"It calls {missing}, which is not written yet: finish that exercise first, or write the"
        says += f" loss out, or take ppo.{missing}(…)[0]."
        return replace(report, mistake=f"{missing} comes first", message=says, case=())
    return replace(report, message=report.message.replace(STEP.signature, SIGNATURE))
