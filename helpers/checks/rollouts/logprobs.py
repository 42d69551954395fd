"""Exercises of notebook 01: log-probs of sampled tokens, position ids, KL estimates."""

import functools
import math
from dataclasses import replace

import torch

from helpers import kl, rollouts
from helpers.checks.judging.exercise import Exercise, floats, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.report import CORRECT, MISTAKE, Report
from helpers.checks.judging.sizes import far_out, sizes
from helpers.checks.rollouts.right_padding import right_padded


def picked(x, tokens):
    """x at the tokens: [B, T, V], [B, T] → [B, T]."""
    return x.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def log_softmax_at(logits, tokens, dim=-1):
    """The log-softmax along any axis, at the tokens."""
    return picked(logits.log_softmax(dim), tokens)


# fmt: off
GATHER = Exercise(
    "gather_logprobs", "logits tokens", rollouts.gather_logprobs,
    "log softmax(logits) over the vocabulary, at the sampled token (notebook 01)",
    [
        (floats([[0.0, 1.0, 3.0], [2.0, -1.0, 0.5]], [[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]]),
         torch.tensor([[1, 0], [2, 1]])),
        (noise(1, 2, 4, 5), torch.tensor([[4, 0, 3, 1], [2, 2, 0, 4]])),
        (floats([[0.0, -120.0, 1.0], [0.0, 2.0, -1.0]]), torch.tensor([[1, 2]])),
    ],
    [
        ("probabilities, not log-probs", "You gathered probabilities; PPO needs their logarithms.",
         lambda logits, tokens: picked(logits.softmax(-1), tokens)),
        ("no softmax", "You gathered logits; apply log_softmax first.",
         lambda logits, tokens: picked(logits, tokens)),
        ("argmax instead of the token", "You took the most likely token; use the one in `tokens`.",
         lambda logits, tokens: logits.log_softmax(-1).amax(-1)),
        ("shifted by one", "You paired logits[:, :-1] with tokens[:, 1:]. Here logits[:, t] is"
         " already the distribution of tokens[:, t].",
         lambda logits, tokens: log_softmax_at(logits[:, :-1], tokens[:, 1:])),
        ("tokens one too late", "At t you look up token t + 1; logits[:, t] is for tokens[:, t].",
         lambda logits, tokens: log_softmax_at(logits, tokens.roll(-1, 1))),
        ("tokens one too early", "At t you look up token t − 1; logits[:, t] is for tokens[:, t].",
         lambda logits, tokens: log_softmax_at(logits, tokens.roll(1, 1))),
        ("softmax over time", "Your softmax is along dim=1, the positions; the vocabulary is"
         " dim=-1.", lambda logits, tokens: log_softmax_at(logits, tokens, 1)),
        ("softmax over the batch", "Your softmax is along dim=0; the vocabulary is dim=-1.",
         lambda logits, tokens: log_softmax_at(logits, tokens, 0)),
        ("negative log-probs",
         "You have −log p, the cross-entropy; return log p, which is never positive.",
         lambda logits, tokens: -log_softmax_at(logits, tokens)),
        ("log of a vanished probability",
         "The probability of an unlikely token rounds to 0, and log 0 is −inf. Use log_softmax.",
         lambda logits, tokens: picked(logits.softmax(-1).log(), tokens)),
        ("last axis kept", "gather keeps an axis of length 1: remove it with squeeze(-1).",
         lambda logits, tokens: log_softmax_at(logits, tokens).unsqueeze(-1)),
        ("summed over the response", "You summed over the tokens; return one number per token.",
         lambda logits, tokens: log_softmax_at(logits, tokens).sum(1)),
        ("base 2", "Your result is in bits; use nats (natural logarithm).",
         lambda logits, tokens: log_softmax_at(logits, tokens) / math.log(2)),
    ],
    gradient=("logits",),
)


LEFT = torch.tensor([[False, False, True, True], [True, True, True, True]])
LEFTS = torch.arange(5)[None, :] >= torch.tensor([[3], [0], [1]])
SHIFTED = torch.arange(6)[None, :] >= torch.tensor([[3], [2], [4]])  # padding in every row


def whole(mask):
    """Number of counted positions up to and including each."""
    return mask.long().cumsum(1)


