"""Answers as learners write them: right ones of another build, and wrong ones, none from the checks.

RIGHT and WRONG list (exercise, function) and (exercise, mistake, function).
"""

import math

import torch
import torch.nn.functional as F

# fmt: off

def gather_by_cross_entropy(logits, tokens):
    return -F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none")

def gather_by_loop(logits, tokens):
    rows = [[logits[b, t].double().log_softmax(0)[tokens[b, t]] for t in range(tokens.shape[1])]
            for b in range(len(tokens))]
    return torch.stack([torch.stack(row) for row in rows])

def response_mask_by_loop(tokens, eos):
    result = torch.zeros_like(tokens, dtype=torch.bool)
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            result[b, t] = True
            if token == eos:
                break
    return result

def shape_rewards_by_loop(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.zeros_like(logprobs, dtype=torch.float64)
    for b in range(len(scores)):
        n = int(mask[b].sum())
        for t in range(n):
            rewards[b, t] = -kl_coef * (logprobs[b, t] - ref_logprobs[b, t])
        rewards[b, n - 1] += scores[b]
    return rewards

def gae_by_definition(rewards, values, gamma, lam, mask):
    result = torch.zeros_like(rewards)
    for b, n in enumerate(mask.sum(1).tolist()):
        v = [*values[b, :n].tolist(), 0.0]
        delta = [float(rewards[b, t]) + gamma * v[t + 1] - v[t] for t in range(n)]
        for t in range(n):
            result[b, t] = sum((gamma * lam) ** (s - t) * delta[s] for s in range(t, n))
    return result

def gae_forwards(rewards, values, gamma, lam, mask):
    m = mask.float()
    v = torch.cat([values * m, torch.zeros(len(values), 1)], 1)
    running, columns = 0.0, []
    for t in range(rewards.shape[1]):
        delta = (rewards[:, t] + gamma * v[:, t + 1] - v[:, t]) * m[:, t]
        running = delta + gamma * lam * running
        columns.append(running * m[:, t])
    return torch.stack(columns, 1)

def gae_backwards(rewards, values, gamma, lam, mask, decay=None, reset=True, target=True):
    """The usual loop, with a slip in it where asked for."""
    m = mask.float()
    next_value, running, columns = 0.0, 0.0, []
    decay = gamma * lam if decay is None else decay
    for t in reversed(range(rewards.shape[1])):
        keep = m[:, t] if reset else 1.0
        delta = rewards[:, t] + gamma * next_value * target - values[:, t]
        running = (delta + decay * running) * keep
        next_value = values[:, t] * keep
        columns.insert(0, running * m[:, t])
    return torch.stack(columns, 1)

def returns_by_matrix(rewards, gamma, mask):
    t = torch.arange(rewards.shape[1])
    ahead = (t[None, :] - t[:, None]).clamp(0)
    weights = torch.where(t[None, :] >= t[:, None], gamma ** ahead.double(), 0.0)  # (from, to)
    return (rewards * mask).double() @ weights.T * mask

def td_with_slices(rewards, values, gamma, mask):
    v = values * mask
    result = rewards - v
    result[:, :-1] = result[:, :-1] + gamma * v[:, 1:]
    return result * mask

def whiten_in_two_steps(advantages, mask):
    kept = advantages[mask]
    result = torch.zeros_like(advantages)
    deviation = kept.std() if len(kept) > 1 else 0.0
    result[mask] = (kept - kept.mean()) / (deviation + 1e-8)
    return result

def policy_loss_by_cases(logprobs, old_logprobs, advantages, mask, cliprange):
    r = torch.exp(logprobs[mask] - old_logprobs[mask])
    a = advantages[mask]
    gain = torch.where(a > 0, torch.clamp(r, max=1 + cliprange), torch.clamp(r, min=1 - cliprange))
    return (-a * gain).mean()

def policy_loss_as_trl(logprobs, old_logprobs, advantages, mask, cliprange, pick=torch.max):
    r = torch.exp((logprobs - old_logprobs).masked_fill(~mask, 0.0))
    losses = pick(-advantages * r, -advantages * r.clamp(1 - cliprange, 1 + cliprange))
    return losses.masked_fill(~mask, 0.0).sum() / mask.sum()

def policy_loss_masked_late(logprobs, old_logprobs, advantages, mask, cliprange):
    r = (logprobs - old_logprobs).exp()
    gain = torch.minimum(r * advantages, r.clamp(1 - cliprange, 1 + cliprange) * advantages)
    return -gain[mask].mean()

def policy_loss_by_products(logprobs, old_logprobs, advantages, mask, cliprange):
    r = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    gain = torch.minimum(r * advantages, r.clamp(1 - cliprange, 1 + cliprange) * advantages)
    return -(gain * mask).sum() / mask.sum()

def value_loss_as_trl(values, old_values, returns, mask, eps, pick=torch.max, half=0.5):
    clipped = torch.min(torch.max(values, old_values - eps), old_values + eps)
    losses = pick((values - returns) ** 2, (clipped - returns) ** 2)
    return half * (losses * mask).sum() / mask.sum()

def accuracy_by_loop(chosen, rejected):
    points = 0.0
    for c, r in zip(chosen.tolist(), rejected.tolist(), strict=True):
        points += 1 if c > r else 0.5 if c == r else 0
    return points / len(chosen)

def clip_fraction_by_gains(ratio, advantages, mask, eps):
    gain, clipped = ratio * advantages, ratio.clamp(1 - eps, 1 + eps) * advantages
    return (clipped < gain)[mask].double().mean()

RIGHT = [
    ("rloo_advantages", lambda r, k: torch.cat(
        [(g - g.mean()) * k / (k - 1) for g in r.split(k)])),
    ("grpo_advantages", lambda r, k: torch.cat(
        [(g - g.mean()) / (g.var().sqrt() + 1e-4) for g in r.split(k)])),
    ("gather_logprobs", gather_by_cross_entropy),
    ("gather_logprobs", gather_by_loop),
    ("gather_logprobs", lambda x, k: torch.distributions.Categorical(logits=x).log_prob(k)),
    ("response_mask", response_mask_by_loop),
    ("response_mask", lambda x, e: F.pad((x == e).int().cumsum(1), (1, -1)) < 1),
    ("position_ids", lambda m: (m.long().cumsum(1) - 1).clamp(min=0)),
    ("position_ids", lambda m: (m.long().cumsum(1) - 1).masked_fill(~m, 0)),
    ("position_ids", lambda m: (m.long().cumsum(1) - 1).masked_fill(~m, 1)),
    ("kl_estimate", lambda p, q, e: {"k1": p - q, "k2": (p - q) ** 2 / 2,
                                     "k3": torch.exp(q - p) - 1 - (q - p)}[e]),
    ("shape_rewards", shape_rewards_by_loop),
    ("td_errors", td_with_slices),
    ("gae", gae_by_definition),
    ("gae", gae_backwards),
    ("discounted_returns", returns_by_matrix),
    ("masked_mean", lambda x, m: x[m].mean()),
    ("masked_mean", lambda x, m: x.double().masked_fill(~m, 0).sum() / m.sum()),
    ("masked_var", lambda x, m: x[m].var() if m.sum() > 1 else torch.zeros(())),
    ("masked_var", lambda x, m: float(x[m].double().var(unbiased=False) * m.sum() / max(m.sum() - 1, 1))),
    ("whiten_advantages", whiten_in_two_steps),
    ("explained_variance", lambda v, r, m: 1 - (r - v)[m].var() / r[m].var()),
    ("ratio", lambda p, q, m: torch.exp((p - q).masked_fill(~m, 0.0))),
    ("ratio", lambda p, q, m: torch.where(m, p - q, torch.zeros(())).exp()),
    ("policy_loss", policy_loss_by_cases),
    ("policy_loss", policy_loss_as_trl),
    ("value_loss", value_loss_as_trl),
    ("entropy", lambda x, m: torch.distributions.Categorical(logits=x).entropy()[m].mean()),
    ("entropy", lambda x, m: (x.logsumexp(-1) - (x.softmax(-1) * x).sum(-1))[m].mean()),
    ("clip_fraction", clip_fraction_by_gains),
    ("preference_probability", lambda a, b: 1 / (1 + torch.exp(b - a))),
    ("preference_probability", lambda a, b: torch.stack([a, b]).softmax(0)[0]),
    ("bradley_terry_loss", lambda c, r: F.softplus(r - c).mean()),
    ("bradley_terry_loss", lambda c, r: F.cross_entropy(
        torch.stack([c, r], 1), torch.zeros(len(c), dtype=torch.long))),
    ("normalize_scores", lambda s, ref: (s - ref.mean()) / ref.var().sqrt()),
    ("pair_accuracy", accuracy_by_loop),
    ("reinforce_loss", lambda z, w, a: torch.nn.functional.cross_entropy(
        z.expand(len(w), -1), w, reduction="none").mul(a).mean()),
    ("reinforce_loss", lambda z, w, a: -(torch.log_softmax(z, 0).gather(0, w) * a).sum() / len(w)),
    ("reinforce_loss", lambda z, w, a: -sum(
        (z - z.logsumexp(0))[i] * b for i, b in zip(w, a, strict=True)) / len(w)),
    ("reinforce_loss", lambda z, w, a: -torch.distributions.Categorical(logits=z).log_prob(w).dot(a)
     / len(a)),
    ("reinforce_loss", lambda z, w, a: ((z.logsumexp(0) - z[w]) * a).mean()),
    ("reinforce_loss", lambda z, w, a: -torch.einsum(
        "nv,v,n->", torch.eye(len(z))[w], z.log_softmax(-1), a) / len(w)),
]

WRONG = [
    ("reinforce_loss", "minus sign missing", lambda z, w, a: (z.log_softmax(0)[w] * a).mean()),
    ("reinforce_loss", "probabilities", lambda z, w, a: -(z.exp() / z.exp().sum())[w].mul(a).mean()),
    ("reinforce_loss", "raw logits", lambda z, w, a: -(z.gather(0, w) * a).mean()),
    ("reinforce_loss", "sum instead of mean", lambda z, w, a: -z.log_softmax(0)[w].dot(a)),
    ("reinforce_loss", "not averaged", lambda z, w, a: -z.log_softmax(0)[w] * a),
    ("reinforce_loss", "advantages left out", lambda z, w, a: -z.log_softmax(0)[w].mean()),
    ("reinforce_loss", "means multiplied", lambda z, w, a: -(z.log_softmax(0)[w].mean() * a.mean())),
    ("reinforce_loss", "weighed by π as well", lambda z, w, a: (
        -(z.softmax(0) * z.log_softmax(0))[w] * a).mean()),
    ("reinforce_loss", "advantages centred", lambda z, w, a: -(
        z.log_softmax(0)[w] * (a - a.mean())).mean()),
    ("reinforce_loss", "divided by the number of words there are", lambda z, w, a: -(
        z.log_softmax(0)[w] * a).sum() / z.numel()),
    ("policy_loss", "ratio always 1", lambda p, old, a, m, e: -torch.minimum(
        (p - p.detach()).exp() * a, (p - p.detach()).exp().clamp(1 - e, 1 + e) * a)[m].mean()),
    ("policy_loss", "ε written in", lambda p, old, a, m, e: -torch.minimum(
        (p - old).exp() * a, (p - old).exp().clamp(0.8, 1.2) * a)[m].mean()),
    ("value_loss", "ε written in", lambda v, old, r, m, e: 0.5 * torch.maximum(
        (v - r) ** 2, (v.clamp(old - 0.2, old + 0.2) - r) ** 2)[m].mean()),
    ("clip_fraction", "A = 0 counted", lambda rho, a, m, e: (
        ((rho > 1 + e) & (a >= 0)) | ((rho < 1 - e) & (a <= 0)))[m].float().mean()),
    ("clip_fraction", "ε written in", lambda rho, a, m, e: (
        ((rho > 1.2) & (a > 0)) | ((rho < 0.8) & (a < 0)))[m].float().mean()),
    ("masked_mean", "NaN in the padding", lambda x, m: (x * m).sum() / m.sum()),
    ("masked_var", "NaN in the padding", lambda x, m: (
        (x * m - (x * m).sum() / m.sum() * m).square().sum() / (m.sum() - 1).clamp(min=1))),
    ("masked_var", "one token", lambda x, m: x[m].var()),
    ("whiten_advantages", "NaN in the padding", lambda a, m: (
        (a - a[m].mean()) / (a[m].var() + 1e-8).sqrt() * m)),
    ("explained_variance", "NaN in the padding", lambda v, r, m: (
        1 - ((((r - v) * m).square().sum() / m.sum()) - (((r - v) * m).sum() / m.sum()).square())
        / r[m].var(unbiased=False))),
    ("gather_logprobs", "shifted by one",
     lambda x, k: -F.cross_entropy(x[:, :-1].transpose(1, 2), k[:, 1:], reduction="none")),
    ("gather_logprobs", "probabilities, not log-probs",
     lambda x, k: torch.gather(F.softmax(x, 2), 2, k[..., None])[..., 0]),
    ("gather_logprobs", "last axis kept", lambda x, k: F.log_softmax(x, 2).gather(2, k[..., None])),
    ("gather_logprobs", "negative log-probs",
     lambda x, k: F.cross_entropy(x.transpose(1, 2), k, reduction="none")),
    ("response_mask", "EOS excluded", lambda x, e: torch.cumprod((x != e).int(), 1).bool()),
    ("response_mask", "only the EOS left out", lambda x, e: ~x.eq(e)),
    ("response_mask", "row without EOS: argmax is 0", lambda x, e: torch.arange(
        x.shape[1]).expand_as(x) <= (x == e).float().argmax(1, keepdim=True)),
    ("response_mask", "everything counts", lambda x, e: x > -1),
    ("position_ids", "padding counted",
     lambda m: torch.arange(m.shape[1]).repeat(m.shape[0], 1)),
    ("position_ids", "starts at 1", lambda m: m.int().cumsum(-1).long() * m),
    ("position_ids", "negative on padding", lambda m: torch.cumsum(m, 1) - 1),
    ("kl_estimate", "KL reversed", lambda p, q, e: q - p if e == "k1" else p - q),
    ("kl_estimate", "k2 without the half", lambda p, q, e: p - q if e == "k1" else (p - q) ** 2),
    ("kl_estimate", "k3 with reversed ratio", lambda p, q, e: {
        "k1": p - q, "k2": 0.5 * (p - q) ** 2, "k3": (p - q).exp() - 1 - (p - q)}[e]),
    ("kl_estimate", "k1 for k2", lambda p, q, e: p - q),
    ("shape_rewards", "KL added", lambda s, p, q, m, b: -shape_rewards_by_loop(-s, p, q, m, b)),
    ("shape_rewards", "score on the last column", lambda s, p, q, m, b: torch.cat(
        [(-b * (p - q) * m)[:, :-1], (-b * (p - q) * m)[:, -1:] + s[:, None]], 1)),
    ("shape_rewards", "score at every token",
     lambda s, p, q, m, b: (s[:, None] - b * (p - q)) * m),
    ("td_errors", "bootstraps from padding",
     lambda r, v, g, m: (r + g * F.pad(v[:, 1:], (0, 1)) - v) * m),
    ("td_errors", "values[t] twice", lambda r, v, g, m: m * (r + (g - 1) * v)),
    ("td_errors", "gamma missing", lambda r, v, g, m: td_with_slices(r, v, 1.0, m)),
    ("gae", "forward recursion", gae_forwards),
    ("gae", "gamma missing in the sum", lambda *x: gae_backwards(*x, decay=x[3])),
    ("gae", "lambda missing", lambda *x: gae_backwards(*x, decay=x[2])),
    ("gae", "no reset at the mask", lambda *x: gae_backwards(*x, reset=False)),
    ("gae", "lambda and gamma swapped", lambda r, v, g, k, m: gae_by_definition(r, v, k, g, m)),
    ("gae", "returns instead of advantages", lambda *x: gae_by_definition(*x) + x[1] * x[4]),
    ("gae", "sign flipped", lambda *x: -gae_by_definition(*x)),
    ("discounted_returns", "gamma missing",
     lambda r, g, m: (r * m).flip(1).cumsum(1).flip(1) * m),
    ("discounted_returns", "padding counted",
     lambda r, g, m: returns_by_matrix(r, g, torch.ones_like(m))),
    ("discounted_returns", "own reward discounted", lambda r, g, m: g * returns_by_matrix(r, g, m)),
    ("masked_mean", "mean over padding", lambda x, m: x.sum() / x.numel()),
    ("masked_mean", "padding in the divisor", lambda x, m: (x * m).mean()),
    ("masked_mean", "one mean per sequence", lambda x, m: (x * m).sum(-1) / m.sum(-1)),
    ("masked_mean", "mean of the rows' means",
     lambda x, m: ((x * m).sum(-1) / m.sum(-1)).mean()),
    ("masked_var", "biased variance", lambda x, m: x[m].var(unbiased=False)),
    ("masked_var", "variance over padding", lambda x, m: torch.var(x)),
    ("masked_var", "standard deviation", lambda x, m: x[m].std()),
    ("whiten_advantages", "no square root",
     lambda a, m: (a - a[m].mean()) / (a[m].var() + 1e-8) * m),
    ("whiten_advantages", "whitening over padding",
     lambda a, m: (a - a.mean()) / (a.std() + 1e-8) * m),
    ("whiten_advantages", "no epsilon", lambda a, m: torch.where(
        m, (a - a[m].mean()) / a[m].std(), torch.zeros(()))),
    ("explained_variance", "fraction upside down",
     lambda v, r, m: 1 - r[m].var() / (r - v)[m].var()),
    ("explained_variance", "explained over padding", lambda v, r, m: 1 - (v - r).var() / r.var()),
    ("explained_variance", "1 − forgotten", lambda v, r, m: (v - r)[m].var() / r[m].var()),
    ("ratio", "NaN in the padding", lambda p, q, m: torch.exp((p - q) * m)),
    ("ratio", "NaN in the padding", lambda p, q, m: torch.exp(p * m - q * m)),
    ("ratio", "NaN gradient", lambda p, q, m: torch.where(m, (p - q).exp(), 1.0)),
    ("ratio", "NaN gradient", lambda p, q, m: (p - q).exp().masked_fill(~m, 1.0)),
    ("policy_loss", "NaN gradient", policy_loss_masked_late),
    ("policy_loss", "NaN in the padding", policy_loss_by_products),
    ("explained_variance", "squared error over the unbiased variance",
     lambda v, r, m: 1 - F.mse_loss(v[m], r[m]) / r[m].var()),
    ("explained_variance", "squared error instead of variance",
     lambda v, r, m: 1 - F.mse_loss(v[m], r[m]) / r[m].var(unbiased=False)),
    ("clip_fraction", "tokens inside the limits",
     lambda r, a, m, e: ((r > 1 - e) & (r < 1 + e))[m].float().mean()),
    ("clip_fraction", "equal gains counted",
     lambda r, a, m, e: (r.clamp(1 - e, 1 + e) * a <= r * a)[m].float().mean()),
    ("value_loss", "clipped in proportion to the old value", lambda v, o, r, m, e: value_loss_as_trl(
        v, o, r, m, e * o.abs())),
    ("value_loss", "larger of two means", lambda v, o, r, m, e: torch.max(
        F.mse_loss(v[m], r[m]), F.mse_loss(v.clamp(o - e, o + e)[m], r[m])) / 2),
    ("value_loss", "larger value", lambda v, o, r, m, e: (
        torch.max(v, v.clamp(o - e, o + e)) - r)[m].square().mean() / 2),
    ("value_loss", "squares added", lambda v, o, r, m, e: (
        (v - r) ** 2 + (v.clamp(o - e, o + e) - r) ** 2)[m].mean() / 2),
    ("entropy", "logits for p", lambda x, m: -(x * x.log_softmax(-1)).sum(-1)[m].mean()),
    ("entropy", "plain mean of −log p", lambda x, m: -x.log_softmax(-1)[m].mean()),
    ("entropy", "softmax over the batch", lambda x, m: -(
        x.softmax(0) * x.log_softmax(0)).sum(-1)[m].mean()),
    ("entropy", "NaN gradient", lambda x, m: torch.special.entr(x.softmax(-1)).sum(-1)[m].mean()),
    ("ratio", "quotient of probabilities", lambda p, q, m: torch.where(m, p.exp() / q.exp(), 1.0)),
    ("ratio", "difference without exp", lambda p, q, m: (p - q) * m),
    ("ratio", "ratio reversed", lambda p, q, m: torch.exp((q - p) * m)),
    ("ratio", "masked positions are 0", lambda p, q, m: torch.exp(p - q) * m),
    ("policy_loss", "max instead of min", lambda *x: policy_loss_as_trl(*x, pick=torch.min)),
    ("policy_loss", "minus sign missing", lambda *x: -policy_loss_by_cases(*x)),
    ("policy_loss", "mean over padding", lambda p, q, a, m, e: policy_loss_by_cases(
        p, q, a, torch.ones_like(m), e)),
    ("policy_loss", "no clip", lambda p, q, a, m, e: policy_loss_by_cases(p, q, a, m, 1e9)),
    ("value_loss", "min instead of max", lambda *x: value_loss_as_trl(*x, pick=torch.min)),
    ("value_loss", "half missing", lambda *x: value_loss_as_trl(*x, half=1.0)),
    ("value_loss", "no clip", lambda v, o, r, m, e: F.mse_loss(v[m], r[m]) / 2),
    ("value_loss", "no clip", lambda v, o, r, m, e: value_loss_as_trl(v, r, r, m, e)),
    ("entropy", "negative", lambda x, m: (x.softmax(-1) * F.log_softmax(x, -1)).sum(-1)[m].mean()),
    ("entropy", "mean over padding",
     lambda x, m: torch.distributions.Categorical(logits=x).entropy().mean()),
    ("entropy", "0·log 0, or an overflow",
     lambda x, m: -(x.softmax(-1) * x.softmax(-1).log()).sum(-1)[m].mean()),
    ("clip_fraction", "sign of the advantage ignored",
     lambda r, a, m, e: ((r < 1 - e) | (r > 1 + e))[m].float().mean()),
    ("clip_fraction", "sum instead of mean",
     lambda r, a, m, e: clip_fraction_by_gains(r, a, m, e) * m.sum()),
    ("clip_fraction", "mean over padding",
     lambda r, a, m, e: clip_fraction_by_gains(r, a, torch.ones_like(m), e)),
    ("preference_probability", "reversed", lambda a, b: 1 / (1 + torch.exp(a - b))),
    ("preference_probability", "hard decision", lambda a, b: 1.0 * (a - b > 0)),
    ("preference_probability", "softmax over the batch", lambda a, b: F.softmax(a - b, dim=-1)),
    ("bradley_terry_loss", "reversed", lambda c, r: F.softplus(c - r).mean()),
    ("bradley_terry_loss", "log of a vanished probability",
     lambda c, r: torch.log(1 + torch.exp(r - c)).mean()),
    ("bradley_terry_loss", "hinge", lambda c, r: torch.clamp(1 - c + r, min=0).mean()),
    ("bradley_terry_loss", "base 2", lambda c, r: F.softplus(r - c).mean() * math.log2(math.e)),
    ("normalize_scores", "own statistics", lambda s, ref: (s - s.mean()) / s.std()),
    ("normalize_scores", "variance instead of std", lambda s, ref: (s - ref.mean()) / ref.var()),
    ("normalize_scores", "mean not subtracted", lambda s, ref: s / ref.std()),
    ("pair_accuracy", "tie counts fully", lambda c, r: sum(c >= r).item() / len(c)),
    ("pair_accuracy", "tie counts nothing", lambda c, r: torch.mean((c - r > 0).double())),
    ("pair_accuracy", "reversed", lambda c, r: accuracy_by_loop(r, c)),
    ("rloo_advantages", "own reward in the baseline", lambda r, k: torch.cat(
        [g - g.mean() for g in r.split(k)])),
    ("rloo_advantages", "mean of the batch", lambda r, k: r - r.sum() / len(r)),
    ("rloo_advantages", "divided by the std", lambda r, k: torch.cat(
        [(g - g.mean()) / (g.std() + 1e-4) for g in r.split(k)])),
    ("grpo_advantages", "biased std", lambda r, k: torch.cat(
        [(g - g.mean()) / ((g - g.mean()).square().mean().sqrt() + 1e-4) for g in r.split(k)])),
    ("grpo_advantages", "no epsilon", lambda r, k: torch.cat(
        [(g - g.mean()) / g.std() for g in r.split(k)])),
    ("grpo_advantages", "std missing", lambda r, k: torch.cat([g - g.mean() for g in r.split(k)])),
]
