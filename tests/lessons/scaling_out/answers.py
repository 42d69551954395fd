"""Answers to the exercises of lesson 13, as learners write them."""

# fmt: off
SUMS = "torch.where(mask, losses, 0.0).sum(dim=(1, 2))"
SHARE = "sums / mask.sum()"
OWN = "mask.sum(dim=(1, 2))"
MEAN = "(counts * means).sum() / counts.sum()"
BETWEEN = "(counts * (means - mean) ** 2).sum()"
VARIANCE = "(squares.sum() + between) / (counts.sum() - 1)"
BOTH = "torch.stack([mean, variance])"
PRODUCT = "alpha / len(a) * (x @ a.T) @ b.T"

WRONG = [
    ("loss_shares", "divided by the responses", SHARE, "sums / mask.any(2).sum()"),
    ("loss_shares", "times the mask", SUMS, "(losses * mask).sum(dim=(1, 2))"),
    ("loss_shares", "the first response alone", SUMS, "torch.where(mask, losses, 0.0)[:, 0].sum(dim=1)"),
    ("loss_shares", "as numbers", SHARE, "torch.tensor([float(x) for x in sums]) / mask.sum()"),

    ("merge_moments", "divided by the processes", MEAN, "(counts * means).mean()"),
    ("merge_moments", "weights n − 1", MEAN, "((counts - 1) * means).sum() / (counts - 1).sum()"),
    ("merge_moments", "the count squared too", BETWEEN, "((counts * (means - mean)) ** 2).sum()"),
    ("merge_moments", "variances weighed by n", VARIANCE,
     "(counts * squares / (counts - 1)).sum() / counts.sum()"),
    ("merge_moments", "the root", BOTH, "torch.stack([mean, variance**0.5])"),
    ("merge_moments", "the other order", BOTH, "torch.stack([variance, mean])"),
    ("merge_moments", "the variance alone", BOTH, "variance"),
    ("merge_moments", "E[x²] − E[x]²", VARIANCE,
     "((squares + counts * means**2).sum() - counts.sum() * mean**2) /"
     " (counts.sum() - 1)"),
    ("merge_moments", "an epsilon", VARIANCE, f"{VARIANCE} + 1e-5"),

    ("lora_forward", "on and off exchanged", "if not on:", "if on:"),
    ("lora_forward", "α over √r", "alpha / len(a)", "alpha / len(a) ** 0.5"),
    ("lora_forward", "at least 1", "alpha / len(a)", "max(1, alpha / len(a))"),
]

RIGHT = [
    ("lora_forward", "weights merged (a remark says what it costs)", PRODUCT,
     "x @ (alpha / len(a) * b @ a).T"),
    ("lora_forward", "row by row", PRODUCT,
     "torch.stack([torch.mv(b, torch.mv(a, row)) for row in x]) * alpha / len(a)"),
    ("lora_forward", "the adapter's share is 0 when off", """
def lora_forward(x, weight, a, b, alpha, on):
    scale = alpha / a.shape[0] if on else 0.0
    return torch.nn.functional.linear(x,
    weight) + scale * torch.nn.functional.linear(torch.nn.functional.linear(x, a), b)
"""),
    ("loss_shares", "einsum", f"sums = {SUMS}",
     'sums = torch.einsum("pbt,pbt->p", losses.masked_fill(~mask, 0), mask.float())'),
    ("loss_shares", "means times counts", SHARE, f"sums / {OWN}.clamp(min=1) * ({OWN} / mask.sum())"),
    ("loss_shares", "process by process", SUMS,
     "torch.stack([row[m].sum() for row, m in zip(losses, mask)])"),
    ("merge_moments", "one process after the other (Chan)", """
def merge_moments(counts, means, squares):
    n, mean, m2 = 0.0, 0.0, 0.0
    for count, m, s in zip(counts.tolist(), means.tolist(), squares.tolist()):
        if count == 0:
            continue
        delta, both = m - mean, n + count
        m2 += s + delta**2 * n * count / both
        mean, n = mean + delta * count / both, both
    return torch.tensor([mean, m2 / (n - 1)])
"""),
    ("merge_moments", "matrix products", BETWEEN, "counts @ (means - mean).square()", MEAN,
     "counts @ means / counts.sum()"),
]
