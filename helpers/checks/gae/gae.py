"""Exercises of notebook 02: GAE and returns."""

import torch

from helpers import gae
from helpers.checks.gae.shaping import after, zeroed
from helpers.checks.gae.td_errors import (
    EIGHTHS,
    EPISODE,
    EPISODES,
    MASKS,
    not_last,
    td,
    td_by,
    to_go,
)
from helpers.checks.judging.exercise import Exercise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import far_out, sizes
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

LARGE = "rewards and values are large"
SHORT = prefix_mask(5, 1, 5, 4)
check_gae = explained(
    checker(GAE),
    then=also_on(GAE, far_out(LARGE, (*EIGHTHS, 0.5, 0.5, SHORT)), *sizes(GAE.probes[1])),
)
check_discounted_returns = explained(
    checker(RETURNS),
    then=also_on(RETURNS, far_out(LARGE, (EIGHTHS[0], 0.5, SHORT)), *sizes(RETURNS.probes[1])),
)
