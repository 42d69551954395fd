"""Answers to the exercises of lesson 10: right ones of another build, and wrong ones with their names.

Written as learners write them, with loops, einsum and masks of floats; none is taken from the checks.
"""

import math
from itertools import combinations

import torch


def by_loop(rewards, k, own=False, divisor=None, sign=1):
    result = []
    for start in range(0, len(rewards), k):
        group = rewards[start : start + k].tolist()
        for i, r in enumerate(group):
            others = group if own else group[:i] + group[i + 1 :]
            result.append(sign * (r - sum(others) / (divisor or len(others))))
    return torch.tensor(result)


def rloo_by_matrix(rewards, k):
    weights = torch.eye(k) - (1 - torch.eye(k)) / (k - 1)
    return torch.einsum("bk,jk->bj", rewards.reshape(-1, k), weights).reshape(-1)


def grpo_by_loop(rewards, k, mean=True, eps=1e-4, ddof=1, root=True):
    out = []
    for group in rewards.double().split(k):
        m = group.mean() if mean else 0.0
        var = ((group - group.mean()) ** 2).sum() / (k - ddof)
        out += [((r - m) / ((var.sqrt() if root else var) + eps)).item() for r in group]
    return torch.tensor(out)


def loss_by_loop(p, old, a, mask, how, low, high, length, weigh=None, swap=False, sign=-1.0):
    """One token at a time; `weigh(row, rows, tokens, width, length)` replaces the weight of a token."""
    total, rows, tokens = 0.0, len(p), int(mask.sum())
    for b in range(rows):
        n = int(mask[b].sum())
        for t in range(n):
            rho = torch.exp(p[b, t] - old[b, t])
            bounded = torch.clamp(rho, 1 - low, 1 + high)
            gain = (torch.max if swap else torch.min)(rho * a[b], bounded * a[b])
            weights = {
                "token": 1 / tokens,
                "response": 1 / (n * rows),
                "fixed": 1 / (rows * length),
            }
            if weigh is not None and how in weigh:
                weights[how] = weigh[how](n, rows, tokens, p.shape[1], length)
            total = total + sign * gain * weights[how]
    return total


def loss_of_rows(p, old, a, mask, how, low, high, length):
    """Row by row, with boolean indexing."""
    sums, counts = [], []
    for row in range(len(p)):
        rho = (p[row][mask[row]] - old[row][mask[row]]).exp()
        gain = torch.where(a[row] > 0, rho.clamp(max=1 + high), rho.clamp(min=1 - low)) * a[row]
        sums.append(gain.sum())
        counts.append(len(gain))
    sums, counts = torch.stack(sums), torch.tensor(counts)
    if how == "response":
        return -(sums / counts).mean()
    return -sums.sum() / (counts.sum() if how == "token" else len(p) * length)


def loss_as_trl(p, old, a, mask, how, low, high, length, m=None):
    """As TRL writes it: two losses, the larger one; a mask of floats; clean padding first."""
    p, old = p.masked_fill(~mask, 0.0), old.masked_fill(~mask, 0.0)
    coef_1 = torch.exp(p - old)
    coef_2 = torch.clamp(coef_1, 1 - low, 1 + high)
    per_token = torch.max(-coef_1 * a[:, None], -coef_2 * a[:, None])
    m = mask.float()
    if how == "response":
        return ((per_token * m).sum(-1) / m.sum(-1).clamp(min=1.0)).mean()
    if how == "token":
        return (per_token * m).sum() / m.sum().clamp(min=1.0)
    return (per_token * m).sum() / (per_token.size(0) * length)


def padding_summed(p, old, a, mask, how, low, high, length):
    """Hint 1's first half alone: a harmless ratio in the padding, and its gain in the sum."""
    ratio = (p - old).masked_fill(~mask, 0.0).exp()
    column = a.reshape(-1, 1)
    sums = torch.minimum(ratio * column, ratio.clamp(1 - low, 1 + high) * column).sum(-1)
    counts = mask.sum(-1)
    if how == "response":
        return -(sums / counts).mean()
    return -sums.sum() / (counts.sum() if how == "token" else len(p) * length)


