"""Answers to the exercises of lesson 07: right ones of another build, and wrong ones with their names.

Written as learners write them: the three functions of the large exercise with one slip in one of them.
"""

import math

import torch
import torch.nn.functional as F

SOLUTION = """
def best_policy(ref_logprobs, scores, kl_coef):
    tilted = ref_logprobs + scores / kl_coef
    return tilted - tilted.logsumexp(dim=1, keepdim=True)

def best_value(ref_logprobs, scores, kl_coef):
    tilted = ref_logprobs + scores / kl_coef
    per_prompt = kl_coef * tilted.logsumexp(dim=1)
    return per_prompt.mean()

def next_kl_coef(kl_coef, kl, target, n, horizon):
    error = kl / target - 1
    error = min(max(error, -0.2), 0.2)
    return kl_coef * (1 + error * n / horizon)

def optimum(ref_logprobs, scores, kl_coef, kl, target, n, horizon):
    log_best = best_policy(ref_logprobs, scores, kl_coef)
    value = best_value(ref_logprobs, scores, kl_coef)
    return log_best, value, next_kl_coef(kl_coef, kl, target, n, horizon)
"""


def edited(*pairs: tuple[str, str], within: str = ""):
    """The solution with some lines written otherwise, in the function named `within` or everywhere."""
    start = SOLUTION.index(f"def {within}") if within else 0
    head, source = SOLUTION[:start], SOLUTION[start:]
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new, 1)
    names = {"torch": torch, "math": math, "F": F}
    exec(compile(head + source, "answer", "exec"), names)
    return names["optimum"]


def policy(new: str, *more):
    """π* with another last line."""
    return edited(("return tilted - tilted.logsumexp(dim=1, keepdim=True)", f"return {new}"), *more)


def tilt(new: str):
    """π* with another exponent."""
    return edited(("tilted = ref_logprobs + scores / kl_coef", f"tilted = {new}"))


def value(new: str):
    """J* with another last line."""
    return edited(("return per_prompt.mean()", f"return {new}"), within="best_value")


def value_tilt(new: str):
    return edited(
        ("tilted = ref_logprobs + scores / kl_coef", f"tilted = {new}"), within="best_value"
    )


def beta(new: str):
    """The next β with another last line."""
    return edited(("return kl_coef * (1 + error * n / horizon)", f"return {new}"))


def clip(new: str):
    return edited(("error = min(max(error, -0.2), 0.2)", f"error = {new}"))


def error(new: str):
    return edited(("error = kl / target - 1", f"error = {new}"))


