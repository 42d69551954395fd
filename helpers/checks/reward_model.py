"""Exercises of notebook 05: Bradley–Terry, its loss, normalised scores, accuracy on pairs."""

import math
from collections.abc import Callable

import torch
from torch.nn.functional import logsigmoid

from helpers import reward_model
from helpers.checks.compare import alike, as_tensor
from helpers.checks.exercise import Exercise, noise
from helpers.checks.judge import checker
from helpers.checks.raised import explained
from helpers.checks.report import Report
from helpers.checks.runner import copy_of

t = torch.tensor
FEW = (t([1.0, 0.0, 2.0]), t([0.0, 3.0, 1.5]))
MANY = (noise(1, 6), noise(2, 6))
FAR = (t([100.0, -60.0]), t([99.0, 60.0]))


def probability(score_a, score_b):
    """P(a is preferred)."""
    return torch.sigmoid(score_a - score_b)


# fmt: off
PREFERENCE = Exercise(
    "preference_probability", "score_a score_b", probability,
    "P(a preferred) = sigmoid(score_a − score_b) (Bradley and Terry 1952; notebook 05)",
    [FEW, MANY, FAR],
    [
        ("reversed", "That is P(b preferred); put score_a first.", lambda a, b: probability(b, a)),
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
        ("averaged", "You averaged over the pairs; return one probability per pair.",
         lambda a, b: probability(a, b).mean()),
    ],
)

