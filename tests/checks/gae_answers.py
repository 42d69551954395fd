"""Answers to the large exercise of lesson 02: right ones of another build, and wrong ones with their names.

Written as learners write them: one walk from the last column to the first, with one slip in it. None is
taken from the checks.
"""

import torch
import torch.nn.functional as F


def walk(rewards, values, gamma, lam, mask, slip=""):
    """The whole exercise in plain steps; `slip` names the line that is wrong."""
    r = rewards if slip == "rewards kept" else torch.where(mask, rewards, 0.0)
    v = values if slip == "values kept" else torch.where(mask, values, 0.0)
    B, T = r.shape
    following = torch.cat([v[:, 1:], torch.zeros(B, 1)], dim=1)
    if slip == "roll":
        following = v.roll(-1, dims=1)
    if slip == "last repeated":
        last = torch.arange(T) == mask.sum(1, keepdim=True) - 1
        following = torch.where(last, v, following)
    if slip == "last column repeated":
        following = torch.cat([v[:, 1:], v[:, -1:]], dim=1)
    if slip == "previous":
        following = torch.cat([torch.zeros(B, 1), v[:, :-1]], dim=1)
    deltas = {
        "overwritten": r + gamma * v - v,
        "plus": r + gamma * following + v,
        "one early": r + gamma * v - torch.cat([torch.zeros(B, 1), v[:, :-1]], dim=1),
        "sign": v - r - gamma * following,
        "no gamma": r + following - v,
        "gamma outside": gamma * (r + following) - v,
        "target": r + gamma * following,
        "no next": r - v,
        "lam": r + lam * following - v,
    }.get(slip, r + gamma * following - v)
    if slip not in ("rewards kept", "deltas kept"):
        deltas = torch.where(mask, deltas, 0.0)
    decay = {"only gamma": gamma, "only lam": lam, "no decay": 1.0}.get(slip, gamma * lam)
    columns, running = [], torch.zeros(B)
    steps = range(T) if slip == "forwards" else reversed(range(T))
    for t in steps:
        running = deltas[:, t] + decay * running
        if slip == "1 - lam":
            running = running - lam * deltas[:, t]
        if slip == "decay on both":
            running = decay * running
        columns.append(running)
    in_order = columns if slip in ("not reversed", "forwards") else columns[::-1]
    advantages = torch.stack(in_order, dim=1) * mask
    returns = advantages + (values if slip == "V of pads" else v)
    if slip == "r + v":
        returns = r + v
    if slip == "a - v":
        returns = advantages - v
    if slip == "returns are advantages":
        returns = advantages
    return deltas, advantages, returns, to_go(rewards, gamma, lam, mask, slip)


def to_go(rewards, gamma, lam, mask, slip):
    """Rewards to go by the same walk, with slips of their own."""
    r = torch.where(mask, rewards, 0.0)
    if slip == "go: pads":
        r = rewards
    decay = {"go: lam": gamma * lam, "go: no gamma": 1.0}.get(slip, gamma)
    if slip == "go: dim 0":
        return r.flip(0).cumsum(0).flip(0) * mask
    if slip == "go: total":
        return r.sum(1, keepdim=True).expand_as(r) * mask
    if slip == "go: last only":
        r = r * (torch.arange(r.shape[1]) == mask.sum(1, keepdim=True) - 1)
    columns, running = [], torch.zeros(len(r))
    for t in reversed(range(r.shape[1])):
        if slip == "go: own left out":
            columns.append(running)
        running = r[:, t] + decay * running
        if slip == "go: own discounted":
            columns.append(gamma * running)
        elif slip != "go: own left out":
            columns.append(running)
    order = columns if slip == "go: not reversed" else columns[::-1]
    return torch.stack(order, dim=1) * mask


def slipped(name):
    return lambda *given: walk(*given, slip=name)


def by_definition(rewards, values, gamma, lam, mask):
    """Four loops over rows, tokens and what follows them."""
    out = torch.zeros(4, *rewards.shape)
    for b, n in enumerate(mask.sum(1).tolist()):
        r, v = rewards[b, :n].tolist(), [*values[b, :n].tolist(), 0.0]
        d = [r[t] + gamma * v[t + 1] - v[t] for t in range(n)]
        for t in range(n):
            out[0, b, t] = d[t]
            out[1, b, t] = sum((gamma * lam) ** k * x for k, x in enumerate(d[t:]))
            out[2, b, t] = out[1, b, t] + v[t]
            out[3, b, t] = sum(gamma**k * x for k, x in enumerate(r[t:]))
    return tuple(out)


