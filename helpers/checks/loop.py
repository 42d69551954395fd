"""Exercise of notebook 00: the objective, one number for a batch of responses."""

import math

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import Expected, also_on, explained
from helpers.checks.judging.sizes import far_out, sizes


def drift(logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor) -> Tensor:
    """KL of each token's sample, 0 where masked: [B, T] nats."""
    return torch.where(mask, logprobs - ref_logprobs, 0.0)


def objective(scores, logprobs, ref_logprobs, mask, kl_coef):
    """Mean over responses of score − β · (sum over counted tokens of log π − log π_ref)."""
    return (scores - kl_coef * drift(logprobs, ref_logprobs, mask).sum(1)).mean()


def priced(price):
    """A wrong objective: the scores minus another price(drift [B, T], mask, β) of each response."""
    return lambda s, p, ref, mask, b: (s - price(drift(p, ref, mask), mask, b)).mean()


SMALL = (
    floats([2.0, -1.0])[0], floats([-1.0, -2.0, -0.5], [-1.5, -1.0, -9.0]),
    floats([-2.0, -2.5, -1.0], [-1.0, -3.0, 5.0]), prefix_mask(3, 3, 2), 0.5,
)  # fmt: skip
GARBAGE = torch.where(prefix_mask(5, 2, 5, 3), noise(1, 3, 5) - 2, torch.inf)
LARGE = (noise(2, 3), GARBAGE, noise(3, 3, 5) - 2, prefix_mask(5, 2, 5, 3), 0.1)

