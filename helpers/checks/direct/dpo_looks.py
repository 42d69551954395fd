"""What the losses of two small tables do not show of a DPO training, and what their first error says."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.checks.direct.train_dpo import MORE, MORE_COUNTS, TRAIN_DPO, table, train_dpo
from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import Expected, explained, import_optimizers
from helpers.checks.judging.report import Report
from helpers.checks.judging.runner import FINISHED, attempt, copy_of
from helpers.checks.judging.second_look import VAGUE, Found
from helpers.checks.reward_model.fit_parts import numbers
from helpers.checks.reward_model.fit_trace import watch


def left_behind(function) -> Found:
    """What correct losses do not show: a policy of the caller's that was trained, losses with a graph."""
    policy, *rest = copy_of(TRAIN_DPO.probes[0])
    before = policy.table.detach().clone()
    losses = function(policy, *rest)
    if not torch.equal(policy.table, before):
        return "caller's policy trained", (
            "The losses are correct, but you trained the policy that you were given; the caller keeps"
            " its own. Train deepcopy(policy)."
        )
    if losses.requires_grad:
        return "losses keep their graph", (
            "Step 6: the losses are correct, but each still holds its graph, and with it all the memory"
            " of its step. Keep loss.detach()."
        )
    return None


# the same models and rows: gradients with a norm of 0.006, and of 18
QUIET = (table(15, 6), table(16, 6), MORE, MORE_COUNTS, 0.01, 50.0, 3)
LOUD = (table(15, 6), table(16, 6), MORE, MORE_COUNTS, 20.0, 1e-3, 2)


def clipped(function: Callable) -> Found:
    """Steps that are right where gradients are short, and too short where they are long."""
    quiet, loud = (function(*copy_of(given)).detach().double() for given in (QUIET, LOUD))
    wanted = train_dpo(*copy_of(LOUD)).double()
    if not alike(quiet, train_dpo(*copy_of(QUIET))) or not alike(loud[0], wanted[0]):
        return None
    if alike(loud[1], wanted[1]) or loud[1] < wanted[1]:
        return None
    return "gradients clipped", (
        "Step 5: your steps are right where gradients are short, and win too little where they are long: are"
        " the gradients clipped (clip_grad_norm_ or the like)? Here nothing is; leave it out."
    )


class TwoLayers(nn.Module):
    """A language model of two layers: tokens → vectors → logits."""

    def __init__(self, seed: int, size: int, width: int = 4):
        super().__init__()
        self.first = nn.Parameter(noise(seed, size, width))
        self.second = nn.Parameter(noise(seed + 1, size, width))

    def forward(self, tokens: Tensor) -> SimpleNamespace:
        """Output with `logits` [N, L, V] for tokens [N, L]."""
        return SimpleNamespace(logits=self.first[tokens] @ self.second.T)


# three of the rows after a prompt of one token, with one token of response each; and a model of two layers
SINGLE = (table(17, 6), table(18, 6), MORE[:, 1:3], MORE_COUNTS[:, 1:3], 0.5, 0.5, 2)
LAYERS = (TwoLayers(19, 6), TwoLayers(21, 6), MORE, MORE_COUNTS, 0.3, 0.5, 3)
FAR = (table(23, 6), table(24, 6), MORE, MORE_COUNTS, 200.0, 1e-6, 1)  # margins of some hundred


def one_token(function: Callable) -> Found:
    """Responses of one token, one position to predict: an axis of length 1 must stay where it is."""
    if alike(losses_of(function, SINGLE), train_dpo(*copy_of(SINGLE)).double()):
        return None
    return "wrong for rows of one token", (
        "Step 1: right, until there is only one position to predict, [2B, 1]. Is there a squeeze() without an"
        " axis? It removes that axis too, and rows and columns mix: say which one, squeeze(-1)."
    )


