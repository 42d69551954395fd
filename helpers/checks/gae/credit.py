"""The large exercise of notebook 02: from rewards and values to TD errors, advantages, returns.

Its four results are looked at in the order in which they are computed.
"""

import torch

from helpers.checks.gae.gae import GAE, RETURNS, recursion
from helpers.checks.gae.shaping import after, zeroed
from helpers.checks.gae.td_errors import EIGHTHS, EPISODE, EPISODES, MASKS, TD, td, to_go
from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise, Mistake, noise, prefix_mask
from helpers.checks.judging.parts import parts_checker
from helpers.checks.judging.raised import explained
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.sizes import far_out, sizes
from helpers.gae import compute_gae
from helpers.whitening import whiten_advantages

ARGUMENTS = "rewards values gamma lam mask"
PROBES = [(*EPISODE, 0.5, 0.8, MASKS[0]), (*EPISODES, 0.9, 0.7, MASKS[1])]


def down_the_batch(x, decay, mask):
    """The backward sum along dim 0, the batch, instead of the tokens."""
    return zeroed(recursion(zeroed(x, mask).T.contiguous(), decay).T, mask)


def across_rows(x, decay, mask):
    """The backward sum with one running number that is never reset between the rows."""
    flat = recursion(x[mask].unsqueeze(0), decay).squeeze(0)
    return torch.zeros_like(x).masked_scatter(mask, flat)


def rows_run_on(x, decay):
    """The backward sum over each row, begun with what the row before left."""
    running, columns = 0.0, torch.zeros_like(x)
    for b in range(len(x)):
        for t in reversed(range(x.shape[1])):
            running = x[b, t] + decay * running
            columns[b, t] = running
    return torch.where(x.abs() > 0, columns, 0.0)


def no_last_column(x):
    """0 in the last column."""
    return torch.cat([x[:, :-1], torch.zeros_like(x[:, -1:])], 1)


def left(mask):
    """How many counted tokens a row still has, from each on; at least 1."""
    return mask.long().flip(1).cumsum(1).flip(1).clamp(min=1)


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
        ("decay on the new term", "You multiply δ_t by γλ and add the sum as it is; γλ belongs to the sum"
         " from the next token.",
         lambda r, v, g, lam, m: g * lam * recursion(td(r, v, g, m), 1.0)),
        ("mixed by γλ", "You take a mean of δ_t and the running sum, (1 − γλ)·δ + γλ·A; GAE adds"
         " δ_t whole.",
         lambda r, v, g, lam, m: (1 - g * lam) * recursion(td(r, v, g, m), g * lam)),
        ("last column never added", "Your walk starts one column too early: rows without padding miss"
         " their last token.",
         lambda r, v, g, lam, m: recursion(no_last_column(td(r, v, g, m)), g * lam)),
        ("own δ left out", "A_t begins with δ_t; yours begins with the next one.",
         lambda r, v, g, lam, m: after(recursion(td(r, v, g, m), g * lam))),
        ("own δ left out", "A_t begins with δ_t; yours begins with γλ times the next one.",
         lambda r, v, g, lam, m: g * lam * after(recursion(td(r, v, g, m), g * lam))),
        ("divided by the tokens left", "You divided the sum by the number of tokens left; it is a sum.",
         lambda r, v, g, lam, m: zeroed(recursion(td(r, v, g, m), g * lam) / left(m), m)),
        ("rows run on", "Your running sum goes on from one row into the next: start each at 0.",
         lambda r, v, g, lam, m: rows_run_on(td(r, v, g, m), g * lam)),
        ("centred already", "You subtracted the mean advantage; take them raw.",
         lambda r, v, g, lam, m: (lambda a: zeroed(a - a[m].mean(), m))(advantages(r, v, g, lam, m))),
        ("one sum for all", "You gave every token of a row the first one's advantage; A_t starts at t.",
         lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m)[:, :1].expand_as(r), m)),
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
        ("returns from whitened advantages", "You added V to whitened advantages; the target is in reward"
         " units.",
         lambda r, v, g, lam, m: zeroed(whiten_advantages(advantages(r, v, g, lam, m), m) + v, m)),
        ("returns from centred advantages", "You added V to advantages with their mean subtracted; the target"
         " is in reward units: add V to the raw ones.",
         lambda r, v, g, lam, m: (lambda a: zeroed(a - a[m].mean() + v, m))(advantages(r, v, g, lam, m))),
        ("returns from divided advantages", "You added V to advantages divided by their deviation; the target"
         " is in reward units: add V to the raw ones.",
         lambda r, v, g, lam, m: (lambda a: zeroed(a / a[m].std() + v, m))(advantages(r, v, g, lam, m))),
        ("returns whitened", "You whitened the returns; the critic learns in reward units.",
         lambda r, v, g, lam, m: whiten_advantages(compute_gae(r, v, g, lam, m)[1], m)),
        ("γ on the next value", "You added γ·V at t + 1; add V_t.",
         lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m) + g * after(zeroed(v, m)), m)),
        ("A · V", "You multiplied; add.", lambda r, v, g, lam, m: zeroed(advantages(r, v, g, lam, m) * v, m)),
        ("sum of rewards", "These are sums of rewards without γ; the return is A + V.",
         lambda r, v, g, lam, m: to_go(r, 1.0, m)),
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
        ("own reward left out", "G_t begins with r_t; yours begins with the next reward, discounted.",
         lambda r, v, g, lam, m: g * after(to_go(r, g, m))),
        ("divided by the tokens left", "You divided the sum by the number of tokens left; it is a sum.",
         lambda r, v, g, lam, m: zeroed(to_go(r, g, m) / left(m), m)),
        ("last column never added", "Your walk starts one column too early: rows without padding miss"
         " their last reward.",
         lambda r, v, g, lam, m: recursion(no_last_column(zeroed(r, m)), g)),
        ("decay on the new term", "You multiply r_t by γ and add the sum as it is; γ belongs to the sum from"
         " the next token.", lambda r, v, g, lam, m: g * to_go(r, 1.0, m)),
        ("rows run on", "Your running sum goes on from one row into the next: start each at 0.",
         lambda r, v, g, lam, m: rows_run_on(zeroed(r, m), g)),
        ("V as the last reward", "You bootstrap from V at the end; rewards to go have no critic in them.",
         lambda r, v, g, lam, m: to_go(r + zeroed(v, m & ~after(m)), g, m)),
        ("γ squared", "One step ahead has one factor γ; you have γ².",
         lambda r, v, g, lam, m: to_go(r, g * g, m)),
        ("the last token's reward for all", "You gave every token the last reward; G_t sums all that is to"
         " come, discounted.",
         lambda r, v, g, lam, m: zeroed(zeroed(r, m & ~after(m)).sum(1, True).expand_as(r), m)),
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


