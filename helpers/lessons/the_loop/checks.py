"""Exercise of lesson 00: the objective, one number for a batch of responses."""

import torch

from helpers.kit.exercise import floats, noise, prefix_mask, sizes
from helpers.kit.judge import exercise

SHORT = (
    torch.tensor([2.0, -1.0]),
    floats([-1.0, -2.0, -0.5], [-1.5, -1.0, -9.0]),
    floats([-2.0, -2.5, -1.0], [-1.0, -3.0, 5.0]),
    prefix_mask(3, 3, 2),
    0.5,
)
BATCH = (noise(2, 3), noise(1, 3, 5) - 2, noise(3, 3, 5) - 2, prefix_mask(5, 2, 5, 3), 0.1)
HOLES = tuple(torch.where(BATCH[3], x, torch.inf) for x in BATCH[1:3])  # ∞ − ∞ is NaN
LARGE = (*(40 * x for x in BATCH[:3]), BATCH[3], 2.5)

check_objective = exercise(
    """\
def objective(scores, logprobs, ref_logprobs, mask, kl_coef):
    kl = torch.where(mask, logprobs - ref_logprobs, 0.0).sum(1)  # (B,), nats
    return (scores - kl_coef * kl).mean()
""",
    "mean over responses of score − β·Σ (log π − log π_ref), the sum over counted tokens (Stiennon et"
    " al. 2020, eq. 2)",
    [SHORT, BATCH],
    """\
mean over tokens: You averaged a response's differences over its tokens; its KL is their sum.
- .sum(1)
+ .sum(1) / mask.sum(1)
weighted by the probability: You weighted each difference by π (F.kl_div does). The tokens were drawn from
 π, so the probability is in already: add up the differences.
- logprobs - ref_logprobs
+ logprobs.exp() * (logprobs - ref_logprobs)
k3: π_ref/π − 1 + log π − log π_ref is never negative; here the KL is the plain difference.
- logprobs - ref_logprobs
+ torch.expm1(ref_logprobs - logprobs) + logprobs - ref_logprobs
divided by the length: You divided a response's score and KL by its length; only the mean over responses
 divides.
- (scores - kl_coef * kl)
+ ((scores - kl_coef * kl) / mask.sum(1))
""",
    further=[
        (
            "padding is infinite: ∞ − ∞ and 0 · ∞ are NaN: choose with torch.where(mask, x, 0.0).",
            (BATCH[0], *HOLES, *BATCH[3:]),
        ),
        ("β is 0", (*BATCH[:-1], 0.0)),
        ("scores and KL are large", LARGE),
        *sizes(BATCH),
    ],
)
