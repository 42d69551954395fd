"""Exercises of notebook 04 that watch an update: entropy, clip fraction."""

import math

import torch

from helpers import ppo
from helpers.checks.averages import plain_mean, reductions
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.checks.ppo import BATCH
from helpers.checks.raised import Expected, explained
from helpers.whitening import masked_mean


def entropy(measure=ppo.entropy_from_logits, reduce=plain_mean):
    """Mean of a measure of each token's distribution: [B, T, V], [B, T] → scalar."""
    return lambda logits, mask: reduce(measure(logits), mask)


def clipped(rho, advantages, eps):
    """True where the clip removes the gradient: the ratio is too far in the advantage's direction."""
    return (rho > 1 + eps) & (advantages > 0) | (rho < 1 - eps) & (advantages < 0)


def clip_reference(rho, advantages, mask, cliprange):
    """Clip fraction as `policy_loss` reports it."""
    zeros = torch.zeros_like(rho)
    return ppo.policy_loss(rho.log(), zeros, advantages, mask, cliprange)[1]["clip_fraction"]


def share(test=clipped, reduce=masked_mean):
    """Mean of another test(ρ, A, ε), or another mean of the correct test."""
    return lambda rho, a, mask, eps: reduce(test(rho, a, eps).float(), mask)


# fmt: off
ENTROPY = Exercise(
    "entropy", "logits mask", entropy(),
    "H = −Σ p·log p over the vocabulary, in nats, then the mean over counted tokens"
    " (notebook 04)",
    [
        (floats([[0.0, 1.0, 3.0], [2.0, -1.0, 0.5], [0.0, 0.0, 0.0]]), prefix_mask(3, 2)),
        (noise(7, 3, 5, 4), BATCH[2]),
        (floats([[120.0, 0.0, 1.0], [0.0, 2.0, -1.0]]), prefix_mask(2, 2)),
    ],
    [
        ("negative", "Entropy is never negative: the minus sign is missing.",
         lambda logits, mask: -entropy()(logits, mask)),
        ("base 2", "Your result is in bits; use nats (natural logarithm).",
         lambda logits, mask: entropy()(logits, mask) / math.log(2)),
        ("of the likeliest token", "You took −log p of the most likely token; average it over all.",
         entropy(lambda x: -x.log_softmax(-1).amax(-1))),
        ("not weighted by p", "You summed −log p; multiply each term by its p.",
         entropy(lambda x: -x.log_softmax(-1).sum(-1))),
        ("average over the vocabulary", "You averaged −p·log p over the vocabulary; take the sum.",
         entropy(lambda x: ppo.entropy_from_logits(x) / x.shape[-1])),
        ("no softmax", "You used logits as log-probs; apply log_softmax first.",
         entropy(lambda x: -(x.exp() * x).sum(-1))),
        ("logits for log-probs", "p is right, but log p is log_softmax(logits), not the logits.",
         entropy(lambda x: -(x.softmax(-1) * x).sum(-1))),
        ("logits for p", "log p is right, but the weights are p = exp(log p), not the logits.",
         entropy(lambda x: -(x * x.log_softmax(-1)).sum(-1))),
        ("plain mean of −log p", "You averaged −log p over the vocabulary, each word alike; weigh each"
         " by its p, and sum.", entropy(lambda x: -x.log_softmax(-1).mean(-1))),
        ("softmax over the batch", "Your softmax is along dim=0; the vocabulary is dim=-1.",
         entropy(lambda x: -(x.softmax(0) * x.log_softmax(0)).sum(-1))),
        ("sum of squares", "You computed Σ p²; the entropy is −Σ p·log p.",
         entropy(lambda x: x.softmax(-1).square().sum(-1))),
        ("0·log 0", "The p of an unlikely token rounds to 0, and 0·log 0 is NaN: use log_softmax.",
         entropy(lambda x: -(x.softmax(-1) * x.softmax(-1).log()).sum(-1))),
        ("perplexity", "That is exp(H), the perplexity; return H.",
         entropy(lambda x: ppo.entropy_from_logits(x).exp())),
        ("share of the maximum", "You divided by log V; do not normalise.",
         entropy(lambda x: ppo.entropy_from_logits(x) / math.log(x.shape[-1]))),
        ("softmax over time", "Your softmax is along dim=1; the vocabulary is dim=-1.",
         entropy(lambda x: -(x.softmax(1) * x.log_softmax(1)).sum(-1))),
        *reductions(lambda reduce: entropy(reduce=reduce), "an entropy"),
    ],
    gradient=("logits",),
)

