"""Exercises of lesson 13: LoRA, and what several processes have to add up."""

import torch
from torch import Tensor

from helpers.kit.exercise import Seen, floats, noise, tensor_of
from helpers.kit.judge import exercise

SQUARE = noise(0, 2, 4), noise(1, 4, 4), noise(2, 2, 4), noise(3, 4, 2), 5.0
FULL = noise(4, 3, 5), noise(5, 5, 5), noise(6, 5, 5), noise(7, 5, 5), 12.0
THIN = (noise(8, 3, 5), noise(9, 4, 5), noise(10, 1, 5), noise(11, 4, 1), 2.0, True)  # rank 1

check_lora_forward = exercise(
    """\
def lora_forward(x, weight, a, b, alpha, on):
    plain = x @ weight.T
    if not on:
        return plain
    return plain + alpha / len(a) * (x @ a.T) @ b.T
""",
    "x Wᵀ + (α / r)·(x Aᵀ) Bᵀ with the adapter on, x Wᵀ with it off (Hu et al. 2022)",
    [(*given, on) for given in (SQUARE, FULL) for on in (True, False)],
    """\
never off: With on=False the adapter still works: then there is no reference, and every KL is 0.
- if not on:
+ if False:
α / r on everything: α / r multiplies the adapter's product alone, not x Wᵀ.
- plain + alpha / len(a) * (x @ a.T) @ b.T
+ alpha / len(a) * (plain + (x @ a.T) @ b.T)
the weight not transposed: `weight` is [out, in], and x holds one input a row: x Wᵀ. Yours is x W, which runs
 only where the layer is square.
- weight.T
+ weight
the scale missing: The adapter's product is multiplied by α / r; yours is not.
- alpha / len(a) *
+
a whole number for α / r: Your scale is α // r, a whole number: divide with /.
- alpha / len(a)
+ alpha // len(a)
divided by the width: You divided α by the layer's width, the number of its inputs or of its outputs; `a` is
 [r, in] and `b` is [out, r], so the rank is a.shape[0], or len(a).
- len(a)
+ a.shape[1]
""",
    gradient=("x", "a", "b"),
    further=[
        ("the rank is 1 and the layer not square", THIN),
        ("α is below the rank", (*FULL[:2], noise(6, 4, 5), noise(7, 5, 4), 1.0, True)),
        ("there is one row", (THIN[0][:1], *THIN[1:])),
        ("there are forty rows", (noise(12, 40, 5), *THIN[1:])),
    ],
)


def parts(*lengths: tuple[int, ...]) -> Tensor:
    """[P, b, T] masks: the lengths of each process's responses."""
    width = max(max(row) for row in lengths)
    return torch.arange(width) < torch.tensor(lengths).unsqueeze(-1)


TWO = floats([[1.0, 3.0, 9.0]], [[2.0, 4.0, 6.0]]).view(2, 1, 3), parts((2,), (3,))
THREE = noise(3, 3, 2, 5) + 1.0, parts((1, 5), (2, 2), (4, 5))

check_loss_shares = exercise(
    """\
def loss_shares(losses, mask):
    sums = torch.where(mask, losses, 0.0).sum(dim=(1, 2))
    return sums / mask.sum()
""",
    "Σ of the process's counted losses / counted tokens of ALL processes",
    [TWO, THREE],
    """\
each process's own mean: You divided by each process's own count. Gradients are added, so two processes would
 count twice: divide by all {counted} counted tokens.
- mask.sum()
+ mask.sum(dim=(1, 2))
mean of means: This is the mean of the processes' means: a token weighs more where there are few. Divide each
 sum by all {counted} counted tokens.
- mask.sum()
+ mask.sum(dim=(1, 2)) / len(mask)
the responses' means: You averaged each response first; a token of a long one would weigh less. Sum over all
 tokens.
- torch.where(mask, losses, 0.0).sum(dim=(1, 2))
-     return sums / mask.sum()
+ torch.where(mask, losses, 0.0).sum(2) / mask.sum(2)
+     return sums.sum(1) / mask[..., 0].numel()
""",
    gradient=("losses",),
    further=[
        ("a process has no token", (noise(4, 2, 2, 4), parts((4, 2), (0, 0)))),
        ("padding holds NaN", (torch.where(THREE[1], THREE[0], torch.nan), THREE[1])),
        ("there is one process", (THREE[0][:1], THREE[1][:1])),
    ],
)


def moments_seen(function, *given: Tensor) -> Seen:
    """Mean and variance by their names."""
    wants = "one tensor of two numbers, the mean, then the variance"
    both = tensor_of(function(*given), (2,), wants)
    seen = {"mean": both[0], "variance": both[1]}
    return seen | {"the variance's root (an ε is too much)": both[1].abs().sqrt()}


check_merge_moments = exercise(
    """\
def merge_moments(counts, means, squares):
    mean = (counts * means).sum() / counts.sum()
    between = (counts * (means - mean) ** 2).sum()
    variance = (squares.sum() + between) / (counts.sum() - 1)
    return torch.stack([mean, variance])
""",
    "mean = Σ n·m / N,  variance = (Σ s + Σ n·(m − mean)²) / (N − 1)  (Chan et al. 1983)",
    [
        tuple(floats([2.0, 4.0], [1.0, 4.0], [0.5, 3.0])),
        tuple(floats([5.0, 2.0, 10.0], [-2.0, 7.0, 0.5], [4.0, 1.0, 20.0])),
    ],
    """\
mean of means: You weigh processes, not tokens: a mean stands for n tokens. Weigh it by its count.
- (counts * means).sum() / counts.sum()
+ means.mean()
nothing between the processes: The means of the processes differ, and that is variance too: add Σ n·(m −
 mean)². (Without the square they cancel.)
- squares.sum() + between
+ squares.sum()
one less for each process: You divided by N − P. Only one mean, that of all, was estimated: divide by N − 1.
- counts.sum() - 1
+ counts.sum() - len(counts)
average of the variances: You averaged the processes' variances. Add their sums of squares, then divide once.
- (squares.sum() + between) / (counts.sum() - 1)
+ (squares / (counts - 1)).mean()
""",
    results=("mean", "variance"),
    further=[
        ("each process has one token", tuple(floats([1.0] * 3, [1.0, 2.0, 4.0], [0.0] * 3))),
        (
            "means are large: float32 has no digits left for Σ n·m² − N·mean²",
            tuple(floats([4.0, 4.0], [9000.0, 9001.0], [3.0, 5.0])),
        ),
        ("the variance is small", tuple(floats([2.0, 2.0], [0.5, 0.503], [1e-5, 2e-5]))),
        (
            "a process has no tokens",
            tuple(floats([3.0, 0.0, 5.0], [1.0, 0.0, 2.0], [2.0, 0.0, 3.5])),
        ),
        ("there is one process", tuple(floats([7.0], [1.5], [9.0]))),
    ],
    observe=moments_seen,
)
