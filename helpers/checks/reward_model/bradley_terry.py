"""Exercises of notebook 05: the Bradley–Terry probability and its loss."""

import math
from collections.abc import Callable

import torch
from torch.nn.functional import logsigmoid

from helpers import reward_model
from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.compare import alike, as_tensor
from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.extra_term import with_a_term
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.report import Report
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect

t = torch.tensor
FEW = (t([1.0, 0.0, 2.0]), t([0.0, 3.0, 1.5]))
MANY = (noise(1, 9), noise(2, 9))
FAR = (t([100.0, -60.0, 70.0]), t([99.0, 60.0, -50.0]))


def probability(score_a, score_b):
    """P(a is preferred)."""
    return torch.sigmoid(score_a - score_b)


# fmt: off
PREFERENCE = Exercise(
    "preference_probability", "score_a score_b", probability,
    "P(a preferred) = sigmoid(score_a − score_b) (Bradley and Terry 1952; notebook 05)",
    [FEW, MANY, FAR],
    [
        ("reversed", "That is P(b preferred): asked for is P(a preferred).", lambda a, b: probability(b, a)),
        ("no sigmoid", "A difference of scores is not a probability: take its sigmoid.",
         lambda a, b: a - b),
        ("sum of scores", "You added the scores; only their difference matters.",
         lambda a, b: probability(a, -b)),
        ("sigmoid of the quotient", "You divided the scores; subtract them.",
         lambda a, b: torch.sigmoid(a / b)),
        ("share of the scores", "a/(a + b) would need exp(score) instead of the scores.",
         lambda a, b: a / (a + b)),
        ("log-probability", "You returned log P; return P.",
         lambda a, b: logsigmoid(a - b)),
        ("exp overflows", "exp(score) is infinite for large scores: use sigmoid of the difference.",
         lambda a, b: a.exp() / (a.exp() + b.exp())),
        ("softmax over the batch", "You compared the pairs with each other; compare a with b.",
         lambda a, b: (a - b).softmax(0)),
        ("difference of sigmoids", "Subtract first, then take the sigmoid.",
         lambda a, b: a.sigmoid() - b.sigmoid()),
        ("only one score", "You left out score_b.", lambda a, b: a.sigmoid()),
        ("hard decision", "You returned the winner (0 or 1); return a probability.",
         lambda a, b: (a > b).float()),
        ("odds", "exp(difference) is the odds of a against b; the chance is odds/(1 + odds).",
         lambda a, b: (a - b).exp()),
        ("odds that overflow", "exp(score) is infinite for large scores, and a quotient of two is the odds;"
         " the chance is odds/(1 + odds).", lambda a, b: a.exp() / b.exp()),
        ("both chances", "You return the chance of a and that of b; return a's alone: [0].",
         lambda a, b: torch.stack([a, b]).softmax(0)),
        ("both chances, a column each", "You return the chance of a and that of b; return a's: [:, 0].",
         lambda a, b: torch.stack([a, b], 1).softmax(1)),
        ("the chance of the better one", "You took the size of the difference: that is the chance of the"
         " better of the two, whichever it is. Keep its sign: a − b.",
         lambda a, b: torch.sigmoid((a - b).abs())),
        ("Elo's scale", "That is Elo's scale (powers of 10, 400 points); here it is sigmoid(a − b).",
         lambda a, b: 1 / (1 + 10 ** ((b - a) / 400))),
        ("powers of 10", "You took powers of 10; the sigmoid has powers of e.",
         lambda a, b: 1 / (1 + 10 ** (b - a))),
        ("powers of 2", "You took powers of 2; the sigmoid has powers of e.",
         lambda a, b: 1 / (1 + 2 ** (b - a))),
        ("normal distribution", "That is the normal distribution function (Thurstone's model);"
         " Bradley–Terry has the sigmoid.", lambda a, b: torch.special.ndtr(a - b)),
        ("normal distribution", "That is the normal distribution function (Thurstone's model);"
         " Bradley–Terry has the sigmoid.", lambda a, b: torch.special.ndtr((a - b) / 2**0.5)),
        ("arctangent", "You bent the difference by an arctangent; take its sigmoid.",
         lambda a, b: 0.5 + (a - b).atan() / math.pi),
        ("tanh", "tanh lies between −1 and 1; a probability is the sigmoid of the difference.",
         lambda a, b: (a - b).tanh()),
        ("a straight line", "You clamped a line between 0 and 1; take the sigmoid of the difference.",
         lambda a, b: (0.5 + (a - b) / 2).clamp(0, 1)),
        ("a straight line", "You clamped the difference between 0 and 1; take its sigmoid.",
         lambda a, b: (a - b).clamp(0, 1)),
        ("a straight line", "You clamped a line between 0 and 1; take the sigmoid of the difference.",
         lambda a, b: (0.5 + (a - b) / 4).clamp(0, 1)),
        ("half a difference", "You halved the difference; take the sigmoid of a − b.",
         lambda a, b: torch.sigmoid((a - b) / 2)),
        ("twice the difference", "You doubled the difference; take the sigmoid of a − b.",
         lambda a, b: torch.sigmoid(2 * (a - b))),
        ("sigmoid of the product", "You multiplied the scores; subtract them.",
         lambda a, b: torch.sigmoid(a * b)),
        ("share of the sigmoids", "You took each score's sigmoid, then a share; subtract the scores, then one"
         " sigmoid.", lambda a, b: a.sigmoid() / (a.sigmoid() + b.sigmoid())),
        ("sigmoids multiplied", "Subtract the scores first, then take one sigmoid.",
         lambda a, b: a.sigmoid() * (1 - b.sigmoid())),
        ("only one score", "You left out score_a.", lambda a, b: b.sigmoid()),
        ("only one score", "You left out score_a.", lambda a, b: (-b).sigmoid()),
        ("hard decision", "You returned the winner (0 or 1); return a probability.",
         lambda a, b: (a >= b).float()),
        ("hard decision", "You returned the winner (0, ½ or 1); return a probability.",
         lambda a, b: ((a - b).sign() + 1) / 2),
        ("hard decision", "You rounded the probability; return it as it is.",
         lambda a, b: probability(a, b).round()),
        ("every a against every b", "[N, 1] less [N] is [N, N]: every a against every b. Compare within"
         " pairs.",
         lambda a, b: probability(a[:, None], b)),
        ("compared with the mean", "You subtracted a mean over the pairs from the difference; compare"
         " a with its b.",
         lambda a, b: torch.sigmoid(a - b - (a - b).mean())),
        ("averaged", "You averaged over the pairs; return one probability per pair.",
         lambda a, b: probability(a, b).mean()),
    ],
)

