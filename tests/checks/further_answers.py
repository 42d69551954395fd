"""Answers that are right on ordinary inputs and wrong further out, and right ones that must still pass.

RIGHT lists (exercise, function), WRONG lists (exercise, mistake, function). None is taken from the checks.
"""

import torch
import torch.nn.functional as F


def kept_rows(x, mask):
    return x[:32][mask[:32]].mean()


def early_tie(c, r):
    near = torch.isclose(c, r, rtol=0, atol=1e-3)
    return ((c > r) & ~near).float().mean() + near.float().mean() / 2


def with_floor(x, mask):
    kept = x[mask]
    var = kept.var() if len(kept) > 1 else kept.sum() * 0
    return (
        torch.where(mask, (x - kept.mean()) / torch.sqrt(var.clamp(min=0.01)), 0.0)
        if var > 0
        else x * 0
    )


def clipped_white(a, mask):
    kept = a[mask]
    var = ((kept - kept.mean()) ** 2).sum() / max(len(kept) - 1, 1)
    return torch.where(mask, ((a - kept.mean()) / (var + 1e-8).sqrt()).clamp(-5, 5), 0.0)


def by_column(a, mask):
    white = torch.zeros_like(a)
    for column, kept, out in zip(a.T, mask.T, white.T, strict=True):
        if kept.sum() > 1:
            out[kept] = (column[kept] - column[kept].mean()) / (column[kept].var() + 1e-8).sqrt()
    return white


def powers_first(scores, gold, n):
    low = (scores.unsqueeze(1) < scores.unsqueeze(2)).sum(2)
    high = (scores.unsqueeze(1) <= scores.unsqueeze(2)).sum(2)
    N = scores.shape[1]
    chance = (high**n - low**n) / N**n / (high - low)
    kl = torch.xlogy(chance, chance * N).sum(1).mean()
    return chance, (chance * scores).sum(1).mean(), (chance * gold).sum(1).mean(), kl


def optimum_with(policy=None, step=None):
    def optimum(lp, r, beta, kl, target, n, horizon):
        best = (policy or (lambda lp, x: (lp + x).log_softmax(1)))(lp, r / beta)
        value = beta * torch.logsumexp(lp + r / beta, 1).mean()
        error = max(-0.2, min(0.2, (kl - target) / target))
        return (
            best,
            value,
            (step or (lambda b, e, n, h: b * (1 + e * n / h)))(beta, error, n, horizon),
        )

    return optimum


def seen_words(texts):
    found, points = set(), []
    for text in texts:
        points.append(float(text.count("good") if text not in found else -1))
        found.add(text)
    return points


def edges(rho, a, mask, eps):
    hit = torch.where(a > 0, rho >= 1 + eps, rho <= 1 - eps) & (a != 0)
    return (hit & mask).sum() / mask.sum()


def huber(v, old, r, mask, eps):
    near = torch.clamp(v, old - eps, old + eps)
    one, two = (F.huber_loss(x, r, reduction="none", delta=20.0) for x in (v, near))
    return torch.maximum(one, two)[mask].mean()


def two_exps(p, old, a, mask, eps):
    now, then = (torch.where(mask, x, 0.0) for x in (p, old))
    rho = now.exp() / then.exp()
    return -torch.minimum(rho * a, rho.clamp(1 - eps, 1 + eps) * a)[mask].mean()


def merged(n, m, s):
    mean = (n * m).sum() / n.sum()
    return torch.stack([mean, (s.sum() + (n * m * m).sum() - n.sum() * mean**2) / (n.sum() - 1)])


def cancelled_effect(before, after):
    d = after - before
    n = len(d)
    return torch.stack([d.mean(), ((d * d).mean() - d.mean() ** 2).clamp(min=0).div(n - 1).sqrt()])


def cancelled_share(v, r, mask):
    def var(x):
        return (x[mask] ** 2).mean() - x[mask].mean() ** 2

    return 1 - var(r - v) / var(r)


