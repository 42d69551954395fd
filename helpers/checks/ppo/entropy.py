"""Exercise of notebook 04: the entropy, which tells how sure a policy is of its next words."""

import math

import torch.nn.functional as F

from helpers import ppo
from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import Expected, also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, token_by_token, without_effect
from helpers.checks.ppo.ratio import BATCH
from helpers.checks.whitening.averages import other_reductions, plain_mean, reductions


def entropy(measure=ppo.entropy_from_logits, reduce=plain_mean):
    """Mean of a measure of each token's distribution: [B, T, V], [B, T] → scalar."""
    return lambda logits, mask: reduce(measure(logits), mask)


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
        ("base 10", "Your logarithm is to base 10; use nats (natural logarithm).",
         lambda logits, mask: entropy()(logits, mask) / math.log(10)),
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
        ("0·log 0, or an overflow", "With a logit of 120 your result is NaN: the p of the other words"
         " rounds to 0, and 0·log 0 is NaN (or exp(120) overflows): use log_softmax.",
         entropy(lambda x: -(x.softmax(-1) * x.softmax(-1).log()).sum(-1))),
        ("perplexity", "That is exp(H), the perplexity; return H.",
         entropy(lambda x: ppo.entropy_from_logits(x).exp())),
        ("share of the maximum", "You divided by log V; do not normalise.",
         entropy(lambda x: ppo.entropy_from_logits(x) / math.log(x.shape[-1]))),
        ("softmax over time", "Your softmax is along dim=1; the vocabulary is dim=-1.",
         entropy(lambda x: -(x.softmax(1) * x.log_softmax(1)).sum(-1))),
        ("softmax twice", "You took the softmax of probabilities (or log-probs of them): the logits"
         " go through one softmax.", entropy(lambda x: ppo.entropy_from_logits(x.softmax(-1)))),
        ("softmax twice", "You took the log-softmax of p for log p; log p is log_softmax(logits).",
         entropy(lambda x: -(x.softmax(-1) * x.softmax(-1).log_softmax(-1)).sum(-1))),
        ("one sigmoid per word", "Each word got a probability of its own (sigmoid); they are one softmax.",
         entropy(lambda x: -(x.sigmoid() * F.logsigmoid(x)).sum(-1))),
        ("one sigmoid per word", "Each word got a probability of its own (sigmoid); they are one softmax.",
         entropy(lambda x: -(x.sigmoid() * F.logsigmoid(x) + (-x).sigmoid() * F.logsigmoid(-x)).sum(-1))),
        ("yes or no for each word", "You added the entropies of yes or no for each word, −p·log p −"
         " (1 − p)·log(1 − p); the entropy is −Σ p·log p.",
         entropy(lambda x: -(x.softmax(-1) * x.log_softmax(-1) + (1 - x.softmax(-1))
                             * (1 - x.softmax(-1)).clamp(min=1e-12).log()).sum(-1))),
        ("distance from the uniform", "That is log V − H, the KL from uniform; return H.",
         entropy(lambda x: math.log(x.shape[-1]) - ppo.entropy_from_logits(x))),
        ("1 − Σ p²", "That is the Gini impurity; the entropy is −Σ p·log p.",
         entropy(lambda x: 1 - x.softmax(-1).square().sum(-1))),
        ("collision entropy", "That is −log Σ p²; the entropy is −Σ p·log p.",
         entropy(lambda x: -x.softmax(-1).square().sum(-1).log())),
        ("largest term alone", "You took the largest −p·log p; add them all up.",
         entropy(lambda x: -(x.softmax(-1) * x.log_softmax(-1)).amin(-1))),
        ("term of the likeliest word alone", "You took the likeliest word's −p·log p; add them all up.",
         entropy(lambda x: -(x.softmax(-1).amax(-1) * x.log_softmax(-1).amax(-1)))),
        ("the likeliest word's probability", "You averaged the largest p; the entropy is −Σ p·log p.",
         entropy(lambda x: x.softmax(-1).amax(-1))),
        ("log Σ exp", "That is the normaliser log Σ exp(logits); the entropy is −Σ p·log p.",
         entropy(lambda x: x.logsumexp(-1))),
        ("variance", "That is a variance over the vocabulary; the entropy is −Σ p·log p.",
         entropy(lambda x: x.softmax(-1).var(-1))),
        ("always 1", "Your result is 1 whatever the logits are, as Σ p is: is log p left"
         " out?", entropy(lambda x: x.softmax(-1).sum(-1))),
        ("squared p as weights", "You multiplied by p twice.",
         entropy(lambda x: -(x.softmax(-1).square() * x.log_softmax(-1)).sum(-1))),
        ("square of log p", "You squared log p.",
         entropy(lambda x: (x.softmax(-1) * x.log_softmax(-1).square()).sum(-1))),
        ("the first word left out", "You left out the first word of the vocabulary.",
         entropy(lambda x: -(x.softmax(-1) * x.log_softmax(-1))[..., 1:].sum(-1))),
        ("the last word left out", "You left out the last word of the vocabulary.",
         entropy(lambda x: -(x.softmax(-1) * x.log_softmax(-1))[..., :-1].sum(-1))),
        ("entropy of the mean distribution", "You averaged the distributions first; take each token's"
         " entropy, then the mean.", lambda x, m: -(x[m].softmax(-1).mean(0)
                                                    * x[m].softmax(-1).mean(0).log()).sum()),
        ("entropy of the mean logits", "You averaged the logits first; take each token's entropy, then"
         " the mean.", lambda x, m: ppo.entropy_from_logits(x[m].mean(0))),
        ("one softmax over everything", "Your softmax is over all tokens together; each token has its own,"
         " over dim=-1.", lambda x, m: ppo.entropy_from_logits(x[m].flatten())),
        ("sum over the tokens", "You summed over the tokens (dim=1), not over the vocabulary (dim=-1).",
         lambda x, m: -(x.softmax(-1) * x.log_softmax(-1)).sum(1).mean()),
        ("sum over the tokens", "You summed over the tokens (dim=1), not over the vocabulary (dim=-1).",
         lambda x, m: (x.softmax(-1) * x.log_softmax(-1)).sum(1).mean()),
        *reductions(lambda reduce: entropy(reduce=reduce), "an entropy"),
        *other_reductions(lambda reduce: entropy(reduce=reduce)),
    ],
    gradient=("logits",),
)

