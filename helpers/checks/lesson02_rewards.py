"""Exercises of notebook 02, first half: per-token rewards and TD errors."""

import torch

from helpers import gae, kl
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.kl import last_counted


def zeroed(x, mask):
    """0 where masked."""
    return torch.where(mask, x, 0.0)


def at(x, index, like):
    """One number per row at an index per row, 0 elsewhere: [B], [B] → [B, T]."""
    index = index.clamp(0, like.shape[1] - 1).unsqueeze(1)
    return torch.zeros_like(like).scatter(1, index, x.unsqueeze(1))


def penalty(logprobs, ref_logprobs, mask, kl_coef):
    """−β·k1, 0 where masked."""
    return zeroed(-kl_coef * (logprobs - ref_logprobs), mask)


def with_score(place):
    """The right penalty, and the score where `place(mask)` says: an index per row."""

    def wrong(scores, logprobs, ref_logprobs, mask, kl_coef):
        shaped = penalty(logprobs, ref_logprobs, mask, kl_coef)
        return shaped + at(scores, place(mask), logprobs)

    return wrong


def with_penalty(formula):
    """The score in its place, and another penalty: formula(log π − log π_ref, mask, β)."""

    def wrong(scores, logprobs, ref_logprobs, mask, kl_coef):
        shaped = formula(logprobs - ref_logprobs, mask, kl_coef)
        return shaped + at(scores, last_counted(mask), logprobs)

    return wrong


def score_instead(scores, logprobs, ref_logprobs, mask, kl_coef):
    """Assigned, where it should be added."""
    there = at(torch.ones_like(scores), last_counted(mask), logprobs) > 0
    shaped = penalty(logprobs, ref_logprobs, mask, kl_coef)
    return torch.where(there, scores[:, None], shaped)


# fmt: off
SHAPE = Exercise(
    "shape_rewards", "scores logprobs ref_logprobs mask kl_coef", kl.shape_rewards,
    "r_t = −β·(log π − log π_ref), plus the score at the last counted token"
    " (Ziegler et al. 2019, eq. 2; notebook 02)",
    [
        (torch.tensor([2.0]), floats([-1.0, -0.5, -2.0, 3.0]), floats([-1.5, -1.5, -0.5, 1.0]),
         prefix_mask(4, 3), 0.1),
        (torch.tensor([1.0, -3.0, 0.5]), -noise(1, 3, 5).abs(), -noise(2, 3, 5).abs(),
         prefix_mask(5, 2, 5, 4), 0.2),
    ],
    [
        ("score on the last column", "The score stands in the last column, a pad in rows that end"
         " early; {counted} of {total} positions count.",
         with_score(lambda mask: torch.full((len(mask),), mask.shape[1] - 1))),
        ("score at every token", "Every token gets the score; only the last counted one does.",
         lambda s, p, q, mask, b: penalty(p, q, mask, b) + zeroed(s[:, None], mask)),
        ("score spread over the tokens",
         "You divided the score among the tokens; the last has all.",
         lambda s, p, q, mask, b: (
             penalty(p, q, mask, b) + zeroed(s[:, None] / mask.sum(1, True), mask))),
        ("score at the first token", "The score comes when the response is complete: at its end.",
         with_score(lambda mask: torch.zeros(len(mask), dtype=torch.long))),
        ("score one too late", "The index mask.sum() is one past the end: subtract 1.",
         with_score(lambda mask: mask.sum(1))),
        ("score one too early", "The score is one position before the last counted token.",
         with_score(lambda mask: mask.sum(1) - 2)),
        ("score replaces the KL", "At the last token add the score; its KL penalty stays.",
         score_instead),
        ("score missing", "Only the KL penalty is there; add the score at the last counted token.",
         lambda s, p, q, mask, b: penalty(p, q, mask, b)),
        ("score negative", "You subtracted the score; it is a reward.",
         lambda s, *rest: kl.shape_rewards(-s, *rest)),
        ("KL added",
         "You reward the distance to the reference: the penalty is −β·(log π − log π_ref).",
         lambda s, p, q, mask, b: kl.shape_rewards(s, q, p, mask, b)),
        ("β on the score", "β = {kl_coef} scales the KL, not the score.",
         lambda s, p, q, mask, b: kl.shape_rewards(b * s, p, q, mask, 1.0)),
        ("β on both", "β = {kl_coef} scales the KL only, the score is taken as it is.",
         lambda s, p, q, mask, b: kl.shape_rewards(b * s, p, q, mask, b)),
        ("β missing", "You subtracted the KL as it is; multiply it by β = {kl_coef}.",
         lambda s, p, q, mask, b: kl.shape_rewards(s, p, q, mask, 1.0)),
        ("k3 instead of k1", "In the reward stands k1, which may be negative on a token.",
         with_penalty(lambda d, mask, b: zeroed(-b * (torch.expm1(-d) + d), mask))),
        ("absolute KL", "k1 keeps its sign: a token less likely than before earns a bonus.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.abs(), mask))),
        ("KL summed at the end", "You charged the whole KL at the last token; each pays its own.",
         with_penalty(lambda d, mask, b: at(-b * zeroed(d, mask).sum(1), last_counted(mask), d))),
        ("KL on padding", "The {padded} masked positions have a penalty; nobody said those tokens.",
         with_penalty(lambda d, mask, b: -b * d)),
    ],
)


def after(x):
    """x one step later, 0 beyond the end."""
    return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], dim=1)


