"""Exercises of notebook 05: Bradley–Terry, its loss, normalised scores, accuracy on pairs."""

import math

import torch
from torch.nn.functional import logsigmoid

from helpers import reward_model
from helpers.checks.exercise import Exercise, noise
from helpers.checks.judge import checker

t = torch.tensor
FEW = (t([1.0, 0.0, 2.0]), t([0.0, 3.0, 1.5]))
MANY = (noise(1, 6), noise(2, 6))
FAR = (t([100.0, -60.0]), t([99.0, 60.0]))


def probability(score_a, score_b):
    """Chance that a is preferred."""
    return torch.sigmoid(score_a - score_b)


# fmt: off
PREFERENCE = Exercise(
    "preference_probability", "score_a score_b", probability,
    "P(a preferred) = sigmoid(score_a − score_b) (Bradley and Terry 1952; notebook 05)",
    [FEW, MANY, FAR],
    [
        ("reversed", "That is the chance of b; put score_a first.", lambda a, b: probability(b, a)),
        ("no sigmoid", "A difference of scores is not yet a probability: take its sigmoid.",
         lambda a, b: a - b),
        ("sum of scores", "You added the scores; only their difference matters.",
         lambda a, b: probability(a, -b)),
        ("sigmoid of the quotient", "You divided the scores; subtract them.",
         lambda a, b: torch.sigmoid(a / b)),
        ("share of the scores", "a/(a + b) needs exp(score) in place of the score.",
         lambda a, b: a / (a + b)),
        ("log-probability", "You took the logarithm as well; wanted is the probability.",
         lambda a, b: logsigmoid(a - b)),
        ("exp overflows", "exp(score) is infinite for large scores: use sigmoid of the difference.",
         lambda a, b: a.exp() / (a.exp() + b.exp())),
        ("softmax over the batch", "You compared the pairs with each other; compare a with b.",
         lambda a, b: (a - b).softmax(0)),
        ("difference of sigmoids", "Subtract first, then take the sigmoid.",
         lambda a, b: a.sigmoid() - b.sigmoid()),
        ("only one score", "You left out score_b.", lambda a, b: a.sigmoid()),
        ("hard decision", "You say who wins; wanted is how likely that is.",
         lambda a, b: (a > b).float()),
        ("averaged", "You averaged over the pairs; wanted is one chance for each.",
         lambda a, b: probability(a, b).mean()),
    ],
)

LOSS = Exercise(
    "bradley_terry_loss", "chosen rejected", reward_model.bradley_terry_loss,
    "−mean log sigmoid(chosen − rejected) (Stiennon et al. 2020, eq. 1; notebook 05)",
    [FEW, MANY, FAR],
    [
        ("log of the difference", "log of a negative difference does not exist: sigmoid first.",
         lambda c, r: -(c - r).log().mean()),
        ("reversed", "You reward the rejected answer: chosen comes first.",
         lambda c, r: reward_model.bradley_terry_loss(r, c)),
        ("minus sign missing", "A log-probability is below 0; the loss is its negative.",
         lambda c, r: logsigmoid(c - r).mean()),
        ("sigmoid without log", "You took −sigmoid; the likelihood has a logarithm.",
         lambda c, r: -probability(c, r).mean()),
        ("probability of the other", "1 − sigmoid is the chance of an error; the loss is −log.",
         lambda c, r: probability(r, c).mean()),
        ("hinge", "That is a hinge loss with margin 1, not Bradley–Terry.",
         lambda c, r: (1 - (c - r)).relu().mean()),
        ("difference only", "A bare difference never stops growing: take −log sigmoid of it.",
         lambda c, r: -(c - r).mean()),
        ("sum instead of mean", "You summed; divide by the number of pairs.",
         lambda c, r: -logsigmoid(c - r).sum()),
        ("not averaged", "You have a loss for each pair; wanted is their mean.",
         lambda c, r: -logsigmoid(c - r)),
        ("log of the mean", "You averaged the probabilities first; average the logarithms.",
         lambda c, r: -probability(c, r).mean().log()),
        ("difference of the means", "You averaged the scores first: pairs are no longer compared.",
         lambda c, r: -logsigmoid(c.mean() - r.mean())),
        ("log of a vanished probability", "For a large difference sigmoid rounds to 0 (and exp to"
         " infinity), so the logarithm is infinite. Use logsigmoid.",
         lambda c, r: -probability(c, r).log().mean()),
        ("base 2", "That is bits; the field counts in nats (natural logarithm).",
         lambda c, r: -logsigmoid(c - r).mean() / math.log(2)),
        ("log-sigmoids subtracted", "Subtract the scores first, then one log sigmoid.",
         lambda c, r: -(logsigmoid(c) - logsigmoid(r)).mean()),
        ("squared error", "Scores have no target of their own; only their order is known.",
         lambda c, r: (c - r).square().mean()),
    ],
    gradient=("chosen", "rejected"),
)


