"""Answers to lesson 02's exercises: edits of the solution (old, new), two edits, or a whole source."""

# fmt: off
SCORE = "rewards[rows, last] += scores"
KL = "(logprobs - ref_logprobs)"
NEXT = "torch.cat([values[:, 1:], nothing], dim=1)"
DELTA = "torch.where(mask, rewards + gamma * next_values - values, 0.0)"
DELTAS = "td_errors(rewards, values, gamma, mask)"
RETURNS = "torch.where(mask, advantages + values, 0.0)"
RESULTS = "return advantages, " + RETURNS

WRONG = [
    ("shape_rewards", "one too far", "mask.sum(1) - 1", "(mask.sum(1)).clamp(max=mask.shape[1] - 1)"),
    ("shape_rewards", "no score", SCORE, "pass"),
    ("shape_rewards", "β forgotten", "-kl_coef *", "-"),
    ("shape_rewards", "size of the KL", KL, "(logprobs - ref_logprobs).abs()"),
    ("shape_rewards", "ratios", KL, "(logprobs - ref_logprobs).exp()"),
    ("shape_rewards", "a product with the mask", "torch.where(mask, penalty, 0.0)", "penalty * mask"),
    ("td_errors", "rolled the other way", NEXT, "values.roll(1, 1)"),
    ("td_errors", "a product with the mask", DELTA, "(rewards + gamma * next_values - values) * mask"),
    ("compute_gae", "rewards kept on padding", DELTAS,
     "td_errors(rewards, values, gamma, torch.ones_like(mask))"),
    ("compute_gae", "rewards and values exchanged", DELTAS, "td_errors(values, rewards, gamma, mask)"),
    ("compute_gae", "no values", DELTAS, "torch.where(mask, rewards, 0.0)"),
    ("compute_gae", "1 − λ", "deltas[:, t] +", "(1 - lam) * deltas[:, t] +"),
    ("compute_gae", "the column before", "advantages[:, t] = running", "advantages[:, t - 1] = running"),
    ("compute_gae", "r + V", RETURNS, "torch.where(mask, rewards + values, 0.0)"),
    ("compute_gae", "a product with the mask", RETURNS, "(advantages + values) * mask"),
    ("compute_gae", "exchanged", RESULTS, "return torch.where(mask, advantages + values, 0.0), advantages"),
]

DEFINITION = """\
def compute_gae(rewards, values, gamma, lam, mask):
    found = torch.zeros(2, *rewards.shape)
    for b, n in enumerate(mask.sum(1).tolist()):
        r, v = rewards[b, :n].tolist(), [*values[b, :n].tolist(), 0.0]
        d = [r[t] + gamma * v[t + 1] - v[t] for t in range(n)]
        for t in range(n):
            a = sum((gamma * lam) ** (s - t) * d[s] for s in range(t, n))
            found[:, b, t] = torch.tensor([a, a + v[t]])
    return list(found)
"""
RIGHT = [
    ("shape_rewards", "a matrix of ends", SCORE, "ends = torch.arange(mask.shape[1]) == last[:, None]\n"
     "    rewards = rewards + ends * scores[:, None]"),
    ("td_errors", "filled in, double", DELTA,
     "(rewards.double() + gamma * next_values - values).masked_fill(~mask, 0.0)"),
    ("compute_gae", "from the definition, a list", DEFINITION),
]
# fmt: on
