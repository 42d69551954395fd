"""Answers to the exercises of lesson 07, as learners write them."""

# fmt: off
P, E, M = "best_policy", "efficiency", "best_mean"
BEST = "(ref_logprobs + scores / kl_coef).log_softmax(dim=1)"
KL = "(p.exp() * (p - best_logprobs)).sum()"
SHARE = "1 - missing(logprobs) / missing(ref_logprobs)"
MEAN = "2 / (2 + kl_coef / sigma**2)"

WRONG = [
    (P, "normalised over all prompts", BEST,
     "(ref_logprobs + scores / kl_coef) - (ref_logprobs + scores / kl_coef).logsumexp((0, 1))"),
    (P, "exp first, then log", BEST, "(ref_logprobs.exp() * (scores / kl_coef).exp()).log()"
     " - (ref_logprobs.exp() * (scores / kl_coef).exp()).sum(1, keepdim=True).log()"),
    (E, "one KL over the other", SHARE, "missing(ref_logprobs) / missing(logprobs)"),
    (E, "by the gain in KL", SHARE, "missing(ref_logprobs) - missing(logprobs)"),
    (E, "probabilities for their logs", "(p - best_logprobs)", "(p.exp() - best_logprobs.exp())"),

    (M, "times 2σ²", MEAN, "1 / (1 + 2 * kl_coef * sigma**2)"),
    (M, "what is given up", MEAN, "kl_coef / (2 * sigma**2 + kl_coef)"),
    (M, "σ and a 2 left out", MEAN, "1 / (1 + kl_coef)"),
    (M, "minus the mean", MEAN, "-2 / (2 + kl_coef / sigma**2)"),
    (M, "β squared", "kl_coef /", "kl_coef**2 /"),
    (M, "bounded", "kl_coef / sigma**2", "min(kl_coef / sigma**2, 100)"),
    (M, "not returned", "return ", "m = "),
]

RIGHT = [
    (P, "by softmax and log", BEST,
     "(ref_logprobs + scores / kl_coef).softmax(dim=1).clamp(min=1e-38).log()"),
    (P, "in double precision", BEST, "(ref_logprobs.double() + scores / kl_coef).log_softmax(1).float()"),
    (E, "by a library", KL,
     "torch.nn.functional.kl_div(best_logprobs, p, reduction='batchmean', log_target=True)"),
    (E, "from the differences", SHARE,
     "(missing(ref_logprobs) - missing(logprobs)) / missing(ref_logprobs)"),
    (M, "another form", MEAN, "1 / (1 + kl_coef / (2 * sigma * sigma))"),
    (M, "a tensor", MEAN, "torch.tensor(2 * sigma**2 / (2 * sigma**2 + kl_coef))"),
]