def before(x):
    """x one step earlier, 0 before the start."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)


def td(rewards, values, gamma, mask):
    """δ_t: advantages that look one step ahead."""
    return gae.compute_gae(rewards, values, gamma, 0.0, mask)[0]


def to_go(rewards, gamma, mask):
    """Discounted rewards to go: advantages over a critic that says 0."""
    return gae.compute_gae(rewards, torch.zeros_like(rewards), gamma, 1.0, mask)[0]


def td_by(formula):
    """TD errors of another formula in (r, V, V', γ), padding 0."""

    def wrong(rewards, values, gamma, mask):
        rewards, values = zeroed(rewards, mask), zeroed(values, mask)
        return zeroed(formula(rewards, values, after(values), gamma), mask)

    return wrong


def not_last(x, mask):
    """0 at each row's last counted position."""
    return zeroed(x, after(mask))


EPISODE = (floats([1.0, 0.0, 2.0, 7.0]), floats([0.5, 1.5, 1.0, 3.0]))
EPISODES = (noise(3, 3, 5), noise(4, 3, 5))
MASKS = (prefix_mask(4, 3), prefix_mask(5, 2, 5, 4))

TD = Exercise(
    "td_errors", "rewards values gamma mask", td,
    "δ_t = r_t + γ·V_(t+1) − V_t, and V = 0 after the last counted token"
    " (Schulman et al. 2016, section 3; notebook 02)",
    [(*EPISODE, 0.5, MASKS[0]), (*EPISODES, 0.9, MASKS[1])],
    [
        ("values[t] twice", "You used V_t for both; the first one is V at t + 1.",
         td_by(lambda r, v, w, g: r + g * v - v)),
        ("previous value", "You used V at t − 1; the bootstrap looks ahead, to t + 1.",
         td_by(lambda r, v, w, g: r + g * before(v) - v)),
        ("bootstraps from padding",
         "After the last counted token you add γ·V of a pad; there V = 0.",
         lambda r, v, g, mask: zeroed(r + g * after(v) - v, mask)),
        ("beyond the end", "At the end you took the last value once more; after the end V = 0.",
         lambda r, v, g, mask: zeroed(
             r + g * torch.where(after(mask), after(v), v) - v, mask)),
        ("wraps around", "roll brings the first value to the end; after the end V = 0.",
         lambda r, v, g, mask: zeroed(r + g * zeroed(v, mask).roll(-1, 1) - v, mask)),
        ("gamma missing", "Multiply the next value by γ = {gamma}.",
         td_by(lambda r, v, w, g: r + w - v)),
        ("gamma on the present value", "γ discounts the next value, not V_t.",
         td_by(lambda r, v, w, g: r + w - g * v)),
        ("gamma on both values", "γ discounts the next value only, not V_t.",
         td_by(lambda r, v, w, g: r + g * (w - v))),
        ("gamma on the reward", "r_t comes now: it is not discounted.",
         td_by(lambda r, v, w, g: g * r + g * w - v)),
        ("value not subtracted", "That is the target r_t + γ·V; the error subtracts V_t.",
         td_by(lambda r, v, w, g: r + g * w)),
        ("no bootstrap", "Add γ·V at t + 1: what is still to come.",
         td_by(lambda r, v, w, g: r - v)),
        ("sign flipped", "You have V_t − target; the error is target − V_t.",
         td_by(lambda r, v, w, g: v - r - g * w)),
        ("from returns", "You put returns where rewards belong: the future is counted twice.",
         lambda r, v, g, mask: td(to_go(r, g, mask), v, g, mask)),
        ("last token left out",
         "The last counted token has an error too: r − V, with V = 0 after it.",
         lambda r, v, g, mask: not_last(td(r, v, g, mask), mask)),
        ("padding not zeroed", "Masked positions must come back 0.",
         lambda r, v, g, mask: r + g * after(zeroed(v, mask)) - v),
    ],
)
# fmt: on

check_shape_rewards, check_td_errors = checker(SHAPE), checker(TD)
