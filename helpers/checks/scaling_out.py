"""Exercises of notebook 13: what several processes have to add up."""

import torch

from helpers.checks.exercise import Exercise, floats, noise
from helpers.checks.judge import checker


def parts(*lengths: tuple[int, ...]) -> torch.Tensor:
    """[P, b, T] masks: the lengths of each process's responses."""
    width = max(max(row) for row in lengths)
    return torch.arange(width) < torch.tensor(lengths).unsqueeze(-1)


TWO = (floats([[1.0, 3.0, 9.0]], [[2.0, 4.0, 6.0]]).view(2, 1, 3), parts((2,), (3,)))
LARGE = (noise(3, 3, 2, 5) + 1.0, parts((1, 5), (2, 2), (4, 5)))
IDLE = (noise(4, 2, 2, 4), parts((4, 2), (0, 0)))


def sums(losses, mask):
    """Sum of the counted losses of each process: [P]."""
    return torch.where(mask, losses, 0.0).sum(dim=(1, 2))


def counts(mask):
    """Counted tokens of each process: [P]."""
    return mask.sum(dim=(1, 2)).clamp(min=1)


def loss_shares(losses, mask):
    """What each process backpropagates, so that gradients added are those of the mean over all tokens."""
    return sums(losses, mask) / mask.sum()


# fmt: off
SHARES = Exercise(
    "loss_shares", "losses mask", loss_shares,
    "Σ of the process's counted losses / counted tokens of ALL processes (notebook 13)",
    [TWO, LARGE, IDLE],
    [
        ("each process's own mean", "You divided by each process's own count. Gradients are added, so"
         " two processes would count twice: divide by all {counted} counted tokens.",
         lambda losses, mask: sums(losses, mask) / counts(mask)),
        ("mean of means", "This is the mean of the processes' means: a token weighs more where there are"
         " few. Divide each sum by all {counted} counted tokens.",
         lambda losses, mask: sums(losses, mask) / counts(mask) / len(mask)),
        ("padding in the divisor", "You divided by all {total} positions; only {counted} count.",
         lambda losses, mask: sums(losses, mask) / mask.numel()),
        ("padding in the sum", "You divided rightly, but summed the padding too.",
         lambda losses, mask: losses.sum(dim=(1, 2)) / mask.sum()),
        ("sum instead of mean", "You summed and never divided by the {counted} counted tokens.", sums),
        ("divided by the number of responses", "You divided by the number of responses; PPO's loss is a"
         " mean over {counted} tokens.",
         lambda losses, mask: sums(losses, mask) / mask[..., 0].numel()),
        ("divided by the number of processes", "You divided once more by the number of processes."
         " Gradients are added, not averaged.",
         lambda losses, mask: sums(losses, mask) / mask.sum() / len(mask)),
        ("multiplied by the number of processes", "You multiplied by the number of processes. That is"
         " right where a library averages gradients; here they are added.",
         lambda losses, mask: sums(losses, mask) / mask.sum() * len(mask)),
        ("one number", "You return the whole loss; return what each process contributes, [P].",
         lambda losses, mask: sums(losses, mask).sum() / mask.sum()),
        ("mask upside down", "You summed the masked positions; True means that a position counts.",
         lambda losses, mask: sums(losses, ~mask) / mask.sum()),
    ],
    gradient=("losses",),
)


def merge_moments(counts, means, squares):
    """Mean and unbiased variance of all, from each process's count, mean and Σ(x − its mean)²: [2]."""
    total = counts.sum()
    mean = (counts * means).sum() / total
    inside, between = squares.sum(), (counts * (means - mean) ** 2).sum()
    return torch.stack([mean, (inside + between) / (total - 1)])


def moments(mean, variance):
    return torch.stack([mean, variance])


def weighted(counts, means):
    """The mean of all."""
    return (counts * means).sum() / counts.sum()


def between(counts, means):
    """What the processes' means add to the sum of squares."""
    return (counts * (means - weighted(counts, means)) ** 2).sum()


MERGE = Exercise(
    "merge_moments", "counts means squares", merge_moments,
    "mean = Σ n·m / N,  variance = (Σ s + Σ n·(m − mean)²) / (N − 1)  (notebook 13; Chan et al. 1983)",
    [
        (floats([2.0, 4.0])[0], floats([1.0, 4.0])[0], floats([0.5, 3.0])[0]),
        (floats([5.0, 1.0, 10.0])[0], floats([-2.0, 7.0, 0.5])[0], floats([4.0, 0.0, 20.0])[0]),
        (floats([7.0])[0], floats([1.5])[0], floats([9.0])[0]),
    ],
    [
        ("mean of means", "You averaged the means as if all processes held as many tokens; weigh each by"
         " its count.",
         lambda n, m, s: moments(
             m.mean(), (s.sum() + (n * (m - m.mean()) ** 2).sum()) / (n.sum() - 1))),
        ("nothing between the processes", "The means of the processes differ, and that is variance too:"
         " add Σ n·(m − mean)².",
         lambda n, m, s: moments(weighted(n, m), s.sum() / (n.sum() - 1))),
        ("mean of means, nothing between", "You weigh processes, not tokens, in the mean, and leave out"
         " what differs between the processes in the variance.",
         lambda n, m, s: moments(m.mean(), s.sum() / (n.sum() - 1))),
        ("between the processes unweighted", "Each (m − mean)² stands for n tokens: multiply it by the"
         " count.",
         lambda n, m, s: moments(weighted(n, m),
                                 (s.sum() + ((m - weighted(n, m)) ** 2).sum()) / (n.sum() - 1))),
        ("biased variance", "You divided by N; the unbiased variance divides by N − 1.",
         lambda n, m, s: moments(weighted(n, m), (s.sum() + between(n, m)) / n.sum())),
        ("one less for each process", "You divided by N − P. Only one mean, that of all, was estimated:"
         " divide by N − 1.",
         lambda n, m, s: moments(weighted(n, m), (s.sum() + between(n, m)) / (n.sum() - len(n)))),
        ("average of the variances", "You averaged the processes' variances. Add their sums of squares,"
         " then divide once.",
         lambda n, m, s: moments(weighted(n, m), (s / (n - 1).clamp(min=1)).mean())),
        ("squares about zero", "`squares` are about each process's own mean, not about 0: what is missing"
         " is n·(m − mean)², not n·m².",
         lambda n, m, s: moments(weighted(n, m), (s.sum() + (n * m**2).sum()) / (n.sum() - 1))),
        ("standard deviation", "You returned the root; return the variance.",
         lambda n, m, s: moments(weighted(n, m), ((s.sum() + between(n, m)) / (n.sum() - 1)).sqrt())),
        ("sums instead of the mean", "The first number is a sum; divide it by N.",
         lambda n, m, s: moments((n * m).sum(), (s.sum() + between(n, m)) / (n.sum() - 1))),
        ("the other way round", "Return the mean first, then the variance.",
         lambda n, m, s: moments((s.sum() + between(n, m)) / (n.sum() - 1), weighted(n, m))),
    ],
)
# fmt: on

check_loss_shares = checker(SHARES)
check_merge_moments = checker(MERGE)
