"""Rarer wrong answers of lessons 04, 05, 07 and 13, written as a learner would, with the names they get.

WRONG lists (exercise, part of the name, function). Some have two slips at once; then either may be named.
"""

import math

import torch
import torch.nn.functional as F


def clipped_loss(p, old, a, mask, eps, low=None, high=None, count=None):
    """PPO's loss with limits and divisor of one's own."""
    change = (p - old).masked_fill(~mask, 0.0).exp()
    low, high = 1 - eps if low is None else low, 1 + eps if high is None else high
    gain = torch.stack([change * a, change.clip(low, high) * a]).amin(0)
    return -gain[mask].sum() / (mask.sum() if count is None else count)


def value_error(v, old, target, mask, eps, limited=None):
    """The critic's loss with a limited value of one's own."""
    step = (v - old).clip(-eps, eps)
    limited = old + step if limited is None else limited
    worst = torch.max((v - target) ** 2, (limited - target) ** 2)
    return worst[mask].sum() / mask.sum() / 2


def drawn(z, w, a, scores=None):
    """Minus the mean gain of the words drawn."""
    table = z - torch.logsumexp(z, 0) if scores is None else scores
    return -(table.gather(0, w) * a).sum() / len(w)


def mixture(lp, r, b, kl, t, n, h):
    tilt = torch.softmax(r / b, dim=-1)
    step = min(0.2, max(-0.2, kl / t - 1)) * n / h
    value = b * torch.logsumexp(lp + r / b, -1).mean()
    return torch.log(lp.exp() / 2 + tilt / 2), value, b * (1 + step)


def tilted(lp, r, b, kl, t, n, h, j=None, step=None):
    scores = lp + r / b
    z = torch.logsumexp(scores, 1)
    j = (b * z).mean() if j is None else j(lp, r, b)
    step = max(-0.2, min(0.2, (kl - t) / t)) * n / h if step is None else step
    return scores - z[:, None], j, b + b * step


def shares(x, m, below):
    return torch.stack([row[keep].sum() / below for row, keep in zip(x, m, strict=True)])


def merged(n, m, s, center=None, less=1.0):
    total = n.sum()
    mean = torch.dot(n, m) / total
    center = mean if center is None else center
    spread = s.sum() + torch.dot(n, (m - center) ** 2)
    return torch.stack([mean, spread / (total - less)])


