"""Answers to the exercises of lesson 13: right ones of another build, and wrong ones with their names."""

import numpy
import torch


def shares_by_loop(losses, mask, per=lambda own, all_, rows, processes: all_, pad=False):
    rows, total, found = mask.shape[1], int(mask.sum()), []
    for p in range(len(losses)):
        own, value = 0, 0.0
        for b in range(losses.shape[1]):
            for t in range(losses.shape[2]):
                if mask[p, b, t] or pad:
                    value = value + losses[p, b, t]
                own += int(mask[p, b, t])
        found.append(value / per(max(own, 1), total, rows, len(losses)) + 0.0 * losses[p].sum())
    return torch.stack(found)


def shares_by_einsum(losses, mask):
    return torch.einsum("pbt,pbt->p", losses, mask.float()) / mask.sum()


def shares_by_masking(losses, mask):
    return torch.stack([row.masked_fill(~m, 0).sum() for row, m in zip(losses, mask)]) / mask.sum()  # noqa: B905


def shares_by_mean_and_count(losses, mask):
    count = mask.flatten(1).sum(1)
    means = torch.where(mask, losses, 0.0).flatten(1).sum(1) / count.clamp(min=1)
    return means * count / count.sum()


def merged_by_loop(counts, means, squares):
    """Chan's pairwise rule, one process after the other."""
    n, mean, m2 = 0.0, 0.0, 0.0
    for count, m, s in zip(counts.tolist(), means.tolist(), squares.tolist(), strict=True):
        delta, both = m - mean, n + count
        m2 += s + delta**2 * n * count / both
        mean, n = mean + delta * count / both, both
    return torch.tensor([mean, m2 / (n - 1)])


def merged_about_zero(counts, means, squares):
    """E[x²] − mean², from sums about 0."""
    total, first = counts.sum(), (counts * means).sum()
    second = (squares + counts * means**2).sum()
    return torch.stack([first / total, (second - first**2 / total) / (total - 1)])


def merged_by_numpy(counts, means, squares):
    mean = numpy.average(means.numpy(), weights=counts.numpy())
    ss = squares.sum().item() + float((counts.numpy() * (means.numpy() - mean) ** 2).sum())
    return torch.tensor([float(mean), ss / (counts.sum().item() - 1)])


def merged(divisor=-1, between=True, weigh=True, root=False, mean=None):
    def wrong(counts, means, squares):
        total = counts.sum()
        middle = (counts * means).sum() / total if mean is None else mean(counts, means)
        extra = ((counts if weigh else 1.0) * (means - middle) ** 2).sum() if between else 0.0
        less = len(counts) if divisor == "P" else -divisor
        variance = (squares.sum() + extra) / (total - less)
        return torch.stack([middle, variance.sqrt() if root else variance])

    return wrong


def factors_by_loop(counts, parts=len, own=lambda n: n):
    total = sum(counts.tolist())
    return torch.tensor([parts(counts) * own(n) / total for n in counts.tolist()])


RIGHT = [
    ("loss_shares", shares_by_loop),
    ("loss_shares", shares_by_einsum),
    ("loss_shares", shares_by_masking),
    ("loss_shares", shares_by_mean_and_count),
    ("loss_shares", lambda losses, mask: (losses * mask).sum((-1, -2)) / mask.sum()),
    ("loss_shares", lambda losses, mask: (losses * mask / mask.sum()).flatten(1).sum(1)),
    ("merge_moments", merged_by_loop),
    ("merge_moments", merged_by_numpy),
    ("merge_moments", merged()),
    ("merge_moments", lambda n, m, s: torch.stack(
        [n @ m / n.sum(), (s.sum() + n @ (m - n @ m / n.sum()).square()) / (n.sum() - 1)])),
    ("loss_factors", factors_by_loop),
    ("loss_factors", lambda n: n / n.mean()),
    ("loss_factors", lambda n: torch.nn.functional.normalize(n, p=1, dim=0) * n.numel()),
]  # fmt: skip

WRONG = [
    ("merge_moments", "digits lost where means are large", merged_about_zero),
    ("loss_shares", "each process's own mean",
     lambda x, m: shares_by_loop(x, m, lambda own, all_, rows, p: own)),
    ("loss_shares", "mean of means",
     lambda x, m: shares_by_loop(x, m, lambda own, all_, rows, p: own * p)),
    ("loss_shares", "divided by the number of responses",
     lambda x, m: shares_by_loop(x, m, lambda own, all_, rows, p: rows * p)),
    ("loss_shares", "divided by the number of processes",
     lambda x, m: shares_by_loop(x, m, lambda own, all_, rows, p: all_ * p)),
    ("loss_shares", "multiplied by the number of processes",
     lambda x, m: shares_by_loop(x, m, lambda own, all_, rows, p: all_ / p)),
    ("loss_shares", "padding in the sum", lambda x, m: shares_by_loop(x, m, pad=True)),
    ("loss_shares", "padding in the divisor",
     lambda x, m: torch.einsum("pbt,pbt->p", x, m.float()) / m.numel()),
    ("loss_shares", "sum instead of mean", lambda x, m: torch.einsum("pbt,pbt->p", x, m.float())),
    ("loss_shares", "one number", lambda x, m: x[m].mean()),
    ("loss_shares", "mask upside down", lambda x, m: (x * ~m).sum((1, 2)) / m.sum()),
    ("merge_moments", "biased variance", merged(divisor=0)),
    ("merge_moments", "one less for each process", merged(divisor="P")),
    ("merge_moments", "nothing between the processes", merged(between=False)),
    ("merge_moments", "between the processes unweighted", merged(weigh=False)),
    ("merge_moments", "mean of means", merged(mean=lambda n, m: m.mean())),
    ("merge_moments", "mean of means, nothing between",
     merged(mean=lambda n, m: m.mean(), between=False)),
    ("merge_moments", "standard deviation", merged(root=True)),
    ("merge_moments", "the other way round", lambda n, m, s: merged()(n, m, s).flip(0)),
    ("merge_moments", "average of the variances", lambda n, m, s: torch.stack(
        [(n * m).sum() / n.sum(), torch.stack([b / max(a - 1, 1) for a, b in zip(n, s)]).mean()])),  # noqa: B905
    ("merge_moments", "squares about zero", lambda n, m, s: torch.stack(
        [(n * m).sum() / n.sum(), (s + n * m * m).sum() / (n.sum() - 1)])),
    ("merge_moments", "sums instead of the mean",
     lambda n, m, s: merged()(n, m, s) * torch.stack([n.sum(), torch.tensor(1.0)])),
    ("merge_moments", "wrong where a process has no tokens",
     lambda n, m, s: merged()(n, m, n * (s / n))),
    ("loss_factors", "the share alone", lambda n: factors_by_loop(n, parts=lambda n: 1)),
    ("loss_factors", "two parts taken for granted", lambda n: factors_by_loop(n, parts=lambda n: 2)),
    ("loss_factors", "as if the losses were sums", lambda n: factors_by_loop(n, own=lambda n: 1)),
    ("loss_factors", "no factor", lambda n: n / n),
    ("loss_factors", "upside down", lambda n: n.mean() / n),
    ("loss_factors", "one part too few", lambda n: n / n.sum() * (len(n) - 1)),
    ("loss_factors", "counts squared", lambda n: n * n / n.sum() * len(n)),
    ("loss_factors", "never divided by all tokens", lambda n: n * len(n)),
    ("loss_factors", "divided by the largest count", lambda n: n / n.max() * len(n)),
]  # fmt: skip
