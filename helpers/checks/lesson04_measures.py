"""Exercises of notebook 04, second half: entropy, and the share of tokens that is clipped."""

import math

import torch

from helpers import ppo
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.checks.lesson04_losses import BATCH, reductions, total
from helpers.whitening import masked_mean


def plain_mean(x, mask):
    """The masked mean without its checks: a wrong entropy may be NaN."""
    return total(x, mask) / mask.sum()


def entropy(measure=ppo.entropy_from_logits, reduce=plain_mean):
    """Mean of a measure of each token's distribution: [B, T, V], [B, T] → scalar."""
    return lambda logits, mask: reduce(measure(logits), mask)


def clipped(rho, advantages, eps):
    """True where the clip removes the gradient: too far the way the advantage points."""
    return (rho > 1 + eps) & (advantages > 0) | (rho < 1 - eps) & (advantages < 0)


def clip_reference(rho, advantages, mask, cliprange):
    """Share of counted tokens that the loss itself calls clipped."""
    zeros = torch.zeros_like(rho)
    return ppo.policy_loss(rho.log(), zeros, advantages, mask, cliprange)[1]["clip_fraction"]


def share(test=clipped, reduce=masked_mean):
    """Mean of another test(ρ, A, ε), or another mean of the right one."""
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
        ("negative", "Entropy is never below 0: the minus sign is missing.",
         lambda logits, mask: -entropy()(logits, mask)),
        ("base 2", "That is bits; the field counts in nats (natural logarithm).",
         lambda logits, mask: entropy()(logits, mask) / math.log(2)),
        ("of the likeliest token", "You took −log p of one token; the entropy weighs all of them.",
         entropy(lambda x: -x.log_softmax(-1).amax(-1))),
        ("not weighted by p", "You summed −log p; weigh each by its p.",
         entropy(lambda x: -x.log_softmax(-1).sum(-1))),
        ("average over the vocabulary", "You averaged −p·log p over the vocabulary; sum it.",
         entropy(lambda x: ppo.entropy_from_logits(x) / x.shape[-1])),
        ("no softmax", "You used logits as if they were log-probs: log_softmax first.",
         entropy(lambda x: -(x.exp() * x).sum(-1))),
        ("logits for log-probs", "p is right, but log p is log_softmax(logits), not the logits.",
         entropy(lambda x: -(x.softmax(-1) * x).sum(-1))),
        ("sum of squares", "Σ p² measures concentration; the entropy is −Σ p·log p.",
         entropy(lambda x: x.softmax(-1).square().sum(-1))),
        ("0·log 0", "An unlikely token's p rounds to 0, and 0·log 0 is NaN: take log_softmax.",
         entropy(lambda x: -(x.softmax(-1) * x.softmax(-1).log()).sum(-1))),
        ("perplexity", "That is exp(H); wanted is H itself.",
         entropy(lambda x: ppo.entropy_from_logits(x).exp())),
        ("share of the maximum", "You divided by log V; wanted are nats.",
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
        (floats([1.5, 0.5, 1.4, 0.6, 1.1, 1.7]), floats([1.0, 2.0, 3.0, -1.0, 2.0, 1.0]),
         prefix_mask(6, 5), 0.2),
        (floats([1.5, 0.5, 1.5, 1.9, 0.4], [0.3, 1.1, 0.9, 1.6, 1.8]),
         floats([2.0, -1.0, -1.0, 3.0, -2.0], [1.0, 1.0, -1.0, -0.5, -1.0]),
         prefix_mask(5, 3, 4), 0.3),
        ((0.5 * noise(8, 4, 7)).exp(), noise(9, 4, 7), prefix_mask(7, 7, 3, 6, 2), 0.2),
    ],
    [
        ("sign of the advantage ignored", "You counted every ρ outside 1 ± ε. Where the advantage"
         " points back inside, the min keeps the gradient.",
         share(lambda r, a, e: (r - 1).abs() > e)),
        ("sign of the advantage swapped", "You counted those that the min leaves alone: A > 0 is"
         " clipped above 1 + ε, A < 0 below 1 − ε.", share(lambda r, a, e: clipped(r, -a, e))),
        ("above only", "For A < 0 the clip works below 1 − ε; you left that out.",
         share(lambda r, a, e: (r > 1 + e) & (a > 0))),
        ("below only", "For A > 0 the clip works above 1 + ε; you left that out.",
         share(lambda r, a, e: (r < 1 - e) & (a < 0))),
        ("above whatever the advantage", "You counted ρ > 1 + ε only, whatever the advantage.",
         share(lambda r, a, e: r > 1 + e)),
        ("share that is not clipped", "You counted the tokens that keep their gradient.",
         share(lambda r, a, e: ~clipped(r, a, e))),
        ("compared with ε", "ρ is around 1: compare it with 1 ± ε, not with ±{cliprange}.",
         share(lambda r, a, e: (r > e) & (a > 0) | (r < -e) & (a < 0))),
        ("advantage left in", "You averaged the advantages of the clipped tokens; count them.",
         lambda r, a, mask, e: masked_mean(clipped(r, a, e) * a, mask)),
        ("only of the clipped side", "You divided by the tokens with A > 0; divide by {counted}.",
         lambda r, a, mask, e: masked_mean(clipped(r, a, e).float(), mask & (a > 0))),
        *reductions(lambda reduce: share(reduce=reduce), "a yes or no"),
    ],
)
# fmt: on

check_entropy, check_clip_fraction = checker(ENTROPY), checker(CLIP)