LOSS = Exercise(
    "bradley_terry_loss", "chosen rejected", reward_model.bradley_terry_loss,
    "−mean log sigmoid(chosen − rejected) (Stiennon et al. 2020, eq. 1; notebook 05)",
    [FEW, MANY, FAR],
    [
        ("always NaN", "Your result is NaN: a difference, or a score, may be negative, and has no"
         " logarithm then. Take the sigmoid of the difference first.",
         lambda c, r: -(c - r).log().mean()),
        ("reversed", "You have rejected − chosen; use chosen − rejected.",
         lambda c, r: reward_model.bradley_terry_loss(r, c)),
        ("minus sign missing", "The loss is minus the log-probability.",
         lambda c, r: logsigmoid(c - r).mean()),
        ("sigmoid without log", "You took −sigmoid; take −log sigmoid.",
         lambda c, r: -probability(c, r).mean()),
        ("probability of the other", "You have 1 − sigmoid; the loss is −log sigmoid.",
         lambda c, r: probability(r, c).mean()),
        ("hinge", "That is a hinge loss with margin 1, not Bradley–Terry.",
         lambda c, r: (1 - (c - r)).relu().mean()),
        ("difference only", "You used only the difference, which has no limit: take −log sigmoid.",
         lambda c, r: -(c - r).mean()),
        ("sum instead of mean", "You summed; divide by the number of pairs.",
         lambda c, r: -logsigmoid(c - r).sum()),
        ("not averaged", "You return a loss for each pair; return their mean.",
         lambda c, r: -logsigmoid(c - r)),
        ("log of the mean", "You averaged the probabilities first; average the logarithms.",
         lambda c, r: -probability(c, r).mean().log()),
        ("difference of the means", "You averaged the scores first; compare each pair, then average.",
         lambda c, r: -logsigmoid(c.mean() - r.mean())),
        ("log of a vanished probability", "For a large difference, sigmoid rounds to 0 (or exp to"
         " infinity), and the logarithm is infinite. Use logsigmoid.",
         lambda c, r: -probability(c, r).log().mean()),
        ("base 2", "Your result is in bits; use nats (natural logarithm).",
         lambda c, r: -logsigmoid(c - r).mean() / math.log(2)),
        ("log-sigmoids subtracted", "Subtract the scores first, then take log sigmoid once.",
         lambda c, r: -(logsigmoid(c) - logsigmoid(r)).mean()),
        ("every chosen against every rejected", "[N, 1] less [N] is [N, N]: every chosen against every"
         " rejected. Compare within pairs.", lambda c, r: -logsigmoid(c[:, None] - r).mean()),
        ("squared error", "You squared the difference; the labels give only an order, no target.",
         lambda c, r: (c - r).square().mean()),
        ("squared error", "You squared the difference's distance from 1; the labels give only an order, no"
         " target.", lambda c, r: (c - r - 1).square().mean()),
        ("squared error", "You squared the difference's distance from 1; the labels give only an order, no"
         " target.", lambda c, r: (1 - (c - r)).square().mean() / 2),
        ("squared error of the probability", "You squared 1 − P (a Brier score); the loss is −log P.",
         lambda c, r: probability(r, c).square().mean()),
        ("margin of 0", "You took max(0, rejected − chosen), a hinge; the loss is −log sigmoid.",
         lambda c, r: (r - c).relu().mean()),
        ("squared hinge", "That is a squared hinge loss, not Bradley–Terry.",
         lambda c, r: (1 - (c - r)).relu().square().mean()),
        ("exponential loss", "That is exp(−difference), without the log(1 + …).",
         lambda c, r: (r - c).exp().mean()),
        ("a margin", "You subtracted a margin of 1 from the difference; Bradley–Terry has none.",
         lambda c, r: -logsigmoid(c - r - 1).mean()),
        ("rejected ignored", "The rejected score is left out; take sigmoid of chosen − rejected.",
         lambda c, r: -logsigmoid(c).mean()),
        ("chosen ignored", "The chosen score is left out; take sigmoid of chosen − rejected.",
         lambda c, r: -logsigmoid(-r).mean()),
        ("chosen ignored", "The chosen score is left out; take sigmoid of chosen − rejected.",
         lambda c, r: -logsigmoid(r).mean()),
        ("each score on its own", "You took log sigmoid of each score (right or wrong, one text at a"
         " time); only the difference is known.", lambda c, r: -(logsigmoid(c) + logsigmoid(-r)).mean()),
        ("each score on its own", "You took log sigmoid of each score (right or wrong, one text at a"
         " time); only the difference is known.", lambda c, r: -(logsigmoid(c) + logsigmoid(-r)).mean() / 2),
        ("sum of scores", "You added the scores; only their difference matters.",
         lambda c, r: -logsigmoid(c + r).mean()),
        ("absolute difference", "You took the size of the difference: a wrongly ranked pair would cost"
         " as little as a right one. Keep its sign.", lambda c, r: -logsigmoid((c - r).abs()).mean()),
        ("softmax over the batch", "Your softmax is over the pairs; it is over the two texts of a pair.",
         lambda c, r: -(c - r).log_softmax(0).mean()),
        ("softmax over the batch", "Your softmax is over the pairs; it is over the two texts of a pair.",
         lambda c, r: -c.log_softmax(0).mean()),
        ("softmax over the batch", "Your softmax is over all texts; it is over the two texts of a pair.",
         lambda c, r: -torch.cat([c, r]).log_softmax(0)[: len(c)].mean()),
        ("softmax over the batch", "Your softmax is over all texts; it is over the two texts of a pair.",
         lambda c, r: -torch.cat([c, r]).log_softmax(0)[: len(c)].sum()),
        ("each chosen against all rejected", "You set each chosen score against all rejected ones;"
         " against that of its own pair.", lambda c, r: -(c - torch.cat(
             [c[:, None], r.expand(len(c), len(r))], 1).logsumexp(1)).mean()),
        ("only the pairs ranked wrong", "You counted only the pairs that are ranked wrong; every pair"
         " counts.",
         lambda c, r: -logsigmoid(c - r)[c < r].mean()),
        ("only the pairs ranked wrong", "You counted only the pairs that are ranked wrong; every pair"
         " counts.",
         lambda c, r: (-logsigmoid(c - r) * (c < r)).mean()),
        ("differences above 0 cut off", "You cut the differences off at 0, so that all pairs ranked right"
         " cost the same, ln 2; take them as they are.",
         lambda c, r: -logsigmoid((c - r).clamp(max=0)).mean()),
        ("only the pairs ranked right", "You counted only the pairs that are ranked right; every pair"
         " counts.",
         lambda c, r: -logsigmoid(c - r)[c > r].mean()),
        ("differences below 0 cut off", "You cut the differences off at 0, so that all pairs ranked wrong"
         " cost the same, ln 2; take them as they are.",
         lambda c, r: -logsigmoid((c - r).clamp(min=0)).mean()),
        ("median of the pairs", "You took the median over the pairs; take the mean.",
         lambda c, r: -logsigmoid(c - r).median()),
        ("largest of the pairs", "You took the largest loss; take the mean.",
         lambda c, r: -logsigmoid(c - r).min()),
        ("smallest of the pairs", "You took the smallest loss; take the mean.",
         lambda c, r: -logsigmoid(c - r).max()),
        ("one pair alone", "You took one pair's loss; take the mean.", lambda c, r: -logsigmoid(c - r)[0]),
        ("one pair alone", "You took one pair's loss; take the mean.", lambda c, r: -logsigmoid(c - r)[-1]),
        ("divided by n − 1", "You divided by n − 1; a mean divides by n.",
         lambda c, r: -logsigmoid(c - r).sum() / (len(c) - 1)),
        ("half the loss", "Your loss is half of the right one: is it divided by 2n, the number of texts?"
         " Divide by that of pairs.",
         lambda c, r: -logsigmoid(c - r).mean() / 2),
        ("half a difference", "You halved the difference; take it as it is.",
         lambda c, r: -logsigmoid((c - r) / 2).mean()),
        ("twice the difference", "You doubled the difference; take it as it is.",
         lambda c, r: -logsigmoid(2 * (c - r)).mean()),
        ("weighed by the probability", "You multiplied −log P by P (an entropy); average −log P as it is.",
         lambda c, r: -(probability(c, r) * logsigmoid(c - r)).mean()),
        ("weighed by 1 − P", "You weighed the pairs by 1 − P (a focal loss); average −log P as it is.",
         lambda c, r: -(probability(r, c) * logsigmoid(c - r)).mean()),
        ("weighed by (1 − P)²", "You weighed the pairs by 1 − P (a focal loss); average −log P as it is.",
         lambda c, r: -(probability(r, c).square() * logsigmoid(c - r)).mean()),
        ("entropy of the pair", "That is the entropy of P; the loss is −log P of the chosen one.",
         lambda c, r: -(probability(c, r) * logsigmoid(c - r) + probability(r, c) * logsigmoid(r -
          c)).mean()),
        ("both orders added", "You added the loss of rejected over chosen, too.",
         lambda c, r: -(logsigmoid(c - r) + logsigmoid(r - c)).mean()),
        ("log of 1 + P", "log(1 + …) belongs around exp(−difference), not around the probability.",
         lambda c, r: (1 + probability(r, c)).log().mean()),
        ("log of a sigmoid of a sigmoid", "You took the sigmoid twice.",
         lambda c, r: -logsigmoid(probability(c, r)).mean()),
        ("log of a sigmoid of a sigmoid", "Subtract the scores themselves, not their sigmoids.",
         lambda c, r: -logsigmoid(c.sigmoid() - r.sigmoid()).mean()),
        ("variance of the losses", "You took a variance; take the mean.",
         lambda c, r: logsigmoid(c - r).var()),
    ],
    gradient=("chosen", "rejected"),
)
# fmt: on


