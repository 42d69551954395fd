"""Exercises of lesson 03: statistics over counted tokens, whitening, and the critic's explained variance."""

import torch

from helpers.kit.exercise import by_name, floats, noise, prefix_mask, sizes, tensor_of
from helpers.kit.judge import exercise
from helpers.whitening import masked_mean

NAN = float("nan")
SMALL = (floats([1.0, 2.0, 6.0], [-4.0, 9.0, 5.0]), prefix_mask(3, 3, 1))
LARGE = (noise(1, 3, 5) + 0.5, prefix_mask(5, 2, 5, 4))
HOLES = "padding holds NaN: 0 · NaN is NaN, so mask * x lets it in: torch.where(mask, x, 0.0) or x[mask]."
WITH_NAN = (HOLES, (floats([1.0, NAN, NAN], [2.0, 4.0, 7.0]), prefix_mask(3, 1, 3)))
ONE = (
    "one token counts: There n − 1 is 0, and 0/0 NaN: divide by at least 1.",
    (floats([3.0, 7.0]), prefix_mask(2, 1)),
)
TWO = ("two tokens count", (floats([1.0, 4.0, 9.0]), prefix_mask(3, 2)))
FAR = (
    "numbers lie around 9000: There the mean of squares minus the square of the mean loses all digits of a"
    " float32: subtract the mean first.",
    (floats([9000.0, 9000.5, 9002.0, 9002.5, 0.0]), prefix_mask(5, 4)),
)
NARROW = (
    "the deviation is 0.018: Is a number larger than 1e-8 added?",
    (floats([0.5, 0.53, 0.49, 0.52, 7.0]), prefix_mask(5, 4)),
)
OUTLIER = (
    "one number is 11 deviations from the mean: Is something clipped?",
    (torch.cat([torch.tensor([60.0]), noise(11, 128)]).view(3, 43), prefix_mask(43, 43, 43, 43)),
)
# one row, one token, forty rows; first a row of five, since some of the cases above have one row
SIZES = sizes(tuple(x.roll(-1, 0) for x in LARGE))

OF_VARIANCES = [WITH_NAN, SIZES[0], ONE, TWO, FAR, NARROW, OUTLIER, *SIZES[1:]]
EQUAL = (
    "all advantages are equal: You divide 0 by 0: add 1e-8 to the variance.",
    (torch.full((1, 3), 2.0), prefix_mask(3, 2)),
)

check_masked_var = exercise(
    """\
def masked_var(x, mask):
    count = mask.sum()
    mean = masked_mean(x, mask)
    squares = torch.where(mask, x - mean, 0.0).square()
    return squares.sum() / (count - 1).clamp(min=1)
""",
    "the sum of the counted (x − mean)², divided by n − 1; the mean over counted positions too",
    [SMALL, LARGE],
    """\
masked before subtracting only: Subtracting the mean makes the padding non-zero: mask after subtracting, too.
- torch.where(mask, x - mean, 0.0)
+ (torch.where(mask, x, 0.0) - mean)
biased variance: You divided by n = {counted}; the unbiased variance divides by n − 1.
- (count - 1).clamp(min=1)
+ count
padding in the mean's divisor: The mean that you subtract is divided by all {total} positions; only
 {counted} count.
- masked_mean(x, mask)
+ torch.where(mask, x, 0.0).mean()
each row's own mean: You subtracted each row's own mean; subtract that of the batch.
- masked_mean(x, mask)
+ torch.where(mask, x, 0.0).sum(1, True) / mask.sum(1, True)
""",
    uses={"masked_mean": masked_mean},
    further=OF_VARIANCES,
)

