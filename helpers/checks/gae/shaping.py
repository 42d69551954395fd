"""Exercise of notebook 02: rewards with a KL penalty at each token and the score at the last."""

import torch

from helpers import kl
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import far_out, sizes
from helpers.kl import last_counted


def zeroed(x, mask):
    """0 where masked."""
    return torch.where(mask, x, 0.0)


def at(x, index, like):
    """One number per row at an index per row, 0 elsewhere: [B], [B] → [B, T]."""
    index = index.clamp(0, like.shape[1] - 1).unsqueeze(1)
    return torch.zeros_like(like).scatter(1, index, x.unsqueeze(1))


def penalty(logprobs, ref_logprobs, mask, kl_coef):
    """−β·k1, 0 where masked."""
    return zeroed(-kl_coef * (logprobs - ref_logprobs), mask)


def with_score(place):
    """Correct penalty, but the score at `place(mask)`, an index per row."""

    def wrong(scores, logprobs, ref_logprobs, mask, kl_coef):
        shaped = penalty(logprobs, ref_logprobs, mask, kl_coef)
        return shaped + at(scores, place(mask), logprobs)

    return wrong


def with_penalty(formula):
    """Correct score, but the penalty is formula(log π − log π_ref, mask, β)."""

    def wrong(scores, logprobs, ref_logprobs, mask, kl_coef):
        shaped = formula(logprobs - ref_logprobs, mask, kl_coef)
        return shaped + at(scores, last_counted(mask), logprobs)

    return wrong


def score_instead(scores, logprobs, ref_logprobs, mask, kl_coef):
    """The score replaces the penalty at the last token, instead of being added."""
    there = at(torch.ones_like(scores), last_counted(mask), logprobs) > 0
    shaped = penalty(logprobs, ref_logprobs, mask, kl_coef)
    return torch.where(there, scores[:, None], shaped)


def after(x):
    """x one step later, 0 beyond the end."""
    return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], dim=1)


def normalised_scores(scores, *rest):
    """Scores of mean 0 and deviation 1, NaN for one score alone."""
    scaled = (scores - scores.mean()) / scores.std()
    place = at(torch.ones_like(scores), last_counted(rest[2]), rest[0]) > 0
    return torch.where(place, penalty(*rest) + scaled[:, None], penalty(*rest))