def columns_from(start, mask):
    """Column numbers from `start` on, 0 before it, the same in every row."""
    return (torch.arange(mask.shape[1]) - start).clamp(0).expand(mask.shape)


POSITIONS = Exercise(
    "position_ids", "mask", rollouts.position_ids,
    "cumsum(mask) − mask along the row: padding takes no position (notebook 01)",
    [(LEFT,), (LEFTS,), (SHIFTED,)],
    [
        ("padding counted", "You numbered the columns; the first token after padding has position 0"
         " too.",
         lambda mask: torch.arange(mask.shape[1]).expand(mask.shape)),
        ("starts at 1", "Your first token has position 1; subtract the mask to get 0.",
         lambda mask: whole(mask)),
        ("negative on padding", "Your padding has position −1, as cumsum − 1 has on the left: no embedding"
         " has this index.",
         lambda mask: whole(mask) - 1),
        ("counted from the right", "You count backwards; the first counted token has position 0.",
         lambda mask: whole(mask.flip(1)).flip(1) - mask.long()),
        ("cumsum down the batch",
         "Your cumsum is along dim=0; positions are along the row, dim=1.",
         lambda mask: mask.long().cumsum(0) - mask.long()),
        ("runs on across rows", "Your count continues in the next row; each row starts at 0.",
         lambda mask: (mask.flatten().cumsum(0).view_as(mask) - mask.long())),
        ("one shift for all rows", "You shift all rows by the padding of the first row.",
         lambda mask: (torch.arange(mask.shape[1]) - (~mask[0]).sum()).clamp(0).expand(mask.shape)),
        ("mask counted upside down", "You counted the padding; True means that a position counts.",
         lambda mask: whole(~mask) - (~mask).long()),
        ("one shift for all rows", "You shift all rows by the shortest padding; each row has its own.",
         lambda mask: columns_from((~mask).sum(1).amin(), mask)),
        ("one shift for all rows", "You shift all rows by the longest padding; each row has its own.",
         lambda mask: columns_from((~mask).sum(1).amax(), mask)),
        ("one shift for all rows", "You shift all rows by the padding of the last row.",
         lambda mask: columns_from((~mask[-1]).sum(), mask)),
        ("negative on padding", "Before the first token your positions are negative, and no embedding has"
         " such an index.", lambda mask: torch.arange(mask.shape[1]) - (~mask).sum(1, True)),
        ("counted from the right", "You count backwards; the first counted token has position 0.",
         lambda mask: whole(mask.flip(1)).flip(1)),
        ("counted from the right", "You count backwards; the first counted token has position 0.",
         lambda mask: (whole(mask.flip(1)).flip(1) - mask.long()) * mask),
        ("rolled round", "roll brings the row's last count round to column 0; a row starts at 0.",
         lambda mask: whole(mask).roll(1, 1)),
        ("one too late", "At each token you have the count of the token after it.",
         lambda mask: whole(mask).roll(-1, 1)),
        ("one too late", "At each token you have the count of the token after it.",
         lambda mask: torch.cat([whole(mask)[:, 1:], whole(mask)[:, -1:]], 1)),
        ("starts at 2", "Your first token has position 2; it has 0.",
         lambda mask: whole(mask) + mask.long()),
        ("first two tokens at 0", "Your count starts one token late: the second token has position 1.",
         lambda mask: (whole(mask) - 2).clamp(min=0)),
        ("length in every place", "You give the number of counted tokens in every place; count up to each.",
         lambda mask: mask.sum(1, True).expand(mask.shape)),
        ("number of pads in every place", "You give the number of pads in every place; count the tokens"
         " before each.", lambda mask: (~mask).sum(1, True).expand(mask.shape)),
        ("mask returned", "You returned the mask as numbers; use cumsum along the row.",
         lambda mask: mask.long()),
    ],
)


def only(estimator, formula):
    """Wrong for one estimator, right for the others; the formula sees (logprobs, ref_logprobs)."""

    def wrong(logprobs, ref_logprobs, asked):
        if asked == estimator:
            return formula(logprobs, ref_logprobs)
        return kl.kl_estimate(logprobs, ref_logprobs, asked)

    return wrong


PAIR = (floats([-1.0, -2.0, -0.5]), floats([-1.5, -0.8, -0.5]))
PAIRS = (-noise(3, 2, 4).abs(), -noise(4, 2, 4).abs())

