"""Answers to the exercises of lesson 10, as learners write them."""

# fmt: off
RETURN = "return (groups - others / (group_size - 1)).flatten()"
SCALED = "(centred / (groups.std(dim=1, keepdim=True) + 1e-4))"
KL = "torch.where(mask, old_logprobs - ref_logprobs, 0.0).sum(dim=1)"
GAINS = "clipped_gains(logprobs, old_logprobs, advantages, mask, config)"
FIXED = "sums.sum() / (len(sums) * config.response_length)"
TOKENS = "sums.sum() / counts.sum()"
PASS = "return 1 - all_wrong"

WRONG = [
    ("rloo_advantages", "every K-th response is a group", "groups = rewards.view(-1, group_size)",
     "groups = rewards.view(group_size, -1).T"),
    ("rloo_advantages", "a bracket too wide", "(groups - others / (group_size - 1))",
     "((groups - others) / (group_size - 1))"),
    ("rloo_advantages", "not flattened", ".flatten()", ""),
    ("rloo_advantages", "whitened", RETURN, "a = (groups - others / (group_size - 1)).flatten()\n"
     "    return (a - a.mean()) / a.std()"),
    ("rloo_advantages", "the best of the group as baseline", RETURN,
     "return (groups - groups.amax(1, keepdim=True)).flatten()"),
    ("rloo_advantages", "equal rewards are taken for its own",
     "    others = groups.sum(dim=1, keepdim=True) - groups\n"
     "    return (groups - others / (group_size - 1)).flatten()",
     "    rows = [[r - sum(x for x in g if x != r) / max(1,"
     " sum(x != r for x in g)) for r in g] for g in groups.tolist()]\n"
     "    return torch.tensor(rows).flatten()"),

    ("grpo_advantages", "RLOO's advantages", SCALED, "(centred * group_size / (group_size - 1))"),
    ("grpo_advantages", "variance as E[x²] − E[x]²", "(groups.std(dim=1, keepdim=True) + 1e-4)",
     "((((groups**2).mean(1, keepdim=True) - groups.mean(1,"
     " keepdim=True) ** 2).clamp(min=0) * group_size / (group_size - 1)).sqrt() + 1e-4)"),
    ("grpo_advantages", "advantages clamped", ".flatten()", ".flatten().clamp(-5, 5)"),

    ("group_step", "KL times the mask, then the course's advantages", KL,
     "((old_logprobs - ref_logprobs) * mask).sum(1)"),
    ("group_step", "absolute differences", "old_logprobs - ref_logprobs",
     "(old_logprobs - ref_logprobs).abs()"),
    ("group_step", "the batch's mean KL", "config.kl_coef * kl", "config.kl_coef * kl.mean()"),
    ("group_step", "KL not summed", KL, KL.removesuffix(".sum(dim=1)")),
    ("group_step", "rewards for advantages", "logprobs, advantages, mask", "logprobs, rewards, mask"),
    ("group_step", "log π·A", GAINS, "torch.where(mask, logprobs * advantages.unsqueeze(1), 0.0)"),
    ("group_step", "all tokens together for 'response'", "(sums / counts).mean()", TOKENS),
    ("group_step", "divided by the width", FIXED, "gains.mean()"),
    ("group_step", "the width for a response's own length", "(sums / counts)", "gains.mean(dim=1)"),
    ("group_step", "gains of 0 not counted", TOKENS, "gains[gains != 0].mean()"),
    ("group_step", "the loss detached", "-mean", "-mean.detach()"),

    ("pass_at_k", "pass@1", PASS, "return correct.float().mean(1)"),
    ("pass_at_k", "k times pass@1", PASS, "return k * correct.float().mean(1)"),
    ("pass_at_k", "factorials", "j = torch.arange(k)\n    all_wrong = ((wrong - j) / (n - j)).prod(dim=1)",
     "f = torch.arange(1, n + 1).cumprod(0)\n    f = torch.cat([f[:1], f])\n"
     "    left = (wrong[:, 0] - k).clamp(min=0)\n"
     "    all_wrong = torch.where(wrong[:, 0] < k, 0, f[wrong[:, 0]] * f[n - k] / (f[left] * f[n]))"),
]

RIGHT = [
    ("rloo_advantages", "K/(K − 1) times the centred reward", RETURN,
     "return ((groups - groups.mean(1, keepdim=True)) * group_size / (group_size - 1)).view(-1)"),
    ("rloo_advantages", "a matrix", RETURN,
     "k = group_size\n    return (groups @ (torch.eye(k) - (1 - torch.eye(k)) / (k - 1))).reshape(-1)"),
    ("grpo_advantages", "group by group", """
def grpo_advantages(rewards, group_size):
    return torch.cat([(g - g.mean()) / (g.std() + 1e-4) for g in rewards.split(group_size)])
"""),
    ("group_step", "as TRL writes it: clean first, two losses, the larger one", """
def group_step(scores, logprobs, old, ref, mask, config):
    logprobs, old, ref = (x.masked_fill(~mask, 0.0) for x in (logprobs, old, ref))
    rewards = scores - config.kl_coef * (old - ref).sum(-1)
    grouped = rewards.view(-1, config.responses_per_prompt)
    n = grouped.shape[1]
    advantages = grouped - grouped.mean(dim=1, keepdim=True)
    if config.method == "rloo":
        advantages = advantages * n / (n - 1)
    else:
        advantages = advantages / (grouped.std(dim=1, keepdim=True) + 1e-4)
    advantages = advantages.view(-1)
    coef_1 = torch.exp(logprobs - old)
    coef_2 = torch.clamp(coef_1, 1 - config.cliprange, 1 + config.cliprange_high)
    m = mask.float()
    per_token = torch.max(-coef_1 * advantages[:, None], -coef_2 * advantages[:, None]) * m
    if config.loss_aggregation == "response":
        loss = (per_token.sum(-1) / m.sum(-1).clamp(min=1.0)).mean()
    elif config.loss_aggregation == "token":
        loss = per_token.sum() / m.sum().clamp(min=1.0)
    else:
        loss = per_token.sum() / (per_token.size(0) * config.response_length)
    return rewards, advantages, -per_token, loss
"""),
    ("group_step", "a list of results, the mean by indexing", TOKENS, "gains[mask].mean()",
     "return rewards, advantages, gains, -mean", "return [rewards, advantages, gains, -mean]"),
    ("pass_at_k", "binomial coefficients", """
import math

def pass_at_k(correct, k):
    n = correct.shape[1]
    return torch.tensor([1 - math.comb(n - int(c), k) / math.comb(n, k) for c in correct.sum(1)])
"""),
]
