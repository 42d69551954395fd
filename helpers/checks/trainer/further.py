"""Notebook 06, steps 5 and 6, and 09's repair: what the recorded rollout does not show.

Responses of one token, one response, other settings, large numbers. `then_…` looks once more at a function
whose numbers are right, and raises `Wrong`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.gae.credit_mistakes import gae, read_values
from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import floats, noise, prefix_mask
from helpers.checks.judging.report import show
from helpers.checks.trainer.course_steps import total_rewards
from helpers.checks.trainer.inputs import Seen, ask, expect, recorded

SHORT = prefix_mask(3, 1, 3, 2)
LOGPROBS = -noise(1, 3, 3).abs(), -noise(2, 3, 3).abs()
SCORES = torch.tensor([1.0, -3.0, 0.5])
REWARD_CASES = {  # by name: what to say, the inputs
    "a response of one token": (
        "Right for longer responses; one of a single token pays for its KL and receives its score there.",
        (SCORES, *LOGPROBS, SHORT, 0.3),
    ),
    "wrong for one response": (
        "Right for several responses, wrong for one alone.",
        (SCORES[:1], *(x[:1] for x in LOGPROBS), prefix_mask(3, 2), 0.3),
    ),
    "wrong for one column": (
        "Right for longer responses, wrong where all have one token.",
        (SCORES, *(x[:, :1] for x in LOGPROBS), prefix_mask(1, 1, 1, 1), 0.3),
    ),
    "β = 0": ("Right at other β; at 0 the KL costs nothing.", (SCORES, *LOGPROBS, SHORT, 0.0)),
    "wrong for large numbers": (
        "Right for small numbers, wrong where scores and KL are large, and β is 2.5: is something clamped or"
        " clipped?",
        (80 * SCORES, floats([-1.0, -90.0, -2.0], [-50.0, -1.0, -1.0], [-1.0, -1.0, -1.0]),
         floats([-31.0, -3.0, -2.0], [-1.0, -0.5, -9.0], [-60.0, -1.0, -7.0]), SHORT, 2.5),
    ),
    "wrong for forty responses": (
        "Right for a few responses, wrong for forty.",
        (SCORES.repeat(14)[:40], *(x.repeat(14, 1)[:40] for x in LOGPROBS), SHORT.repeat(14, 1)[:40], 0.3),
    ),
}  # fmt: skip


def then_rewards(function: Callable) -> Seen:
    """Further inputs of total_rewards."""
    for name, (says, given) in REWARD_CASES.items():
        got, want = ask(function, *given), total_rewards(*given)
        fits = isinstance(got, Tensor) and alike(got.detach(), want)
        expect(fits, name, says, show(got), show(want))
    return {}


def whitened(raw: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """(A − mean)/std over counted tokens, by either standard deviation."""
    kept = raw[counted]
    return tuple(
        torch.where(counted, (raw - kept.mean()) / kept.std(unbiased=u), 0.0) for u in (True, False)
    )


@torch.no_grad()
def then_advantages(function: Callable) -> Seen:
    """Responses of one token, one response, γ and λ of 0 and 1, a reward far above all others."""
    r = recorded()
    end = r.ids.shape[1] - r.length + 1
    outlier = r.rewards.clone()
    outlier[-1, 0] = 500.0
    whole = r.ids, r.mask
    gamma, lam = r.config.gamma, r.config.lam
    for name, says, (ids, mask), rewards, setting in (
        ("responses of one token", "Right for longer responses, wrong where all have one token: is an axis"
         " lost (squeeze() drops each of length 1, squeeze(-1) the last alone), or the loop empty?",
         (r.ids[:, :end], r.mask[:, :end]), r.rewards[:, :1], (gamma, lam)),
        ("wrong for one response", "Right for several responses, wrong for one alone: is an axis lost"
         " (squeeze() drops each of length 1, squeeze(-1) the last alone)?",
         (r.ids[-1:], r.mask[-1:]), r.rewards[-1:], (gamma, lam)),
        ("γ and λ of 1", "Right for γ and λ below 1, not for 1.", whole, r.rewards, (1.0, 1.0)),
        ("γ or λ of 0", "Right for other λ, not for 0.", whole, r.rewards, (gamma, 0.0)),
        ("γ or λ of 0", "Right for other γ, not for 0.", whole, r.rewards, (0.0, lam)),
        ("wrong for an outlier", "Right for most rewards, wrong where one is far above all others: is"
         " something clamped or clipped?", whole, outlier, (gamma, 0.0)),
    ):  # fmt: skip
        T = rewards.shape[1]
        counted = mask[:, -T:]
        values = torch.where(counted, read_values(r.parts.critic, ids, mask, T).detach(), 0.0)
        raw = gae(rewards, values, *setting)
        got = ask(function, r.parts.critic, ids, mask, rewards, *setting)
        shapes = [tuple(x.shape) for x in got]
        expect(shapes == [tuple(counted.shape)] * 3, name, says, shapes, [tuple(counted.shape)] * 3)
        mine = [torch.where(counted, x, 0.0) for x in got]
        fits = alike(mine[0], values) and alike(mine[2], torch.where(counted, raw + values, 0.0))
        fits = fits and any(torch.allclose(mine[1], x, 1e-3, 1e-4) for x in whitened(raw, counted))
        expect(bool(fits), name, says)
    return {}