LARGE_WRONG = [
    ("not normalised", policy("tilted")),
    ("normalised over everything", policy("tilted - tilted.logsumexp(dim=(0, 1))")),
    ("normalised over everything", policy("(tilted.exp() / tilted.exp().sum()).log()")),
    ("normalised down the batch", policy("tilted.log_softmax(dim=0)")),
    ("β multiplies", tilt("ref_logprobs + kl_coef * scores")),
    ("no β", tilt("ref_logprobs + scores")),
    ("no reference", tilt("scores / kl_coef")),
    ("the reference tempered", tilt("(ref_logprobs + scores) / kl_coef")),
    ("β on the reference", tilt("kl_coef * ref_logprobs + scores")),
    ("sign of the score", tilt("ref_logprobs - scores / kl_coef")),
    ("divided by the reference", tilt("scores / kl_coef - ref_logprobs")),
    ("probabilities, not their log", policy("tilted.softmax(dim=1)")),
    ("reference as a probability", tilt("ref_logprobs.exp() + scores / kl_coef")),
    ("the weight itself added", policy("ref_logprobs + (scores / kl_coef).exp()")),
    ("the weight itself added", tilt("ref_logprobs + (scores / kl_coef).exp()")),
    ("the weight itself added", value_tilt("ref_logprobs + (scores / kl_coef).exp()")),
    ("a log of log-probs", tilt("ref_logprobs.log() + scores / kl_coef")),
    ("a log of log-probs", value_tilt("ref_logprobs.log() + scores / kl_coef")),
    ("log π*/π_ref", policy("tilted.log_softmax(1) - ref_logprobs")),
    ("no β in front", value("per_prompt.mean() / kl_coef")),
    ("sum over prompts", value("per_prompt.sum()")),
    ("one number a prompt", value("per_prompt")),
    ("no reference", value_tilt("scores / kl_coef")),
    ("β multiplies in the exponent", value_tilt("ref_logprobs + kl_coef * scores")),
    (
        "the log outside of the mean",
        value("kl_coef * tilted.exp().sum(dim=1).mean().log()"),
    ),
    (
        "responses counted alike",
        value("(kl_coef * (scores / kl_coef).exp().mean(dim=1).log()).mean()"),
    ),
    ("the score of π*", value("(tilted.softmax(1) * scores).sum(1).mean()")),
    ("the score of the reference", value("(ref_logprobs.exp() * scores).sum(1).mean()")),
    (
        "KL without β",
        value(
            "(tilted.softmax(1) * (scores - tilted.log_softmax(1) + ref_logprobs)).sum(1).mean()"
        ),
    ),
    ("the best score", value("scores.max(dim=1).values.mean()")),
    ("no clip", clip("error")),
    ("clipped above only", clip("min(error, 0.2)")),
    ("clipped below only", clip("max(error, -0.2)")),
    ("never lowered", clip("min(max(error, 0.0), 0.2)")),
    ("sign of the error", beta("kl_coef * (1 - error * n / horizon)")),
    ("sign of the error", error("1 - kl / target")),
    ("target/KL", error("target / kl - 1")),
    ("error in nats", error("kl - target")),
    ("1 not subtracted", error("kl / target")),
    ("no n/horizon", beta("kl_coef * (1 + error)")),
    ("n left out", beta("kl_coef * (1 + error / horizon)")),
    ("horizon/n", beta("kl_coef * (1 + error * horizon / n)")),
    ("added, not multiplied", beta("kl_coef + error * n / horizon")),
    ("1 + left out", beta("kl_coef * error * n / horizon")),
    ("the factor alone", beta("1 + error * n / horizon")),
    ("exponential", beta("kl_coef * math.exp(error * n / horizon)")),
    ("β unchanged", beta("kl_coef")),
    (
        "clipped after n/horizon",
        beta("kl_coef * (1 + min(max((kl / target - 1) * n / horizon, -0.2), 0.2))"),
    ),
    (
        "not finite at a small β",
        policy(
            "weights.log() - weights.sum(dim=1, keepdim=True).log()",
            (
                "tilted = ref_logprobs + scores / kl_coef",
                "weights = ref_logprobs.exp() * (scores / kl_coef).exp()",
            ),
        ),
    ),
    (
        "not finite at a small β",
        value("(kl_coef * (ref_logprobs.exp() * (scores / kl_coef).exp()).sum(1).log()).mean()"),
    ),
    ("exception", policy("tilted.logsumexp()")),
    ("wrong type", edited(("return log_best, value, next_kl", "return log_best, next_kl"))),
    (
        "the order of the results",
        edited(("return log_best, value, next_kl_coef", "return value, log_best, next_kl_coef")),
    ),
]
LARGE_RIGHT = [
    edited(),
    policy("F.log_softmax(tilted, dim=-1)"),
    policy("tilted.softmax(dim=1).clamp(min=1e-38).log()"),
    policy("torch.log_softmax(tilted.double(), 1).float()"),
    value("torch.mean(kl_coef * torch.logsumexp(tilted, -1))"),
    value("(tilted.log_softmax(1).exp() * scores).sum(1).mean() - kl_coef * (tilted.log_softmax(1).exp()"
          " * (tilted.log_softmax(1) - ref_logprobs)).sum(1).mean()"),
    value("float(per_prompt.mean())"),
    clip("float(torch.tensor(error).clamp(-0.2, 0.2))"),
    beta("kl_coef + kl_coef * error * n / horizon"),
    beta("torch.tensor(kl_coef * (1 + error * (n / horizon)))"),
]  # fmt: skip