def some_layers(function: Callable) -> Found:
    """A policy of two layers, of which one stays as it was."""
    mine, right = losses_of(function, LAYERS), train_dpo(*copy_of(LAYERS)).double()
    if alike(mine, right):
        return None
    says = "Right for a policy that is one table; for one of two layers your losses are wrong"
    if not alike(mine[:1], right[:1]):
        return "wrong for two layers", f"{says} before any step. Read model(tokens).logits alone."
    return "a part of the policy trained", (
        f"{says} after the first step. Does the optimizer hold all of policy.parameters()?"
    )


def far_apart(function: Callable) -> Found:
    """Margins of some hundred, where a sigmoid rounds to 0 or an exponential is infinite."""
    got, want = float(losses_of(function, FAR)[0]), float(train_dpo(*copy_of(FAR))[0])
    if abs(got - want) <= 1e-3 * want:
        return None
    what = f"Step 4: right for small margins; where they are some hundred, the loss should be {want:.4g},"
    if math.isfinite(got):
        return "the loss bounded for large margins", (
            f"{what} and yours is {got:.4g}. Is there a clamp, or a small number inside the logarithm? It"
            f" also"
            " stops the gradient; logsigmoid needs neither."
        )
    return "overflow for large margins", (
        f"{what} and yours is {got}: the sigmoid rounds to 0, or exp is infinite. Take logsigmoid of the"
        " margin."
    )


def losses_of(function: Callable, given: tuple) -> Tensor:
    """The losses of the learner's training, without their graph."""
    return function(*copy_of(given)).detach().double()


def not_shown(function: Callable) -> Found:
    """What correct losses of short gradients do not show."""
    looks = (left_behind, clipped, far_apart, one_token, some_layers)
    return next((found for look in looks if (found := look(function)) is not None), None)


def first_wrong_loss(function: Callable, report: Report) -> Found:
    """For losses without a known mistake: the first that is wrong, and which part of it.

    Between equal models every margin is 0 and the loss log 2, whatever log-probs a function takes.
    """
    if report.mistake == "no step":
        return why_no_loss_moves(function)
    if report.mistake not in VAGUE or report.mistake == "wrong shape":
        return None
    mine, right, given = next(case for case in both_losses(function) if not alike(*case[:2]))
    if torch.isclose(mine[0], right[0], 1e-4, 1e-5):
        says = "The loss before the first step is right, and so are the numbers of steps 1 to 4. Look at"
        says += " steps"
        says += " 5 and 6, and whether a part of the loss is detached."
        after = "the losses after the first", f"{says} {report.message}"
        return clipped(function) or wrong_step(function, given) or after
    policy, reference, *rest = given
    still = float(losses_of(function, (policy, policy, *rest))[0])
    if abs(still - math.log(2)) > 1e-4:
        says = (
            "Where policy and reference are equal, every margin is 0 and the loss log 2; yours is"
        )
        return "the loss of margins of 0", f"{says} {still:.4g}. Look at steps 3 and 4."
    if given is not TRAIN_DPO.probes[0]:
        return several_pairs(function, given, report)
    says = "Where policy and reference are equal your loss is log 2, as it should be; elsewhere it is wrong"
    says += (
        " before any step. Look at the log-probs, steps 1 and 2, then at the margin and β, step 4."
    )
    return "the log-probs, or the margin", f"{says} {report.message}"


