"""Answers to the large exercise of lesson 10: right steps of another build, and wrong ones with their names.

Written as learners write them: token by token, row by row, as TRL does; none is taken from the checks.
"""

import torch

NAME = "group_step"


# --- right ones, each of another build ------------------------------------------------------------


def by_loops(scores, logprobs, old, ref, mask, config):
    """One response and one token at a time."""
    rewards, K = [], config.responses_per_prompt
    for b in range(len(scores)):
        kl = sum((old[b, t] - ref[b, t]).item() for t in range(mask.shape[1]) if mask[b, t])
        rewards.append(scores[b].item() - config.kl_coef * kl)
    advantages = []
    for start in range(0, len(rewards), K):
        group = torch.tensor(rewards[start : start + K], dtype=torch.float64)
        for i in range(K):
            others = torch.cat([group[:i], group[i + 1 :]])
            rloo = group[i] - others.mean()
            grpo = (group[i] - group.mean()) / (group.std() + 1e-4)
            advantages.append(float(rloo if config.method == "rloo" else grpo))
    gains, weights = [], []
    lengths = mask.sum(1).tolist()
    for b, row in enumerate(mask.tolist()):
        for t, counts in enumerate(row):
            if not counts:
                gains.append(torch.zeros(()))
                weights.append(0.0)
                continue
            ratio = torch.exp(logprobs[b, t] - old[b, t])
            bounded = ratio.clamp(1 - config.cliprange, 1 + config.cliprange_high)
            gains.append(torch.min(ratio * advantages[b], bounded * advantages[b]))
            weights.append({
                "token": 1 / sum(lengths),
                "response": 1 / (lengths[b] * len(lengths)),
                "fixed": 1 / (len(lengths) * config.response_length),
            }[config.loss_aggregation])  # fmt: skip
    gains = torch.stack(gains)
    loss = -(gains * torch.tensor(weights)).sum()
    return torch.tensor(rewards), torch.tensor(advantages), gains.view(mask.shape), loss


def as_trl(scores, logprobs, old, ref, mask, config):
    """As TRL writes it: clean padding first, two losses, the larger one; a mask of floats."""
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


def step(
    kl=lambda old, ref, logprobs, mask: torch.where(mask, old - ref, 0.0).sum(1),
    reward=lambda s, beta, kl: s - beta * kl,
    rloo=lambda g: g - (g.sum(1, True) - g) / (g.shape[1] - 1),
    grpo=lambda g: (g - g.mean(1, True)) / (g.std(1, keepdim=True) + 1e-4),
    table=lambda r, k: r.reshape(-1, k),
    credited=lambda rewards, scores: rewards,
    ratio=lambda new, old, ref, mask: torch.where(mask, new - old, 0.0).exp(),
    column=lambda a, rewards, width: a.reshape(-1, 1).expand(-1, width),
    gain=lambda r, a, low, high: torch.where(
        a > 0, r.clamp(max=1 + high), r.clamp(min=1 - low)) * a,
    clear=lambda gains, mask: gains.masked_fill(~mask, 0.0),
    response=lambda x, m, n: (x.sum(1) / m.sum(1)).mean(),
    token=lambda x, m, n: x.sum() / m.sum(),
    fixed=lambda x, m, n: x.sum() / (len(x) * n),
    outer=lambda mean: -mean,
    result=lambda *found: found,
):  # fmt: skip
    """A step in twelve pieces, any of which may be another."""

    def group_step(scores, logprobs, old_logprobs, ref_logprobs, mask, config):
        total = kl(old_logprobs, ref_logprobs, logprobs, mask)
        rewards = reward(scores, config.kl_coef, total)
        way = {"rloo": rloo, "grpo": grpo}[config.method]
        groups = table(credited(rewards, scores), config.responses_per_prompt)
        advantages = way(groups).flatten()
        rho = ratio(logprobs, old_logprobs, ref_logprobs, mask)
        spread = column(advantages, rewards, mask.shape[1])
        gains = clear(gain(rho, spread, config.cliprange, config.cliprange_high), mask)
        mean = {"response": response, "token": token, "fixed": fixed}[config.loss_aggregation]
        loss = outer(mean(gains, mask, config.response_length))
        return result(rewards, advantages, gains, loss)

    return group_step


