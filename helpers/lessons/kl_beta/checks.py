"""Exercises of lesson 07: π*, efficiency from two KLs, the best mean of one parameter."""

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
POLICIES = [x.log_softmax(dim=1) for x in (noise(1, 2, 3), noise(2, 2, 3))]
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

check_efficiency = exercise(
    """\
def efficiency(logprobs, ref_logprobs, best_logprobs):
    def missing(p):  # KL(p‖π*) of all prompts: J* − J is in proportion to it
        return (p.exp() * (p - best_logprobs)).sum()

    return 1 - missing(logprobs) / missing(ref_logprobs)
""",
    "(J − J_ref)/(J* − J_ref) = 1 − KL(π‖π*)/KL(π_ref‖π*), each KL a mean over prompts (notebook 07)",
    [
        (POLICIES[0][:1], SMALL[0][:1], POLICIES[1][:1]),
        (*POLICIES[:1], SMALL[0], *POLICIES[1:]),
        tuple(noise(k, 4, 9).log_softmax(dim=1) for k in (3, 4, 5)),
    ],
    """\
the KL from the reference: You measure from π_ref. By line 3 what a policy misses is its KL to π*.
- (p - best_logprobs)
+ (p - ref_logprobs)
what is missing: That is the share of the gain that is missing; the efficiency is 1 less it.
- 1 - missing
+ missing
a share of each prompt: You averaged each prompt's own share. J is a mean over prompts: average before you
 divide.
- .sum()
-
-     return 1 - missing(logprobs) / missing(ref_logprobs)
+ .sum(dim=1)
+
+     return (1 - missing(logprobs) / missing(ref_logprobs)).mean()
the mean over π*: The KL of line 3 is a mean over the policy's own answers, KL(π‖π*); yours is KL(π*‖π).
- (p.exp() * (p - best_logprobs))
+ (best_logprobs.exp() * (best_logprobs - p))
""",
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