# fmt: off
OBJECTIVE = Exercise(
    "objective", "scores logprobs ref_logprobs mask kl_coef", objective,
    "mean over responses of score − β·Σ (log π − log π_ref), the sum over counted tokens"
    " (Stiennon et al. 2020, eq. 2; notebook 00)",
    [SMALL, LARGE],
    [
        ("padding counted", "You summed over the padding too; count only where the mask is True, and"
         " choose with torch.where, since 0 · ∞ is NaN.",
         lambda s, p, ref, mask, b: (s - b * (p - ref).sum(1)).mean()),
        ("0 times infinity", "0 · ∞ is NaN: padding may hold anything, so choose with torch.where.",
         lambda s, p, ref, mask, b: (s - b * ((p - ref) * mask).sum(1)).mean()),
        ("mask upside down", "You counted the padding and left out the response.",
         lambda s, p, ref, mask, b: objective(s, p, ref, ~mask, b)),
        ("mean over tokens", "You averaged the KL over tokens; the KL of a response is their sum.",
         priced(lambda d, mask, b: b * d.sum(1) / mask.sum(1))),
        ("mean over all positions", "You averaged the KL over all positions; it is a sum over those"
         " that count.", priced(lambda d, mask, b: b * d.mean(1))),
        ("mean over tokens of the batch", "The KL is summed within a response, then averaged over"
         " responses; you averaged over all tokens of the batch.",
         priced(lambda d, mask, b: b * d.sum() / mask.sum())),
        ("KL of the whole batch", "You subtracted β times the KL of all responses together; each pays for"
         " its own, and the mean is over responses.", priced(lambda d, mask, b: b * d.sum())),
        ("penalty added", "You added β·KL: drifting away would be rewarded. Subtract it.",
         priced(lambda d, mask, b: -b * d.sum(1))),
        ("β missing", "β = {kl_coef} has no effect; it is the price of a nat.",
         priced(lambda d, mask, b: d.sum(1))),
        ("divided by β", "You divided by β; multiply.", priced(lambda d, mask, b: d.sum(1) / b)),
        ("KL left out", "That is the mean score; the KL has its price too.",
         priced(lambda d, mask, b: 0 * d.sum(1))),
        ("score left out", "You left out the scores.",
         lambda s, p, ref, mask, b: -b * drift(p, ref, mask).sum(1).mean()),
        ("β on the score too", "β multiplies the KL alone: mind the brackets.",
         lambda s, p, ref, mask, b: (b * (s - drift(p, ref, mask).sum(1))).mean()),
        ("sum over responses", "You summed over the responses; take their mean.",
         lambda s, p, ref, mask, b: (s - b * drift(p, ref, mask).sum(1)).sum()),
        ("one number per response", "You return one number a response; return their mean.",
         lambda s, p, ref, mask, b: s - b * drift(p, ref, mask).sum(1)),
        ("score at every token", "You added the score to every token; it comes once a response.",
         lambda s, p, ref, mask, b: torch.where(
             mask, s[:, None] - b * (p - ref), 0.0).sum(1).mean()),
        ("reference left out", "You priced log π alone; the KL is log π − log π_ref.",
         lambda s, p, ref, mask, b: objective(s, p, 0 * p, mask, b)),
        ("absolute differences", "Keep the sign: a token may be less likely than under the reference.",
         priced(lambda d, mask, b: b * d.abs().sum(1))),
        ("squared differences", "You squared the differences; add them as they are.",
         priced(lambda d, mask, b: b * d.square().sum(1))),
        ("k2, half of the squares", "Half of the squared difference estimates the KL, too, but the"
         " objective pays the difference itself.", priced(lambda d, mask, b: b * d.square().sum(1) / 2)),
        ("k3, never negative", "π_ref/π − 1 + (log π − log π_ref) estimates the KL, too, but the objective"
         " pays the difference itself.", priced(lambda d, mask, b: b * ((-d).exp() - 1 + d).sum(1))),
        ("weighted by the probability", "You weighted each difference by π. The tokens were drawn from π,"
         " so the probability is in already: add up the differences.",
         lambda s, p, ref, mask, b: (
             s - b * torch.where(mask, p.exp() * (p - ref), 0.0).sum(1)).mean()),
        ("ratios instead of logarithms", "You took π/π_ref; its logarithm is the difference.",
         priced(lambda d, mask, b: b * (d.exp() * mask).sum(1))),
        ("last token only", "You priced the last token alone; every counted token pays.",
         priced(lambda d, mask, b: b * d[torch.arange(len(d)), mask.sum(1) - 1])),
        ("difference of probabilities", "You took π − π_ref; the KL is the difference of their logarithms.",
         lambda s, p, ref, mask, b: (s - b * torch.where(mask, p.exp() - ref.exp(), 0.0).sum(1)).mean()),
        ("tokens clamped at 0", "You cut each token's difference off at 0; a token may be less likely than"
         " under the reference, and that counts too.", priced(lambda d, mask, b: b * d.clamp(min=0).sum(1))),
        ("KL clamped at 0", "You cut a response's KL off at 0. Its sample may be negative: keep it.",
         priced(lambda d, mask, b: b * d.sum(1).clamp(min=0))),
        ("absolute KL", "You took the absolute value of a response's KL; keep its sign.",
         priced(lambda d, mask, b: b * d.sum(1).abs())),
        ("squared KL", "You squared a response's KL; take it as it is.",
         priced(lambda d, mask, b: b * d.sum(1).square())),
        ("KL in bits", "Your KL is in bits (log2); take nats, the natural logarithm.",
         priced(lambda d, mask, b: b * d.sum(1) / math.log(2))),
        ("β on the score", "β multiplies the KL; you multiplied the score by it.",
         lambda s, p, ref, mask, b: (b * s - drift(p, ref, mask).sum(1)).mean()),
        ("scores summed, KL averaged", "You summed the scores over the responses; average them, as the KL.",
         lambda s, p, ref, mask, b: s.sum() - b * drift(p, ref, mask).sum(1).mean()),
        ("one response's KL for all", "You charge the first response's KL to all; each pays its own.",
         priced(lambda d, mask, b: b * d.sum(1)[0])),
        ("one response's KL for all", "You charge the last response's KL to all; each pays its own.",
         priced(lambda d, mask, b: b * d.sum(1)[-1])),
        ("largest KL for all", "You charge the largest KL of a token; a response's KL is the sum.",
         priced(lambda d, mask, b: b * d.amax(1))),
        ("median of the responses", "You took the median over responses; take the mean.",
         lambda s, p, ref, mask, b: (s - b * drift(p, ref, mask).sum(1)).median()),
        ("score times KL", "You multiplied the score by the KL; subtract β·KL.",
         lambda s, p, ref, mask, b: (s * b * drift(p, ref, mask).sum(1)).mean()),
        ("score divided by length", "You divided the score by the response's length; take it whole.",
         lambda s, p, ref, mask, b: (s / mask.sum(1) - b * drift(p, ref, mask).sum(1)).mean()),
        ("divided by the length", "You divided a response's score and KL by its length; only the mean over"
         " responses divides.",
         lambda s, p, ref, mask, b: ((s - b * drift(p, ref, mask).sum(1)) / mask.sum(1)).mean()),
        ("divided by the tokens of the batch", "You divided by the number of tokens; divide by the number"
         " of responses.",
         lambda s, p, ref, mask, b: (s - b * drift(p, ref, mask).sum(1)).sum() / mask.sum()),
    ],
)
# fmt: on

BY_POSITION = Expected(
    "tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0", "summed over responses",
    "A tensor with one number a position meets one with a number a response: add up along a response,"
    " .sum(1).",
)  # fmt: skip
SWAPPED = BY_POSITION._replace(
    part="tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0"
)

FREE = (
    "β = 0",
    "At β = 0 the KL costs nothing: the mean score is left. Is 0 taken for a number that is missing?",
    (*SMALL[:-1], 0.0),
)
FAR = far_out(
    "scores and KL are large, and β is 2.5",
    (
        floats([60.0, -45.0])[0], floats([-1.0, -3.0, -2.0], [-50.0, -1.0, -1.0]),
        floats([-31.0, -43.0, -2.0], [-1.0, -0.5, -90.0]), prefix_mask(3, 3, 2), 2.5,
    ),
)  # fmt: skip
check_objective = explained(
    checker(OBJECTIVE),
    (BY_POSITION, SWAPPED),
    also_on(OBJECTIVE, FREE, FAR, *sizes(LARGE)),
)
