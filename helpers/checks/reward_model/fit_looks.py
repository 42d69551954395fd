"""What numbers alone do not show of the fit of notebook 05, and why they are wrong."""

from collections.abc import Callable

import torch

from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import Expected, explained, import_optimizers
from helpers.checks.judging.report import Report
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import VAGUE, one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.reward_model import fit_parts
from helpers.checks.reward_model.fit import FIT_PAIRS, MORE, fit_pairs
from helpers.checks.reward_model.fit_parts import rates_differ, steps_differ
from helpers.checks.reward_model.fit_trace import watch, why_still


def left_behind(function: Callable) -> tuple[str, str] | None:
    """What right losses do not show: a last step never made, a copy trained, losses with a graph."""
    ours, theirs = copy_of(MORE), copy_of(MORE)
    losses = function(*theirs)
    fit_pairs(*ours)
    late = rates_differ(watch(function, {}, copy_of(MORE)), MORE)
    if late:
        return late
    if losses.requires_grad:
        return "losses keep their graph", (
            "Step 5: the losses are right, but each still holds its graph, and with it the memory of"
            " its step. Keep loss.detach()."
        )
    same = [
        torch.allclose(a, b, atol=1e-4)
        for mine, other in zip(ours[:2], theirs[:2], strict=True)
        for a, b in zip(mine.parameters(), other.parameters(), strict=True)
        if a.numel() > 1  # a bias of the head has no gradient, and Adam makes steps of rounding
    ]
    if not all(same):
        return "models not as they should be", (
            "The losses are right, but encoder and head do not end where they should. Do you train the"
            " models you are given, and is there one step after every loss, the last one too?"
        )
    return fit_parts.overflows(function, fit_pairs, MORE)


def cause(function: Callable, report: Report) -> tuple[str, str] | None:
    """Why weights stayed as they were, and learning rates that numbers alone do not show."""
    given = copy_of(MORE)
    seen = watch(function, {"encoder": given[0], "head": given[1]}, given)
    if report.mistake in VAGUE and seen.uneven:
        return "rate of one group alone", (
            "Step 4: your optimizer has several groups, and not all have the same rate. Set the falling"
            " rate in every group of optimizer.param_groups, or make one group."
        )
    found = why_still(seen, report.mistake)
    if found or report.mistake not in (*VAGUE, "no step") or report.mistake == "wrong shape":
        return found
    if report.mistake == "no step":
        return steps_differ(seen, len(MORE[6])) or rates_differ(seen, MORE)
    return (
        one_of(FIT_PAIRS, result_changed)(function, report)
        or steps_differ(seen, len(MORE[6]))
        or rates_differ(seen, MORE)
        or fit_parts.first_part_wrong(function, copy_of(MORE))
        or fit_parts.first_loss_differs(function, fit_pairs, MORE)
        or fit_parts.pulls_differ(seen, watch(fit_pairs, {}, copy_of(MORE)))
    )


NO_GRADIENT = Expected(
    "does not require grad", "no gradient",
    "Step 4: the loss has no gradient. Are the scores made under no_grad, or detached?",
)  # fmt: skip

check_fit_pairs = explained(
    checker(FIT_PAIRS), (NO_GRADIENT,), left_behind, import_optimizers, cause
)