def several_pairs(function: Callable, given: tuple, report: Report) -> Found:
    """First losses right in the first case, of one pair, and wrong in one of several: is it their number?"""
    policy, reference, tokens, mask, *rest = given
    pair = [0, len(tokens) // 2]
    alone = policy, reference, tokens[pair], mask[pair], *rest
    if alike(losses_of(function, alone)[:1], train_dpo(*copy_of(alone)).double()[:1]):
        says = "Right for one pair, and wrong for several: look at which rows make a pair, and at the mean"
        return "several pairs", f"{says} over the pairs. {report.message}"
    return "right in one case alone", (
        "The first loss is right in the first test case, and wrong here, even for one pair of these rows."
        " Here"
        f" β is {rest[0]:g}, prompts have two tokens, and responses are of several lengths: is something of"
        f" the first case written in? {report.message}"
    )


def both_losses(function: Callable) -> list[tuple]:
    """The learner's losses and the right ones, with their test case."""
    return [
        (losses_of(function, given), train_dpo(*copy_of(given)).double(), given)
        for given in TRAIN_DPO.probes
    ]


def why_no_loss_moves(function: Callable) -> Found:
    """Why the losses stay as they were, where the optimizer does step; None where that has been said."""
    given = copy_of(TRAIN_DPO.probes[-1])
    seen = watch(function, {"policy": given[0], "reference": given[1]}, given)
    if not seen.steps:
        return None
    if seen.owned == {"policy"} and "policy" not in seen.reached:
        return "no gradient to the optimizer's weights", (
            "Step 5: your optimizer steps, but it holds the weights of the policy that you were given, and no"
            " gradient comes to those. Is backward() called? And are the losses those of a copy? Make the"
            " optimizer after deepcopy, with the copy's parameters."
        )
    return "the policy stays as it was", (
        "Step 5: your optimizer steps, and the losses stay the same. Does it hold the parameters of the model"
        " whose losses these are, and do they have a gradient at the step (backward after zero_grad)?"
    )


def wrong_step(function: Callable, given: tuple) -> Found:
    """What the optimizer was told, and the gradient that it found, where losses begin right."""
    seen, right = (watch(fit, {}, copy_of(given)) for fit in (function, train_dpo))
    rate, steps = given[5], given[6]
    if seen.steps not in (0, steps):
        says = f"Step 5: your optimizer steps {seen.steps} times in {steps} rounds; once in each."
        return "another number of steps", says
    for name in ("momentum", "weight_decay"):
        if seen.settings.get(name):
            return name.replace("_", " "), (
                f"Step 5: your optimizer has {name}={seen.settings[name]:g}; here it is plain gradient"
                " descent, without."
            )
    if any(abs(x - rate) > 1e-3 * rate for x in seen.rates):
        return "another learning rate", (
            f"Step 5: with learning_rate {rate:g} your steps go at {numbers(seen.rates)}; it stays as it is."
        )
    return wrong_pull(seen.pulls, right.pulls)


def wrong_pull(pulls: list[float], right: list[float]) -> Found:
    """The first step whose gradient has another length."""
    for step, (got, want) in enumerate(zip(pulls, right, strict=False), start=1):
        if abs(got - want) > 2e-3 * want:
            return "another gradient", (
                f"Step 5: at step {step} your gradient has length {got:.3g}; it should be {want:.3g}. Is"
                " something scaled, added, detached, taken twice, or left from the step before?"
            )
    return None


def passes_without(function: Callable) -> bool:
    """Whether an answer that raises does not once the reference's weights ask for no gradient."""
    policy, reference, *rest = copy_of(TRAIN_DPO.probes[0])
    given = policy, reference.requires_grad_(False), *rest
    return attempt(function, given, seconds=2.0).state == FINISHED


TWICE = "through the graph a second time"
REF_GRADIENT = Expected(
    TWICE,
    "reference with a gradient",
    "Step 3: the reference's log-probs were made once but still have a gradient, so the second"
    " backward goes through them again. Make them inside torch.no_grad().",
    when=passes_without,
)
OLD_GRAPH = Expected(
    TWICE, "a graph used twice",
    "A backward goes through a graph that one before has used up. Are the policy's log-probs made before the"
    " loop? They are new at each step. Or is backward() called twice for one loss?",
)  # fmt: skip

check_train_dpo = explained(
    checker(TRAIN_DPO), (REF_GRADIENT, OLD_GRAPH), not_shown, import_optimizers, first_wrong_loss
)
