"""Exercises of lesson 05: Bradley–Terry's probability and loss, accuracy, the scale of scores; the fit."""

import torch

from helpers.kit.exercise import noise, sizes
from helpers.kit.judge import exercise
from helpers.lessons.reward_model.fit import check_fit_pairs  # noqa: F401 (the lesson takes all from here)

t = torch.tensor
FEW = (t([1.0, 0.0, 2.0]), t([0.0, 3.0, 1.5]))
MANY = (noise(1, 9), noise(2, 9))
FAR = (
    "scores are some hundred: exp is infinite there or rounds to 0, and a clamp changes the result and stops"
    " the gradient. One function of torch takes the difference as it is",
    (t([300.0, -250.0, 0.0, 99.0]), t([0.0, 100.0, 0.0, 100.0])),
)

check_preference_probability = exercise(
    """\
def preference_probability(score_a, score_b):
    return torch.sigmoid(score_a - score_b)
""",
    "P(a preferred) = sigmoid(score_a − score_b) (Bradley and Terry 1952; notebook 05)",
    [FEW, MANY],
    """\
share of the scores: a/(a + b) would need exp(score) instead of the scores, which may be negative.
- torch.sigmoid(score_a - score_b)
+ score_a / (score_a + score_b)
odds: exp(difference) is the odds of a against b; the chance is odds/(1 + odds).
- torch.sigmoid(score_a - score_b)
+ (score_a - score_b).exp()
difference of sigmoids: Subtract the scores first, then take one sigmoid.
- torch.sigmoid(score_a - score_b)
+ score_a.sigmoid() - score_b.sigmoid()
the chance of the better one: You took the size of the difference, and give the chance of the better of the
 two, whichever it is. Keep the sign: a − b.
- score_a - score_b
+ (score_a - score_b).abs()
""",
    gradient=("score_a", "score_b"),
    further=[FAR, *sizes(MANY, token=False)],
)

check_bradley_terry_loss = exercise(
    """\
def bradley_terry_loss(chosen, rejected):
    return -torch.nn.functional.logsigmoid(chosen - rejected).mean()
""",
    "−mean log sigmoid(chosen − rejected) (Stiennon et al. 2020, eq. 1; notebook 05)",
    [FEW, MANY],
    """\
log of the mean: You averaged the probabilities first; average the logarithms.
- torch.nn.functional.logsigmoid(chosen - rejected).mean()
+ torch.sigmoid(chosen - rejected).mean().log()
every chosen against every rejected: [N, 1] less [N] is [N, N]: every chosen against every rejected. Compare
 within pairs.
- chosen - rejected
+ chosen[:, None] - rejected
each score on its own: You took log sigmoid of each score, as if each text were right or wrong; only the
 difference is known.
- -torch.nn.functional.logsigmoid(chosen - rejected)
+ -(torch.nn.functional.logsigmoid(chosen) + torch.nn.functional.logsigmoid(-rejected))
probability of the other: You have 1 − sigmoid; the loss is −log sigmoid.
- -torch.nn.functional.logsigmoid(chosen - rejected)
+ torch.sigmoid(rejected - chosen)
""",
    gradient=("chosen", "rejected"),
    further=[FAR, *sizes(MANY, token=False)],
)

TIES = ((3 * noise(5, 41)).round() / 2, (3 * noise(6, 41)).round() / 2)

check_pair_accuracy = exercise(
    """\
def pair_accuracy(chosen, rejected):
    wins, ties = chosen > rejected, chosen == rejected
    return (wins.float() + 0.5 * ties.float()).mean()
""",
    "share of pairs with chosen > rejected, a tie counts half (notebook 05)",
    [
        (t([1.0, 0.0, 2.0, -1.0, 3.0]), t([0.0, 9.0, 2.0, -2.0, 1.0])),
        (t([0.5, 0.5, -1.0, 2.0, 0.0, 1.0, -3.0]), t([0.5, 0.5, -2.0, 3.0, 4.0, 0.0, -1.0])),
        TIES,
    ],
    """\
tie left out: You left out the ties, also of the number of pairs; each should count 1/2.
- (wins.float() + 0.5 * ties.float())
+ wins[~ties].float()
all against all: You compared every chosen with every rejected; compare within pairs.
- chosen > rejected, chosen == rejected
+ chosen[:, None] > rejected, chosen[:, None] == rejected
mean sign: You averaged signs, from −1 to 1; the share is (1 + that)/2.
- (wins.float() + 0.5 * ties.float())
+ (chosen - rejected).sign()
""",
    further=[
        (
            "the scores are 2.0 and 1.9998: they differ, and that is no tie: compare with ==",
            (t([2.0, 1.0, 0.0]), t([1.9998, 0.0, 3.0])),
        ),
        *sizes(TIES, token=False),
    ],
)

check_ceilings = exercise(
    """\
def ceilings(p):
    best = torch.maximum(p, 1 - p).mean()
    agreement = (p**2 + (1 - p) ** 2).mean()
    return best, agreement
""",
    "best = mean of max(p, 1 − p); agreement = mean of p² + (1 − p)² (notebook 05)",
    [(t([0.9, 0.3, 0.5]),), (noise(3, 9).sigmoid(),)],
    """\
A every time: The mean of p is how often A is chosen; somebody who knows p names the likelier side.
- torch.maximum(p, 1 - p)
+ p
the mean taken too early: One p for all pairs loses what is known of each; the maximum comes before the mean.
- torch.maximum(p, 1 - p).mean()
+ torch.maximum(p.mean(), 1 - p.mean())
agreement on A alone: They also agree where both choose B.
- p**2 + (1 - p) ** 2
+ p**2
the likelier side alone: They also agree where both choose the less likely side.
- (p**2 + (1 - p) ** 2)
+ (torch.maximum(p, 1 - p) ** 2)
""",
    results=("best", "agreement"),
    further=sizes((noise(4, 7).sigmoid(),), token=False),
)