def limited(exercise: Exercise) -> Callable:
    """Cause of wrong numbers that are right for small scores."""

    def cause(function: Callable, report: Report) -> tuple[str, str] | None:
        def fits(given: tuple) -> bool:
            expected = exercise.reference(*copy_of(given))
            return alike(as_tensor(function(*copy_of(given)), expected), expected)

        near = [probe for probe in exercise.probes if probe is not FAR]
        if report.mistake not in ("unrecognised", "NaN or infinite"):
            return None
        if not all(map(fits, near)):
            return None
        if report.mistake == "NaN or infinite":
            return "wrong for large scores", (
                "Right for small scores, not finite where they are large, or far apart: does an exp or a"
                " product leave what a float32 holds, or round to 0? One function of torch takes the"
                " difference as it is."
            )
        return "wrong for large scores", (
            "Right for small scores, wrong where they are large, or far apart. Is something clamped, or a"
            " small number added, so that nothing overflows? That changes the result there (and a clamp stops"
            " the gradient). One function of torch needs neither."
        )

    return cause


def first_of(*causes: Callable) -> Callable:
    """The first of these causes that finds something."""

    def cause(function: Callable, report: Report) -> tuple[str, str] | None:
        return next((found for look in causes if (found := look(function, report))), None)

    return cause


