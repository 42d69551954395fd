"""Answers to lesson 00's exercise as learners write them: right ones of another build, and wrong ones.

RIGHT lists (exercise, function), WRONG lists (exercise, mistake, function). None is taken from the
checks.
"""

import torch

RIGHT, WRONG = [], []


def right(function):
    RIGHT.append(("objective", function))
    return function


def wrong(name, function):
    WRONG.append(("objective", name, function))


def kl(p, q, mask):
    return (p - q).masked_fill(~mask, 0.0)


@right
def by_loop(scores, p, q, mask, beta):
    total = 0.0
    for b in range(len(scores)):
        total = total + scores[b] - beta * (p[b][mask[b]] - q[b][mask[b]]).sum()
    return total / len(scores)


right(lambda s, p, q, m, beta: s.mean() - beta * kl(p, q, m).sum(dim=1).mean())
right(lambda s, p, q, m, beta: s.mean() - beta * (p - q)[m].sum() / len(s))
right(lambda s, p, q, m, beta: s.mean() + beta * (q[m].sum() - p[m].sum()) / s.numel())
right(lambda s, p, q, m, beta: (s - beta * torch.nansum((p - q).where(m, torch.nan), 1)).mean())
right(lambda s, p, q, m, beta: float((s - beta * kl(p, q, m).sum(-1)).sum() / s.shape[0]))

# fmt: off
wrong("padding counted", lambda s, p, q, m, beta: s.mean() - beta * (p - q).sum(1).mean())
wrong("0 times infinity", lambda s, p, q, m, beta: s.mean() - beta * (m.float() * (p - q)).sum(-1).mean())
wrong("mask upside down", lambda s, p, q, m, beta: s.mean() - beta * (p - q)[~m].sum() / len(s))
wrong("mean over tokens",
      lambda s, p, q, m, beta: torch.stack([a - beta * x[k].mean()
                                            for a, x, k in zip(s, p - q, m, strict=True)]).mean())
wrong("mean over all positions", lambda s, p, q, m, beta: s.mean() - beta * kl(p, q, m).mean())
wrong("mean over tokens of the batch", lambda s, p, q, m, beta: s.mean() - beta * (p - q)[m].mean())
wrong("KL of the whole batch", lambda s, p, q, m, beta: s.mean() - beta * (p - q)[m].sum())
wrong("penalty added", lambda s, p, q, m, beta: s.mean() + beta * (p - q)[m].sum() / len(s))
wrong("penalty added", lambda s, p, q, m, beta: (s - beta * kl(q, p, m).sum(1)).mean())
wrong("β missing", lambda s, p, q, m, beta: (s - kl(p, q, m).sum(1)).mean())
wrong("divided by β", lambda s, p, q, m, beta: (s - kl(p, q, m).sum(1) / beta).mean())
wrong("KL left out", lambda s, p, q, m, beta: s.mean())
wrong("score left out", lambda s, p, q, m, beta: -beta * (p - q)[m].sum() / len(s))
wrong("β on the score too", lambda s, p, q, m, beta: beta * (s - kl(p, q, m).sum(1)).mean())
wrong("sum over responses", lambda s, p, q, m, beta: s.sum() - beta * (p - q)[m].sum())
wrong("one number per response", lambda s, p, q, m, beta: s - beta * kl(p, q, m).sum(1))
wrong("score at every token", lambda s, p, q, m, beta: (
    (s[:, None] - beta * (p - q)).masked_fill(~m, 0).sum() / len(s)))
wrong("reference left out", lambda s, p, q, m, beta: s.mean() - beta * p[m].sum() / len(s))
wrong("absolute differences", lambda s, p, q, m, beta: (s - beta * kl(p, q, m).abs().sum(1)).mean())
wrong("squared differences", lambda s, p, q, m, beta: (s - beta * (kl(p, q, m) ** 2).sum(1)).mean())
wrong("k2, half of the squares", lambda s, p, q, m, beta: (s - beta * (kl(p, q, m) ** 2 / 2).sum(1)).mean())
wrong("k3, never negative", lambda s, p, q, m, beta: (
    s - beta * (torch.exp(q - p) - 1 - (q - p)).masked_fill(~m, 0).sum(1)).mean())
wrong("weighted by the probability", lambda s, p, q, m, beta: (
    s - beta * (p.exp() * (p - q)).masked_fill(~m, 0).sum(-1)).mean())
wrong("summed over responses", lambda s, p, q, m, beta: (s - beta * kl(p, q, m).sum(0)).mean())
wrong("summed over responses", lambda s, p, q, m, beta: (-beta * kl(p, q, m).sum(0) + s).mean())
wrong("last token only", lambda s, p, q, m, beta: torch.stack(
    [a - beta * x[k][-1] for a, x, k in zip(s, p - q, m, strict=True)]).mean())
wrong("exception", lambda s, p, q, m, beta: (s - beta * (p - q)[m]).mean())
wrong("wrong type", lambda s, p, q, m, beta: [s.mean(), (p - q)[m].sum()])
# fmt: on
