"""Steps 5 and 6 of a trainer (notebooks 06 and 09): why rewards, advantages or returns are wrong.

Rewards are a sum of two parts, and GAE has two settings: with one part or one setting taken out, it shows
which line is wrong. All functions raise `Wrong`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.gae.credit_mistakes import gae
from helpers.checks.judging.compare import alike
from helpers.checks.judging.report import show
from helpers.checks.trainer.course_steps import total_rewards
from helpers.checks.trainer.inputs import Wrong, expect, recorded
from helpers.checks.trainer.reward_mistakes import REWARD_MISTAKES


def name_rewards(function: Callable) -> None:
    """The first wrong part of rewards(scores, logprobs, ref_logprobs, counted, β): score or penalty."""
    r = recorded()
    given = r.scores, r.logprobs, r.ref_logprobs, r.counted, r.config.kl_coef
    says = "`kl_coef` has no effect: multiply the difference by it."
    free = function(*given[:-1], 3.0)
    expect(not alike(function(*given), free), "kl_coef not used", says)
    zero = function(0 * r.scores, r.logprobs, r.logprobs, *given[3:])
    says = "With scores of 0, and logprobs and ref_logprobs equal, all rewards should be 0; yours are not."
    says += " Does β multiply the whole difference (mind the brackets)?"
    expect(not bool(zero.abs().max() > 1e-5), "a penalty without a difference", says)
    part = "Where log-probs and ref_logprobs are equal, nothing is to be paid. What is left is the score,"
    name_part(function, (r.scores, r.logprobs, r.logprobs, *given[3:]), "the score", part)
    part = "With scores of 0, what is left is the penalty, −β·(logprobs − ref_logprobs) on counted tokens,"
    name_part(function, (0 * r.scores, *given[1:]), "the penalty", part)
    says = "The penalty alone is right, and so is the score alone; together they are not. Add them."
    raise Wrong("the sum of the two", says)


def name_part(function: Callable, given: tuple, name: str, part: str) -> None:
    """Wrong: the rewards of inputs with one part only."""
    got, want = function(*given), total_rewards(*given)
    if alike(got, want):
        return
    for mistake in REWARD_MISTAKES:
        made = mistake.wrong(*given)
        if alike(made, got) and not alike(made, want):
            raise Wrong(mistake.name, mistake.says)
    row = int((~torch.isclose(got.double(), want.double(), 1e-4, 1e-5)).any(1).nonzero()[0])
    says = f"{part} and it is wrong, first in row {row}."
    raise Wrong(name, says, show(got[row]), show(want[row]))


Credit = Callable[[float, float], tuple[Tensor, Tensor]]  # (γ, λ) → advantages, returns


def name_credit(credit: Credit, rewards: Tensor, values: Tensor, counted: Tensor) -> None:
    """Which line of step 6 is wrong: the settings, δ, the sum, or whitening. All tensors [B, T]."""
    r = recorded()
    gamma, lam = r.config.gamma, r.config.lam
    advantages, returns = (torch.where(counted, x, 0.0) for x in credit(gamma, lam))
    raw = torch.where(counted, gae(rewards, values, gamma, lam), 0.0)
    if alike(returns, torch.where(counted, raw + values, 0.0)):
        return name_whitening(advantages, raw, counted)
    for name, other in (("gamma", (0.5, lam)), ("lam", (gamma, 0.3))):
        same = alike(torch.where(counted, credit(*other)[1], 0.0), returns)
        says = f"`{name}` has no effect on your returns. Is a number written in its place?"
        expect(not same, f"{name} not used", says)
    name_delta(credit, rewards, values, counted)
    return None


def name_delta(credit: Credit, rewards: Tensor, values: Tensor, counted: Tensor) -> None:
    """Wrong: returns at λ = 0 (they show δ), or at another λ only (then it is the sum)."""
    gamma = recorded().config.gamma
    got = torch.where(counted, credit(gamma, 0.0)[1], 0.0)
    want = torch.where(counted, gae(rewards, values, gamma, 0.0) + values, 0.0)
    if alike(got, want):
        says = (
            "With λ = 0 your returns are right, so δ is right, and so is A + V. The sum is wrong:"
        )
        raise Wrong(
            "the sum of δ", f"{says} A_t = δ_t + γ·λ·A_{{t+1}}, from the last token backwards."
        )
    delta = gae(rewards, values, gamma, 0.0)
    for made in (delta.flip(1) + values, (delta + values).flip(1)):
        says = (
            "The columns of your advantages stand in the order of the walk, from the end: turn them"
        )
        turned = alike(got, torch.where(counted, made, 0.0))
        expect(not turned, "in the order of the walk", f"{says} round.")
    close = torch.isclose(got.double(), want.double(), 1e-4, 1e-5)
    row = int((~close).any(1).nonzero()[0])
    says = "With λ = 0, where A is δ alone and the return r + γ·V', your returns are wrong already"
    says += f", first in row {row}. Look at δ_t = r_t + γ·V_{{t+1}} − V_t, at what follows the last one (0),"
    raise Wrong("δ or the return", f"{says} and at A + V.", show(got[row]), show(want[row]))


# --- whitening ------------------------------------------------------------------------------------


def line_through(x: Tensor, y: Tensor) -> tuple[float, float] | None:
    """(a, b) with y = a·x + b for all numbers, or None."""
    if len(x) < 3 or float(x.std()) < 1e-6:
        return None
    x, y = x.double(), y.double()
    a = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    b = float(y.mean() - a * x.mean())
    return (a, b) if alike(a * x + b, y) else None


def name_line(mean: float, std: float, kept: Tensor, positions: int) -> None:
    """Wrong: advantages less this mean, divided by this deviation; `kept` are the raw counted ones."""
    right_mean, right_std = float(kept.mean()), float(kept.std())
    says = f"Your advantages are (A − {mean:.4g}) / {std:.4g}. Over the {len(kept)} counted ones the mean"
    says += f" is {right_mean:.4g} and the standard deviation {right_std:.4g}."
    off_mean = abs(mean - right_mean) > 1e-3 * right_std
    padded = off_mean and abs(mean - float(kept.sum()) / positions) < 1e-3 * right_std
    more = f"{says} Your mean is their sum divided by all {positions} positions, padding too."
    expect(not padded, "padding in the mean", more)
    off_std = abs(std / right_std - 1) > 1e-3
    name = "another mean" if off_mean else "another standard deviation"
    raise Wrong("another mean and standard deviation" if off_mean and off_std else name, says)


def name_whitening(got: Tensor, raw: Tensor, counted: Tensor) -> None:
    """Wrong: right raw advantages, whitened by another mean and deviation, or by several."""
    line = line_through(raw[counted], got[counted])
    kept = raw[counted]
    if line is not None and abs(line[0]) > 1e-6:
        name_line(-line[1] / line[0], 1 / line[0], kept, counted.numel())
    for across, name, what in ((0, "response", "each row"), (1, "column", "each column")):
        lines = [
            line_through(raw.select(across, k)[m], got.select(across, k)[m])
            for k, m in enumerate(counted.unbind(across))
            if int(m.sum()) > 2
        ]
        says = f"{what.capitalize()} is whitened by a mean and a deviation of its own; the statistics are the"
        alone = len(lines) > 1 and all(lines)
        expect(not alone, f"whitened per {name}", f"{says} batch's, over all counted tokens.")
    says = "Values and returns are right; the advantages are not the whitened raw ones: (A − mean) / std over"
    bounded = float(got.max()), float(got.min())
    ends = [int((torch.isclose(got[counted], got.new_tensor(x))).sum()) for x in bounded]
    clipped = min(ends) > 1
    more = f" Are they clipped to {bounded[1]:.3g} … {bounded[0]:.3g}?" if clipped else ""
    name = "advantages clipped" if clipped else "another whitening"
    raise Wrong(name, f"{says} the counted tokens, and nothing else.{more}")
