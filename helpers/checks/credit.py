"""The large exercise of notebook 02: from rewards and values to TD errors, advantages, returns.

Its four results are looked at in the order in which they are computed.
"""

import torch

from helpers.checks.exercise import Exercise, Mistake
from helpers.checks.gae import (
    EPISODE,
    EPISODES,
    GAE,
    MASKS,
    RETURNS,
    TD,
    after,
    recursion,
    td,
    to_go,
    zeroed,
)
from helpers.checks.parts import parts_checker
from helpers.checks.raised import explained
from helpers.gae import compute_gae

ARGUMENTS = "rewards values gamma lam mask"
PROBES = [(*EPISODE, 0.5, 0.8, MASKS[0]), (*EPISODES, 0.9, 0.7, MASKS[1])]


def down_the_batch(x, decay, mask):
    """The backward sum along dim 0, the batch, instead of the tokens."""
    return zeroed(recursion(zeroed(x, mask).T.contiguous(), decay).T, mask)


def across_rows(x, decay, mask):
    """The backward sum with one running number that is never reset between the rows."""
    flat = recursion(x[mask].unsqueeze(0), decay).squeeze(0)
    return torch.zeros_like(x).masked_scatter(mask, flat)


def part(look: str, reference, mistakes: list) -> Exercise:
    """One of the results, as an exercise of its own on the shared probes."""
    return Exercise("credit", ARGUMENTS, reference, look, PROBES, mistakes)


def with_gae(mistake: Mistake) -> Mistake:
    """A mistake that knows no λ, with the arguments of `credit`."""
    return Mistake(mistake.name, mistake.says, lambda r, v, g, lam, m: mistake.wrong(r, v, g, m))


def of_rewards(mistake: Mistake) -> Mistake:
    """A mistake in sums of rewards, with the arguments of `credit`."""
    return Mistake(mistake.name, mistake.says, lambda r, v, g, lam, m: mistake.wrong(r, g, m))


def advantages(r, v, g, lam, m):
    """The right ones."""
    return compute_gae(r, v, g, lam, m)[0]