def changed(**weigh):
    return lambda *x: loss_by_loop(*x, weigh=weigh)


def pass_by_choices(correct, k):
    rows = []
    for row in correct.tolist():
        chosen = [any(some) for some in combinations(row, k)]
        rows.append(sum(chosen) / len(chosen))
    return torch.tensor(rows)


def pass_by_comb(correct, k):
    n = correct.shape[1]
    return torch.tensor([1 - math.comb(n - int(c), k) / math.comb(n, k) for c in correct.sum(1)])


def pass_by_product(correct, k):
    """Chen et al.'s own numerically stable form."""
    n, out = correct.shape[1], []
    for c in correct.sum(1).tolist():
        product = 1.0
        for i in range(n - c + 1, n + 1):
            product *= 1 - k / i
        out.append(1.0 if n - c < k else 1 - product)
    return torch.tensor(out, dtype=torch.float64)


def pass_with(top, bottom=math.comb, outer=lambda x: 1 - x):
    """1 − top/bottom with another count on top."""
    return lambda c, k: torch.tensor(
        [outer(top(c.shape[1], int(r), k) / bottom(c.shape[1], k)) for r in c.sum(1)]
    )


RIGHT = [
    ("rloo_advantages", by_loop),
    ("rloo_advantages", rloo_by_matrix),
    ("rloo_advantages", lambda r, k: (
        (k * r.view(-1, k) - r.view(-1, k).sum(1, keepdim=True)) / (k - 1)).view(-1)),
    ("rloo_advantages", lambda r, k: r - (
        r.view(-1, k).sum(1).repeat_interleave(k) - r) / (k - 1)),
    ("grpo_advantages", grpo_by_loop),
    ("grpo_advantages", lambda r, k: torch.nn.functional.normalize(
        r.view(-1, k) - r.view(-1, k).mean(1, keepdim=True), dim=1).flatten()
        * (s := r.view(-1, k).std(1).repeat_interleave(k)) / (s + 1e-4) * (k - 1) ** 0.5),
    ("grpo_advantages", lambda r, k: (
        (r - r.view(-1, k).mean(1).repeat_interleave(k))
        / (r.view(-1, k).std(1).repeat_interleave(k) + 1e-4))),
    ("grpo_loss", loss_by_loop),
    ("grpo_loss", loss_of_rows),
    ("grpo_loss", loss_as_trl),
    ("grpo_loss", lambda p, old, a, m, *rest: loss_of_rows(
        p.masked_fill(~m, 0), old.masked_fill(~m, 0), a, m, *rest)),
    ("pass_at_k", pass_by_choices),
    ("pass_at_k", pass_by_comb),
    ("pass_at_k", pass_by_product),
    ("pass_at_k", lambda c, k: 1 - torch.tensor(
        [math.comb(int(w), k) for w in (~c).sum(1)]).double() / math.comb(c.shape[1], k)),
]  # fmt: skip