def normalize(scores, reference_scores):
    """Scores in standard deviations of the reference's, from the reference's mean."""
    return (scores - reference_scores.mean()) / reference_scores.std()


NORMALIZE = Exercise(
    "normalize_scores", "scores reference_scores", normalize,
    "(scores − mean_ref)/std_ref, unbiased std, both of the reference (notebook 05)",
    [(t([1.0, 4.0]), t([2.0, 3.0, 7.0])), (noise(3, 5) + 1, 2 * noise(4, 8) - 1)],
    [
        ("own statistics", "You used the mean and std of `scores`: any progress would vanish.",
         lambda s, ref: normalize(s, s)),
        ("own mean", "The std is the reference's, the mean is not.",
         lambda s, ref: (s - s.mean()) / ref.std()),
        ("own std", "The mean is the reference's, the std is not.",
         lambda s, ref: (s - ref.mean()) / s.std()),
        ("variance instead of std", "You divided by the variance; divide by its root.",
         lambda s, ref: (s - ref.mean()) / ref.var()),
        ("mean not subtracted", "You only divided; subtract the reference's mean first.",
         lambda s, ref: s / ref.std()),
        ("std missing", "You only subtracted the mean; divide by the std as well.",
         lambda s, ref: s - ref.mean()),
        ("mean subtracted last", "Divide the difference: (scores − mean)/std needs its brackets.",
         lambda s, ref: s - ref.mean() / ref.std()),
        ("mean subtracted after dividing", "Subtract the mean first, then divide by the std.",
         lambda s, ref: s / ref.std() - ref.mean()),
        ("mean added", "You added the mean; subtract it.",
         lambda s, ref: (s + ref.mean()) / ref.std()),
        ("biased std", "You divided by n inside the std; unbiased is n − 1.",
         lambda s, ref: (s - ref.mean()) / ref.std(unbiased=False)),
        ("multiplied by std", "You multiplied by the std; divide by it.",
         lambda s, ref: (s - ref.mean()) * ref.std()),
        ("reference normalised", "You normalised the reference; wanted are the `scores`.",
         lambda s, ref: normalize(ref, ref)),
        ("statistics of both", "You pooled both; the reference alone sets the scale.",
         lambda s, ref: normalize(s, torch.cat([s, ref]))),
        ("minimum and maximum", "You scaled to the range of the reference; use mean and std.",
         lambda s, ref: (s - ref.min()) / (ref.max() - ref.min())),
    ],
)


def accuracy(chosen, rejected):
    """`reward_model.pair_accuracy` of scores that are already there."""
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
        ("tie counts fully", "With >= a tie counts as a success; it is a coin toss: half.",
         lambda c, r: (c >= r).float().mean()),
        ("tie counts nothing", "With > a tie counts as a failure; it is a coin toss: half.",
         lambda c, r: (c > r).float().mean()),
        ("tie left out", "You dropped the ties; each counts half.",
         lambda c, r: (c > r)[c != r].float().mean()),
        ("reversed", "You counted where the rejected one is higher.",
         lambda c, r: 1 - accuracy(c, r)),
        ("all against all", "You compared every chosen with every rejected; only pairs count.",
         lambda c, r: (((c[:, None] > r).float() + (c[:, None] >= r).float()) / 2).mean()),
        ("count instead of share", "You counted; divide by the number of pairs.",
         lambda c, r: accuracy(c, r) * len(c)),
        ("percent", "Wanted is a share between 0 and 1.", lambda c, r: 100 * accuracy(c, r)),
        ("mean probability", "You averaged chances; accuracy counts who is higher.",
         lambda c, r: probability(c, r).mean()),
        ("above zero", "You asked whether chosen > 0; compare it with rejected.",
         lambda c, r: (c > 0).float().mean()),
        ("mean difference", "You averaged the differences; count their signs.",
         lambda c, r: (c - r).mean()),
        ("mean sign", "You averaged signs, from −1 to 1; the share is (1 + that)/2.",
         lambda c, r: (c - r).sign().mean()),
        ("not averaged", "You have a result for each pair; wanted is their mean.",
         lambda c, r: ((c - r).sign() + 1) / 2),
    ],
)
# fmt: on

check_preference_probability, check_bradley_terry_loss = checker(PREFERENCE), checker(LOSS)
check_normalize_scores, check_pair_accuracy = checker(NORMALIZE), checker(ACCURACY)