def by_matrix(rewards, values, gamma, lam, mask):
    """Sums as matrix products, in float64."""
    r, v = (torch.where(mask, x, 0.0).double() for x in (rewards, values))
    t = torch.arange(r.shape[1])
    ahead = t[None, :] - t[:, None]

    def weights(decay):
        return torch.where(
            ahead >= 0, torch.tensor(decay, dtype=torch.float64) ** ahead.clamp(0), 0.0
        )

    deltas = torch.where(mask, r + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)
    advantages = torch.where(mask, deltas @ weights(gamma * lam).T, 0.0)
    go = torch.where(mask, r @ weights(gamma).T, 0.0)
    return deltas, advantages, torch.where(mask, advantages + v, 0.0), go


def with_two_running_columns(rewards, values, gamma, lam, mask):
    """Filled in place from behind; both running columns are set to 0 on padding."""
    d, a, g = (torch.zeros_like(rewards) for _ in range(3))
    run = ahead = go = torch.zeros(len(rewards))
    for t in range(rewards.shape[1] - 1, -1, -1):
        on = mask[:, t]
        d[:, t] = torch.where(on, rewards[:, t] + gamma * ahead - values[:, t], 0.0)
        run = torch.where(on, d[:, t] + gamma * lam * run, 0.0)
        go = torch.where(on, rewards[:, t] + gamma * go, 0.0)
        ahead = torch.where(on, values[:, t], 0.0)
        a[:, t], g[:, t] = run, go
    return d, a, torch.where(mask, a + values, 0.0), g


def by_views(rewards, values, gamma, lam, mask):
    """From the definition of the n-step views, mixed with (1 − λ)·λ^(n−1); no δ in the sum."""
    r, v = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    T = r.shape[1]
    v = F.pad(v, (0, T + 1))
    advantages = torch.zeros_like(r)
    for t in range(T):
        got, left = torch.zeros(len(r)), 1.0
        for n in range(1, T - t + 1):
            got = got + gamma ** (n - 1) * r[:, t + n - 1]
            weight = left if n == T - t else (1 - lam) * lam ** (n - 1)
            left -= weight
            advantages[:, t] += weight * (got + gamma**n * v[:, t + n] - v[:, t])
    advantages = torch.where(mask, advantages, 0.0)
    d, _, _, g = by_definition(rewards, values, gamma, lam, mask)
    return d, advantages, torch.where(mask, advantages + v[:, :T], 0.0), g


def next_row_too(rewards, values, gamma, lam, mask):
    """A loop over rows that forgets to set the sum back to 0 for the next one."""
    d, a, _, g = by_definition(rewards, values, gamma, lam, mask)
    running = 0.0
    a = torch.zeros_like(rewards)
    for b in reversed(range(len(rewards))):
        for t in reversed(range(int(mask[b].sum()))):
            running = float(d[b, t]) + gamma * lam * running
            a[b, t] = running
    return d, a, torch.where(mask, a + values, 0.0), g


def sum_not_reset(rewards, values, gamma, lam, mask):
    """Values are cleared on padding; the running sum meets the rewards there."""
    d, _, _, g = by_definition(rewards, values, gamma, lam, mask)
    running, ahead, columns = torch.zeros(len(rewards)), torch.zeros(len(rewards)), []
    for t in reversed(range(rewards.shape[1])):
        v = torch.where(mask[:, t], values[:, t], 0.0)
        running = rewards[:, t] + gamma * ahead - v + gamma * lam * running
        ahead = v
        columns.append(running)
    a = torch.stack(columns[::-1], 1) * mask
    return d, a, torch.where(mask, a + values, 0.0), g


def factor_by_multiplication(rewards, values, gamma, lam, mask):
    """Right, but for padding that is not a number."""
    r, v = rewards * mask, values * mask
    return walk(r, v, gamma, lam, torch.ones_like(mask))


def swapped(*given):
    d, a, r, g = walk(*given)
    return d, a, g, r