KL = Exercise(
    "kl_estimate", "logprobs ref_logprobs estimator", kl.kl_estimate,
    "with d = logprobs − ref_logprobs: k1 = d, k2 = d²/2, k3 = exp(−d) − 1 + d"
    " (Schulman 2020; notebook 01)",
    [(*pair, name) for name in ("k1", "k2", "k3") for pair in (PAIR, PAIRS)],
    [
        ("KL reversed", "You have log π_ref − log π. The tokens were sampled by π, so k1 is"
         " log π − log π_ref.", only("k1", lambda p, q: q - p)),
        ("absolute value", "Keep the sign: k1 can be negative for a token, and |k1| is biased.",
         only("k1", lambda p, q: (p - q).abs())),
        ("difference of probabilities", "Subtract the log-probs themselves, without exp.",
         only("k1", lambda p, q: p.exp() - q.exp())),
        ("ratio, not its logarithm",
         "exp(d) is the ratio of probabilities; k1 is its logarithm, d.",
         only("k1", lambda p, q: (p - q).exp())),
        ("weighted by the probability", "Leave out the factor π: the tokens are sampled from π, so"
         " the mean over samples already contains it.", only("k1", lambda p, q: p.exp() * (p - q))),
        ("averaged", "You averaged; return one number per token.",
         only("k1", lambda p, q: (p - q).mean())),
        ("k3 for k1", "For 'k1' you return k3; k1 is d. Does every `estimator` have its own line?",
         only("k1", lambda p, q: kl.kl_estimate(p, q, "k3"))),
        ("k2 for k1", "For 'k1' you return k2; k1 is d. Does every `estimator` have its own line?",
         only("k1", lambda p, q: kl.kl_estimate(p, q, "k2"))),
        ("logarithm taken again", "The arguments are logarithms already: subtract them.",
         only("k1", lambda p, q: (p / q).log())),
        ("quotient of log-probs", "You divided the log-probs; subtract them.",
         only("k1", lambda p, q: p / q)),
        ("relative difference", "You divided the difference by a log-prob; k1 is the difference itself.",
         only("k1", lambda p, q: (p - q) / q)),
        ("squared difference", "You squared d; k1 is d itself.",
         only("k1", lambda p, q: (p - q).square())),
        ("weighted by the reference", "Leave out the factor π_ref: the tokens are sampled from π.",
         only("k1", lambda p, q: q.exp() * (p - q))),
        ("sum of log-probs", "You added the log-probs; subtract them.",
         only("k1", lambda p, q: p + q)),
        ("k2 without the half",
         "You have d²; k2 is d²/2.", only("k2", lambda p, q: (p - q).square())),
        ("k2 without the square", "You halved d; square it first.",
         only("k2", lambda p, q: (p - q) / 2)),
        ("k2 halved before the square", "You halved d and then squared: that is d²/4; k2 is d²/2.",
         only("k2", lambda p, q: ((p - q) / 2).square())),
        ("square of the sum", "You squared log π + log π_ref; k2 squares the difference.",
         only("k2", lambda p, q: (p + q).square() / 2)),
        ("difference of the squares", "You squared first and subtracted then; square the difference.",
         only("k2", lambda p, q: (p.square() - q.square()) / 2)),
        ("ratio squared", "You squared the ratio of probabilities; k2 squares its logarithm.",
         only("k2", lambda p, q: (p - q).exp().square() / 2)),
        ("absolute value for k2", "You took |d|; k2 is d²/2.",
         only("k2", lambda p, q: (p - q).abs())),
        ("absolute value for k2", "You took |d|/2; k2 is d²/2.",
         only("k2", lambda p, q: (p - q).abs() / 2)),
        ("k1 for k2", "For 'k2' you return k1; k2 is d²/2.", only("k2", lambda p, q: p - q)),
        ("k3 for k2", "That is k3; k2 is d²/2.",
         only("k2", lambda p, q: kl.kl_estimate(p, q, "k3"))),
        ("k3 with reversed ratio", "You swapped π and π_ref: that estimates another divergence."
         " k3 is π_ref/π − 1 + log(π/π_ref).",
         only("k3", lambda p, q: kl.kl_estimate(q, p, "k3"))),
        ("k3 with reversed ratio in the exponent",
         "The exponential is of −d: π_ref/π, not π/π_ref.",
         only("k3", lambda p, q: (p - q).exp() - 1 + (p - q))),
        ("k3 with reversed logarithm", "The last term is +d; with −d the result can be negative.",
         only("k3", lambda p, q: (q - p).exp() - 1 - (p - q))),
        ("k3 with 1 added", "Subtract the 1: exp(−d) − 1 + d is 0 where both models agree.",
         only("k3", lambda p, q: (q - p).exp() + 1 + (p - q))),
        ("1 minus the ratio", "The ratio comes in with a plus, the 1 with a minus: exp(−d) − 1 + d.",
         only("k3", lambda p, q: 1 - (q - p).exp() + (p - q))),
        ("k3 to first order only", "You left out exp: k3 is exp(−d) − 1 + d.",
         only("k3", lambda p, q: (q - p) - 1 + (p - q))),
        ("k3 without the 1", "Subtract 1: k3 is 0 where both models agree.",
         only("k3", lambda p, q: (q - p).exp() + (p - q))),
        ("k3 without the logarithm", "You have only π_ref/π − 1; add d.",
         only("k3", lambda p, q: (q - p).exp() - 1)),
        ("k1 for k3", "For 'k3' you return k1; k3 is exp(−d) − 1 + d.", only("k3", lambda p, q: p - q)),
        ("k2 for k3", "That is k2; k3 is exp(−d) − 1 + d.",
         only("k3", lambda p, q: kl.kl_estimate(p, q, "k2"))),
    ],
    gradient=("logprobs",),
    group="estimator",
)
# fmt: on

