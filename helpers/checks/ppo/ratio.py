"""Exercise of notebook 04: the ratio; and what its padding may hold."""

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.compare import alike, as_tensor
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import TIME_LIMIT, backward, checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.report import compare, show
from helpers.checks.judging.runner import attempt, copy_of
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def log_ratio(logprobs, old_logprobs, mask):
    """log π − log π_old, 0 where masked."""
    return torch.where(mask, logprobs - old_logprobs, 0.0)


LOGPROBS = (floats([-1.0, -2.0, -0.4, -5.0]), floats([-1.5, -1.0, -0.5, -2.0]), prefix_mask(4, 3))
BATCH = (-noise(1, 3, 5).abs(), -noise(2, 3, 5).abs(), prefix_mask(5, 2, 5, 4))
UNLIKELY = (floats([-120.0, -110.0]), floats([-119.5, -111.0]), prefix_mask(2, 2))
INF, NAN = float("inf"), float("nan")
# what the padding may hold: a difference whose exp overflows, −inf − (−inf), NaN
SPOILT = [
    (floats([-1.0, *now]), floats([-1.2, *old]), prefix_mask(3, 1))
    for now, old in (([900.0, -1.0], [-900.0, -1000.0]), ([-INF, NAN], [-INF, -1.0]))
]


def ratio(logprobs, old_logprobs, mask):
    """exp(log π − log π_old), 1 where masked."""
    return log_ratio(logprobs, old_logprobs, mask).exp()


# fmt: off
RATIO = Exercise(
    "ratio", "logprobs old_logprobs mask", ratio,
    "ρ = exp(logprobs − old_logprobs), 1 where masked"
    " (Schulman et al. 2017, eq. 6; notebook 04)",
    [LOGPROBS, BATCH, UNLIKELY],
    [
        ("difference without exp", "That is the logarithm of the ratio; take exp of it.",
         log_ratio),
        ("ratio reversed", "You have π_old/π; the ratio is π/π_old.",
         lambda p, old, mask: ratio(old, p, mask)),
        ("quotient of log-probs", "You divided log-probs; the ratio is exp of their difference.",
         lambda p, old, mask: torch.where(mask, p / old, 1.0)),
        ("quotient of probabilities", "exp(−120) rounds to 0, and 0/0 is NaN: subtract the log-probs"
         " first, then take one exp.", lambda p, old, mask: torch.where(mask, p.exp() / old.exp(), 1.0)),
        ("mask upside down", "You have 1 where the mask is True; it is to be 1 where it is False.",
         lambda p, old, mask: ratio(p, old, ~mask)),
        ("product of probabilities", "You added the log-probs; subtract the old ones.",
         lambda p, old, mask: torch.where(mask, (p + old).exp(), 1.0)),
        ("masked positions are 0", "Where the mask is False, the ratio should be 1, not 0.",
         lambda p, old, mask: torch.where(mask, (p - old).exp(), 0.0)),
        ("mask ignored", "Where the mask is False, the ratio should be 1.",
         lambda p, old, mask: (p - old).exp()),
        ("always 1", "Your ratio is 1 everywhere: are both log-probs the old ones?",
         lambda p, old, mask: torch.ones_like(p)),
        ("1 subtracted", "That is ρ − 1 (expm1); do not subtract 1.",
         lambda p, old, mask: torch.expm1(log_ratio(p, old, mask))),
        ("one ratio per sequence", "You multiplied the tokens' ratios; PPO has one ratio per token.",
         lambda p, old, mask: torch.where(
             mask, log_ratio(p, old, mask).sum(1, True).exp(), 1.0)),
        *(("clipped already", "You clipped the ratio; that is done later, in the loss.",
           lambda p, old, mask, low=low, high=high: ratio(p, old, mask).clamp(low, high))
          for low, high in ((0.8, 1.2), (0.9, 1.1), (0.7, 1.3), (0.5, 1.5), (0.0, 2.0), (0.0, 1.2), (0.8,
           9e9))),
        ("1 + log-ratio", "1 + log ρ is near ρ only where ρ is near 1; take exp of the difference.",
         lambda p, old, mask: 1 + log_ratio(p, old, mask)),
        ("absolute difference", "You took the difference without its sign, so that no ratio is below 1.",
         lambda p, old, mask: log_ratio(p, old, mask).abs().exp()),
        ("new probability alone", "That is π; divide it by π_old: subtract the old log-probs.",
         lambda p, old, mask: torch.where(mask, p.exp(), 1.0)),
        ("old probability alone", "That is π_old; the ratio is π/π_old.",
         lambda p, old, mask: torch.where(mask, old.exp(), 1.0)),
        ("difference of probabilities", "You subtracted probabilities; divide them: exp of the difference.",
         lambda p, old, mask: torch.where(mask, p.exp() - old.exp(), 1.0)),
        ("1 added", "You added 1 to the ratio.",
         lambda p, old, mask: torch.where(mask, 1 + ratio(p, old, mask), 1.0)),
        ("power of 2", "You have 2 to the difference; log-probs are natural: take exp.",
         lambda p, old, mask: 2 ** log_ratio(p, old, mask)),
        ("power of 10", "You have 10 to the difference; log-probs are natural: take exp.",
         lambda p, old, mask: 10 ** log_ratio(p, old, mask)),
        ("ratio squared", "You have ρ², as if the difference were doubled.",
         lambda p, old, mask: (2 * log_ratio(p, old, mask)).exp()),
        ("ratio's root", "You have √ρ, as if the difference were halved.",
         lambda p, old, mask: (log_ratio(p, old, mask) / 2).exp()),
        ("sigmoid for exp", "You took the sigmoid of the difference; take exp.",
         lambda p, old, mask: torch.where(mask, log_ratio(p, old, mask).sigmoid(), 1.0)),
        ("softmax for exp", "You took a softmax, so that the ratios of a row add up to 1; take exp.",
         lambda p, old, mask: torch.where(mask, (p - old).softmax(-1), 1.0)),
        ("one ratio per sequence", "You averaged the log-ratios of a response; PPO has one ratio per token.",
         lambda p, old, mask: torch.where(mask, (
             log_ratio(p, old, mask).sum(1, True) / mask.sum(1, True)).exp(), 1.0)),
        ("ratios multiplied so far", "You multiplied the ratios up to each token; PPO has one ratio per"
         " token.",
         lambda p, old, mask: torch.where(mask, log_ratio(p, old, mask).cumsum(1).exp(), 1.0)),
        ("ratio of the next token", "Your ratio is that of another column: one log-prob belongs to the next"
         " token.", lambda p, old, mask: torch.where(mask, (p.roll(-1, 1) - old).exp(), 1.0)),
        ("divided by the mean ratio", "You divided the ratios by their mean; take them as they are.",
         lambda p, old, mask: torch.where(
             mask, ratio(p, old, mask) / ratio(p, old, mask)[mask].mean(), 1.0)),
        ("divided by the mean ratio", "You divided the ratios by their mean; take them as they are.",
         lambda p, old, mask: ratio(p, old, mask) / ratio(p, old, mask)[mask].mean()),
        ("masked log-probs are 0", "You set masked log-probs to 0 in one of the two only; mask the"
         " difference, so that exp gives 1.",
         lambda p, old, mask: (torch.where(mask, p, 0.0) - old).exp()),
        ("masked log-probs are 0", "You set masked log-probs to 0 in one of the two only; mask the"
         " difference, so that exp gives 1.",
         lambda p, old, mask: (p - torch.where(mask, old, 0.0)).exp()),
        ("only counted ratios", "You return the counted ratios in one row; keep the shape [B, T], with 1"
         " where masked.", lambda p, old, mask: (p - old).exp()[mask]),
        ("the mean ratio", "You averaged the ratios; return one per token.",
         lambda p, old, mask: (p - old).exp()[mask].mean()),
    ],
    gradient=("logprobs",),
)