check_whiten_advantages = exercise(
    """\
def whiten_advantages(advantages, mask):
    mean, var = advantages[mask].mean(), masked_var(advantages, mask)
    whitened = (advantages - mean) / (var + 1e-8).sqrt()
    return torch.where(mask, whitened, 0.0)
""",
    "(A − mean)/√(var + 1e-8), mean and var over counted tokens; 0 where masked",
    [SMALL, LARGE],
    """\
padding as zeros: You set padding to 0 but counted it in mean and variance.
-     mean, var = advantages[mask].mean(), masked_var(advantages, mask)
+     zeros = torch.where(mask, advantages, 0.0)
+     mean, var = zeros.mean(), masked_var(zeros, mask | True)
mean kept: You added the mean back: some do that to rewards; advantages are to have mean 0.
- (var + 1e-8).sqrt()
+ (var + 1e-8).sqrt() + mean
one whitening per sequence: You whitened each row by itself; PPO whitens the whole batch, so that a bad
 response stays bad.
-     mean, var = advantages[mask].mean(), masked_var(advantages, mask)
+     n = mask.sum(1, True)
+     mean = torch.where(mask, advantages, 0.0).sum(1, True) / n
+     var = torch.where(mask, advantages - mean, 0.0).square().sum(1, True) / (n - 1).clamp(min=1)
""",
    uses={"masked_var": check_masked_var.exercise},
    further=[EQUAL, *OF_VARIANCES],
)

CRITIC = (
    floats([1.0, 2.0, 6.0], [2.0, 9.0, 5.0]),
    floats([2.0, 2.5, 4.0], [1.0, -3.0, 0.0]),
    prefix_mask(3, 3, 2),
)
CRITICS = (noise(2, 3, 5), noise(3, 3, 5) + 1.0, prefix_mask(5, 2, 5, 4))
BAD = (floats([9.0, -11.0], [4.0, 0.0]), floats([1.0, 2.0], [3.0, 0.0]), prefix_mask(2, 2, 1))
FLAT = (floats([0.51, 0.52, 0.5, 0.5]), floats([0.5, 0.56, 0.47, 0.54]), prefix_mask(4, 4))
CRITIC_EDGES = [
    (HOLES, (WITH_NAN[1][0], floats([2.0, NAN, NAN], [1.0, -3.0, 0.5]), WITH_NAN[1][1])),
    ("the critic is bad: An explained variance far below 0 stays so: is there a clamp?", BAD),
    ("returns and errors have a deviation of 0.04: Is a number added?", FLAT),
    *sizes(tuple(x.roll(-1, 0) for x in CRITICS), token=False),  # first a row of five
]

check_explained_variance = exercise(
    """\
def explained_variance(values, returns, mask):
    unexplained = (returns - values)[mask].var()
    return 1 - unexplained / returns[mask].var()
""",
    "1 − Var(returns − values)/Var(returns), both over counted tokens",
    [CRITIC, CRITICS],
    """\
squared error instead of variance: You averaged (returns − values)²; use its variance, which ignores a
 constant offset.
- (returns - values)[mask].var()
+ (returns - values)[mask].square().sum() / (mask.sum() - 1)
two divisors: One of your variances divides by n, the other by n − 1: use the same for both.
- returns[mask].var()
+ returns[mask].var(unbiased=False)
standard deviations: You divided standard deviations; use variances.
- unexplained / returns[mask].var()
+ (unexplained / returns[mask].var()).sqrt()
the spread of the values: That compares two spreads, which may be equal where every value is wrong. Take what
 is left of the returns: returns − values.
- 1 - unexplained / returns[mask].var()
+ values[mask].var() / returns[mask].var()
squared correlation: That is the squared correlation, which forgives a wrong scale and sign; explained
 variance does not.
- 1 - unexplained / returns[mask].var()
+ torch.corrcoef(torch.stack([values[mask], returns[mask]]))[0, 1].square()
""",
    further=CRITIC_EDGES,
)

ADVANTAGES, VALUES = noise(1, 3, 6) * 1.5 + 0.4, noise(2, 3, 6) + 0.8
MASK = prefix_mask(6, 2, 6, 4)
STEPS = (floats([-2.0, 0.0, 2.0, 7.0]), floats([1.0, 3.0, -1.0, 2.0]), prefix_mask(4, 3))
EQUAL_SCORES = (torch.full((2, 4), 0.25), VALUES[:2, :4], prefix_mask(4, 4, 2))
GAUGES = (
    "returns", "mean", "standard deviation", "whitened advantages", "share pushed up", "explained variance",
)  # fmt: skip


