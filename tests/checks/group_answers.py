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

# --- kinds that were added after learners' answers -------------------------------------------------


def stepwise(rewards, k):
    out = torch.empty(len(rewards))
    for start in range(k):
        one = rewards[start::k]
        out[start::k] = one - (one.sum() - one) / max(len(one) - 1, 1)
    return out


def neighbour(rewards, k):
    rows = rewards.reshape(-1, k)
    return (rows - torch.cat([rows[:, 1:], rows[:, :1]], dim=1)).reshape(-1)


def products(correct, k, draws=None):
    n, made = correct.shape[1], []
    for row in correct.tolist():
        wrong, chance = n - sum(row), 1.0
        for i in range(draws if draws is not None else k):
            chance *= max(wrong - i, 0) / (n - i)
        made.append(1 - chance)
    return torch.tensor(made)


WRONG += [
    ("rloo_advantages", "groups taken across", stepwise),
    ("rloo_advantages", "the next response for baseline", neighbour),
    (
        "rloo_advantages",
        "K times the centred reward",
        lambda r, k: (k * (r.reshape(-1, k) - r.reshape(-1, k).mean(-1)[:, None])).reshape(-1),
    ),
    (
        "grpo_advantages",
        "larger epsilon",
        lambda r, k: torch.cat([(g - g.mean()) / (g.std() + 0.01) for g in r.split(k)]),
    ),
    (
        "grpo_advantages",
        "mean of squares minus squared mean",
        lambda r, k: torch.cat(
            [
                (g - g.mean())
                / (((g.square().mean() - g.mean() ** 2).clamp(min=0) * k / (k - 1)) ** 0.5 + 1e-4)
                for g in r.split(k)
            ]
        ),
    ),
    ("pass_at_k", "one draw too few", lambda correct, k: products(correct, k, k - 1)),
    ("pass_at_k", "k written in", lambda correct, k: products(correct, 2)),
]