UNLIKELY = floats([[1000.0, 0.0, -500.0], [0.0, -300.0, 2.0]]), torch.tensor([[2, 1]])
check_gather_logprobs = explained(
    checker(GATHER),
    then=also_on(GATHER, far_out("logits are far apart", UNLIKELY), *sizes(GATHER.probes[1])),
)
CUT_OFF = (
    "Right for small differences, not for large ones: is something clamped or clipped, or a small number"
    " added before a logarithm?"
)
FAR = (floats([-22.0, -0.5]), floats([-1.0, -21.0]))
VANISHED = (
    "wrong for very large differences",
    "Right for differences up to 21, wrong for 199 or −80: is something clamped, or a logarithm taken of an"
    " exp? The exp of −199 is 0 in a float32. Take d itself.",
)
VANISHING = (floats([-1.0, -84.0, -3.0]), floats([-200.0, -4.0, -3.0]))
RARE = (
    "wrong for rare tokens",
    "Right for ordinary log-probs, wrong for those near −120, whose probability rounds to 0 in a float32:"
    " take exp of the difference, not of each.",
)
RARELY = (floats([-120.0, -0.5]), floats([-118.0, -0.7]))
FLAT = (
    "wrong for one axis",
    "Right for rows of tokens, wrong for one row [T] by itself: name no axes.",
)
check_kl_estimate = explained(
    checker(KL),
    then=also_on(
        KL,
        *[("wrong for large differences", CUT_OFF, (*FAR, k)) for k in ("k1", "k2", "k3")],
        *[(*VANISHED, (*VANISHING, k)) for k in ("k1", "k2", "k3")],
        *[(*RARE, (*RARELY, k)) for k in ("k1", "k2", "k3")],
        *[(*FLAT, (*(x[0] for x in PAIRS), k)) for k in ("k1", "k2", "k3")],
        *sizes((*PAIRS, "k3")),
    ),
)


def with_ones_on_padding(check):
    """The same check, which also takes what some models still do: 1 on padding."""

    def kinder(function, *options, **named) -> Report:
        report = check(function, *options, **named)
        if report.status != MISTAKE:
            return report

        @functools.wraps(function)
        def zero_on_padding(mask):
            positions = function(mask)
            return torch.where(~mask & (positions == 1), 0, positions)

        again = check(zero_on_padding, *options, **named) if callable(function) else report
        if again.status != CORRECT:
            return report
        says = "You give padding position 1, as some Hugging Face models do: fine, it is masked. The course"
        return replace(again, message=f"{again.message} {says} gives it 0 on the left.")

    kinder.__name__ = kinder.__qualname__ = check.__name__
    kinder.__doc__, kinder.exercise = check.__doc__, check.exercise
    return kinder


check_position_ids = with_ones_on_padding(explained(checker(POSITIONS), then=right_padded))
