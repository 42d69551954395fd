"""Answers to lesson 02's exercises: edits of the solution (old, new), two edits, or a whole source."""

# fmt: off
SCORE = "rewards[rows, last] += scores"
KL = "(logprobs - ref_logprobs)"
NEXT = "torch.cat([values[:, 1:], nothing], dim=1)"
DELTA = "torch.where(mask, rewards + gamma * next_values - values, 0.0)"
ZEROED = "rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)"
NEXTS = "torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)"
WALK = "range(x.shape[1])"
RETURNS = "torch.where(mask, advantages + values, 0.0)"
RESULTS = "return deltas, advantages, returns, walk(rewards, gamma)"
SUM = "running = delta + gamma * lam * running"
STEPS = "reversed(range(rewards.shape[1]))"

WRONG = [
    ("shape_rewards", "score in the last column", SCORE, "rewards[:, -1] += scores"),
    ("shape_rewards", "score at each token", SCORE, "rewards += scores[:, None] * mask"),
    ("shape_rewards", "score in whole columns", SCORE, "rewards[:, last] += scores"),
    ("shape_rewards", "the score instead", SCORE, "rewards[rows, last] = scores"),
    ("shape_rewards", "no score", SCORE, "pass"),
    ("shape_rewards", "KL as a bonus", "-kl_coef", "kl_coef"),
    ("shape_rewards", "β forgotten", "-kl_coef *", "-"),
    ("shape_rewards", "size of the KL", KL, "(logprobs - ref_logprobs).abs()"),
    ("shape_rewards", "ratios", KL, "(logprobs - ref_logprobs).exp()"),
    ("shape_rewards", "KL on padding", "torch.where(mask, penalty, 0.0)", "penalty"),
    ("shape_rewards", "KL on the last token", "torch.where(mask, penalty, 0.0)",
     "torch.where(mask, penalty, 0.0).sum(1, True) * (torch.arange(mask.shape[1]) == mask.sum(1, True) - 1)"),
    ("td_errors", "rolled", NEXT, "values.roll(-1, 1)"),
    ("td_errors", "rolled the other way", NEXT, "values.roll(1, 1)"),
    ("td_errors", "the last value again", NEXT, "torch.cat([values[:, 1:], values[:, -1:]], dim=1)"),
    ("td_errors", "the critic on padding", "values = torch.where(mask, values, 0.0)", "values = values"),
    ("td_errors", "no discount", "gamma * next_values", "next_values"),
    ("td_errors", "all discounted", "rewards + gamma * next_values", "gamma * (rewards + next_values)"),
    ("td_errors", "V added", "- values, 0.0", "+ values, 0.0"),
    ("td_errors", "the target", " - values, 0.0", ", 0.0"),
    ("td_errors", "padding left in", DELTA, "rewards + gamma * next_values - values"),
    ("td_errors", "a product with the mask", DELTA, "(rewards + gamma * next_values - values) * mask"),
    ("td_errors", "next row", NEXT, "torch.cat([values[1:], values[:1]])"),
    ("credit", "rewards kept on padding", "deltas = " + DELTA,
     "deltas = rewards + gamma * next_values - values",
     ZEROED, "values = torch.where(mask, values, 0.0)"),
    ("credit", "values kept on padding", ZEROED, "rewards = torch.where(mask, rewards, 0.0)"),
    ("credit", "rolled", NEXTS, "values.roll(-1, 1)"),
    ("credit", "V with a plus", "next_values - values", "next_values + values"),
    ("credit", "no discount of V", "gamma * next_values", "next_values"),
    ("credit", "the target", "gamma * next_values - values", "gamma * next_values"),
    ("credit", "λ for γ", "gamma * next_values", "lam * next_values"),
    ("credit", "1 − λ", "walk(deltas, gamma * lam)", "(1 - lam) * walk(deltas, gamma * lam)"),
    ("credit", "forwards", "reversed(range(x.shape[1]))", WALK, "columns[::-1]", "columns"),
    ("credit", "not reversed", "columns[::-1]", "columns"),
    ("credit", "no dim", "columns[::-1], dim=1", "columns[::-1]"),
    ("credit", "cumsum of δ", "walk(deltas, gamma * lam)", "deltas.cumsum(1) * mask"),
    ("credit", "r + V", RETURNS, "torch.where(mask, rewards + values, 0.0)"),
    ("credit", "the advantages again", RETURNS, "advantages"),
    ("credit", "whitened first", "    returns =", "    advantages = (advantages - advantages[mask].mean()) /"
     " advantages[mask].std() * mask\n    returns ="),
    ("credit", "λ to go", "walk(rewards, gamma)", "walk(rewards, gamma * lam)"),
    ("credit", "the last two exchanged", RESULTS, "return deltas, advantages, walk(rewards, gamma), returns"),
    ("credit", "three results", RESULTS, "return deltas, advantages, returns"),
    ("compute_gae", "V on padding", "torch.where(mask, values, 0.0)", "values"),
    ("compute_gae", "V overwritten first", "        delta =",
     "        following = values[:, t]\n        delta ="),
    ("compute_gae", "V with a plus", "following - values", "following + values"),
    ("compute_gae", "no γ", "gamma * following", "following"),
    ("compute_gae", "the Monte Carlo sum", SUM, "running = rewards[:, t] + gamma * running"),
    ("compute_gae", "δ discounted", "delta + gamma * lam * running", "gamma * lam * (delta + running)"),
    ("compute_gae", "forwards", STEPS, "range(rewards.shape[1])"),
    ("compute_gae", "TD errors", SUM, "running = delta"),
    ("compute_gae", "returns", "(mask, advantages, 0.0)", "(mask, advantages + values, 0.0)"),
    ("compute_gae", "whitened", "torch.where(mask, advantages, 0.0)",
     "torch.where(mask, (advantages - advantages[mask].mean()) / advantages[mask].std(), 0.0)"),
    ("compute_gae", "padding runs on",
     "rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)",
     "values = torch.where(mask, values, 0.0)"),
]

