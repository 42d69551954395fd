"""Exercises of notebook 07: the best mean, π* with J* and the next β, a score at an equal KL.

The three results of `optimum` are looked at one after the other: the first wrong one is named.
"""

import math

import torch

from helpers.checks.exercise import Exercise, floats, noise
from helpers.checks.judge import checker
from helpers.checks.parts import begun_too, parts_checker
from helpers.checks.raised import explained
from helpers.kl import AdaptiveKLController

# --- one parameter --------------------------------------------------------------------------------


def springs(pull, anchor):
    """Where a spring to 1 and a spring to 0 hold each other."""
    return pull / (pull + anchor)


# fmt: off
BEST_MEAN = Exercise(
    "best_mean", "kl_coef sigma", lambda b, s: torch.tensor(springs(2, b / s**2)),
    "dJ/dm = −2(m − 1) − β·m/σ² = 0 (notebook 07)",
    [(0.4, 0.5), (0.05, 0.5), (2.0, 0.25), (0.0, 0.5)],
    [
        ("σ left out", "The KL is m²/(2σ²): σ is missing.", lambda b, s: springs(2, b)),
        ("σ not squared", "The KL is m²/(2σ²): you divide by σ.", lambda b, s: springs(2, b / s)),
        ("σ multiplies", "The KL is m²/(2σ²): you multiply by σ².",
         lambda b, s: springs(2, b * s**2)),
        ("half the KL's slope", "The derivative of m²/(2σ²) is m/σ²: yours is half of it.",
         lambda b, s: springs(2, b / (2 * s**2))),
        ("a factor 2", "The slopes are −2(m − 1) and m/σ²: a factor 2 is lost, or stands at the KL.",
         lambda b, s: springs(2, 2 * b / s**2)),
        ("the share given up", "This is 1 − m, the share of the way that is given up.",
         lambda b, s: 1 - springs(2, b / s**2)),
        ("the KL pulls outwards", "Your KL pushes m away from 0: a sign.",
         lambda b, s: 2 / (2 - b / s**2)),
        ("the reward's peak", "This is the peak, whatever β is.", lambda b, s: 1.0),
        ("1/(1 + β)", "That forgets the 2 of the reward and the σ² of the KL.",
         lambda b, s: 1 / (1 + b)),
    ],
)
# fmt: on
check_best_mean = checker(BEST_MEAN)

# --- π*, J*, the next β ---------------------------------------------------------------------------

ARGUMENTS = "ref_logprobs scores kl_coef kl target n horizon"
# a score of 3 at β = 0.01 is e^300: too large for a float32; prompts of unlike value tell means apart
SMALL = floats([0.7, 0.2, 0.1], [0.5, 0.25, 0.25]).log(), floats([0.0, 1.0, 2.0], [1.0, -1.0, 0.5])
WIDE = noise(7, 4, 9).log_softmax(dim=1), noise(8, 4, 9) + torch.arange(4.0).unsqueeze(1)
PROBES = [
    (*SMALL, 0.5, 2.2, 2.0, 64, 150.0),
    (*WIDE, 0.3, 4.0, 2.0, 256, 1000.0),
    (*WIDE, 2.0, 1.0, 2.0, 64, 640.0),
]
TINY = (*WIDE, 0.01, 1.0, 2.0, 64, 640.0)


def best(lp, r, b):
    """log π*: [P, N]."""
    return (lp + r / b).log_softmax(dim=1)


def value(lp, r, b):
    """J* of each prompt: [P]."""
    return b * (lp + r / b).logsumexp(dim=1)


def error(kl, target):
    """KL/target − 1, within ±0.2."""
    return min(max(kl / target - 1, -0.2), 0.2)


def policy_mistake(name: str, says: str, wrong) -> tuple:
    return name, says, lambda lp, r, b, kl, t, n, h: wrong(lp, r, b)


def beta_mistake(name: str, says: str, wrong) -> tuple:
    return name, says, lambda lp, r, b, kl, t, n, h: wrong(b, kl, t, n, h)