def by_cases(p, old, a, mask, eps):
    rho, a = (p[mask] - old[mask]).exp(), a[mask]
    return -torch.where(a > 0, a * rho.clamp(max=1 + eps), a * rho.clamp(min=1 - eps)).mean()


WRONG = [
    *(("kl_estimate", "sign flipped", lambda p, q, e, wrong=wrong: (-1 if e == wrong else 1) * {
        "k1": p - q, "k2": (p - q) ** 2 / 2, "k3": (q - p).expm1() + p - q}[e]) for wrong in ("k2", "k3")),
    ("preference_probability", "wrong for large scores", lambda a, b: (a - b).exp() / (1 + (a - b).exp())),
    ("whiten_advantages", "one whitening per column", by_column),
    ("ratio", "wrong for a mask with gaps", lambda p, old, m: torch.where(
        torch.arange(m.shape[1]) < m.sum(1, keepdim=True), p - old, 0.0).exp()),
    ("objective", "wrong for large numbers", lambda s, p, q, m, b: (
        s.clamp(-10, 10) - b * (p - q).masked_fill(~m, 0).sum(1)).mean()),
    ("objective", "β = 0", lambda s, p, q, m, b: (s - (b or 0.1) * (p - q).masked_fill(~m, 0).sum(1)).mean()),
    ("objective", "wrong for forty rows", lambda s, p, q, m, b: (
        s - b * (p - q).masked_fill(~m, 0).sum(1))[:32].mean()),
    ("gather_logprobs", "wrong for large numbers", lambda x, k: (
        x.log_softmax(-1).clamp(min=-200).gather(-1, k[..., None])[..., 0])),
    ("response_mask", "an EOS of id 0", lambda x, e: ((x == (e or 1)).int().cumsum(1) - (
        x == (e or 1)).int()) == 0),
    ("position_ids", "padding on the right shifts the row", lambda m: (
        torch.arange(m.shape[1]) - (~m).sum(1, keepdim=True)).clamp(min=0)),
    ("kl_estimate", "wrong for rare tokens", lambda p, q, e: {
        "k1": p - q, "k2": (p - q) ** 2 / 2, "k3": q.exp() / p.exp() - 1 + (p - q)}[e]),
    ("kl_estimate", "wrong for one axis", lambda p, q, e: {
        "k1": p - q, "k2": (p - q) ** 2 / 2,
        "k3": torch.stack([torch.expm1(q[b] - p[b]) + p[b] - q[b] for b in range(p.shape[0])])}[e]
        if p.dim() == 2 else p[:, None]),
    ("rloo_advantages", "wrong where two rewards are equal", lambda r, k: torch.stack([
        x - row[row != x].mean() for row in r.view(-1, k) for x in row])),
    ("kl_estimate", "wrong for very large differences", lambda p, q, e: {
        "k1": p - q, "k2": (p - q) ** 2 / 2}.get(e, (q - p).exp() - 1 - (q - p).exp().log())),
    ("td_errors", "wrong for large numbers", lambda r, v, g, m: (
        m * (r + g * F.pad((m * v)[:, 1:], (0, 1)) - v)).clamp(-50, 50)),
    ("masked_mean", "one counted token", lambda x, m: x[m].sum() / max(2, int(m.sum()))),
    ("masked_mean", "wrong for forty rows", kept_rows),
    ("masked_mean", "large numbers in the padding", lambda x, m: (
        (x.nan_to_num().sum() - x[~m].nan_to_num().sum()) / m.sum())),
    ("whiten_advantages", "wrong for an outlier", clipped_white),
    ("whiten_advantages", "a small spread", with_floor),
    ("explained_variance", "digits lost", cancelled_share),
    ("explained_variance", "wrong for a bad critic", lambda v, r, m: (
        1 - (r - v)[m].var() / r[m].var()).clamp(min=-5)),
    ("reinforce_loss", "wrong for large numbers", lambda z, w, a: -(
        z.log_softmax(0)[w] * a.clamp(-10, 10)).mean()),
    ("ratio", "wrong where the ratio is large",
     lambda p, old, m: torch.where(m, p - old, 0.0).clamp(max=40).exp()),
    ("policy_loss", "quotient of probabilities", two_exps),
    ("value_loss", "wrong for large numbers", huber),
    ("clip_fraction", "exactly at the edge", edges),
    ("entropy", "wrong for a large vocabulary", lambda x, m: -(
        x.log_softmax(-1).exp() * (x.log_softmax(-1).exp() + 1e-6).log()).sum(-1)[m].mean()),
    ("pair_accuracy", "nearly equal taken for a tie", early_tie),
    ("normalize_scores", "a small spread", lambda s, ref: (s - ref.mean()) / ref.std().clamp(min=0.01)),
    ("optimum", "wrong at a small β", optimum_with(lambda lp, x: ((lp + x).softmax(1) + 1e-12).log())),
    ("optimum", "n above the horizon", optimum_with(step=lambda b, e, n, h: b + b * e * min(1, n / h))),
    ("optimum", "wrong for a small β", optimum_with(step=lambda b, e, n, h: max(b * (1 + e * n / h), 5e-3))),
    ("best_mean", "wrong where β is 50", lambda b, s: 2 / (2 + min(b / s**2, 100))),
    ("my_reward", "depends on the batch", seen_words),
    ("my_reward", "not one a text", lambda texts: [float(len(text)) for text in texts[:20]]),
    ("keep_best", "wrong for a large n", powers_first),
    ("edit_effect", "digits lost", cancelled_effect),
    ("edit_effect", "texts that did not move left out", lambda b, a: (lambda d: torch.stack(
        [d.mean(), d.std() / len(d) ** 0.5]))((a - b)[a != b])),
    ("rloo_advantages", "wrong for large numbers", lambda r, k: (
        (r.view(-1, k) - r.view(-1, k).mean(1, True)) * k / (k - 1)).flatten().clamp(-50, 50)),
    ("held_bytes", "wrong for a large model", lambda n, a, method: torch.tensor(
        36 * n if method == "full" else 4 * n + 32 * a).int().double()),
    ("lora_forward", "wrong for α below r", lambda x, w, a, b, alpha, on: (
        x @ w.T + on * max(alpha / len(a), 0.5) * x @ a.T @ b.T)),
    ("merge_moments", "digits lost where means are large", merged),
    ("loss_factors", "wrong for many parts", lambda n: len(n) * n[:16] / n.sum()),
]  # fmt: skip
RIGHT = [
    ("position_ids", lambda m: (m.long().cumsum(1) - 1).masked_fill(~m, 0)),
    ("position_ids", lambda m: (m.long().cumsum(1) - 1).clamp(min=0)),
    ("kl_estimate", lambda p, q, e: {
        "k1": p - q, "k2": (p - q) ** 2 / 2, "k3": torch.expm1(q - p) + p - q}[e]),
    ("explained_variance", lambda v, r, m: 1 - (r - v)[m].double().var() / r[m].double().var()),
    ("whiten_advantages", lambda a, m: torch.where(m, (a - a[m].mean()) / (
        (a[m].std() if m.sum() > 1 else 0.0) + 1e-8), 0.0)),
    ("policy_loss", by_cases),
    ("clip_fraction", lambda rho, a, m, e: ((rho - 1) * a.sign() > e)[m].double().mean()),
    ("pair_accuracy", lambda c, r: ((c - r).sign() + 1).mean() / 2),
    ("reinforce_loss", lambda z, w, a: -(
        (z.log_softmax(0)[w] - z.log_softmax(0)[w].detach()).exp() * a).mean()),
    ("optimum", optimum_with(lambda lp, x: (lp + x).double() - (lp + x).double().logsumexp(1, keepdim=True))),
    ("edit_effect", lambda b, a: torch.stack([(a - b).mean(), ((a - b).var() / len(a)).sqrt()])),
    ("merge_moments", lambda n, m, s: torch.stack([(n / n.sum() * m).sum(), (
        s + n * (m - (n / n.sum() * m).sum()).square()).sum() / (n.sum() - 1)])),
]  # fmt: skip