RIGHT = [
    ("credit", walk),
    ("credit", lambda *given: list(walk(*given))),
    ("credit", by_definition),
    ("credit", by_matrix),
    ("credit", with_two_running_columns),
    ("credit", by_views),
    ("td_errors", lambda r, v, g, m: by_definition(r, v, g, 0.5, m)[0]),
    ("td_errors", lambda r, v, g, m: by_matrix(r, v, g, 0.5, m)[0].float()),
    ("gae", lambda *given: with_two_running_columns(*given)[1]),
    ("gae", lambda *given: by_views(*given)[1]),
    ("discounted_returns", lambda r, g, m: by_matrix(r, r, g, 1.0, m)[3]),
    ("discounted_returns", lambda r, g, m: with_two_running_columns(r, r, g, 1.0, m)[3]),
]

WRONG = [
    ("credit", "masked before subtracting only", slipped("rewards kept")),
    ("credit", "bootstraps from padding", slipped("values kept")),
    ("credit", "wraps around", slipped("roll")),
    ("credit", "beyond the end", slipped("last repeated")),
    ("credit", "previous value", slipped("previous")),
    ("credit", "values[t] twice", slipped("overwritten")),
    ("credit", "V with a plus", slipped("plus")),
    ("credit", "sign flipped", slipped("sign")),
    ("credit", "gamma missing", slipped("no gamma")),
    ("credit", "gamma on the reward", slipped("gamma outside")),
    ("credit", "value not subtracted", slipped("target")),
    ("credit", "no bootstrap", slipped("no next")),
    ("credit", "discounted by λ", slipped("lam")),
    ("credit", "lambda missing", slipped("only gamma")),
    ("credit", "gamma missing in the sum", slipped("only lam")),
    ("credit", "no decay", slipped("no decay")),
    ("credit", "forward recursion", slipped("forwards")),
    ("credit", "list not reversed", slipped("not reversed")),
    ("credit", "times 1 − λ", slipped("1 - lam")),
    ("credit", "γλ twice", slipped("decay on both")),
    ("credit", "runs on across rows", next_row_too),
    ("credit", "running sum not reset", sum_not_reset),
    ("credit", "V of padding added", slipped("V of pads")),
    ("credit", "rewards + values", slipped("r + v")),
    ("credit", "A − V", slipped("a - v")),
    ("credit", "the advantages again", slipped("returns are advantages")),
    ("credit", "no reset at the mask", slipped("go: pads")),
    ("credit", "λ in the decay", slipped("go: lam")),
    ("credit", "gamma missing", slipped("go: no gamma")),
    ("credit", "one sum for all", slipped("go: total")),
    ("credit", "only the last reward", slipped("go: last only")),
    ("credit", "own reward left out", slipped("go: own left out")),
    ("credit", "own reward discounted", slipped("go: own discounted")),
    ("credit", "list not reversed", slipped("go: not reversed")),
    ("credit", "NaN from the padding", factor_by_multiplication),
    ("credit", "the order of the results", swapped),
    ("credit", "wrong type", lambda *given: walk(*given)[:3]),
    ("credit", "wrong type", lambda *given: walk(*given)[1]),
    ("credit", "exception", lambda *given: walk(*given, "", 1)),
    ("td_errors", "masked before subtracting only",
     lambda r, v, g, m: r + g * F.pad((v * m)[:, 1:], (0, 1)) - v * m),
    ("td_errors", "both values one too early",
     lambda r, v, g, m: torch.where(m, r + g * v - F.pad(v[:, :-1], (1, 0)), 0.0)),
    ("td_errors", "rolled the other way",
     lambda r, v, g, m: torch.where(m, r + g * (v * m).roll(1, 1) - v, 0.0)),
    ("td_errors", "the last column repeated",
     lambda r, v, g, m: torch.where(
         m, r + g * F.pad((v * m)[:, None], (0, 1), mode="replicate")[:, 0, 1:] - v, 0.0)),
    ("credit", "the last column repeated", slipped("last column repeated")),
    ("credit", "both values one too early", slipped("one early")),
    ("td_errors", "V with a plus", lambda r, v, g, m: walk(r, v, g, 1.0, m, "plus")[0]),
    ("td_errors", "values[t] twice", lambda r, v, g, m: walk(r, v, g, 1.0, m, "overwritten")[0]),
    ("td_errors", "sign flipped", lambda r, v, g, m: walk(r, v, g, 1.0, m, "sign")[0]),
    ("gae", "next value overwritten before δ", lambda *given: walk(*given, "overwritten")[1]),
    ("gae", "running sum not reset", lambda *given: sum_not_reset(*given)[1]),
    ("gae", "list not reversed", lambda *given: walk(*given, "not reversed")[1]),
    ("gae", "V with a plus", lambda *given: walk(*given, "plus")[1]),
]  # fmt: skip