def smaller(r, a, low, high):
    return torch.min(r * a, r.clamp(1 - low, 1 + high) * a)


def in_double(scores, logprobs, old, ref, mask, config):
    """The advantages in float64, the rest as it comes."""
    rewards, advantages, gains, loss = step()(scores, logprobs, old, ref, mask, config)
    return [rewards.double(), advantages.double(), gains, loss]


def centred_first(g):
    centred = g - g.mean(1, True)
    return centred / (centred.square().sum(1, True).div(g.shape[1] - 1).sqrt() + 1e-4)


RIGHT = [(NAME, function) for function in (
    by_loops,
    as_trl,
    in_double,
    step(),
    step(gain=smaller),
    step(ratio=lambda new, old, ref, m: new.masked_fill(~m, 0).exp() / old.masked_fill(~m, 0).exp()),
    step(rloo=lambda g: (g - g.mean(1, True)) * g.shape[1] / (g.shape[1] - 1), grpo=centred_first),
    step(fixed=lambda x, m, n: (x.sum(1) / n).mean(), token=lambda x, m, n: x[m].mean()),
    step(kl=lambda old, ref, new, m: torch.stack(
        [(a[k] - b[k]).sum() for a, b, k in zip(old, ref, m, strict=True)])),
    step(kl=lambda old, ref, new, m: torch.nansum(torch.where(m, old, 0) - torch.where(m, ref, 0), 1)),
)]  # fmt: skip


# --- wrong ones -----------------------------------------------------------------------------------


def unclean(scores, logprobs, old, ref, mask, config):
    """Right numbers, but the ratio in the padding is exp(NaN) before it is masked."""
    rewards, advantages, _, _ = step()(scores, logprobs, old, ref, mask, config)
    a = advantages.unsqueeze(1)
    rho = (logprobs - old).exp()
    gains = torch.where(mask, torch.minimum(rho * a, rho.clamp(
        1 - config.cliprange, 1 + config.cliprange_high) * a), 0.0)  # fmt: skip
    loss = step(ratio=lambda *_: rho)(scores, logprobs, old, ref, mask, config)[-1]
    return rewards, advantages, gains, loss


def no_column(scores, logprobs, old, ref, mask, config):
    rewards, advantages, *_ = step()(scores, logprobs, old, ref, mask, config)
    rho = torch.where(mask, logprobs - old, 0.0).exp()
    gains = torch.min(rho * advantages, rho.clamp(0.8, 1.2) * advantages)
    return rewards, advantages, gains, -gains[mask].mean()


def across(r, k):
    return r.reshape(k, -1).T


def half_done(scores, logprobs, old, ref, mask, config):
    """'fixed' is not written yet."""
    found = step()(scores, logprobs, old, ref, mask, config)
    return (*found[:3], NotImplemented if config.loss_aggregation == "fixed" else found[3])


def slips(name, **pieces):
    return NAME, name, step(**pieces)