# fmt: on

WRONG_AXIS = (
    "not one number per token",
    "Where it meets the mask [B, T] you do not have one number per token: sum over the vocabulary,"
    " dim=-1, and over no other axis, before the mask is applied.",
)
MISMATCH = ("shape of the mask", "must match the size")  # [B, V] where [B, T] is masked


def one_token(words: str, *logits: float) -> tuple:
    """A case of one token, for `case_by_case`."""
    return words, (floats([list(logits)]), prefix_mask(1, 1))


MANY_WORDS = (
    "wrong for a large vocabulary",
    "Right for a few words; over 3000, where each is unlikely, it is not. Is a number added inside the"
    " logarithm, or a probability bounded below?",
    (noise(15, 1, 2, 3000), prefix_mask(2, 2)),
)
check_entropy = explained(
    checker(ENTROPY),
    tuple(Expected(part, *WRONG_AXIS) for part in MISMATCH),
    also_on(ENTROPY, MANY_WORDS, *sizes(ENTROPY.probes[1])),
    cause=one_of(
        ENTROPY,
        other_inputs(
            cut=("logits",), also={"logits": {"divided by 2": lambda x: x / 2}}
        ),
        result_changed,
        token_by_token("logits"),
        without_effect,
        case_by_case(
            one_token("all words are alike", 0.0, 0.0, 0.0),
            one_token("one word is likelier", 0.0, 1.0, 0.0),
            one_token("one word is certain", 0.0, 200.0, 0.0),
            one_token("there are two words", 0.0, 1.0),
            ("there are two tokens", (floats([[0.0, 1.0, 3.0], [2.0, -1.0, 0.5]]), prefix_mask(2, 2))),
        ),
    ),
)  # fmt: skip
