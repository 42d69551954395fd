"""Exercise of notebook 02: TD errors, and the responses that it shares with GAE."""

import torch

from helpers import gae
from helpers.checks.gae.shaping import after, zeroed
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import far_out, sizes


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


def td_from_start(rewards, values, gamma, mask, more):
    """TD errors whose next value is discounted by γ^(t + more)."""
    powers = gamma ** (torch.arange(rewards.shape[1]) + more)
    return td_by(lambda r, v, w, g: r + powers * w - v)(rewards, values, gamma, mask)


def across_the_end(rewards, values, gamma, mask):
    """The value of the next entry of all rows in a line."""
    r, v = zeroed(rewards, mask), zeroed(values, mask)
    line = torch.cat([v.flatten()[1:], v.new_zeros(1)]).view_as(v)
    return zeroed(r + gamma * line - v, mask)


def not_last(x, mask):
    """0 at each row's last counted position."""
    return zeroed(x, after(mask))


EPISODE = (floats([1.0, 0.0, 2.0, 7.0]), floats([0.5, 1.5, 1.0, 3.0]))
EPISODES = (noise(3, 3, 5), noise(4, 3, 5))
MASKS = (prefix_mask(4, 3), prefix_mask(5, 2, 5, 4))


# fmt: off
TD = Exercise(
    "td_errors",
    "rewards values gamma mask",
    td,
    "δ_t = r_t + γ·V_(t+1) − V_t, and V = 0 after the last counted token"
    " (Schulman et al. 2016, section 3; notebook 02)",
    [(*EPISODE, 0.5, MASKS[0]), (*EPISODES, 0.9, MASKS[1])],
    [
        ("values[t] twice", "You used V_t for both values; the one with γ is V at t + 1. In a walk backwards,"
         " read it before you overwrite it.",
         td_by(lambda r, v, w, g: r + g * v - v)),
        ("previous value", "You used V at t − 1; the bootstrap uses V at t + 1.",
         td_by(lambda r, v, w, g: r + g * before(v) - v)),
        ("both values one too early", "Your values are V at t and V at t − 1; δ_t is built from V at t +"
         " 1 and V at t.",
         td_by(lambda r, v, w, g: r + g * v - before(v))),
        ("rolled the other way", "roll(1) brings V at t − 1 to t; the bootstrap uses V at t + 1, and 0"
         " after the end.",
         lambda r, v, g, mask: zeroed(r + g * zeroed(v, mask).roll(1, 1) - v, mask)),
        ("the last column repeated", "In a row that fills every column you use its last value again; V is"
         " 0 after the end.",
         td_by(lambda r, v, w, g: r + g * torch.cat([v[:, 1:], v[:, -1:]], 1) - v)),
        ("bootstraps from padding", "At the last counted token you add γ·V of padding; V is 0 there.",
         lambda r, v, g, mask: zeroed(r + g * after(v) - v, mask)),
        ("beyond the end", "At the end you used the last value again; V is 0 after the end.",
         lambda r, v, g, mask: zeroed(r + g * torch.where(after(mask), after(v), v) - v, mask)),
        ("wraps around", "roll moves the first value to the end; V is 0 after the end.",
         lambda r, v, g, mask: zeroed(r + g * zeroed(v, mask).roll(-1, 1) - v, mask)),
        ("gamma missing", "Multiply the next value by γ = {gamma}.",
         td_by(lambda r, v, w, g: r + w - v)),
        ("gamma on the present value", "γ discounts the next value, not V_t.",
         td_by(lambda r, v, w, g: r + w - g * v)),
        ("gamma on both values", "γ discounts the next value only, not V_t.",
         td_by(lambda r, v, w, g: r + g * (w - v))),
        ("gamma on the reward", "r_t is the present reward: it is not discounted.",
         td_by(lambda r, v, w, g: g * r + g * w - v)),
        ("γ to the power of the position", "You discount the next value by γ^t; it is one step away, so"
         " by γ.",
         lambda r, v, g, mask: td_from_start(r, v, g, mask, 0)),
        ("γ to the power of the position", "You discount the next value by γ^(t + 1); it is one step"
         " away, so by γ.",
         lambda r, v, g, mask: td_from_start(r, v, g, mask, 1)),
        ("signs of the values exchanged", "You have r + V_t − γ·V_(t+1): the next value is added, the own"
         " one subtracted.",
         td_by(lambda r, v, w, g: r + v - g * w)),
        ("the two values exchanged", "γ multiplies V at t + 1, and V_t is subtracted; yours are exchanged.",
         td_by(lambda r, v, w, g: r + g * v - w)),
        ("next value subtracted", "You subtracted both values; γ·V at t + 1 is added.",
         td_by(lambda r, v, w, g: r - g * w - v)),
        ("reward left out", "You left out the reward r_t.", td_by(lambda r, v, w, g: g * w - v)),
        ("reward subtracted", "You subtracted the reward; add it.",
         td_by(lambda r, v, w, g: g * w - v - r)),
        ("reward of the next token", "You took the reward at t + 1; δ_t has r_t.",
         td_by(lambda r, v, w, g: after(r) + g * w - v)),
        ("reward of the token before", "You took the reward at t − 1; δ_t has r_t.",
         td_by(lambda r, v, w, g: before(r) + g * w - v)),
        ("two tokens ahead", "You used V at t + 2; the next value is that at t + 1.",
         td_by(lambda r, v, w, g: r + g * after(w) - v)),
        ("γ squared", "One step ahead has one factor γ; you have γ².",
         td_by(lambda r, v, w, g: r + g * g * w - v)),
        ("divided by γ", "You divided by γ; multiply.", td_by(lambda r, v, w, g: r + w / g - v)),
        ("next row's value at the end", "At the end of a row you take the next row's first value; V is 0"
         " after the end.",
         across_the_end),
        ("down the batch", "You take V of the next row (dim=0); the next token is along dim=1.",
         lambda r, v, g, mask: zeroed(
             r + g * torch.cat([zeroed(v, mask)[1:], torch.zeros_like(v[:1])]) - v, mask
         )),
        ("down the batch", "You take V of the next row (dim=0, rolled); the next token is along dim=1.",
         lambda r, v, g, mask: zeroed(r + g * zeroed(v, mask).roll(-1, 0) - v, mask)),
        ("one length for all", "You cut all rows off where the first one ends; each has its own mask.",
         lambda r, v, g, mask: td(r, v, g, mask[:1].expand_as(mask).clone())),
        ("one length for all", "You clear the values where the first row ends, in all rows; each has its own"
         " mask.",
         lambda r, v, g, mask: (lambda w: zeroed(r + g * after(w) - w, mask))(
             zeroed(v, mask[:1].expand_as(mask)))),
        ("value at the last token not subtracted", "At the last counted token δ is r − V: V_t is"
         " subtracted there too.",
         lambda r, v, g, mask: td(r, v, g, mask) + zeroed(v, mask & ~after(mask))),
        ("first token left out", "The first token has a TD error too.",
         lambda r, v, g, mask: td(r, v, g, mask) * (torch.arange(r.shape[1]) > 0)),
        ("squared", "You squared the TD error.", lambda r, v, g, mask: td(r, v, g, mask).square()),
        ("value not subtracted", "That is the target r_t + γ·V; the error subtracts V_t.",
         td_by(lambda r, v, w, g: r + g * w)),
        ("no bootstrap", "Add γ·V at t + 1, the value of what follows.",
         td_by(lambda r, v, w, g: r - v)),
        ("sign flipped", "You have V_t − target; the TD error is target − V_t.",
         td_by(lambda r, v, w, g: v - r - g * w)),
        ("from returns", "You used returns instead of rewards: the future counts twice.",
         lambda r, v, g, mask: td(to_go(r, g, mask), v, g, mask)),
        ("V with a plus", "You added V_t; the TD error subtracts it.",
         td_by(lambda r, v, w, g: r + g * w + v)),
        ("only the last reward", "You used only the last reward; every token has a KL reward too.",
         lambda r, v, g, mask: td(zeroed(r, mask & ~after(mask)), v, g, mask)),
        ("last token left out", "The last counted token has a TD error too: r − V, because V = 0 after it.",
         lambda r, v, g, mask: not_last(td(r, v, g, mask), mask)),
        ("masked before subtracting only", "You cleared the values of the padding, but not its"
         " rewards: masked positions must be 0 at the end, too.",
         lambda r, v, g, mask: (lambda w: r + g * after(w) - w)(zeroed(v, mask))),
        ("padding not zeroed", "Masked positions must be 0.",
         lambda r, v, g, mask: r + g * after(zeroed(v, mask)) - v),
    ],
)
# fmt: on

EIGHTHS = [(64 * noise(k, 3, 5) * 8).round() / 8 for k in (3, 4)]  # large, and exact in any order
GAMMAS = [
    (f"γ = {gamma:g}", f"Right for γ between 0 and 1, not for γ = {gamma:g}: it multiplies V_(t+1), no more.",
     (*EPISODES, gamma, MASKS[1])) for gamma in (0.0, 1.0)
]  # fmt: skip
check_td_errors = explained(
    checker(TD),
    then=also_on(
        TD,
        *GAMMAS,
        far_out("rewards and values are large", (*EIGHTHS, 0.5, prefix_mask(5, 1, 5, 4))),
        *sizes((*EPISODES, 0.9, MASKS[1])),
    ),
)