def padded(advantages, values, fill: float) -> tuple:
    """Inputs of `whiten_rollout` whose padding holds `fill`."""
    return *(torch.where(MASK, x, fill) for x in (advantages, values)), MASK, 0.05


def gauged(function, advantages, values, mask, floor) -> dict:
    """The results and the gauges, in the order in which they are computed."""
    answer = by_name(("whitened", "returns", "gauges"), function(advantages, values, mask, floor))
    whitened, returns, gauges = answer.values()
    mean, std, *shares = tensor_of(gauges, (4,), "four gauges in one tensor: torch.stack([…])")
    found = (returns, mean, std, whitened, *shares)
    return dict(zip(GAUGES, found, strict=True))


check_whiten_rollout = exercise(
    """\
def whiten_rollout(advantages, values, mask, floor):
    returns = torch.where(mask, advantages + values, 0.0)
    mean, std = advantages[mask].mean(), masked_var(advantages, mask).sqrt()
    whitened = whiten_advantages(advantages, mask)
    if std < floor:
        whitened = torch.where(mask, advantages - mean, 0.0)
    pushed_up = (whitened[mask] > 0).float().mean()
    explained = explained_variance(values, returns, mask)
    return whitened, returns, torch.stack([mean, std, pushed_up, explained])
""",
    "returns = A + V; then Â = (A − mean)/√(var + 1e-8) over counted tokens, or A − mean where the"
    " deviation is below `floor`; 0 where masked; gauges: mean and deviation of A, share of Â > 0,"
    " explained variance of V",
    [
        (*STEPS, 0.5),
        padded(ADVANTAGES, VALUES, 9.0),
        padded(0.3 + 1e-3 * ADVANTAGES, VALUES, 0.0),  # below the floor
    ],
    """\
returns from whitened advantages: You added the values to the whitened advantages. The returns are the
 critic's targets, in reward units: form them first.
-     return whitened, returns,
+     returns = torch.where(mask, whitened + values, 0.0)
+     return whitened, returns,
floor turned round: You only centre above `floor`; it is below it that you should.
- std < floor
+ std > floor
floor ignored: Where scores are nearly equal you blow their noise up to a deviation of 1: below `floor`
 subtract the mean only.
-     if std < floor:
-         whitened = torch.where(mask, advantages - mean, 0.0)
+
share of the raw advantages: You counted raw advantages above 0; count whitened ones, which are what pushes.
- whitened[mask] > 0
+ advantages[mask] > 0
gauges of what is whitened: Mean and deviation are those of the whitened advantages; give those of the raw
 ones.
- [mean, std,
+ [whitened[mask].mean(), masked_var(whitened, mask).sqrt(),
""",
    results=GAUGES,
    observe=gauged,
    uses={
        "masked_var": check_masked_var.exercise,
        "whiten_advantages": check_whiten_advantages.exercise,
        "explained_variance": check_explained_variance.exercise,
    },
    further=[
        (HOLES, padded(ADVANTAGES, VALUES, NAN)),
        ("all advantages are equal", (*EQUAL_SCORES, 0.05)),
        (
            "the deviation is above the floor, and its square below: Compare the deviation with `floor`.",
            padded(0.1 * ADVANTAGES, 0.1 * VALUES, -7.0),
        ),
        ("the deviation is the floor: It is not below it: divide there too.", (*STEPS, 2.0)),
        (OUTLIER[0], (OUTLIER[1][0], noise(3, 3, 43), prefix_mask(43, 43, 40, 43), 0.05)),
        (CRITIC_EDGES[1][0], padded(ADVANTAGES, 0.2 * noise(4, 3, 6) - 0.9 * ADVANTAGES, 9.0)),
    ],
)