# fmt: off
DELTAS = part(
    "δ_t = r_t + γ·V_(t+1) − V_t, and V = 0 after the last counted token (notebook 02)",
    lambda r, v, g, lam, m: td(r, v, g, m),
    [
        *map(with_gae, TD.mistakes),
        ("discounted by λ", "You multiply the next value by λ; δ knows only γ = {gamma}.",
         lambda r, v, g, lam, m: td(r, v, lam, m)),
        ("discounted by γλ", "You multiply the next value by γλ; δ knows only γ = {gamma}.",
         lambda r, v, g, lam, m: td(r, v, g * lam, m)),
        ("advantages for δ", "These are advantages already: δ_t looks at one token only.",
         advantages),
    ],
)
ADVANTAGES = part(
    "A_t = δ_t + γλ·δ_(t+1) + (γλ)²·δ_(t+2) + …, up to the last counted token"
    " (Schulman et al. 2016, eq. 16; notebook 02)",
    advantages,
    [
        *GAE.mistakes,
        ("summed down the batch", "Your sum runs along dim=0, the batch; tokens are along dim=1.",
         lambda r, v, g, lam, m: down_the_batch(td(r, v, g, m), g * lam, m)),
        ("runs on across rows", "Your sum runs on from one response into another: it starts at 0 in"
         " each row.",
         lambda r, v, g, lam, m: across_rows(td(r, v, g, m), g * lam, m)),
        ("the sum has no power", "Each step ahead has one more factor: γλ, (γλ)², (γλ)³, …",
         lambda r, v, g, lam, m: (lambda d: zeroed(
             d + g * lam * after(recursion(d, 1.0)), m))(td(r, v, g, m))),
        ("one step ahead only", "You add only the next δ; the sum runs to the end of the response.",
         lambda r, v, g, lam, m: (lambda d: zeroed(d + g * lam * after(d), m))(td(r, v, g, m))),
        ("γλ twice", "γλ multiplies the next advantage only; you multiply the whole sum again.",
         lambda r, v, g, lam, m: recursion(g * lam * td(r, v, g, m), (g * lam) ** 2)),
        ("discounted from the start", "You weigh δ by (γλ)^t; each A_t counts from its own t:"
         " (γλ)^(s − t).",
         lambda r, v, g, lam, m: (lambda d: recursion(
             d * (g * lam) ** torch.arange(d.shape[1]), 1.0))(td(r, v, g, m))),
    ],
)
TARGETS = part(
    "returns = A + V, what the critic is trained towards; 0 where masked (notebook 02)",
    lambda r, v, g, lam, m: compute_gae(r, v, g, lam, m)[1],
    [
        ("V of padding added", "You added V on padding too; masked positions are 0.",
         lambda r, v, g, lam, m: advantages(r, v, g, lam, m) + v),
        ("rewards + values", "You added the rewards to the values; add the advantages.",
         lambda r, v, g, lam, m: zeroed(r + v, m)),
        ("δ + V", "You added δ; add the whole advantage.",
         lambda r, v, g, lam, m: zeroed(td(r, v, g, m) + v, m)),
        ("A − V", "You subtracted V. A = return − V, so the return is A + V.",
         lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m) - v, m)),
        ("V − A", "The sign of A is wrong: the return is A + V.",
         lambda r, v, g, lam, m: zeroed(v - advantages(r, v, g, lam, m), m)),
        ("the advantages again", "These are the advantages; add V.", advantages),
        ("the values again", "These are the values; add A.",
         lambda r, v, g, lam, m: zeroed(v, m)),
        ("rewards to go", "These are the rewards to go (λ = 1); the critic's target is A + V.",
         lambda r, v, g, lam, m: to_go(r, g, m)),
        ("next value added", "You added V at t + 1; add V at t.",
         lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m) + after(zeroed(v, m)), m)),
        ("advantages + rewards", "You added the rewards; add the values.",
         lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m) + r, m)),
        ("γ on the value", "V_t is not discounted here.",
         lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m) + g * v, m)),
    ],
)
TO_GO = part(
    "G_t = r_t + γ·r_(t+1) + γ²·r_(t+2) + …, without a critic; 0 where masked (notebook 02)",
    lambda r, v, g, lam, m: to_go(r, g, m),
    [
        *map(of_rewards, RETURNS.mistakes),
        ("λ in the decay", "You decay by γλ; rewards to go know only γ = {gamma}.",
         lambda r, v, g, lam, m: to_go(r, g * lam, m)),
        ("λ for γ", "You decay by λ; rewards to go know only γ = {gamma}.",
         lambda r, v, g, lam, m: to_go(r, lam, m)),
        ("summed down the batch", "Your sum runs along dim=0, the batch; tokens are along dim=1.",
         lambda r, v, g, lam, m: down_the_batch(r, g, m)),
        ("runs on across rows", "Your sum runs on from one response into another: it starts at 0 in"
         " each row.",
         lambda r, v, g, lam, m: across_rows(r, g, m)),
        ("list not reversed", "You walked backwards and kept the columns in that order: turn the"
         " list round before you stack it.",
         lambda r, v, g, lam, m: zeroed(to_go(r, g, m).flip(1), m)),
        ("one sum for all", "You gave every token the whole sum; G_t starts at t, and discounts.",
         lambda r, v, g, lam, m: zeroed(zeroed(r, m).sum(1, True).expand_as(r), m)),
        ("V subtracted", "These are G − V, which is also what a sum of δ gives: rewards to go have"
         " no critic in them.",
         lambda r, v, g, lam, m: zeroed(to_go(r, g, m) - v, m)),
        ("the critic's target again", "That is A + V again; rewards to go have no critic in them.",
         lambda r, v, g, lam, m: compute_gae(r, v, g, lam, m)[1]),
    ],
)
# fmt: on


def nan_in_padding(function) -> tuple[str, str] | None:
    """What a right answer does with padding that holds NaN: nothing of it may come through."""
    rewards, values, gamma, lam, mask = PROBES[1]
    hole = torch.full_like(rewards, torch.nan)
    given = torch.where(mask, rewards, hole), torch.where(mask, values, hole)
    with torch.no_grad():
        answers = function(*given, gamma, lam, mask.clone())
    if all(bool(x.isfinite().all()) for x in answers):
        return None
    return (
        "NaN from the padding",
        "All numbers are right, but not when padding holds NaN: NaN · 0 is NaN. Replace what padding"
        " holds, torch.where(mask, x, 0.0), instead of multiplying by the mask.",
    )


RESULTS = {
    "TD errors δ": DELTAS,
    "advantages": ADVANTAGES,
    "returns": TARGETS,
    "rewards to go": TO_GO,
}
check_credit = explained(parts_checker(RESULTS), then=nan_in_padding)
