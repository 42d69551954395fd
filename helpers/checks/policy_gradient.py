"""Exercise of notebook 04: the policy gradient of a few words (Williams 1992)."""

import torch

from helpers.checks.exercise import Exercise, noise
from helpers.checks.judge import checker
from helpers.checks.raised import Expected, explained


def drawn_gain(value, reduce=torch.mean, sign=-1.0):
    """Loss of drawn words: −mean(value(logits)[words]·advantages), or another reduction."""
    return lambda logits, words, advantages: sign * reduce(value(logits)[words] * advantages)


def log_softmax(logits):
    """Log-probs of a vector of logits."""
    return logits.log_softmax(-1)


# fmt: off
REINFORCE = Exercise(
    "reinforce_loss", "logits words advantages", drawn_gain(log_softmax),
    "−mean of A·log π(w) over the words drawn (Williams 1992; notebook 04)",
    [
        (torch.tensor([1.0, 0.0, -1.0]), torch.tensor([0, 2]), torch.tensor([2.0, 1.0])),
        (noise(10, 5), torch.tensor([4, 0, 0, 2, 1, 4]), noise(11, 6)),
        (2 * noise(12, 4) + 1, torch.tensor([3]), torch.tensor([-1.5])),
    ],
    [
        ("minus sign missing", "The optimizer goes downhill: the loss is minus the mean.",
         drawn_gain(log_softmax, sign=1.0)),
        ("probabilities", "You weighed π(w). The words were drawn by π already; take log π(w).",
         drawn_gain(lambda z: z.softmax(-1))),
        ("raw logits", "Logits are not log-probs: apply log_softmax first.", drawn_gain(lambda z: z)),
        ("sum instead of mean", "You summed over the words drawn; take the mean.",
         drawn_gain(log_softmax, torch.sum)),
        ("log of the logits' exp alone", "You did not divide by Σ exp; use log_softmax.",
         drawn_gain(lambda z: z - z.exp().sum())),
        ("not averaged", "You return a number for each word drawn; return their mean.",
         drawn_gain(log_softmax, lambda x: x)),
        ("advantages left out", "You left the advantages out: every word drawn would become likelier.",
         lambda z, w, a: -log_softmax(z)[w].mean()),
        ("words ignored", "You averaged log π over all words; take the log π of the words drawn.",
         lambda z, w, a: -(log_softmax(z).mean() * a).mean()),
        ("weighed by π as well", "You multiplied by π(w): words drawn come with that weight already.",
         drawn_gain(lambda z: z.softmax(-1) * log_softmax(z))),
        ("advantages centred", "Take the advantages as they are; you subtracted their mean.",
         lambda z, w, a: drawn_gain(log_softmax)(z, w, a - a.mean())),
        ("means multiplied", "You multiplied two means; multiply each word's log π by its own A first.",
         lambda z, w, a: -log_softmax(z)[w].mean() * a.mean()),
        ("divided by the number of words there are", "You divided by the size of the vocabulary; divide"
         " by the number of words drawn.",
         lambda z, w, a: drawn_gain(log_softmax, torch.sum)(z, w, a) / len(z)),
        ("divided by Σ A", "You divided by the sum of the advantages; divide by how many words were"
         " drawn.", lambda z, w, a: drawn_gain(log_softmax, torch.sum)(z, w, a) / a.sum()),
    ],
    gradient=("logits",),
)
# fmt: on
PICKED = Expected(
    "out of bounds",
    "advantages indexed by the words",
    "You took advantages[words]. There is one advantage for each word drawn, in their order: index the"
    " log-probs by the words, and the advantages not at all.",
)
check_reinforce_loss = explained(checker(REINFORCE), (PICKED,))