MEAN_WRONG = [
    ("σ left out", lambda b, s: 2 / (2 + b)),
    ("σ not squared", lambda b, s: 2 / (2 + b / s)),
    ("σ multiplies", lambda b, s: 2 / (2 + b * s * s)),
    ("half the KL's slope", lambda b, s: 4 / (4 + b / s**2)),
    ("a factor 2", lambda b, s: s**2 / (s**2 + b)),
    ("the share given up", lambda b, s: b / (2 * s**2 + b)),
    ("a sign in the denominator", lambda b, s: 2 / (2 - b / s**2)),
    ("the reward's peak", lambda b, s: 1.0),
    ("1/(1 + β)", lambda b, s: 1 / (1 + b)),
    ("sign flipped", lambda b, s: -2 / (2 + b / s**2)),
    ("wrong type", lambda b, s: [].append(b)),
    ("wrong type", lambda b, s: str(2 / (2 + b / s**2))),
]
BETWEEN_WRONG = [
    ("linear in KL", lambda a, p, b, q, x: p + (q - p) * (x - a) / (b - a)),
    ("linear in KL²", lambda a, p, b, q, x: p + (q - p) * (x**2 - a**2) / (b**2 - a**2)),
    ("root of the share", lambda a, p, b, q, x: p + (q - p) * math.sqrt((x - a) / (b - a))),
    (
        "from the far end",
        lambda a, p, b, q, x: q + (p - q) * (x**0.5 - a**0.5) / (b**0.5 - a**0.5),
    ),
    ("the middle", lambda a, p, b, q, x: 0.5 * p + 0.5 * q),
    (
        "the lower neighbour left out",
        lambda a, p, b, q, x: (q - p) * (x**0.5 - a**0.5) / (b**0.5 - a**0.5),
    ),
    (
        "scores squared",
        lambda a, p, b, q, x: math.sqrt(p * p + (q * q - p * p) * (x - a) / (b - a)),
    ),
    ("scores squared", lambda a, p, b, q, x: p * p + (q * q - p * p) * (x - a) / (b - a)),
    ("the share alone", lambda a, p, b, q, x: (x**0.5 - a**0.5) / (b**0.5 - a**0.5)),
    ("exception", lambda a, p, b, q, x: p + nothing),  # noqa: F821
    ("not divided by the distance", lambda a, p, b, q, x: p + (q - p) * (x**0.5 - a**0.5)),
    (
        "kl_low without effect",  # nor is it subtracted, and the rest is linear in log KL
        lambda a, p, b, q, x: p + (q - p) * (math.log1p(x) / math.log1p(b)),
    ),
]

WRONG = [
    *(("optimum", name, function) for name, function in LARGE_WRONG),
    *(("best_mean", name, function) for name, function in MEAN_WRONG),
    *(("score_between", name, function) for name, function in BETWEEN_WRONG),
]
RIGHT = [
    *(("optimum", function) for function in LARGE_RIGHT),
    ("best_mean", lambda kl_coef, sigma: 2 / (2 + kl_coef / sigma**2)),
    ("best_mean", lambda b, s: 1 / (1 + b / (2 * s * s))),
    ("best_mean", lambda b, s: torch.tensor(2 * s**2 / (2 * s**2 + b))),
    (
        "score_between",
        lambda a, p, b, q, x: p + (q - p) * (x**0.5 - a**0.5) / (b**0.5 - a**0.5),
    ),
    (
        "score_between",
        lambda a, p, b, q, x: (p * (b**0.5 - x**0.5) + q * (x**0.5 - a**0.5)) / (b**0.5 - a**0.5),
    ),
]
