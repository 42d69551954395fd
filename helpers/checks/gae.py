"""Exercises of notebook 02: KL-shaped rewards, TD errors, GAE, returns."""

import torch

from helpers import gae, kl
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.kl import last_counted
from helpers.whitening import whiten_advantages


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
    """Correct penalty, but the score at `place(mask)`, an index per row."""

    def wrong(scores, logprobs, ref_logprobs, mask, kl_coef):
        shaped = penalty(logprobs, ref_logprobs, mask, kl_coef)
        return shaped + at(scores, place(mask), logprobs)

    return wrong


def with_penalty(formula):
    """Correct score, but the penalty is formula(log π − log π_ref, mask, β)."""

    def wrong(scores, logprobs, ref_logprobs, mask, kl_coef):
        shaped = formula(logprobs - ref_logprobs, mask, kl_coef)
        return shaped + at(scores, last_counted(mask), logprobs)

    return wrong


def score_instead(scores, logprobs, ref_logprobs, mask, kl_coef):
    """The score replaces the penalty at the last token, instead of being added."""
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
        ("score on the last column", "You put the score in the last column, which is padding in"
         " rows that end early; only {counted} of {total} positions count.",
         with_score(lambda mask: torch.full((len(mask),), mask.shape[1] - 1))),
        ("score at every token", "You gave every token the score; only the last counted one gets it.",
         lambda s, p, q, mask, b: penalty(p, q, mask, b) + zeroed(s[:, None], mask)),
        ("score spread over the tokens",
         "You divided the score among the tokens; the last one gets all of it.",
         lambda s, p, q, mask, b: (
             penalty(p, q, mask, b) + zeroed(s[:, None] / mask.sum(1, True), mask))),
        ("score at the first token", "The score comes at the end, when the response is complete.",
         with_score(lambda mask: torch.zeros(len(mask), dtype=torch.long))),
        ("score one too late", "The index mask.sum() is one past the end: subtract 1.",
         with_score(lambda mask: mask.sum(1))),
        ("score one too early", "The score is one position before the last counted token.",
         with_score(lambda mask: mask.sum(1) - 2)),
        ("score replaces the KL", "Add the score at the last token; keep its KL penalty.",
         score_instead),
        ("score missing", "You have only the KL penalty; add the score at the last counted token.",
         lambda s, p, q, mask, b: penalty(p, q, mask, b)),
        ("score negative", "You subtracted the score; it is a reward, so add it.",
         lambda s, *rest: kl.shape_rewards(-s, *rest)),
        ("KL added",
         "You reward the distance to the reference: the penalty is −β·(log π − log π_ref).",
         lambda s, p, q, mask, b: kl.shape_rewards(s, q, p, mask, b)),
        ("β on the score", "β = {kl_coef} scales the KL, not the score.",
         lambda s, p, q, mask, b: kl.shape_rewards(b * s, p, q, mask, 1.0)),
        ("β on both", "β = {kl_coef} scales only the KL; do not scale the score.",
         lambda s, p, q, mask, b: kl.shape_rewards(b * s, p, q, mask, b)),
        ("β missing", "You subtracted the KL without β; multiply it by β = {kl_coef}.",
         lambda s, p, q, mask, b: kl.shape_rewards(s, p, q, mask, 1.0)),
        ("k3 instead of k1", "You used k3; the reward uses k1, which can be negative for a token.",
         with_penalty(lambda d, mask, b: zeroed(-b * (torch.expm1(-d) + d), mask))),
        ("absolute KL", "k1 keeps its sign: a token that is now less likely gets a bonus.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.abs(), mask))),
        ("KL summed at the end", "You put the whole KL on the last token; each token gets its own.",
         with_penalty(lambda d, mask, b: at(-b * zeroed(d, mask).sum(1), last_counted(mask), d))),
        ("KL on padding", "You gave masked positions a penalty; they are padding, so they get 0.",
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
        ("values[t] twice", "You used V_t for both values; the one with γ is V at t + 1. In a walk backwards,"
         " read it before you overwrite it.",
         td_by(lambda r, v, w, g: r + g * v - v)),
        ("previous value", "You used V at t − 1; the bootstrap uses V at t + 1.",
         td_by(lambda r, v, w, g: r + g * before(v) - v)),
        ("both values one too early", "Your values are V at t and V at t − 1; δ_t is built from V at"
         " t + 1 and V at t.", td_by(lambda r, v, w, g: r + g * v - before(v))),
        ("rolled the other way", "roll(1) brings V at t − 1 to t; the bootstrap uses V at t + 1, and 0 after"
         " the end.",
         lambda r, v, g, mask: zeroed(r + g * zeroed(v, mask).roll(1, 1) - v, mask)),
        ("the last column repeated", "In a row that fills every column you use its last value again; V is 0"
         " after the end.",
         td_by(lambda r, v, w, g: r + g * torch.cat([v[:, 1:], v[:, -1:]], 1) - v)),
        ("bootstraps from padding",
         "At the last counted token you add γ·V of padding; V is 0 there.",
         lambda r, v, g, mask: zeroed(r + g * after(v) - v, mask)),
        ("beyond the end", "At the end you used the last value again; V is 0 after the end.",
         lambda r, v, g, mask: zeroed(
             r + g * torch.where(after(mask), after(v), v) - v, mask)),
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
        ("last token left out",
         "The last counted token has a TD error too: r − V, because V = 0 after it.",
         lambda r, v, g, mask: not_last(td(r, v, g, mask), mask)),
        ("masked before subtracting only", "You cleared the values of the padding, but not its"
         " rewards: masked positions must be 0 at the end, too.",
         lambda r, v, g, mask: (lambda w: r + g * after(w) - w)(zeroed(v, mask))),
        ("padding not zeroed", "Masked positions must be 0.",
         lambda r, v, g, mask: r + g * after(zeroed(v, mask)) - v),
    ],
)
# fmt: on