WRONG = [
    # rloo_advantages
    ("rloo_advantages", "own reward in the baseline", lambda r, k: by_loop(r, k, own=True)),
    ("rloo_advantages", "divided by K", lambda r, k: by_loop(r, k, divisor=k)),
    ("rloo_advantages", "sum of the others", lambda r, k: by_loop(r, k, divisor=1)),
    ("rloo_advantages", "reversed", lambda r, k: by_loop(r, k, sign=-1)),
    ("rloo_advantages", "groups taken across", lambda r, k: (
        (g := r.view(k, -1)) - (g.sum(0) - g) / (k - 1)).view(-1)),
    ("rloo_advantages", "baseline alone", lambda r, k: (
        r.view(-1, k).sum(1).repeat_interleave(k) - r) / (k - 1)),
    ("rloo_advantages", "not flattened", lambda r, k: by_loop(r, k).reshape(-1, k)),
    ("rloo_advantages", "mean of the batch", lambda r, k: r.sub(r.mean())),
    ("rloo_advantages", "leave-one-out over the whole batch", lambda r, k: by_loop(r, len(r))),
    # grpo_advantages
    ("grpo_advantages", "biased std", lambda r, k: grpo_by_loop(r, k, ddof=0)),
    ("grpo_advantages", "smaller epsilon", lambda r, k: grpo_by_loop(r, k, eps=1e-8)),
    ("grpo_advantages", "mean not subtracted", lambda r, k: grpo_by_loop(r, k, mean=False)),
    ("grpo_advantages", "variance instead of std", lambda r, k: grpo_by_loop(r, k, root=False)),
    ("grpo_advantages", "no epsilon", lambda r, k: grpo_by_loop(r, k, eps=0.0)),
    ("grpo_advantages", "epsilon inside the root", lambda r, k: torch.cat(
        [(g - g.mean()) * torch.rsqrt(g.var() + 1e-4) for g in r.split(k)])),
    ("grpo_advantages", "RLOO", by_loop),
    ("grpo_advantages", "std missing", lambda r, k: by_loop(r, k, own=True)),
    ("grpo_advantages", "statistics of the batch", lambda r, k: (r - r.mean()) / (
        r.var().sqrt() + 1e-4)),
    ("grpo_advantages", "std of the batch", lambda r, k: by_loop(r, k, own=True) / (
        r.std() + 1e-4)),
    # grpo_loss
    ("grpo_loss", "minus sign missing", lambda *x: loss_by_loop(*x, sign=1.0)),
    ("grpo_loss", "max instead of min", lambda *x: loss_by_loop(*x, swap=True)),
    ("grpo_loss", "response: length with padding", changed(
        response=lambda n, rows, tokens, width, length: 1 / (rows * width))),
    ("grpo_loss", "response: rows not averaged", changed(
        response=lambda n, rows, tokens, width, length: 1 / n)),
    ("grpo_loss", "response: rows not divided", changed(
        response=lambda n, rows, tokens, width, length: 1 / rows)),
    ("grpo_loss", "fixed: divided by the width", changed(
        fixed=lambda n, rows, tokens, width, length: 1 / (rows * width))),
    ("grpo_loss", "fixed: number of responses missing", changed(
        fixed=lambda n, rows, tokens, width, length: 1 / length)),
    ("grpo_loss", "fixed: length missing", changed(
        fixed=lambda n, rows, tokens, width, length: 1 / rows)),
    ("grpo_loss", "fixed: counted tokens", changed(
        fixed=lambda n, rows, tokens, width, length: 1 / tokens)),
    ("grpo_loss", "fixed: rows divided twice", changed(
        fixed=lambda n, rows, tokens, width, length: 1 / (n * rows * length))),
    ("grpo_loss", "token: padding in the divisor", changed(
        token=lambda n, rows, tokens, width, length: 1 / (rows * width))),
    ("grpo_loss", "token: mean of means", changed(
        token=lambda n, rows, tokens, width, length: 1 / (rows * n))),
    ("grpo_loss", "token: not divided", changed(
        token=lambda n, rows, tokens, width, length: 1.0)),
    ("grpo_loss", "token: divided by the responses", changed(
        token=lambda n, rows, tokens, width, length: 1 / rows)),
    ("grpo_loss", "response: all tokens together", changed(
        token=lambda n, rows, tokens, width, length: 1 / (rows * n),
        response=lambda n, rows, tokens, width, length: 1 / tokens)),
    ("grpo_loss", "response: all tokens together", lambda p, old, a, m, how, *rest: loss_of_rows(
        p, old, a, m, "token", *rest)),
    ("grpo_loss", "fixed: mean of means", lambda p, old, a, m, how, *rest: loss_of_rows(
        p, old, a, m, "response", *rest)),
    ("grpo_loss", "one limit for both sides", lambda p, old, a, m, how, low, high, n: loss_of_rows(
        p, old, a, m, how, low, low, n)),
    ("grpo_loss", "higher on both sides", lambda p, old, a, m, how, low, high, n: loss_of_rows(
        p, old, a, m, how, high, high, n)),
    ("grpo_loss", "limits exchanged", lambda p, old, a, m, how, low, high, n: loss_of_rows(
        p, old, a, m, how, high, low, n)),
    ("grpo_loss", "no clip", lambda p, old, a, m, how, low, high, n: loss_of_rows(
        p, old, a, m, how, 1e9, 1e9, n)),
    ("grpo_loss", "ratio reversed", lambda p, old, *rest: loss_as_trl(old, p, *rest)),
    ("grpo_loss", "detached", lambda p, *rest: loss_as_trl(p.detach(), *rest)),
    ("grpo_loss", "0 times NaN", lambda p, old, a, m, how, low, high, n: {
        "token": (x := torch.max(-(r := (p - old).exp()) * a[:, None],
                                 -r.clamp(1 - low, 1 + high) * a[:, None]) * m).sum() / m.sum(),
        "response": (x.sum(1) / m.sum(1)).mean(), "fixed": x.sum() / (len(p) * n)}[how]),
    ("grpo_loss", "NaN gradient", lambda p, old, a, m, how, low, high, n: {
        "token": -(x := torch.min((r := (p - old).exp()) * a[:, None],
                                  r.clamp(1 - low, 1 + high) * a[:, None]))[m].mean(),
        "response": -torch.stack([x[b][m[b]].mean() for b in range(len(p))]).mean(),
        "fixed": -x[m].sum() / (len(p) * n)}[how]),
    ("grpo_loss", "gain in the padding not masked", padding_summed),
    ("grpo_loss", "fixed: divided by the longest response", lambda p, old, a, m, how, *rest: loss_of_rows(
        p, old, a, m, how, *rest[:2], int(m.sum(1).max()) if how == "fixed" else rest[2])),
    ("grpo_loss", "advantages not a column", lambda p, old, a, m, *rest: loss_as_trl(
        p, old, a, m, *rest) + 0 * (a * p).sum()),
    ("grpo_loss", "unfinished", lambda p, old, a, m, how, *rest: (
        loss_of_rows(p, old, a, m, how, *rest) if how == "response" else NotImplemented)),
    # pass_at_k
    ("pass_at_k", "plug-in", lambda c, k: 1 - (~c).float().mean(1).pow(k)),
    ("pass_at_k", "1 − forgotten", lambda c, k: 1 - pass_by_comb(c, k)),
    ("pass_at_k", "all k right", pass_with(lambda n, c, k: math.comb(c, k), outer=lambda x: x)),
    ("pass_at_k", "right and wrong exchanged", pass_with(lambda n, c, k: math.comb(c, k))),
    ("pass_at_k", "pass@1", lambda c, k: c.float().mean(dim=-1)),
    ("pass_at_k", "k times pass@1, at most 1", lambda c, k: torch.minimum(
        torch.ones(len(c)), k * c.float().mean(1))),
    ("pass_at_k", "any of all n", lambda c, k: (c.sum(1) > 0).float()),
    ("pass_at_k", "first k only", lambda c, k: torch.tensor([float(any(r[:k])) for r in c.tolist()])),
    ("pass_at_k", "at least k right", lambda c, k: torch.where(c.sum(1) < k, 0.0, 1.0)),
    ("pass_at_k", "one number for all prompts", lambda c, k: pass_by_choices(c, k).mean()),
    ("pass_at_k", "n not counted down", lambda c, k: torch.tensor([1 - math.prod(
        max(int(w) - j, 0) / c.shape[1] for j in range(k)) for w in (~c).sum(1)])),
    ("pass_at_k", "all k right, plug-in", lambda c, k: c.double().mean(1) ** k),
]  # fmt: skip