def at_the_edges(function) -> tuple[str, str] | None:
    """Where γ or λ is 0 or 1, in a long row, for a single token, many rows, and large numbers."""
    rewards, values, gamma, lam, mask = PROBES[1]
    long = noise(5, 1, 200), noise(6, 1, 200), 0.5, 0.2, prefix_mask(200, 199)
    lone = rewards[:, :1], values[:, :1], gamma, lam, mask[:, :1]
    for name, says, given in (
        ("γ or λ of 0", "All is right but where λ is 0: is something divided by it, or 0 taken for missing?",
         (rewards, values, gamma, 0.0, mask)),
        ("γ or λ of 0", "All is right but where γ is 0: is something divided by it, or 0 taken for missing?",
         (rewards, values, 0.0, lam, mask)),
        ("a single token", "All is right but where rows have a single column.", lone),
        *sizes((rewards, values, gamma, lam, mask), token=False),  # first: the next has one row
        ("long rows", "All is right in short rows, but not in one of 200 tokens: is something divided by"
         " powers of γ or γλ, which get too small, or is there a limit to how many tokens are taken?", long),
        ("γ and λ of 1", "All is right but where γ and λ are 1: is something divided by 1 − γ or 1 − γλ?",
         (rewards, values, 1.0, 1.0, mask)),
        far_out("rewards and values are large", (*EIGHTHS, 0.5, 0.5, prefix_mask(5, 1, 5, 4))),
    ):  # fmt: skip
        with torch.no_grad():
            answers = function(*copy_of(given))
        wanted = [exercise.reference(*given) for exercise in RESULTS.values()]
        if not all(map(alike, answers, wanted)):
            return name, says
    return None


RESULTS = {
    "TD errors δ": DELTAS,
    "advantages": ADVANTAGES,
    "returns": TARGETS,
    "rewards to go": TO_GO,
}
check_credit = explained(
    parts_checker(RESULTS), then=lambda f: nan_in_padding(f) or at_the_edges(f)
)
