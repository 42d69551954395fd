"""Answers to lesson 00's exercise: edits of the solution (old, new), two edits, or a whole source."""

# fmt: off
KL = "torch.where(mask, logprobs - ref_logprobs, 0.0).sum(1)"
TOKENS = "logprobs - ref_logprobs"
WHOLE = "(scores - kl_coef * kl).mean()"

WRONG = [
    ("objective", "a product with the mask", KL, "((logprobs - ref_logprobs) * mask).sum(1)"),
    ("objective", "per token of the batch", KL, "(logprobs - ref_logprobs)[mask].mean()"),
    ("objective", "β on both", WHOLE, "(kl_coef * (scores - kl)).mean()"),
    ("objective", "sizes", TOKENS, "(logprobs - ref_logprobs).abs()"),
    ("objective", "ratios", TOKENS, "(logprobs - ref_logprobs).exp()"),
    ("objective", "scores clipped", "(scores -", "(scores.clamp(-10, 10) -"),
    ("objective", "0 taken for missing", "kl_coef * kl", "(kl_coef or 0.1) * kl"),
    ("objective", "32 rows", WHOLE, "(scores - kl_coef * kl)[:32].mean()"),
]

RIGHT = [
    ("objective", "two means", WHOLE, "scores.mean() - kl_coef * kl.mean()"),
    ("objective", "picked out", WHOLE,
     "scores.mean() - kl_coef * (logprobs - ref_logprobs)[mask].sum() / len(mask)"),
    ("objective", "nansum, as a number", KL, "(logprobs - ref_logprobs).where(mask, torch.nan).nansum(-1)",
     WHOLE, "float((scores - kl_coef * kl).mean())"),
    ("objective", "a loop", WHOLE, "sum(scores[b] - kl_coef * (logprobs[b] - ref_logprobs[b])[mask[b]].sum()"
     " for b in range(len(mask))) / len(mask)"),
]
# fmt: on
