"""Exercises of lesson 07: π*, J*, the best mean of one parameter, the next β, scores at equal KL."""

import torch

from helpers.kit.exercise import Seen, floats, noise
from helpers.kit.judge import exercise

LEAST = -80.0  # a probability below exp of it is 0 in float32: any log-prob will do


def best_seen(function, *given: object) -> Seen:
    """The log-probs of π*, as far as float32 has their probabilities."""
    best = function(*given)
    lowest = isinstance(best, torch.Tensor) and best.is_floating_point()
    return {"result": best.clamp(min=LEAST) if lowest else best}


SMALL = floats([0.7, 0.2, 0.1], [0.5, 0.25, 0.25]).log(), floats([0.0, 1.0, 2.0], [1.0, -1.0, 0.5])
WIDE = noise(7, 4, 9).log_softmax(dim=1), noise(8, 4, 9) + torch.arange(4.0).unsqueeze(1)
NEAR = SMALL[0], floats([5.0, 5.02, 0.0], [4.0, -3.0, 4.04])  # e^100 at β = 0.05: above float32
PROBES = [(*SMALL, 0.5), (*WIDE, 0.3), (*WIDE, 2.0), (*SMALL, 0.8), (*SMALL, 1.2), (*SMALL, 0.6)]
FURTHER = [
    (
        "β is 0.05: a weight of e^100 is more than a float32 holds, and beside it the others round to"
        " 0. Stay with logarithms (log_softmax, logsumexp), and add nothing to a probability.",
        (*NEAR, 0.05),
    ),
]

check_best_policy = exercise(
    """\
def best_policy(ref_logprobs, scores, kl_coef):
    return (ref_logprobs + scores / kl_coef).log_softmax(dim=1)
""",
    "log π* = log π_ref + r/β − log Z, Z = Σ_y π_ref·exp(r/β) of each prompt (notebook 07)",
    PROBES,
    """\
β on the reference as well: Only the score is divided by β: where all scores are equal, π* is the reference.
- (ref_logprobs + scores / kl_coef)
+ ((ref_logprobs + scores) / kl_coef)
""",
    observe=best_seen,
    further=FURTHER,
)

check_best_value = exercise(
    """\
def best_value(ref_logprobs, scores, kl_coef):
    log_z = (ref_logprobs + scores / kl_coef).logsumexp(dim=1)  # one per prompt
    return (kl_coef * log_z).mean()
""",
    "J* = the mean over prompts of β·log Z, Z = Σ_y π_ref·exp(r/β) of each prompt (notebook 07)",
    PROBES,
    """\
the log outside of the mean: You averaged Z over the prompts and took the log of that: the value of a policy
 that may choose its prompts. Each prompt has its own log Z; their mean comes last.
- (kl_coef * log_z).mean()
+ kl_coef * log_z.exp().mean().log()
the score of π*: This is E[r] under π*; J* is less, by β·KL. It is β·log Z.
- (kl_coef * log_z).mean()
+ ((ref_logprobs + scores / kl_coef).softmax(1) * scores).sum(1).mean()
β·log(π*/π_ref) for J*: This is the mean of β·log(π*/π_ref), which is r less the prompt's own β·log Z. The
 β·log Z itself is asked for, one per prompt.
- (kl_coef * log_z).mean()
+ (scores - kl_coef * log_z[:, None]).mean()
one Z for all prompts: You took one logsumexp over all prompts; take one per row, then the mean.
- logsumexp(dim=1)
+ logsumexp(dim=(0, 1))
""",
    further=FURTHER,
)