LET_IN = (
    "What the padding holds (numbers whose exp overflows, NaN or −inf) changes your result. A product with"
    " the mask does not keep it out: 0 · ∞ and 0 · NaN are NaN. Use torch.where(mask, x, 0.0), or x[mask]."
)
TOO_LATE = (
    "The numbers are correct, but with garbage in the padding the gradient of logprobs is not:"
    " replace what is masked (torch.where) before exp, not only after it."
)


def padding_kept_out(exercise, *cases):
    """A second look (`then`): neither result nor gradient of `logprobs` may depend on the padding."""

    def then(function):
        for given in cases:
            shown = [(label, show(x)) for label, x in exercise.named(given).items()]
            expected = exercise.reference(*copy_of(given))
            outcome = attempt(function, given, TIME_LIMIT)
            answer = as_tensor(outcome.value, expected)
            if answer is None or not alike(answer, expected):
                return "NaN in the padding", LET_IN, (*shown, *compare(answer, expected))
            slopes = attempt(backward(function, [0]), given, TIME_LIMIT).value
            wanted = backward(exercise.reference, [0])(*copy_of(given))
            if not slopes or slopes[0] is None or not alike(slopes[0], wanted[0]):
                got = slopes[0] if slopes else None
                spoilt = got is not None and bool(got.isnan().any())
                name = "NaN gradient" if spoilt else "wrong gradient"
                return name, TOO_LATE, (*shown, *compare(got, wanted[0], "gradient"))
        return None

    return then


def one_token(words: str, new: float, old: float) -> tuple:
    """A case of one token, for `case_by_case`."""
    return words, (floats([new]), floats([old]), prefix_mask(1, 1))


FAR_APART = (
    "wrong where the ratio is large",
    "Right for small changes, wrong where the ratio is large: is there a clamp, which also stops the"
    " gradient? Clipping is done later, in the loss.",
    (floats([-1.0, -1.0]), floats([-31.0, -1.5]), prefix_mask(2, 2)),
)
FARTHER = (*FAR_APART[:2], (floats([-1.0, -1.0]), floats([-81.0, -1.5]), prefix_mask(2, 2)))

HOLES = (
    "wrong for a mask with gaps",
    "Right where the counted tokens of a row stand first, wrong where padding stands before or between them.",
    (floats([-1.0, -2.0, -0.4], [-0.3, -1.0, -2.5]), floats([-1.5, -1.0, -0.5], [-0.9, -2.0, -2.0]),
     torch.tensor([[False, True, True], [True, False, True]])),
)  # fmt: skip


def passed(function):
    """All second looks at a ratio that passed."""
    further = also_on(RATIO, HOLES, FAR_APART, FARTHER, *sizes(BATCH))
    return padding_kept_out(RATIO, *SPOILT)(function) or further(function)


check_ratio = explained(
    checker(RATIO),
    then=passed,
    cause=one_of(
        RATIO,
        other_inputs(),
        result_changed,
        without_effect,
        case_by_case(
            one_token("the token became likelier (ρ > 1)", -1.0, -1.5),
            one_token("the token became less likely (ρ < 1)", -1.5, -1.0),
            one_token("nothing changed (ρ = 1)", -1.0, -1.0),
            one_token("ρ is large", -1.0, -9.0),
            one_token("ρ is near 0", -9.0, -1.0),
        ),
    ),
)