LOSS = Exercise(
    "bradley_terry_loss", "chosen rejected", reward_model.bradley_terry_loss,
    "−mean log sigmoid(chosen − rejected) (Stiennon et al. 2020, eq. 1; notebook 05)",
    [FEW, MANY, FAR],
    [
        ("log of the difference", "The log of a negative number is NaN: take the sigmoid first.",
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
    ],
    gradient=("chosen", "rejected"),
)


def normalize(scores, reference_scores):
    """(scores − mean)/std, with mean and std of the reference scores."""
    return (scores - reference_scores.mean()) / reference_scores.std()


NORMALIZE = Exercise(
    "normalize_scores", "scores reference_scores", normalize,
    "(scores − mean_ref)/std_ref, unbiased std, both of the reference (notebook 05)",
    [(t([1.0, 4.0]), t([2.0, 3.0, 7.0])), (noise(3, 5) + 1, 2 * noise(4, 8) - 1)],
    [
        ("own statistics", "You used mean and std of `scores`, which hides any progress; use those"
         " of the reference.",
         lambda s, ref: normalize(s, s)),
        ("own mean", "You used the mean of `scores`; use the reference's.",
         lambda s, ref: (s - s.mean()) / ref.std()),
        ("own std", "You used the std of `scores`; use the reference's.",
         lambda s, ref: (s - ref.mean()) / s.std()),
        ("variance instead of std", "You divided by the variance; divide by its square root.",
         lambda s, ref: (s - ref.mean()) / ref.var()),
        ("mean not subtracted", "You only divided; subtract the reference's mean first.",
         lambda s, ref: s / ref.std()),
        ("std missing", "You only subtracted the mean; divide by the std as well.",
         lambda s, ref: s - ref.mean()),
        ("mean subtracted last", "Divide the difference: (scores − mean)/std needs the brackets.",
         lambda s, ref: s - ref.mean() / ref.std()),
        ("mean subtracted after dividing", "Subtract the mean first, then divide by the std.",
         lambda s, ref: s / ref.std() - ref.mean()),
        ("mean added", "You added the mean; subtract it.",
         lambda s, ref: (s + ref.mean()) / ref.std()),
        ("biased std", "You divided by n inside the std; the unbiased std divides by n − 1.",
         lambda s, ref: (s - ref.mean()) / ref.std(unbiased=False)),
        ("multiplied by std", "You multiplied by the std; divide by it.",
         lambda s, ref: (s - ref.mean()) * ref.std()),
        ("reference normalised", "You normalised the reference scores; normalise `scores`.",
         lambda s, ref: normalize(ref, ref)),
        ("statistics of both", "You used the statistics of both; use only the reference's.",
         lambda s, ref: normalize(s, torch.cat([s, ref]))),
        ("minimum and maximum", "You used minimum and maximum of the reference; use mean and std.",
         lambda s, ref: (s - ref.min()) / (ref.max() - ref.min())),
    ],
)


def accuracy(chosen, rejected):
    """`reward_model.pair_accuracy` of given scores."""
    scored = iter([chosen, rejected])
    pairs = [{"prompt": "", "chosen": "", "rejected": ""}] * len(chosen)
    return t(reward_model.pair_accuracy(lambda texts: next(scored), pairs))


ACCURACY = Exercise(
    "pair_accuracy", "chosen rejected", accuracy,
    "share of pairs with chosen > rejected, a tie counts half (notebook 05)",
    [
        (t([1.0, 0.0, 2.0, -1.0, 3.0]), t([0.0, 3.0, 2.0, -2.0, 1.0])),
        (t([0.5, 0.5, -1.0, 2.0, 0.0, 1.0, -3.0]), t([0.5, 0.5, -2.0, 3.0, 4.0, 0.0, -1.0])),
    ],
    [
        ("tie counts fully", "With >= a tie counts as 1; it should count 1/2.",
         lambda c, r: (c >= r).float().mean()),
        ("tie counts nothing", "With > a tie counts as 0; it should count 1/2.",
         lambda c, r: (c > r).float().mean()),
        ("tie left out", "You left out the ties; each should count 1/2.",
         lambda c, r: (c > r)[c != r].float().mean()),
        ("reversed", "You counted the pairs in which rejected is higher.",
         lambda c, r: 1 - accuracy(c, r)),
        ("all against all", "You compared every chosen with every rejected; compare within pairs.",
         lambda c, r: (((c[:, None] > r).float() + (c[:, None] >= r).float()) / 2).mean()),
        ("count instead of share", "You counted; divide by the number of pairs.",
         lambda c, r: accuracy(c, r) * len(c)),
        ("percent", "Return a share between 0 and 1, not percent.", lambda c, r: 100 * accuracy(c, r)),
        ("mean probability", "You averaged probabilities; count the pairs with chosen > rejected.",
         lambda c, r: probability(c, r).mean()),
        ("above zero", "You tested chosen > 0; compare chosen with rejected.",
         lambda c, r: (c > 0).float().mean()),
        ("mean difference", "You averaged the differences; count the positive ones.",
         lambda c, r: (c - r).mean()),
        ("mean sign", "You averaged signs, from −1 to 1; the share is (1 + that)/2.",
         lambda c, r: (c - r).sign().mean()),
        ("not averaged", "You return a result for each pair; return their mean.",
         lambda c, r: ((c - r).sign() + 1) / 2),
    ],
)
# fmt: on


def limited(exercise: Exercise) -> Callable:
    """Cause of wrong numbers: a clamp or a small ε, which shows at scores far apart alone."""

    def cause(function: Callable, report: Report) -> tuple[str, str] | None:
        def fits(given: tuple) -> bool:
            expected = exercise.reference(*copy_of(given))
            return alike(as_tensor(function(*copy_of(given)), expected), expected)

        near = [probe for probe in exercise.probes if probe is not FAR]
        if report.mistake != "unrecognised":
            return None
        if not all(map(fits, near)):
            return None
        return "clamped, or a small ε added", (
            "Right where the scores are near each other, wrong where they are far apart. A clamp, or a small"
            " number that is added so that nothing overflows, changes the result there (and a clamp stops the"
            " gradient). One function of torch needs neither."
        )

    return cause


check_preference_probability = explained(checker(PREFERENCE), cause=limited(PREFERENCE))
check_bradley_terry_loss = explained(checker(LOSS), cause=limited(LOSS))
check_normalize_scores, check_pair_accuracy = checker(NORMALIZE), checker(ACCURACY)