# fmt: off
SHAPE = Exercise(
    "shape_rewards", "scores logprobs ref_logprobs mask kl_coef", kl.shape_rewards,
    "r_t = −β·(log π − log π_ref), plus the score at the last counted token"
    " (Ziegler et al. 2019, eq. 2; notebook 02)",
    [
        (torch.tensor([2.0]), floats([-1.0, -0.5, -2.0, 3.0]), floats([-1.5, -1.5, -0.5, 1.0]),
         prefix_mask(4, 3), 0.1),
        (torch.tensor([1.0, -3.0, 0.5]), -noise(1, 3, 5).abs(), -noise(2, 3, 5).abs(),
         prefix_mask(5, 2, 5, 4), 0.2),
    ],
    [
        ("score on the last column", "You put the score in the last column, which is padding in"
         " rows that end early; only {counted} of {total} positions count.",
         with_score(lambda mask: torch.full((len(mask),), mask.shape[1] - 1))),
        ("score at every token", "You gave every token the score; only the last counted one gets it.",
         lambda s, p, q, mask, b: penalty(p, q, mask, b) + zeroed(s[:, None], mask)),
        ("score spread over the tokens",
         "You divided the score among the tokens; the last one gets all of it.",
         lambda s, p, q, mask, b: (
             penalty(p, q, mask, b) + zeroed(s[:, None] / mask.sum(1, True), mask))),
        ("score at the first token", "The score comes at the end, when the response is complete.",
         with_score(lambda mask: torch.zeros(len(mask), dtype=torch.long))),
        ("score one too late", "The index mask.sum() is one past the end: subtract 1.",
         with_score(lambda mask: mask.sum(1))),
        ("score one too early", "The score is one position before the last counted token.",
         with_score(lambda mask: mask.sum(1) - 2)),
        ("score replaces the KL", "Add the score at the last token; keep its KL penalty.",
         score_instead),
        ("score missing", "You have only the KL penalty; add the score at the last counted token.",
         lambda s, p, q, mask, b: penalty(p, q, mask, b)),
        ("score negative", "You subtracted the score; it is a reward, so add it.",
         lambda s, *rest: kl.shape_rewards(-s, *rest)),
        ("KL added",
         "You reward the distance to the reference: the penalty is −β·(log π − log π_ref).",
         lambda s, p, q, mask, b: kl.shape_rewards(s, q, p, mask, b)),
        ("β on the score", "β = {kl_coef} scales the KL, not the score.",
         lambda s, p, q, mask, b: kl.shape_rewards(b * s, p, q, mask, 1.0)),
        ("β on both", "β = {kl_coef} scales only the KL; do not scale the score.",
         lambda s, p, q, mask, b: kl.shape_rewards(b * s, p, q, mask, b)),
        ("β missing", "You subtracted the KL without β; multiply it by β = {kl_coef}.",
         lambda s, p, q, mask, b: kl.shape_rewards(s, p, q, mask, 1.0)),
        ("k3 instead of k1", "You used k3; the reward uses k1, which can be negative for a token.",
         with_penalty(lambda d, mask, b: zeroed(-b * (torch.expm1(-d) + d), mask))),
        ("absolute KL", "k1 keeps its sign: a token that is now less likely gets a bonus.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.abs(), mask))),
        ("KL summed at the end", "You put the whole KL on the last token; each token gets its own.",
         with_penalty(lambda d, mask, b: at(-b * zeroed(d, mask).sum(1), last_counted(mask), d))),
        ("k2 instead of k1", "You paid half of the squared difference; that is k2, the reward uses k1.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.square() / 2, mask))),
        ("squared KL", "You squared the difference; the reward uses k1, the difference itself.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.square(), mask))),
        ("difference of probabilities", "You took π − π_ref; k1 is the difference of their logarithms.",
         lambda s, p, q, mask, b: (zeroed(-b * (p.exp() - q.exp()), mask)
                                   + at(s, last_counted(mask), p))),
        ("ratio instead of its logarithm", "You took π/π_ref; its logarithm is the difference.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.exp(), mask))),
        ("weighted by the probability", "You weighted the difference by π; the tokens were drawn from π"
         " already.",
         lambda s, p, q, mask, b: (zeroed(-b * p.exp() * (p - q), mask)
                                   + at(s, last_counted(mask), p))),
        ("KL clamped at 0", "You cut the difference off at 0: a token that is now less likely gets a bonus.",
         with_penalty(lambda d, mask, b: zeroed(-b * d.clamp(min=0), mask))),
        ("KL divided by the length", "You divided the penalty by the response's length; each token pays in"
         " full.", with_penalty(lambda d, mask, b: zeroed(-b * d, mask) / mask.sum(1, True))),
        ("mean KL at every token", "You charge every token the response's mean KL; each pays its own.",
         with_penalty(lambda d, mask, b: zeroed(
             (-b * zeroed(d, mask).sum(1, True) / mask.sum(1, True)).expand_as(d), mask))),
        ("the whole KL at every token", "You charge every token the response's whole KL; each pays its own.",
         with_penalty(lambda d, mask, b: zeroed(
             (-b * zeroed(d, mask).sum(1, True)).expand_as(d), mask))),
        ("KL added up along the row", "You charge each token the KL so far (cumsum); each pays its own.",
         with_penalty(lambda d, mask, b: zeroed(-b * zeroed(d, mask).cumsum(1), mask))),
        ("KL charged twice", "You charge each token its KL, and the whole KL once more at the end.",
         with_penalty(lambda d, mask, b: penalty(d, 0 * d, mask, b)
                      + at(-b * zeroed(d, mask).sum(1), last_counted(mask), d))),
        ("KL at the last token only", "Only the last token pays; every counted token has a penalty.",
         with_penalty(lambda d, mask, b: zeroed(-b * d, mask & ~after(mask)))),
        ("KL left out", "You left out the penalty −β·(log π − log π_ref).",
         with_penalty(lambda d, mask, b: 0 * zeroed(d, mask))),
        ("KL divided by β", "You divided by β; multiply.",
         with_penalty(lambda d, mask, b: zeroed(-d / b, mask))),
        ("scores centred", "You subtracted the batch's mean score; add each score as it is.",
         lambda s, *rest: kl.shape_rewards(s - s.mean(), *rest)),
        ("scores normalised", "You normalised the scores over the batch (one score alone gives 0/0); add each"
         " score as it is.", normalised_scores),
        ("score divided by the length", "You divided the score by the response's length; it comes whole.",
         lambda s, p, q, mask, b: kl.shape_rewards(s / mask.sum(1), p, q, mask, b)),
        ("score multiplied by length", "You multiplied the score by the response's length; add it once.",
         lambda s, p, q, mask, b: kl.shape_rewards(s * mask.sum(1), p, q, mask, b)),
        ("first masked position", "You put the score where the mask is first False (argmin): that is the"
         " first pad, and position 0 in a row without padding.",
         with_score(lambda mask: mask.int().argmin(1))),
        ("first masked position", "You took the position before the first False (argmin − 1): in a row"
         " without padding that is −1.",
         with_score(lambda mask: (mask.int().argmin(1) - 1).clamp(min=0))),
        ("one end for all", "You take the first row's last token for all rows; each has its own.",
         with_score(lambda mask: last_counted(mask)[:1].expand(len(mask)))),
        ("one end for all", "You take the longest row's last token for all rows; each has its own.",
         with_score(lambda mask: last_counted(mask).amax().expand(len(mask)))),
        ("KL on padding, and score on the last column", "You gave masked positions a penalty, and put the"
         " score in the last column; padding gets 0.",
         lambda s, p, q, mask, b: kl.shape_rewards(s, p, q, torch.ones_like(mask), b)),
        ("KL on padding", "You gave masked positions a penalty; they are padding, so they get 0.",
         with_penalty(lambda d, mask, b: -b * d)),
    ],
)
# fmt: on

SHORT = (
    "a response of one token",
    "Right for longer responses. One of a single token has both there: the penalty and the score.",
    (
        torch.tensor([1.0, -3.0]),
        *(-noise(k, 2, 3).abs() for k in (1, 2)),
        prefix_mask(3, 1, 3),
        0.2,
    ),
)
FREE = (
    "β = 0",
    "At β = 0 nothing is paid, and the score is all. Is 0 taken for a number that is missing?",
    (*SHAPE.probes[1][:-1], 0.0),
)
FAR = far_out(
    "scores and KL are large, and β is 2.5",
    (torch.tensor([80.0, -60.0]), floats([-1.0, -90.0, -2.0], [-50.0, -1.0, -1.0]),
     floats([-31.0, -3.0, -2.0], [-1.0, -0.5, -9.0]), prefix_mask(3, 3, 2), 2.5),
)  # fmt: skip
check_shape_rewards = explained(
    checker(SHAPE), then=also_on(SHAPE, SHORT, FREE, FAR, *sizes(SHAPE.probes[1]))
)