check_shape_rewards, check_td_errors = checker(SHAPE), checker(TD)


def recursion(deltas, decay, mask=None):
    """A_t = δ_t + decay·A_{t+1}, backwards."""
    zeros = torch.zeros_like(deltas)
    mask = torch.ones_like(deltas, dtype=torch.bool) if mask is None else mask
    return gae.compute_gae(deltas, zeros, 1.0, decay, mask)[0]


def forwards(deltas, decay):
    """The recursion in the wrong direction."""
    return recursion(deltas.flip(1), decay).flip(1)


# fmt: off
GAE = Exercise(
    "gae", "rewards values gamma lam mask",
    lambda r, v, g, lam, m: gae.compute_gae(r, v, g, lam, m)[0],
    "A_t = δ_t + γλ·A_(t+1), from the last counted token backwards"
    " (Schulman et al. 2016, eq. 16; notebook 02)",
    [(*EPISODE, 0.5, 0.8, MASKS[0]), (*EPISODES, 0.9, 0.7, MASKS[1])],
    [
        ("lambda missing", "You decay by γ only; GAE decays by γλ = {gamma}·{lam}.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, g, 1.0, mask)[0]),
        ("gamma missing in the sum", "You decay by λ only; GAE decays by γλ = {gamma}·{lam}.",
         lambda r, v, g, lam, mask: recursion(td(r, v, g, mask), lam)),
        ("gamma missing in the TD error", "γ = {gamma} also multiplies V at t + 1 inside δ_t.",
         lambda r, v, g, lam, mask: recursion(td(r, v, 1.0, mask), g * lam)),
        ("gamma missing", "γ = {gamma} is missing in δ_t and in the decay.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, 1.0, lam, mask)[0]),
        ("lambda and gamma swapped", "You discount the next value by λ = {lam}; use γ = {gamma}.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, lam, g, mask)[0]),
        ("no decay", "You sum the TD errors without decay; each step ahead has another factor γλ.",
         lambda r, v, g, lam, mask: recursion(td(r, v, g, mask), 1.0)),
        ("no reset at the mask", "Your sum starts in the padding and leaks into counted tokens.",
         lambda r, v, g, lam, mask: zeroed(recursion(r + g * after(v) - v, g * lam), mask)),
        ("bootstraps from padding",
         "At the last counted token you add γ·V of padding; V is 0 there.",
         lambda r, v, g, lam, mask: recursion(zeroed(r + g * after(v) - v, mask), g * lam)),
        ("forward recursion", "You sum the past; advantages sum the future: loop from T − 1 to 0.",
         lambda r, v, g, lam, mask: zeroed(forwards(td(r, v, g, mask), g * lam), mask)),
        ("running sum not reset", "You cleared the values of the padding, but your running sum still"
         " starts in it, with the rewards there: set the sum to 0 where the mask is False, too.",
         lambda r, v, g, lam, mask: zeroed(
             recursion((lambda w: r + g * after(w) - w)(zeroed(v, mask)), g * lam), mask)),
        ("next value overwritten before δ", "Your next value is V_t itself: compute δ_t before you"
         " replace the next value by V_t.",
         lambda r, v, g, lam, mask: recursion(
             td_by(lambda r, v, w, g: r + g * v - v)(r, v, g, mask), g * lam)),
        ("V with a plus", "You added V_t in δ_t; it is subtracted.",
         lambda r, v, g, lam, mask: recursion(
             td_by(lambda r, v, w, g: r + g * w + v)(r, v, g, mask), g * lam)),
        ("list not reversed", "You walked backwards and kept the columns in that order: turn the list"
         " round before you stack it.",
         lambda r, v, g, lam, mask: zeroed(gae.compute_gae(r, v, g, lam, mask)[0].flip(1), mask)),
        ("times 1 − λ", "The factor 1 − λ belongs to the weights of the views; in the sum over δ it is"
         " gone.",
         lambda r, v, g, lam, mask: (1 - lam) * gae.compute_gae(r, v, g, lam, mask)[0]),
        ("only the TD error", "That is only δ_t (λ = 0); add γλ times the next advantage.",
         lambda r, v, g, lam, mask: td(r, v, g, mask)),
        ("returns instead of advantages", "You added V: those are returns, not advantages.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, g, lam, mask)[1]),
        ("rewards to go", "You left out the critic: δ_t contains values too.",
         lambda r, v, g, lam, mask: to_go(r, g, mask)),
        ("from returns", "You computed δ_t from returns; use rewards.",
         lambda r, v, g, lam, mask: gae.compute_gae(to_go(r, g, mask), v, g, lam, mask)[0]),
        ("value not subtracted", "You did not subtract V_t in δ_t.",
         lambda r, v, g, lam, mask: recursion(
             td_by(lambda r, v, w, g: r + g * w)(r, v, g, mask), g * lam)),
        ("last token left out", "You left out the last counted token: it has a δ too.",
         lambda r, v, g, lam, mask: recursion(not_last(td(r, v, g, mask), mask), g * lam)),
        ("decay on the own error", "γλ multiplies the next advantage, not δ_t itself.",
         lambda r, v, g, lam, mask: g * lam * recursion(td(r, v, g, mask), g * lam)),
        ("whitened already", "You whitened the advantages; that comes later, after the returns.",
         lambda r, v, g, lam, mask: whiten_advantages(
             gae.compute_gae(r, v, g, lam, mask)[0], mask)),
        ("sign flipped", "Good tokens need positive advantages: δ_t is target − V_t.",
         lambda r, v, g, lam, mask: -gae.compute_gae(r, v, g, lam, mask)[0]),
    ],
)


def discounts(rewards, gamma):
    """γ^t along the row."""
    return gamma ** torch.arange(rewards.shape[1])


RETURNS = Exercise(
    "discounted_returns", "rewards gamma mask", to_go,
    "G_t = r_t + γ·G_(t+1), from the last counted token backwards (notebook 02)",
    [(EPISODE[0], 0.5, MASKS[0]), (EPISODES[0], 0.9, MASKS[1])],
    [
        ("forward recursion", "You sum the past; returns sum the future.",
         lambda r, g, mask: zeroed(forwards(zeroed(r, mask), g), mask)),
        ("gamma missing", "You sum without γ = {gamma}.", lambda r, g, mask: to_go(r, 1.0, mask)),
        ("own reward left out", "G_t starts with r_t; yours starts with the next reward.",
         lambda r, g, mask: after(to_go(r, g, mask))),
        ("own reward discounted", "r_t is the present reward: it is not discounted.",
         lambda r, g, mask: g * to_go(r, g, mask)),
        ("discounted from the start", "You discount from the start of the response; each G_t is"
         " discounted from its own t.",
         lambda r, g, mask: to_go(zeroed(r, mask) * discounts(r, g), 1.0, mask)),
        ("one return for all", "You gave every token the whole return; G_t starts at t.",
         lambda r, g, mask: zeroed(to_go(r, g, mask)[:, :1].expand_as(r), mask)),
        ("no reset at the mask", "Rewards of masked positions leak into your sums.",
         lambda r, g, mask: zeroed(to_go(r, g, torch.ones_like(mask)), mask)),
        ("padding counted", "You ignored the mask: only {counted} of {total} positions count.",
         lambda r, g, mask: to_go(r, g, torch.ones_like(mask))),
        ("only the last reward", "You used only the last reward; every token has a KL reward too.",
         lambda r, g, mask: to_go(zeroed(r, mask & ~after(mask)), g, mask)),
        ("one step only", "You looked only one step ahead; G_t sums to the end.",
         lambda r, g, mask: zeroed(r, mask) + g * after(zeroed(r, mask))),
        ("only the reward", "That is only r_t; add γ times the next return.",
         lambda r, g, mask: zeroed(r, mask)),
    ],
)
# fmt: on

check_gae, check_discounted_returns = checker(GAE), checker(RETURNS)