def one_pair(words: str, first: float, second: float) -> tuple:
    """A case of one pair, for `case_by_case`."""
    return words, (t([first]), t([second]))


ONE_BY_ONE = case_by_case(
    one_pair("the first score is higher", 1.5, 0.2),
    one_pair("the second score is higher", 0.2, 1.5),
    one_pair("the scores are equal", 0.7, 0.7),
    one_pair("both are negative", -1.5, -0.2),
    one_pair("the scores are far apart", 90.0, -30.0),
    one_pair("the second is far higher", -30.0, 90.0),
    ("there are two pairs", (t([1.0, -0.5]), t([0.3, 0.8]))),
)
PENALTIES = {
    "the loss of the other order, less the loss (smoothed labels)": lambda c, r: (c - r).mean(),
    "the mean square of the scores": lambda c, r: (c.square() + r.square()).mean(),
    "the squared sum of the pair's scores": lambda c, r: (c + r).square().mean(),
    "the squared difference": lambda c, r: (c - r).square().mean(),
    "the chosen scores' squares": lambda c, r: c.square().mean(),
    "the rejected scores' squares": lambda c, r: r.square().mean(),
    "the squared mean of the scores": lambda c, r: torch.cat([c, r]).mean().square(),
    "the scores' mean size": lambda c, r: (c.abs() + r.abs()).mean(),
    "the sum of all squares": lambda c, r: (c.square() + r.square()).sum(),
}
LARGE_SCORES = (
    "wrong for large scores",
    "Right for smaller scores, wrong for scores like 300: is an exp or a product larger than a float32 holds,"
    " or so small that it rounds to 0, or is something clamped? One function of torch takes the difference as"
    " it is.",
    (t([300.0, -250.0, 0.0]), t([0.0, 100.0, 0.0])),
)
check_preference_probability = explained(
    checker(PREFERENCE),
    then=also_on(PREFERENCE, LARGE_SCORES, *sizes(MANY, token=False)),
    cause=first_of(
        limited(PREFERENCE),
        one_of(PREFERENCE, other_inputs(), result_changed, without_effect, ONE_BY_ONE),
    ),
)
check_bradley_terry_loss = explained(
    checker(LOSS),
    then=also_on(LOSS, LARGE_SCORES, *sizes(MANY, token=False)),
    cause=first_of(
        limited(LOSS),
        one_of(
            LOSS,
            with_a_term(PENALTIES), other_inputs(), result_changed, without_effect, ONE_BY_ONE,
        ),
    ),
)  # fmt: skip