# fmt: off
BEST = Exercise(
    "optimum", ARGUMENTS, lambda lp, r, b, kl, t, n, h: best(lp, r, b),
    "log π*(y|x) = log π_ref(y|x) + r(x, y)/β − log Σ_y π_ref·exp(r/β) (notebook 07)", PROBES,
    [
        policy_mistake("not normalised", "π* has to sum to 1 for each prompt: subtract the logsumexp of"
                       " each row.", lambda lp, r, b: lp + r / b),
        policy_mistake("normalised over everything", "Each prompt has its own Z: normalise along dim=1.",
                       lambda lp, r, b: (lp + r / b) - (lp + r / b).logsumexp((0, 1))),
        policy_mistake("normalised down the batch", "You normalise along dim=0, the prompts.",
                       lambda lp, r, b: (lp + r / b).log_softmax(0)),
        policy_mistake("β multiplies", "You multiply the scores by β. A small β follows the scores: r/β.",
                       lambda lp, r, b: (lp + r * b).log_softmax(1)),
        policy_mistake("no β", "β is missing: the exponent is r/β.",
                       lambda lp, r, b: (lp + r).log_softmax(1)),
        policy_mistake("no reference", "That is softmax(r/β): π* starts from the reference.",
                       lambda lp, r, b: (r / b).log_softmax(1)),
        policy_mistake("the reference tempered", "You divided the reference by β too; only the scores are.",
                       lambda lp, r, b: ((lp + r) / b).log_softmax(1)),
        policy_mistake("β on the reference", "β stands with the reference. It divides the scores.",
                       lambda lp, r, b: (b * lp + r).log_softmax(1)),
        policy_mistake("sign of the score", "Low scores become likely: a sign.",
                       lambda lp, r, b: (lp - r / b).log_softmax(1)),
        policy_mistake("divided by the reference", "You divided by the reference: log-probs are added.",
                       lambda lp, r, b: (r / b - lp).log_softmax(1)),
        policy_mistake("probabilities, not their log", "These are the probabilities; give their log.",
                       lambda lp, r, b: best(lp, r, b).exp()),
        policy_mistake("reference as a probability", "You added π_ref, not its log.",
                       lambda lp, r, b: (lp.exp() + r / b).log_softmax(1)),
        policy_mistake("the reference itself", "That is the reference: nothing was tilted.",
                       lambda lp, r, b: lp),
        policy_mistake("log π*/π_ref", "That is log π*/π_ref. Add the reference's log-probs.",
                       lambda lp, r, b: best(lp, r, b) - lp),
    ],
)
VALUE = Exercise(
    "optimum", ARGUMENTS, lambda lp, r, b, kl, t, n, h: value(lp, r, b).mean(),
    "J* = mean over prompts of β·log Σ_y π_ref(y|x)·exp(r(x, y)/β) (notebook 07)", PROBES,
    [
        policy_mistake("the log outside of the mean", "You averaged over the prompts inside the log: that"
                       " is the value of a policy that chooses its prompts. Log first, then mean.",
                       lambda lp, r, b: b * ((lp + r / b).logsumexp(1).logsumexp(0) - math.log(len(r)))),
        policy_mistake("no β in front", "β stands in front of the log, too.",
                       lambda lp, r, b: value(lp, r, b).mean() / b),
        policy_mistake("divided by β", "You divided the log by β; multiply.",
                       lambda lp, r, b: value(lp, r, b).mean() / b**2),
        policy_mistake("no reference", "That is the log of Σ exp(r/β): weigh each response by π_ref.",
                       lambda lp, r, b: (b * (r / b).logsumexp(1)).mean()),
        policy_mistake("responses counted alike", "You averaged exp(r/β) over the rows. That is right for"
                       " samples of the reference; here each response is listed once: weigh by π_ref.",
                       lambda lp, r, b: (b * ((r / b).logsumexp(1) - math.log(r.shape[1]))).mean()),
        policy_mistake("one number a prompt", "J* of each prompt is right: return their mean.", value),
        policy_mistake("sum over prompts", "You added up the prompts: take the mean.",
                       lambda lp, r, b: value(lp, r, b).sum()),
        policy_mistake("the score of π*", "This is E[r] of π*; J* also pays for its KL.",
                       lambda lp, r, b: (best(lp, r, b).exp() * r).sum(1).mean()),
        policy_mistake("the score of the reference", "This is E[r] of the reference.",
                       lambda lp, r, b: (lp.exp() * r).sum(1).mean()),
        policy_mistake("β·KL added", "The KL is subtracted: J = E[r] − β·KL.",
                       lambda lp, r, b: (best(lp, r, b).exp() * (2 * r) ).sum(1).mean()
                       - value(lp, r, b).mean()),
        policy_mistake("KL without β", "You subtracted the KL itself, not β·KL.",
                       lambda lp, r, b: (best(lp, r, b).exp() * (r - best(lp, r, b) + lp)).sum(1).mean()),
        policy_mistake("the KL alone", "This is KL(π*‖π_ref), in nats.",
                       lambda lp, r, b: (best(lp, r, b).exp() * (best(lp, r, b) - lp)).sum(1).mean()),
        policy_mistake("the best score", "This is the largest score of each prompt: J* at β → 0.",
                       lambda lp, r, b: r.amax(1).mean()),
        policy_mistake("β multiplies in the exponent", "The exponent is r/β.",
                       lambda lp, r, b: (b * (lp + r * b).logsumexp(1)).mean()),
        policy_mistake("a mean over responses too", "J* has one number a prompt: sum over the responses.",
                       lambda lp, r, b: (best(lp, r, b).exp() * (r - b * (best(lp, r, b) - lp))).mean()),
    ],
)
NEXT_BETA = Exercise(
    "optimum", ARGUMENTS,
    lambda lp, r, b, kl, t, n, h: torch.tensor(AdaptiveKLController(b, t, h).update(kl, n)),
    "β·(1 + clip(KL/target − 1, ±0.2)·n/horizon) (Ziegler et al. 2019; notebook 07)", PROBES,
    [
        beta_mistake("no clip", "The error is not clipped to ±0.2.",
                     lambda b, kl, t, n, h: b * (1 + (kl / t - 1) * n / h)),
        beta_mistake("clipped above only", "You clip the error at +0.2; below it is −0.2.",
                     lambda b, kl, t, n, h: b * (1 + min(kl / t - 1, 0.2) * n / h)),
        beta_mistake("clipped below only", "You clip the error at −0.2; above it is +0.2.",
                     lambda b, kl, t, n, h: b * (1 + max(kl / t - 1, -0.2) * n / h)),
        beta_mistake("never lowered", "You clip below at 0: β could only rise.",
                     lambda b, kl, t, n, h: b * (1 + min(max(kl / t - 1, 0), 0.2) * n / h)),
        beta_mistake("sign of the error", "Too much drift has to raise the price; yours lowers it.",
                     lambda b, kl, t, n, h: b * (1 - error(kl, t) * n / h)),
        beta_mistake("target/KL", "The error is KL/target − 1; you have target/KL − 1.",
                     lambda b, kl, t, n, h: b * (1 + error(t, kl) * n / h)),
        beta_mistake("error in nats", "The error is relative: KL/target − 1, not KL − target.",
                     lambda b, kl, t, n, h: b * (1 + min(max(kl - t, -0.2), 0.2) * n / h)),
        beta_mistake("1 not subtracted", "At KL = target the error is 0: subtract 1 before the clip.",
                     lambda b, kl, t, n, h: b * (1 + min(max(kl / t, -0.2), 0.2) * n / h)),
        beta_mistake("no n/horizon", "n/horizon is missing: every step would be 20 times too large.",
                     lambda b, kl, t, n, h: b * (1 + error(kl, t))),
        beta_mistake("n left out", "You divide by the horizon, but n is missing.",
                     lambda b, kl, t, n, h: b * (1 + error(kl, t) / h)),
        beta_mistake("horizon/n", "n and horizon are exchanged.",
                     lambda b, kl, t, n, h: b * (1 + error(kl, t) * h / n)),
        beta_mistake("clipped after n/horizon", "You clip error·n/horizon; clip the error alone.",
                     lambda b, kl, t, n, h: b * (1 + min(max((kl / t - 1) * n / h, -0.2), 0.2))),
        beta_mistake("added, not multiplied", "β is multiplied by the factor; you add the error to it.",
                     lambda b, kl, t, n, h: b + error(kl, t) * n / h),
        beta_mistake("1 + left out", "The factor is 1 + error·n/horizon: without the 1, β is all but lost.",
                     lambda b, kl, t, n, h: b * error(kl, t) * n / h),
        beta_mistake("the factor alone", "That is the factor; multiply β by it.",
                     lambda b, kl, t, n, h: 1 + error(kl, t) * n / h),
        beta_mistake("exponential", "You multiply by exp(error·n/horizon); here it is 1 + error·n/horizon.",
                     lambda b, kl, t, n, h: b * math.exp(error(kl, t) * n / h)),
        beta_mistake("β unchanged", "β is returned as it was.", lambda b, kl, t, n, h: b),
        beta_mistake("divided by the factor", "You divide β by the factor: too much drift would be cheap.",
                     lambda b, kl, t, n, h: b / (1 + error(kl, t) * n / h)),
    ],
)
# fmt: on
RESULTS = {"log-probs of π*": BEST, "J*": VALUE, "next β": NEXT_BETA}


