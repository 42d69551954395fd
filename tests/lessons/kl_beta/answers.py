"""Answers to the exercises of lesson 07, as learners write them."""

# fmt: off
P, V, N = "best_policy", "best_value", "next_kl_coef"
M, S = "best_mean", "score_between"
BEST = "(ref_logprobs + scores / kl_coef).log_softmax(dim=1)"
LOG_Z = "(ref_logprobs + scores / kl_coef).logsumexp(dim=1)"
VALUE = "(kl_coef * log_z).mean()"
STAR = "(ref_logprobs + scores / kl_coef).softmax(1)"
NEXT = "kl_coef * (1 + error * n / horizon)"
MEAN = "2 / (2 + kl_coef / sigma**2)"
ABOVE, BELOW = "(kl**0.5 - kl_low**0.5)", "(kl_high**0.5 - kl_low**0.5)"
SHARE = f"{ABOVE} / {BELOW}"
MOVE = "score_low + share * (score_high - score_low)"

WRONG = [
    (P, "normalised over all prompts", BEST,
     "(ref_logprobs + scores / kl_coef) - (ref_logprobs + scores / kl_coef).logsumexp((0, 1))"),
    (P, "a log of log-probs", BEST, "(ref_logprobs.log() + scores / kl_coef).log_softmax(1)"),
    (P, "exp first, then log", BEST, "(ref_logprobs.exp() * (scores / kl_coef).exp()).log()"
     " - (ref_logprobs.exp() * (scores / kl_coef).exp()).sum(1, keepdim=True).log()"),
    (V, "J* without the reference", LOG_Z, "(scores / kl_coef).logsumexp(1)"),
    (V, "median over prompts", VALUE, "(kl_coef * log_z).median()"),
    (V, "E[r] of the reference", VALUE, "(ref_logprobs.exp() * scores).sum(1).mean()"),
    (V, "E[r] − KL, without β", VALUE,
     f"({STAR} * (scores - {STAR}.log() + ref_logprobs)).sum(1).mean()"),
    (N, "n at most the horizon", "n / horizon)", "min(1, n / horizon))"),
    (N, "β at least 0.005", NEXT, "max(5e-3, kl_coef * (1 + error * n / horizon))"),

    (M, "times 2σ²", MEAN, "1 / (1 + 2 * kl_coef * sigma**2)"),
    (M, "what is given up", MEAN, "kl_coef / (2 * sigma**2 + kl_coef)"),
    (M, "σ and a 2 left out", MEAN, "1 / (1 + kl_coef)"),
    (M, "minus the mean", MEAN, "-2 / (2 + kl_coef / sigma**2)"),
    (M, "β squared", "kl_coef /", "kl_coef**2 /"),
    (M, "bounded", "kl_coef / sigma**2", "min(kl_coef / sigma**2, 100)"),
    (M, "not returned", "return ", "m = "),

    (S, "linear in KL²", SHARE, "(kl**2 - kl_low**2) / (kl_high**2 - kl_low**2)"),
    (S, "the middle", MOVE, "(score_low + score_high) / 2"),
    (S, "the share is bent to an S", MOVE,
     "score_low + share * share * (3 - 2 * share) * (score_high - score_low)"),
    (S, "cut off at the lower score", MOVE, f"max(score_low, {MOVE})"),
]

RIGHT = [
    (P, "by softmax and log", BEST,
     "(ref_logprobs + scores / kl_coef).softmax(dim=1).clamp(min=1e-38).log()"),
    (P, "in double precision", BEST, "(ref_logprobs.double() + scores / kl_coef).log_softmax(1).float()"),
    (V, "J* as E[r] − β·KL", VALUE,
     "((s := (ref_logprobs + scores / kl_coef).log_softmax(1)).exp()"
     " * (scores - kl_coef * (s - ref_logprobs))).sum(1).mean()"),
    (V, "a plain number", VALUE, "float((kl_coef * log_z).mean())"),
    (N, "a tensor", NEXT, "torch.tensor(kl_coef + kl_coef * error * n / horizon)"),
    (M, "another form", MEAN, "1 / (1 + kl_coef / (2 * sigma * sigma))"),
    (M, "a tensor", MEAN, "torch.tensor(2 * sigma**2 / (2 * sigma**2 + kl_coef))"),
    (S, "weights of both scores", MOVE, "(1 - share) * score_low + share * score_high"),
]