WRONG = [
    # the rewards
    slips("the KL is paid", reward=lambda s, beta, kl: s + beta * kl),
    slips("the KL is paid", kl=lambda old, ref, new, m: (ref - old).masked_fill(~m, 0).sum(1)),
    slips("β missing", reward=lambda s, beta, kl: s - kl),
    slips("KL missing", reward=lambda s, beta, kl: s.clone()),
    slips("padding counted", kl=lambda old, ref, new, m: (old - ref).sum(-1)),
    slips("mean over tokens", kl=lambda old, ref, new, m: torch.stack(
        [(a - b)[k].mean() for a, b, k in zip(old, ref, m, strict=True)])),
    slips("mean over all positions", kl=lambda old, ref, new, m: (old - ref).masked_fill(~m, 0).mean(1)),
    slips("KL of the policy in training",
          kl=lambda old, ref, new, m: (new - ref).masked_fill(~m, 0).sum(1)),
    slips("KL to the old policy", kl=lambda old, ref, new, m: (new - old).masked_fill(~m, 0).sum(1)),
    slips("one KL for all", reward=lambda s, beta, kl: s - beta * kl.mean()),
    slips("the size of each difference",
          kl=lambda old, ref, new, m: (old - ref).abs().masked_fill(~m, 0).sum(1)),
    slips("divided by β", reward=lambda s, beta, kl: s - kl / beta),
    slips("0 times NaN", kl=lambda old, ref, new, m: ((old - ref) * m.float()).sum(1)),
    # the advantages
    slips("rloo: own reward in the baseline", rloo=lambda g: g - g.mean(-1, keepdim=True)),
    slips("rloo: divided by K", rloo=lambda g: g - (g.sum(1, True) - g) / g.shape[1]),
    slips("rloo: mean of the batch", rloo=lambda g: g - g.mean()),
    slips("rloo: baseline alone", rloo=lambda g: (g.sum(1, True) - g) / (g.shape[1] - 1)),
    slips("rloo: divided by the std", rloo=lambda g: (g - g.mean(1, True)) / (g.std(1, keepdim=True) + 1e-4)),
    slips("grpo: std missing", grpo=lambda g: g - g.mean(1, True)),
    slips("grpo: biased std", grpo=lambda g: (g - g.mean(1, True)) / (
        g.std(1, unbiased=False, keepdim=True) + 1e-4)),
    slips("grpo: no epsilon", grpo=lambda g: (g - g.mean(1, True)) / g.std(1, keepdim=True)),
    slips("grpo: smaller epsilon", grpo=lambda g: (g - g.mean(1, True)) / (g.std(1, keepdim=True) + 1e-8)),
    slips("grpo: statistics of the batch", grpo=lambda g: (g - g.mean()) / (g.std() + 1e-4)),
    slips("grpo: variance instead of std", grpo=lambda g: (g - g.mean(1, True)) / (
        g.var(1, keepdim=True) + 1e-4)),
    slips("advantages of the scores", credited=lambda rewards, scores: scores),
    (NAME, "rloo: groups taken across", lambda *given: (
        lambda found: (found[0], (lambda g: (g - (g.sum(1, True) - g) / (g.shape[1] - 1)).T.flatten())(
            across(found[0], given[-1].responses_per_prompt)), *found[2:]))(step()(*given))),
    slips("reference missing", kl=lambda old, ref, new, m: old.masked_fill(~m, 0).sum(1)),
    slips("one KL for all", reward=lambda s, beta, kl: s - beta * kl.sum()),
    slips("rloo: baseline added", rloo=lambda g: g + (g.sum(1, True) - g) / (g.shape[1] - 1)),
    slips("rloo: own reward in the baseline", rloo=lambda g: g - g.sum(1, True) / (g.shape[1] - 1)),
    slips("grpo: mean added", grpo=lambda g: (g + g.mean(1, True)) / (g.std(1, keepdim=True) + 1e-4)),
    # the gains
    slips("no room on one side",
          gain=lambda r, a, low, high: torch.min(r * a, r.clamp(1, 1 + high) * a)),
    slips("ratio left out", gain=lambda r, a, low, high: torch.min(r * a, a)),
    slips("gains averaged",
          gain=lambda r, a, low, high: (r * a + r.clamp(1 - low, 1 + high) * a) / 2),
    slips("the size of the advantage", gain=lambda r, a, low, high: smaller(r, a.abs(), low, high)),
    slips("gain in the padding not masked", clear=lambda gains, mask: gains),
    slips("max instead of min",
          gain=lambda r, a, low, high: torch.max(r * a, r.clamp(1 - low, 1 + high) * a)),
    slips("clip without min", gain=lambda r, a, low, high: r.clamp(1 - low, 1 + high) * a),
    slips("no clip", gain=lambda r, a, low, high: a * r),
    slips("0.2 written in", gain=lambda r, a, low, high: smaller(r, a, 0.2, 0.2)),
    slips("one limit for both sides", gain=lambda r, a, low, high: smaller(r, a, low, low)),
    slips("higher on both sides", gain=lambda r, a, low, high: smaller(r, a, high, high)),
    slips("limits exchanged", gain=lambda r, a, low, high: smaller(r, a, high, low)),
    slips("limits without 1",
          gain=lambda r, a, low, high: torch.min(r * a, r.clamp(-low, high) * a)),
    slips("limits without 1",
          gain=lambda r, a, low, high: torch.min(r * a, r.clamp(1 - low, high) * a)),
    slips("smaller ratio", gain=lambda r, a, low, high: torch.min(r, r.clamp(1 - low, 1 + high)) * a),
    slips("ratio reversed", ratio=lambda new, old, ref, m: (old - new).masked_fill(~m, 0).exp()),
    slips("ratio to the reference",
          ratio=lambda new, old, ref, m: (new - ref).masked_fill(~m, 0).exp()),
    slips("difference without exp", ratio=lambda new, old, ref, m: (new - old).masked_fill(~m, 0),
          gain=smaller),
    slips("the rewards for advantages",
          column=lambda a, rewards, width: rewards.unsqueeze(1).expand(-1, width)),
    *(slips("gain bounded below", gain=lambda r, a, low, high, most=most: torch.where(
        a < 0, smaller(r, a, low, high).maximum(most * a), smaller(r, a, low, high)))
      for most in (2, 3, 5)),
    slips("minus sign too early", gain=lambda r, a, low, high: -smaller(r, a, low, high),
          outer=lambda mean: mean),
    slips("detached", ratio=lambda new, old, ref, m: (new - old).detach().masked_fill(~m, 0).exp()),
    slips("one gain per response", clear=lambda gains, mask: gains.masked_fill(~mask, 0).sum(1, True),
          response=lambda x, m, n: (x[:, 0] / m.sum(1)).mean(),
          result=lambda r, a, g, loss: (r, a, g[:, 0], loss)),
    (NAME, "NaN gradient", unclean),
    (NAME, "advantages not a column", no_column),
    # the loss
    slips("minus sign missing", outer=lambda mean: mean),
    slips("response: all tokens together", response=lambda x, m, n: x[m].mean()),
    slips("response: length with padding", response=lambda x, m, n: x.mean(1).mean()),
    slips("response: rows not averaged", response=lambda x, m, n: (x.sum(1) / m.sum(1)).sum()),
    slips("response: rows not divided", response=lambda x, m, n: x.sum(1).mean()),
    slips("fixed: divided by the width", fixed=lambda x, m, n: x.mean()),
    slips("fixed: divided by the longest response",
          fixed=lambda x, m, n: x.sum() / (len(x) * m.sum(1).amax())),
    slips("fixed: number of responses missing", fixed=lambda x, m, n: x.sum() / n),
    slips("fixed: length missing", fixed=lambda x, m, n: x.sum(1).mean()),
    slips("fixed: counted tokens", fixed=lambda x, m, n: x[m].mean()),
    slips("fixed: rows divided twice", fixed=lambda x, m, n: (x.sum(1) / m.sum(1) / n).mean()),
    slips("token: padding in the divisor", token=lambda x, m, n: x.mean()),
    slips("token: mean of means", token=lambda x, m, n: (x.sum(1) / m.sum(1)).mean()),
    slips("token: gains of 0 not counted", token=lambda x, m, n: x[x != 0].mean()),
    slips("token: not divided", token=lambda x, m, n: x.sum()),
    slips("token: divided by the responses", token=lambda x, m, n: x.sum(1).mean()),
    slips("detached", outer=lambda mean: -mean.detach()),
    (NAME, "unfinished", half_done),
    # the form
    slips("the order of the results", result=lambda r, a, g, loss: (a, r, g, loss)),
    slips("wrong type", result=lambda r, a, g, loss: loss),
    slips("wrong type", result=lambda *found: None),
    slips("exception", outer=lambda mean: -mean.missing),
]  # fmt: skip
