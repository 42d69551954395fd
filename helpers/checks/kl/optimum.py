"""Exercise of notebook 07: π*, J* and the next β; the first of the three that is wrong is named."""

import math

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise, floats, noise
from helpers.checks.judging.parts import begun_too, part_of, parts_checker
from helpers.checks.judging.raised import explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import without_effect
from helpers.checks.kl.next_beta import NEXT_BETA_LOOKS, next_beta_mistakes
from helpers.checks.kl.tilted_mistakes import best, policies, policy_mistake, value, values
from helpers.kl import AdaptiveKLController

ARGUMENTS = "ref_logprobs scores kl_coef kl target n horizon"
# a score of 3 at β = 0.01 is e^300: too large for a float32; prompts of unlike value tell means apart
SMALL = floats([0.7, 0.2, 0.1], [0.5, 0.25, 0.25]).log(), floats([0.0, 1.0, 2.0], [1.0, -1.0, 0.5])
WIDE = noise(7, 4, 9).log_softmax(dim=1), noise(8, 4, 9) + torch.arange(4.0).unsqueeze(1)
PROBES = [
    (*SMALL, 0.5, 2.2, 2.0, 64, 150.0),
    (*WIDE, 0.3, 4.0, 2.0, 256, 1000.0),
    (*WIDE, 2.0, 1.0, 2.0, 64, 640.0),
    (*SMALL, 0.8, 2.1, 2.0, 32, 200.0),  # an error of 5 %: not clipped
    (*SMALL, 1.2, 1.9, 2.0, 32, 200.0),
    (*SMALL, 0.6, 0.1, 3.0, 32, 200.0),
]
TINY = (*WIDE, 0.01, 1.0, 2.0, 64, 640.0)
LEAST = -80.0  # below it lies nothing that a float32 holds as a probability: any log-prob will do
STEPS = (  # β, KL, target, n, horizon
    ("n above the horizon", "The next β is wrong where n = 512 and the horizon is 200: the error is"
     " multiplied by n / horizon, whatever its size.", (0.5, 2.1, 2.0, 512, 200.0)),
    ("wrong for a small β", "The next β is wrong for a small β, 0.002: is there a lower limit, or is it"
     " rounded?",
     (0.002, 1.0, 2.0, 64, 640.0)),
    ("wrong for a large β", "The next β is wrong for a large β, 40: is there an upper limit?",
     (40.0, 4.0, 2.0, 64, 640.0)),
    ("a KL at or below 0", "The next β is wrong where the estimated KL is below 0, as a sample's may be.",
     (0.5, -0.3, 2.0, 32, 200.0)),
    ("a KL at or below 0", "The next β is wrong where the KL is 0, as at the start of a run.",
     (0.5, 0.0, 2.0, 32, 200.0)),
    ("an unusual target", "The next β is wrong for a target of 0.05 nats.", (0.5, 0.052, 0.05, 32, 200.0)),
)  # fmt: skip


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
        *policies(),
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
        *values(),
    ],
)
NEXT_BETA = Exercise(
    "optimum", ARGUMENTS,
    lambda lp, r, b, kl, t, n, h: torch.tensor(AdaptiveKLController(b, t, h).update(kl, n)),
    "β·(1 + clip(KL/target − 1, ±0.2)·n/horizon) (Ziegler et al. 2019; notebook 07)", PROBES,
    next_beta_mistakes(),
)
# fmt: on
RESULTS = {"log-probs of π*": BEST, "J*": VALUE, "next β": NEXT_BETA}


def at_a_tiny_beta(function) -> tuple[str, str] | None:
    """exp(r/β) is beyond float32 at a small β: the log has to be taken before the exponential."""
    log_best, j_star, _ = function(*TINY)
    for name, got in (("π*", log_best), ("J*", j_star)):
        if not bool(torch.as_tensor(got).isfinite().all()):
            return (
                "not finite at a small β",
                f"All numbers are right at larger β. At β = 0.01 a score of 3 has a weight of e^300, more"
                f" than a float32 holds, and beside it the others round to 0: your {name} is not finite. Stay"
                " with logarithms (logsumexp, log_softmax).",
            )
    return at_extremes(function)


def at_extremes(function) -> tuple[str, str] | None:
    """Numbers at a tiny β, up to rounding at this size; then n, KL and β out of the ordinary."""
    log_best, j_star, _ = (torch.as_tensor(x).detach().double() for x in function(*TINY))
    wants = best(*TINY[:3]).double(), value(*TINY[:3]).mean().double()
    pairs = (log_best.clamp(min=LEAST), wants[0].clamp(min=LEAST)), (j_star, wants[1])
    fits = [torch.allclose(got, want, 1e-3, 1e-2) for got, want in pairs]
    for name, fine in zip(("π*", "J*"), fits, strict=True):
        if not fine:
            return "wrong at a small β", (
                f"All numbers are right at larger β; at 0.01, where log-probs go far below −30, your {name}"
                " is not. Is something added to a probability, or clamped? Stay with logarithms."
            )
    for name, says, given in STEPS:
        got = torch.as_tensor(function(*SMALL, *given)[2]).double()
        want = torch.tensor(
            AdaptiveKLController(given[0], given[2], given[4]).update(given[1], given[3])
        )
        if not torch.isclose(got, want.double(), 1e-4, 1e-9):
            return name, f"{says} You have {float(got):.4g}; it should be {float(want):.4g}."
    return None


def log_of_logprobs(part, function, answers) -> tuple[str, str] | None:
    """A look for a second logarithm, whose numbers are all NaN: given probabilities, all is right."""
    for ref_logprobs, *rest in part.probes:
        got = torch.as_tensor(function(ref_logprobs.exp(), *rest))
        if not alike(got, part.reference(ref_logprobs, *rest)):
            return None
    return "a log of log-probs", (
        "You take the logarithm of `ref_logprobs`, which are logarithms already: the log of a negative"
        " number is NaN."
    )


LOOKS = {
    "log-probs of π*": (
        log_of_logprobs,
        other_inputs(skip=("kl", "target", "horizon")),
        result_changed,
    ),
    "J*": (
        log_of_logprobs,
        other_inputs(skip=("kl", "target", "horizon")),
        result_changed,
        without_effect,
    ),
    "next β": NEXT_BETA_LOOKS,
}


def first_wrong(function, report) -> tuple[str, str] | None:
    """What is wrong with the first result that is: the looks of that result alone."""
    for index, (name, part) in enumerate(RESULTS.items()):
        words = f"wrong result: the {name}. "
        if words in report.message:
            found = one_of(part, *LOOKS[name])(part_of(function, index), report)
            placed = report.message[: report.message.index(words) + len(words)]
            return found and (found[0], placed + found[1])
    return None


check_optimum = begun_too(
    RESULTS, explained(parts_checker(RESULTS), then=at_a_tiny_beta, cause=first_wrong)
)