def at_a_tiny_beta(function) -> tuple[str, str] | None:
    """exp(r/β) is beyond float32 at a small β: the log has to be taken before the exponential."""
    log_best, j_star, _ = function(*TINY)
    for name, got in (("π*", log_best), ("J*", j_star)):
        if not bool(torch.as_tensor(got).isfinite().all()):
            return (
                "overflow at a small β",
                f"All numbers are right at these β. At β = 0.01 a score of 3 gives e^300, more than a"
                f" float32 holds, and your {name} is not finite: stay with logarithms (logsumexp,"
                " log_softmax).",
            )
    return None


check_optimum = begun_too(RESULTS, explained(parts_checker(RESULTS), then=at_a_tiny_beta))

# --- equal KL -------------------------------------------------------------------------------------


def between(low, high, share):
    return low + share * (high - low)


def share_of(low, high, x, bend):
    """How far x lies from low to high, on a bent axis."""
    return (bend(x) - bend(low)) / (bend(high) - bend(low))


# fmt: off
AT_EQUAL_KL = Exercise(
    "score_between", "kl_low score_low kl_high score_high kl",
    lambda a, p, b, q, x: torch.tensor(between(p, q, share_of(a, b, x, math.sqrt))),
    "linear in √KL between the two neighbours (notebook 07)",
    [(1.0, 0.8, 1.69, 1.1, 1.44), (2.0, 1.4, 2.6, 1.5, 2.5), (0.0, 0.1, 0.49, 0.6, 0.16)],
    [
        ("linear in KL", "This is linear in KL. Near the reference a score rises as √KL: take roots first.",
         lambda a, p, b, q, x: between(p, q, share_of(a, b, x, float))),
        ("linear in KL²", "You square the KL; take its root.",
         lambda a, p, b, q, x: between(p, q, share_of(a, b, x, lambda k: k * k))),
        ("root of the share", "You take the root of a share or a difference; take those of the three KLs.",
         lambda a, p, b, q, x: between(p, q, share_of(a, b, x, float) ** 0.5)),
        ("from the far end", "Your share counts from the upper neighbour: at kl_low it must give score_low.",
         lambda a, p, b, q, x: between(q, p, share_of(a, b, x, math.sqrt))),
        ("the middle", "This is the mean of the two scores, wherever kl stands.",
         lambda a, p, b, q, x: (p + q) / 2),
        ("the nearest", "This is the nearer neighbour's score.",
         lambda a, p, b, q, x: p if x - a < b - x else q),
        ("the lower neighbour left out", "You add up a share of the difference, but not score_low.",
         lambda a, p, b, q, x: share_of(a, b, x, math.sqrt) * (q - p)),
        ("the share alone", "That is the share of the way; now move from score_low to score_high by it.",
         lambda a, p, b, q, x: share_of(a, b, x, math.sqrt)),
        ("scores rooted, too", "Roots belong to the KLs; scores stay as they are.",
         lambda a, p, b, q, x: between(p**0.5, q**0.5, share_of(a, b, x, math.sqrt)) ** 2),
    ],
)
# fmt: on
check_score_between = checker(AT_EQUAL_KL)