# fmt: off
WRONG = [
    # lesson 04
    ("reinforce_loss", "word counted once", lambda z, w, a: -torch.stack([
        (z - z.logsumexp(0))[w[i]] * a[i] for i in range(len(w)) if w[i] not in w[:i]]).mean()),
    ("reinforce_loss", "entropy added", lambda z, w, a: drawn(z, w, a) + 0.02 * (
        z.softmax(0) * z.log_softmax(0)).sum()),
    ("reinforce_loss", "vanished", lambda z, w, a: drawn(z, w, a, (z.exp() / z.exp().sum()).log())),
    ("reinforce_loss", "reverse order", lambda z, w, a: drawn(z, w, a.flip(0))),
    ("reinforce_loss", "squared", lambda z, w, a: drawn(z, w, a, z - z.logsumexp(0)) ** 2),
    ("ratio", "ratio is large", lambda p, o, m: torch.where(m, p - o, torch.zeros(())).clip(max=15).exp()),
    ("ratio", "log-ratio", lambda p, o, m: ((p - o) * m) + 1.0),
    ("ratio", "power of 2", lambda p, o, m: torch.exp2(torch.where(m, p - o, torch.zeros(())))),
    ("policy_loss", "clipped below only", lambda *g: clipped_loss(*g, high=1e9)),
    ("policy_loss", "clipped above only", lambda *g: clipped_loss(*g, low=0.0, high=1 + g[4])),
    ("policy_loss", "number of responses", lambda *g: clipped_loss(*g, count=g[0].shape[0])),
    ("policy_loss", "A = 0", lambda *g: clipped_loss(*g, count=(g[3] & (g[2] != 0)).sum())),
    ("policy_loss", "advantages", lambda p, o, a, m, e: clipped_loss(p, o, a.roll(1, 1), m, e)),
    ("policy_loss", "ε/2", lambda p, o, a, m, e: clipped_loss(p, o, a, m, e / 2)),
    ("policy_loss", "and", lambda *g: clipped_loss(*g, high=1e9, count=g[0].shape[1])),
    ("value_loss", "old value", lambda *g: value_error(*g, limited=g[1])),
    ("value_loss", "change alone", lambda *g: value_error(*g, limited=(g[0] - g[1]).clip(-g[4], g[4]))),
    ("value_loss", "above only", lambda *g: value_error(*g, limited=g[0].minimum(g[1] + g[4]))),
    ("value_loss", "returns", lambda v, o, r, m, e: value_error(v, o, r.roll(1, 1), m, e)),
    ("value_loss", "Huber", lambda v, o, r, m, e: torch.max(
        F.smooth_l1_loss(v, r, reduction="none"),
        F.smooth_l1_loss(o + (v - o).clip(-e, e), r, reduction="none"))[m].mean()),
    ("entropy", "first word", lambda z, m: -(z.softmax(2) * z.log_softmax(2))[:, :, 1:].sum(2)[m].mean()),
    ("entropy", "number of responses", lambda z, m: (torch.distributions.Categorical(
        logits=z).entropy() * m).sum() / m.shape[0]),
    ("entropy", "softmax twice", lambda z, m: torch.distributions.Categorical(
        logits=z.softmax(2)).entropy()[m].mean()),
    ("clip_fraction", "log-ratio", lambda r, a, m, e: (
        (r.log().abs() > e) & (r.log() * a > 0))[m].float().mean()),
    ("clip_fraction", "share of the responses", lambda r, a, m, e: torch.tensor([float(any(
        (x > 1 + e and y > 0) or (x < 1 - e and y < 0)
        for x, y, k in zip(*row, strict=True) if k)) for row in zip(r, a, m, strict=True)]).mean()),
    ("clip_fraction", "limit", lambda r, a, m, e: (
        ((r > 1 + e) & (a > 0)) | ((1 / r > 1 + e) & (a < 0)))[m].float().mean()),
    # lesson 05
    ("preference_probability", "normal", lambda a, b: torch.distributions.Normal(0.0, 1.0).cdf(a - b)),
    ("preference_probability", "better one", lambda a, b: 1 / (1 + torch.exp(-torch.abs(a - b)))),
    ("preference_probability", "rows mixed", lambda a, b: torch.sigmoid(a[-1] - b)),
    ("preference_probability", "rows mixed", lambda a, b: torch.sigmoid(a.sort()[0] - b.sort()[0])),
    ("bradley_terry_loss", "added", lambda c, r: F.softplus(r - c).mean() + 0.05 * (c**2).mean()),
    ("bradley_terry_loss", "ranked wrong", lambda c, r: F.softplus(r - c)[r > c].mean()),
    ("bradley_terry_loss", "own", lambda c, r: (F.softplus(-c) + F.softplus(r)).mean()),
    ("bradley_terry_loss", "ignored", lambda c, r: F.softplus(-c).mean() + 0 * r.sum()),
    ("normalize_scores", "spread", lambda s, ref: (s - ref.mean()) / (ref - ref.mean()).abs().mean()),
    ("normalize_scores", "centre", lambda s, ref: (s - ref.quantile(0.5)) / ref.std()),
    ("normalize_scores", "far from the mean", lambda s, ref: ((s - ref.mean()) / ref.std()).clip(-4, 4)),
    ("normalize_scores", "mean is large", lambda s, ref: (s - ref.mean()) / (
        ((ref**2).sum() - ref.sum() ** 2 / len(ref)) / (len(ref) - 1)).sqrt()),
    ("normalize_scores", "sign flipped", lambda s, ref: (ref.mean() - s) / ref.std()),
    ("pair_accuracy", "torn apart", lambda c, r: (
        (c.sort()[0] > r.sort()[0]) + 0.5 * (c.sort()[0] == r.sort()[0])).mean()),
    ("pair_accuracy", "another weight", lambda c, r: torch.heaviside(c - r, torch.tensor(0.25)).mean()),
    ("pair_accuracy", "means", lambda c, r: torch.tensor(1.0 if c.mean() > r.mean() else 0.0)),
    # lesson 07
    ("best_mean", "2σ²", lambda b, s: 1 / (1 + 2 * b * s**2)),
    ("best_mean", "brackets", lambda b, s: 2 / 2 + b / (s * s)),
    ("best_mean", "first order", lambda b, s: 1 - b / s**2 / 2),
    ("best_mean", "sigma", lambda b, s: 2 / (2 + b / 0.25)),
    ("best_mean", "division by 0", lambda b, s: 2 / (b / s**2)),
    ("score_between", "no root in the denominator", lambda a, p, b, q, x: (
        p + (math.sqrt(x) - math.sqrt(a)) / (b - a) * (q - p))),
    ("score_between", "without its sign", lambda a, p, b, q, x: (
        p + abs(p - q) * (math.sqrt(x) - math.sqrt(a)) / (math.sqrt(b) - math.sqrt(a)))),
    ("score_between", "S", lambda a, p, b, q, x: p + (q - p) * (1 - math.cos(math.pi * (
        math.sqrt(x) - math.sqrt(a)) / (math.sqrt(b) - math.sqrt(a)))) / 2),
    ("optimum", "mixture", mixture),
    ("optimum", "median", lambda *g: tilted(*g, j=lambda lp, r, b: (
        b * torch.logsumexp(lp + r / b, 1)).median())),
    ("optimum", "one prompt", lambda *g: tilted(*g, j=lambda lp, r, b: (
        b * torch.logsumexp((lp + r / b)[-1], 0)))),
    ("optimum", "another clip", lambda *g: tilted(*g, step=max(-0.5, min(0.5, g[3] / g[4] - 1)) * g[5] /
     g[6])),
    ("optimum", "full step", lambda *g: tilted(*g, step=math.copysign(0.2, g[3] - g[4]) * g[5] / g[6])),
    # lesson 13
    ("loss_shares", "one process", lambda x, m: shares(x, m, m[-1].sum())),
    ("loss_shares", "0 left out", lambda x, m: shares(x, m, torch.count_nonzero(x[m]))),
    ("loss_shares", "n − 1", lambda x, m: shares(x, m, m.sum() - 1)),
    ("loss_shares", "summed loss", lambda x, m: shares(x, m, x[m].sum())),
    ("merge_moments", "plain mean", lambda n, m, s: merged(n, m, s, center=m.sum() / len(m))),
    ("merge_moments", "one process", lambda n, m, s: merged(n, m, s, center=m[0])),
    ("merge_moments", "N − 2", lambda n, m, s: merged(n, m, s, less=2.0)),
    ("merge_moments", "last process left out", lambda n, m, s: merged(n[:-1], m[:-1], s[:-1])),
    ("loss_factors", "N − 1", lambda n: len(n) * n / (n.sum() - 1)),
    ("loss_factors", "largest", lambda n: len(n) * n / n.amax()),
]
# fmt: on