DEFINITION = """\
def credit(rewards, values, gamma, lam, mask):
    found = torch.zeros(4, *rewards.shape)
    for b, n in enumerate(mask.sum(1).tolist()):
        r, v = rewards[b, :n].tolist(), [*values[b, :n].tolist(), 0.0]
        d = [r[t] + gamma * v[t + 1] - v[t] for t in range(n)]
        for t in range(n):
            a = sum((gamma * lam) ** (s - t) * d[s] for s in range(t, n))
            go = sum(gamma ** (s - t) * r[s] for s in range(t, n))
            found[:, b, t] = torch.tensor([d[t], a, a + v[t], go])
    return list(found)
"""
IN_PLACE = """\
def credit(rewards, values, gamma, lam, mask):
    d, a, g = (torch.zeros_like(rewards) for _ in range(3))
    run = ahead = go = torch.zeros(len(rewards))
    for t in range(rewards.shape[1] - 1, -1, -1):
        on = mask[:, t]
        d[:, t] = torch.where(on, rewards[:, t] + gamma * ahead - values[:, t], 0.0)
        run = torch.where(on, d[:, t] + gamma * lam * run, 0.0)
        go = torch.where(on, rewards[:, t] + gamma * go, 0.0)
        ahead = torch.where(on, values[:, t], 0.0)
        a[:, t], g[:, t] = run, go
    return d, a, torch.where(mask, a + values, 0.0), g
"""
MATRIX = """\
def compute_gae(rewards, values, gamma, lam, mask):
    r, v = (torch.where(mask, x, 0.0).double() for x in (rewards, values))
    t = torch.arange(r.shape[1])
    ahead = t[None, :] - t[:, None]
    weights = torch.where(ahead >= 0, (gamma * lam) ** ahead.clamp(min=0).double(), 0.0)
    deltas = r + gamma * torch.nn.functional.pad(v[:, 1:], (0, 1)) - v
    advantages = torch.where(mask, deltas @ weights.T, 0.0)
    return advantages, torch.where(mask, advantages + v, 0.0)
"""
RIGHT = [
    ("shape_rewards", "a matrix of ends", SCORE, "ends = torch.arange(mask.shape[1]) == last[:, None]\n"
     "    rewards = rewards + ends * scores[:, None]"),
    ("shape_rewards", "a loop in double", SCORE,
     "rewards = rewards.double()\n    for b in range(len(scores)):\n"
     "        rewards[b, int(mask[b].sum()) - 1] += scores[b]"),
    ("td_errors", "padded", NEXT, "torch.nn.functional.pad(values[:, 1:], (0, 1))"),
    ("td_errors", "filled in, double", DELTA,
     "(rewards.double() + gamma * next_values - values).masked_fill(~mask, 0.0)"),
    ("credit", "from the definition, a list", DEFINITION),
    ("credit", "in place, both sums set back on padding", IN_PLACE),
    ("compute_gae", "a product of matrices", MATRIX),
    ("compute_gae", "columns stacked", "advantages[:, t] = running", "advantages = torch.cat("
     "[advantages[:, :t], running[:, None], advantages[:, t + 1:]], 1)"),
]
# fmt: on
