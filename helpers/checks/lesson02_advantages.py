"""Exercises of notebook 02, second half: advantages and rewards-to-go."""

import torch

from helpers import gae
from helpers.checks.exercise import Exercise
from helpers.checks.judge import checker
from helpers.checks.lesson02_rewards import (
    EPISODE,
    EPISODES,
    MASKS,
    after,
    not_last,
    td,
    td_by,
    to_go,
    zeroed,
)
from helpers.whitening import whiten_advantages


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
        ("lambda missing", "You decay by γ alone; GAE decays by γλ = {gamma}·{lam}.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, g, 1.0, mask)[0]),
        ("gamma missing in the sum", "You decay by λ alone; GAE decays by γλ = {gamma}·{lam}.",
         lambda r, v, g, lam, mask: recursion(td(r, v, g, mask), lam)),
        ("gamma missing in the TD error", "γ = {gamma} also multiplies V at t + 1 inside δ_t.",
         lambda r, v, g, lam, mask: recursion(td(r, v, 1.0, mask), g * lam)),
        ("gamma missing", "γ = {gamma} stands in δ_t and in the decay; yours has neither.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, 1.0, lam, mask)[0]),
        ("lambda and gamma swapped", "You discount the next value by λ = {lam}; it is γ = {gamma}.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, lam, g, mask)[0]),
        ("no decay", "You sum the errors as they are; each step ahead weighs γλ less.",
         lambda r, v, g, lam, mask: recursion(td(r, v, g, mask), 1.0)),
        ("no reset at the mask", "Your sum starts in the padding and leaks into counted tokens.",
         lambda r, v, g, lam, mask: zeroed(recursion(r + g * after(v) - v, g * lam), mask)),
        ("bootstraps from padding",
         "After the last counted token you add γ·V of a pad; there V = 0.",
         lambda r, v, g, lam, mask: recursion(zeroed(r + g * after(v) - v, mask), g * lam)),
        ("forward recursion", "You sum the past; advantages sum the future: go from T − 1 to 0.",
         lambda r, v, g, lam, mask: zeroed(forwards(td(r, v, g, mask), g * lam), mask)),
        ("only the TD error", "That is δ_t alone (λ = 0); add γλ times the advantage that follows.",
         lambda r, v, g, lam, mask: td(r, v, g, mask)),
        ("returns instead of advantages", "You added V: those are returns. Wanted are advantages.",
         lambda r, v, g, lam, mask: gae.compute_gae(r, v, g, lam, mask)[1]),
        ("rewards to go", "You left out the critic: δ_t has values too.",
         lambda r, v, g, lam, mask: to_go(r, g, mask)),
        ("from returns", "You built δ_t from returns; it takes rewards.",
         lambda r, v, g, lam, mask: gae.compute_gae(to_go(r, g, mask), v, g, lam, mask)[0]),
        ("value not subtracted", "δ_t subtracts V_t.",
         lambda r, v, g, lam, mask: recursion(
             td_by(lambda r, v, w, g: r + g * w)(r, v, g, mask), g * lam)),
        ("last token left out", "The loop starts one step early: the last counted token has δ too.",
         lambda r, v, g, lam, mask: recursion(not_last(td(r, v, g, mask), mask), g * lam)),
        ("decay on the own error", "γλ multiplies the advantage that follows, not δ_t itself.",
         lambda r, v, g, lam, mask: g * lam * recursion(td(r, v, g, mask), g * lam)),
        ("whitened already", "Whitening comes later, after the returns are formed.",
         lambda r, v, g, lam, mask: whiten_advantages(
             gae.compute_gae(r, v, g, lam, mask)[0], mask)),
        ("sign flipped", "Good tokens have positive advantages: δ_t is target − V_t.",
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
        ("forward recursion", "You sum the past; returns sum what is still to come.",
         lambda r, g, mask: zeroed(forwards(zeroed(r, mask), g), mask)),
        ("gamma missing", "You sum without γ = {gamma}.", lambda r, g, mask: to_go(r, 1.0, mask)),
        ("own reward left out", "G_t starts with r_t; yours starts with the reward after it.",
         lambda r, g, mask: after(to_go(r, g, mask))),
        ("own reward discounted", "r_t comes now: it is not discounted.",
         lambda r, g, mask: g * to_go(r, g, mask)),
        ("discounted from the start", "You weigh by γ^t from the start of the response; each G_t"
         " discounts from its own t.",
         lambda r, g, mask: to_go(zeroed(r, mask) * discounts(r, g), 1.0, mask)),
        ("one return for all", "Every token has the whole return; each has only what follows it.",
         lambda r, g, mask: zeroed(to_go(r, g, mask)[:, :1].expand_as(r), mask)),
        ("no reset at the mask", "Rewards of the {padded} masked positions leak into your sums.",
         lambda r, g, mask: zeroed(to_go(r, g, torch.ones_like(mask)), mask)),
        ("padding counted", "You ignore the mask: {padded} positions do not count.",
         lambda r, g, mask: to_go(r, g, torch.ones_like(mask))),
        ("only the last reward", "Only the last reward arrives; KL rewards come at every token.",
         lambda r, g, mask: to_go(zeroed(r, mask & ~after(mask)), g, mask)),
        ("one step only", "You looked one step ahead; G_t goes on to the end.",
         lambda r, g, mask: zeroed(r, mask) + g * after(zeroed(r, mask))),
        ("only the reward", "That is r_t alone; add γ times the return that follows.",
         lambda r, g, mask: zeroed(r, mask)),
    ],
)
# fmt: on

check_gae, check_discounted_returns = checker(GAE), checker(RETURNS)