check_next_kl_coef = exercise(
    """\
def next_kl_coef(kl_coef, kl, target, n, horizon):
    error = min(max(kl / target - 1, -0.2), 0.2)
    return kl_coef * (1 + error * n / horizon)
""",
    "next β = β·(1 + clip(KL/target − 1, ±0.2)·n/horizon) (Ziegler et al. 2019; notebook 07)",
    [
        (0.5, 2.2, 2.0, 64, 150.0),
        (0.3, 4.0, 2.0, 256, 1000.0),
        (2.0, 1.0, 2.0, 64, 640.0),
        (0.8, 2.1, 2.0, 32, 200.0),  # an error of 5 %: not clipped
        (1.2, 1.9, 2.0, 32, 200.0),
        (0.6, 0.1, 3.0, 32, 200.0),
    ],
    """\
error in nats: You have KL − target; the error is relative: KL/target − 1.
- kl / target - 1
+ kl - target
no clip: Far from the target the error is clipped to ±0.2: β moves by at most 0.2·n/horizon of itself.
- min(max(kl / target - 1, -0.2), 0.2)
+ kl / target - 1
clipped above only: Far below the target the error is clipped to −0.2.
- min(max(kl / target - 1, -0.2), 0.2)
+ min(kl / target - 1, 0.2)
the other sign: The sign of the step is wrong: where the KL is above its target, β has to rise.
- 1 + error
+ 1 - error
""",
    further=[
        ("n is above the horizon: is something bounded?", (0.5, 2.1, 2.0, 512, 200.0)),
        ("β is 0.002: is something bounded?", (0.002, 1.0, 2.0, 64, 640.0)),
        ("the estimated KL is below 0", (0.5, -0.3, 2.0, 32, 200.0)),
    ],
)

check_best_mean = exercise(
    """\
def best_mean(kl_coef, sigma):
    return 2 / (2 + kl_coef / sigma**2)
""",
    "dJ/dm = −2(m − 1) − β·m/σ² = 0 (notebook 07)",
    [(0.4, 0.5), (0.05, 0.5), (2.0, 0.25), (0.0, 0.5), (0.3, 1.5)],
    """\
half the KL's slope: The derivative of m²/(2σ²) is m/σ²: yours is half of it, or the reward's slope is
 doubled.
- kl_coef / sigma**2
+ kl_coef / (2 * sigma**2)
twice the KL's slope: A factor 2 stands at the KL, or is lost at the reward. The slopes are −2(m − 1) and
 m/σ².
- kl_coef / sigma**2
+ 2 * kl_coef / sigma**2
first order in β: 1 − β/(2σ²) is right for a small β alone; set the sum of the slopes to 0 and solve for m.
- 2 / (2 + kl_coef / sigma**2)
+ 1 - kl_coef / (2 * sigma**2)
brackets forgotten: That is 1 + β/σ². The denominator, 2 + β/σ², needs brackets.
- 2 / (2 + kl_coef / sigma**2)
+ 2 / 2 + kl_coef / sigma**2
J at the best mean: That is J at the best mean; return the mean.
- return 2 / (2 + kl_coef / sigma**2)
+ m = 2 / (2 + kl_coef / sigma**2)
+     return -((m - 1) ** 2) - kl_coef * m**2 / (2 * sigma**2)
""",
    further=[("β is 50: is something bounded?", (50.0, 0.5))],
    advice="Set dJ/dm to 0 and solve for m; at β = 0 it is 1, and the larger β, the nearer to 0.",
)


check_score_between = exercise(
    """\
def score_between(kl_low, score_low, kl_high, score_high, kl):
    share = (kl**0.5 - kl_low**0.5) / (kl_high**0.5 - kl_low**0.5)
    return score_low + share * (score_high - score_low)
""",
    "linear in √KL between the two neighbours (notebook 07)",
    [
        (1.0, 0.8, 1.69, 1.1, 1.44),
        (2.0, 1.4, 2.6, 1.5, 2.5),
        (0.25, 0.1, 0.49, 0.6, 0.36),
        (0.0, 0.1, 0.49, 0.6, 0.16),
        (1.21, 1.3, 4.0, 0.7, 1.96),
    ],
    """\
linear in KL: This is linear in KL. Near the reference a score rises as √KL: take roots of all three KLs
 first.
- (kl**0.5 - kl_low**0.5) / (kl_high**0.5 - kl_low**0.5)
+ (kl - kl_low) / (kl_high - kl_low)
no root in the denominator: The denominator has no roots: take those of all three KLs first.
- (kl_high**0.5 - kl_low**0.5)
+ (kl_high - kl_low)
from the far end: At kl_low you give score_high, and the other way round: the share counts from the wrong end.
- score_low + share * (score_high - score_low)
+ score_high + share * (score_low - score_high)
the rise without its sign: You take the rise without its sign; a score may fall as the KL grows.
- (score_high - score_low)
+ abs(score_high - score_low)
""",
    advice="At kl_low the share of the way is 0, at kl_high 1; between them it is linear in √KL.",
)