CLIP = Exercise(
    "clip_fraction", "ratio advantages mask cliprange", clip_reference,
    "a token is clipped where ρ > 1 + ε and A > 0, or ρ < 1 − ε and A < 0; the share of counted"
    " tokens (notebook 04)",
    [
        (floats([1.5, 0.5, 1.4, 0.6, 1.1, 1.7, 1.6, 0.5, 0.5]),
         floats([1.0, 2.0, 3.0, -1.0, 2.0, 0.0, 0.0, 0.0, 1.0]), prefix_mask(9, 8), 0.2),
        (floats([1.5, 0.5, 1.5, 1.9, 0.4], [0.3, 1.25, 0.9, 1.6, 1.8]),
         floats([2.0, -1.0, -1.0, 3.0, -2.0], [1.0, 1.0, -1.0, -0.5, -1.0]),
         prefix_mask(5, 3, 4), 0.3),
        ((0.5 * noise(8, 4, 7)).exp(), noise(9, 4, 7), prefix_mask(7, 7, 3, 6, 2), 0.2),
    ],
    [
        ("sign of the advantage ignored", "You counted every ρ outside 1 ± ε. Where the advantage"
         " pulls ρ back inside, the min keeps the gradient.",
         share(lambda r, a, e: (r - 1).abs() > e)),
        ("sign of the advantage swapped", "You exchanged the two cases: A > 0 is clipped above"
         " 1 + ε, A < 0 below 1 − ε.", share(lambda r, a, e: clipped(r, -a, e))),
        ("above only", "You left out A < 0, which is clipped below 1 − ε.",
         share(lambda r, a, e: (r > 1 + e) & (a > 0))),
        ("below only", "You left out A > 0, which is clipped above 1 + ε.",
         share(lambda r, a, e: (r < 1 - e) & (a < 0))),
        ("above whatever the advantage", "You counted only ρ > 1 + ε, for any advantage.",
         share(lambda r, a, e: r > 1 + e)),
        ("share that is not clipped", "You counted the tokens that keep their gradient.",
         share(lambda r, a, e: ~clipped(r, a, e))),
        ("equal gains counted", "Where the clipped gain equals the plain one, nothing was clipped:"
         " compare with <, not with <=.",
         share(lambda r, a, e: r.clamp(1 - e, 1 + e) * a <= r * a)),
        ("compared with ε", "Compare ρ with 1 ± {cliprange}, not with ±{cliprange}.",
         share(lambda r, a, e: (r > e) & (a > 0) | (r < -e) & (a < 0))),
        ("A = 0 counted", "A token with A = 0 has no gradient that the clip could remove: A > 0 and"
         " A < 0 are meant strictly.",
         share(lambda r, a, e: (r > 1 + e) & (a >= 0) | (r < 1 - e) & (a <= 0))),
        ("A = 0 counted as bad", "A token with A = 0 has no gradient that the clip could remove: A < 0"
         " is meant strictly.", share(lambda r, a, e: (r > 1 + e) & (a > 0) | (r < 1 - e) & (a <= 0))),
        ("A = 0 counted as good", "A token with A = 0 has no gradient that the clip could remove: A > 0"
         " is meant strictly.", share(lambda r, a, e: (r > 1 + e) & (a >= 0) | (r < 1 - e) & (a < 0))),
        ("ε written in", "You wrote 0.2 for ε; use the argument, here {cliprange}.",
         share(lambda r, a, e: clipped(r, a, 0.2))),
        ("advantage left in", "You averaged the advantages of the clipped tokens; count them.",
         lambda r, a, mask, e: masked_mean(clipped(r, a, e) * a, mask)),
        ("only of the clipped side", "You divided by the number of tokens with A > 0; divide by all"
         " {counted} counted tokens.",
         lambda r, a, mask, e: masked_mean(clipped(r, a, e).float(), mask & (a > 0))),
        *reductions(lambda reduce: share(reduce=reduce), "a yes or no"),
    ],
)
# fmt: on

WRONG_AXIS = (
    "sum over the tokens",
    "You summed over another axis than the vocabulary's, so that one number per token is not what is"
    " left: the vocabulary is dim=-1.",
)
MISMATCH = ("shape of the mask", "must match the size")  # [B, V] where [B, T] is masked
check_entropy = explained(checker(ENTROPY), tuple(Expected(part, *WRONG_AXIS) for part in MISMATCH))
check_clip_fraction = checker(CLIP)
