"""Answers of thirty learners: each with one mistake (`MISTAKES`), or correct in an unusual way (`CORRECT`).

Written without looking at the checks, so that the checks can be tested with them.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

MISTAKES = []  # (exercise, what a teacher would say, function)
CORRECT = []  # (exercise, function)


def mistake(exercise, description):
    def keep(function):
        MISTAKES.append((exercise, description, function))
        return function

    return keep


def correct(exercise):
    def keep(function):
        CORRECT.append((exercise, function))
        return function

    return keep


# gather_logprobs


@mistake("gather_logprobs", "picks the raw logits and never normalises them with log_softmax")
def gather_raw_logits(logits, tokens):
    return torch.gather(logits, 2, tokens[:, :, None])[:, :, 0]


@mistake("gather_logprobs", "returns probabilities instead of their logarithms")
def gather_probabilities(logits, tokens):
    probs = torch.softmax(logits, dim=-1)
    return probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


@mistake("gather_logprobs", "takes the softmax over time instead of over the vocabulary")
def gather_over_time(logits, tokens):
    logp = F.log_softmax(logits, dim=1)
    return logp.gather(2, tokens.unsqueeze(2)).squeeze(2)


@mistake("gather_logprobs", "shifts by one: scores the next token with each position's logits")
def gather_shifted(logits, tokens):
    logp = logits.log_softmax(-1)
    out = torch.zeros(tokens.shape, dtype=logp.dtype)
    out[:, :-1] = logp[:, :-1].gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return out


@mistake("gather_logprobs", "takes the most likely token's log-prob, not the sampled token's")
def gather_greedy(logits, tokens):
    logp = logits.log_softmax(dim=-1)
    best = logp.argmax(dim=-1, keepdim=True)
    return logp.gather(-1, best).squeeze(-1)


@mistake("gather_logprobs", "has the sign wrong: returns the cross-entropy, minus the log-prob")
def gather_cross_entropy(logits, tokens):
    return F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none")


# response_mask


@mistake("response_mask", "leaves the stop token out, so the model never learns to stop")
def mask_without_eos(response_tensors, eos_token_id):
    seen = (response_tensors == eos_token_id).cumsum(dim=1)
    return seen == 0


@mistake("response_mask", "masks only later EOS tokens and counts anything else after the first")
def mask_only_repeats(response_tensors, eos_token_id):
    is_eos = response_tensors == eos_token_id
    repeated = is_eos & (is_eos.int().cumsum(1) > 1)
    return ~repeated


@mistake("response_mask", "counts only one token of a response that never says EOS")
def mask_argmax(response_tensors, eos_token_id):
    end = (response_tensors == eos_token_id).int().argmax(dim=1)
    steps = torch.arange(response_tensors.shape[1])
    return steps[None, :] <= end[:, None]


@mistake("response_mask", "counts one token too many, the one right after EOS")
def mask_one_late(response_tensors, eos_token_id):
    mask = torch.ones_like(response_tensors, dtype=torch.bool)
    for b, row in enumerate(response_tensors.tolist()):
        if eos_token_id in row:
            mask[b, row.index(eos_token_id) + 2 :] = False
    return mask


@mistake("response_mask", "runs on to the last EOS instead of stopping at the first")
def mask_to_last_eos(response_tensors, eos_token_id):
    mask = torch.ones_like(response_tensors, dtype=torch.bool)
    for b in range(len(response_tensors)):
        where = (response_tensors[b] == eos_token_id).nonzero().flatten()
        if len(where) > 0:
            mask[b, where[-1] + 1 :] = False
    return mask


@mistake("response_mask", "is inverted: True marks the padding")
def mask_inverted(response_tensors, eos_token_id):
    eos = (response_tensors == eos_token_id).long()
    return (eos.cumsum(1) - eos) > 0


# position_ids


@mistake("position_ids", "ignores the mask and simply counts 0, 1, 2, … through the padding")
def positions_arange(mask):
    return torch.arange(mask.shape[1]).expand(mask.shape[0], -1).clone()


@mistake("position_ids", "starts at 1: forgets to subtract the mask")
def positions_from_one(mask):
    return mask.long().cumsum(dim=-1)


@mistake("position_ids", "subtracts 1 everywhere, so left padding gets position −1")
def positions_negative(mask):
    return torch.cumsum(mask.to(torch.int64), 1) - 1


@mistake("position_ids", "sums down the batch instead of along the tokens")
def positions_down_batch(mask):
    m = mask.long()
    return m.cumsum(0) - m


@mistake("position_ids", "counts padding instead of real tokens")
def positions_of_padding(mask):
    pad = (~mask).long()
    return pad.cumsum(1) - pad


# kl_estimate


@mistake("kl_estimate", "has k1 the wrong way round: reference minus policy")
def kl_reversed(logprobs, ref_logprobs, estimator="k1"):
    d = logprobs - ref_logprobs
    if estimator == "k1":
        return ref_logprobs - logprobs
    return d**2 / 2 if estimator == "k2" else torch.exp(-d) - 1 + d


@mistake("kl_estimate", "forgets the half in k2")
def kl_no_half(logprobs, ref_logprobs, estimator="k1"):
    log_ratio = logprobs - ref_logprobs
    match estimator:
        case "k1":
            return log_ratio
        case "k2":
            return log_ratio.pow(2)
    return (-log_ratio).exp() - 1 + log_ratio


@mistake("kl_estimate", "turns the ratio in k3 upside down (π/π_ref)")
def kl_k3_upside_down(logprobs, ref_logprobs, estimator="k1"):
    logr = logprobs - ref_logprobs
    options = {"k1": logr, "k2": 0.5 * logr**2, "k3": logr.exp() - 1 - logr}
    return options[estimator]


@mistake("kl_estimate", "forgets the −1 in k3, so equal models are not at 0")
def kl_k3_without_one(logprobs, ref_logprobs, estimator="k1"):
    d = logprobs - ref_logprobs
    if estimator == "k3":
        return torch.exp(ref_logprobs - logprobs) + d
    return d if estimator == "k1" else d.square() / 2


@mistake("kl_estimate", "takes the absolute value of k1, because a KL must not be negative")
def kl_absolute(logprobs, ref_logprobs, estimator="k1"):
    d = logprobs - ref_logprobs
    if estimator == "k1":
        return d.abs()
    if estimator == "k2":
        return 0.5 * d * d
    return torch.expm1(-d) + d


@mistake("kl_estimate", "weights k1 by π again although the tokens were already sampled from π")
def kl_weighted(logprobs, ref_logprobs, estimator="k1"):
    d = logprobs - ref_logprobs
    if estimator == "k1":
        return logprobs.exp() * d
    return d.square() / 2 if estimator == "k2" else (-d).exp() - 1.0 + d


@mistake("kl_estimate", "has a sign wrong in k3: subtracts the log ratio instead of adding it")
def kl_k3_sign(logprobs, ref_logprobs, estimator="k1"):
    d = logprobs - ref_logprobs
    if estimator == "k3":
        return (-d).exp() - 1 - d
    return d if estimator == "k1" else d**2 / 2


@mistake("kl_estimate", "clamps k1 at 0, because a KL must not be negative")
def kl_clamped(logprobs, ref_logprobs, estimator="k1"):
    d = logprobs - ref_logprobs
    if estimator == "k1":
        return d.clamp(min=0)
    return d**2 / 2 if estimator == "k2" else torch.exp(-d) - 1 + d


# shape_rewards


@mistake("shape_rewards", "puts the score in the last column, which is a pad in short responses")
def shape_last_column(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.where(mask, -kl_coef * (logprobs - ref_logprobs), 0.0)
    rewards[:, -1] += scores
    return rewards


@mistake("shape_rewards", "adds the score at every counted token")
def shape_everywhere(scores, logprobs, ref_logprobs, mask, kl_coef):
    kl = logprobs - ref_logprobs
    return torch.where(mask, scores.unsqueeze(1) - kl_coef * kl, torch.zeros_like(kl))


@mistake("shape_rewards", "rewards the KL instead of charging for it: the sign is wrong")
def shape_plus_kl(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = (kl_coef * (logprobs - ref_logprobs)).masked_fill(~mask, 0.0)
    last = mask.sum(1) - 1
    rewards[torch.arange(len(scores)), last] += scores
    return rewards


@mistake("shape_rewards", "puts the score on the first pad, one past the last counted token")
def shape_first_pad(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.where(mask, -kl_coef * (logprobs - ref_logprobs), 0.0)
    end = mask.sum(dim=1).clamp(max=mask.shape[1] - 1)
    return rewards.scatter_add(1, end[:, None], scores[:, None])


@mistake("shape_rewards", "overwrites the KL at the last token with the score")
def shape_overwrites(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.where(mask, -kl_coef * (logprobs - ref_logprobs), 0.0)
    for b in range(len(scores)):
        rewards[b, int(mask[b].sum()) - 1] = scores[b]
    return rewards


@mistake("shape_rewards", "charges KL at the padding too")
def shape_kl_on_padding(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = -kl_coef * (logprobs - ref_logprobs)
    index = mask.long().sum(dim=1, keepdim=True) - 1
    return rewards.scatter_add(1, index, scores.unsqueeze(1))


@mistake("shape_rewards", "charges the whole response's KL at its last token")
def shape_kl_at_end(scores, logprobs, ref_logprobs, mask, kl_coef):
    out = torch.zeros_like(logprobs)
    for i, m in enumerate(mask):
        total = (logprobs[i] - ref_logprobs[i])[m].sum()
        out[i, m.nonzero()[-1]] = scores[i] - kl_coef * total
    return out


@mistake("shape_rewards", "is off by one: the score lands one token before the last")
def shape_one_early(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.where(mask, -kl_coef * (logprobs - ref_logprobs), 0.0)
    last = (mask.sum(1) - 2).clamp(min=0)
    rewards[range(len(scores)), last] += scores
    return rewards


@mistake("shape_rewards", "forgets to multiply the KL by kl_coef")
def shape_without_beta(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.where(mask, ref_logprobs - logprobs, 0.0)
    last = mask.sum(1, keepdim=True) - 1
    return rewards.scatter_add(1, last, scores[:, None])


@mistake("shape_rewards", "scales the score by kl_coef along with the KL")
def shape_scaled_score(scores, logprobs, ref_logprobs, mask, kl_coef):
    r = torch.where(mask, -(logprobs - ref_logprobs), 0.0)
    r[torch.arange(r.shape[0]), mask.sum(1) - 1] += scores
    return kl_coef * r


@mistake("shape_rewards", "puts the score on the first token")
def shape_first_token(scores, logprobs, ref_logprobs, mask, kl_coef):
    rewards = torch.where(mask, -kl_coef * (logprobs - ref_logprobs), 0.0)
    rewards[:, 0] = rewards[:, 0] + scores
    return rewards


# td_errors


@mistake("td_errors", "forgets to discount the next value by gamma")
def td_no_gamma(rewards, values, gamma, mask):
    v = torch.where(mask, values, 0.0)
    following = torch.cat([v[:, 1:], torch.zeros(len(v), 1)], dim=1)
    return torch.where(mask, rewards + following - v, 0.0)


@mistake("td_errors", "bootstraps from the value of the first pad after the response")
def td_from_padding(rewards, values, gamma, mask):
    following = F.pad(values[:, 1:], (0, 1))
    return (rewards + gamma * following - values).masked_fill(~mask, 0.0)


@mistake("td_errors", "wraps around: the last column's next value is the first one (torch.roll)")
def td_roll(rewards, values, gamma, mask):
    values = torch.where(mask, values, 0.0)
    following = torch.roll(values, -1, dims=1)
    return torch.where(mask, rewards + gamma * following - values, 0.0)


@mistake("td_errors", "swaps the current and the next value")
def td_swapped(rewards, values, gamma, mask):
    values = torch.where(mask, values, 0.0)
    after = torch.zeros_like(values)
    after[:, :-1] = values[:, 1:]
    return torch.where(mask, rewards + gamma * values - after, 0.0)


@mistake("td_errors", "stops one token early and leaves the last counted error at 0")
def td_last_missing(rewards, values, gamma, mask):
    out = torch.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        for t in range(int(mask[b].sum()) - 1):
            out[b, t] = rewards[b, t] + gamma * values[b, t + 1] - values[b, t]
    return out


@mistake("td_errors", "forgets to subtract the current value, so it returns the target")
def td_target(rewards, values, gamma, mask):
    values = torch.where(mask, values, 0.0)
    target = rewards + gamma * F.pad(values, (0, 1))[:, 1:]
    return torch.where(mask, target, 0.0)


@mistake("td_errors", "builds the errors from returns instead of rewards")
def td_from_returns(rewards, values, gamma, mask):
    r, v = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    returns = r.clone()
    for t in range(r.shape[1] - 2, -1, -1):
        returns[:, t] = r[:, t] + gamma * returns[:, t + 1]
    return torch.where(mask, returns + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)


@mistake("td_errors", "looks at the previous value instead of the next")
def td_previous(rewards, values, gamma, mask):
    values = torch.where(mask, values, 0.0)
    before = F.pad(values[:, :-1], (1, 0))
    return torch.where(mask, rewards + gamma * before - values, 0.0)


@mistake("td_errors", "uses the last counted value as its own successor instead of 0")
def td_repeats_last(rewards, values, gamma, mask):
    out = torch.zeros_like(rewards)
    for b, n in enumerate(mask.sum(dim=1).tolist()):
        for t in range(n):
            following = values[b, min(t + 1, n - 1)]
            out[b, t] = rewards[b, t] + gamma * following - values[b, t]
    return out


# gae


@mistake("gae", "forgets lambda and sums the errors with gamma alone")
def gae_no_lambda(rewards, values, gamma, lam, mask):
    rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    adv, running = torch.zeros_like(rewards), 0.0
    T = rewards.shape[1]
    for t in reversed(range(T)):
        nxt = values[:, t + 1] if t < T - 1 else 0.0
        running = rewards[:, t] + gamma * nxt - values[:, t] + gamma * running
        adv[:, t] = running
    return torch.where(mask, adv, 0.0)


@mistake("gae", "decays by lambda alone, without gamma")
def gae_no_gamma_in_decay(rewards, values, gamma, lam, mask):
    values = values.masked_fill(~mask, 0)
    delta = (rewards + gamma * F.pad(values[:, 1:], (0, 1)) - values).masked_fill(~mask, 0)
    out = delta.clone()
    for t in range(delta.shape[1] - 2, -1, -1):
        out[:, t] += lam * out[:, t + 1]
    return out


@mistake("gae", "runs forwards, so each token collects the errors of its past")
def gae_forwards(rewards, values, gamma, lam, mask):
    v = torch.where(mask, values, 0.0)
    delta = torch.where(mask, rewards + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)
    steps, carry = [], torch.zeros(len(v))
    for d in delta.unbind(dim=1):
        carry = d + gamma * lam * carry
        steps.append(carry)
    return torch.where(mask, torch.stack(steps, 1), 0.0)


@mistake("gae", "returns the returns, advantages plus values")
def gae_returns(rewards, values, gamma, lam, mask):
    v = torch.where(mask, values, 0.0)
    delta = torch.where(mask, rewards + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)
    for t in reversed(range(delta.shape[1] - 1)):
        delta[:, t] = delta[:, t] + gamma * lam * delta[:, t + 1]
    return delta + v


@mistake("gae", "lets rewards and values of the padding leak into the last real tokens")
def gae_leaky(rewards, values, gamma, lam, mask):
    B, T = rewards.shape
    advantages = torch.zeros(B, T)
    last = torch.zeros(B)
    for t in range(T - 1, -1, -1):
        next_value = values[:, t + 1] if t + 1 < T else torch.zeros(B)
        last = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * last
        advantages[:, t] = last
    return torch.where(mask, advantages, 0.0)


@mistake("gae", "carries the running sum over from one response to the next")
def gae_across_rows(rewards, values, gamma, lam, mask):
    out, running = torch.zeros_like(rewards), 0.0
    for b, n in enumerate(mask.sum(1).tolist()):
        for t in range(n - 1, -1, -1):
            after = values[b, t + 1] if t + 1 < n else 0.0
            running = rewards[b, t] + gamma * after - values[b, t] + gamma * lam * running
            out[b, t] = running
    return out


@mistake("gae", "stops at the one-step error and never adds up the later ones")
def gae_one_step(rewards, values, gamma, lam, mask):
    values = torch.where(mask, values, 0.0)
    next_values = F.pad(values[:, 1:], (0, 1))
    return torch.where(mask, rewards + gamma * next_values - values, 0.0)


@mistake("gae", "weights the running sum with (1 − lambda), as in an exponential average")
def gae_averages(rewards, values, gamma, lam, mask):
    v = torch.where(mask, values, 0.0)
    delta = torch.where(mask, rewards + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)
    run, out = torch.zeros(len(v)), torch.zeros_like(v)
    for t in range(v.shape[1])[::-1]:
        run = (1 - lam) * delta[:, t] + gamma * lam * run
        out[:, t] = run
    return torch.where(mask, out, 0.0)


@mistake("gae", "bootstraps from the pad's value at the end of the response")
def gae_bootstraps_pad(rewards, values, gamma, lam, mask):
    delta = rewards + gamma * F.pad(values[:, 1:], (0, 1)) - values
    delta = torch.where(mask, delta, 0.0)
    for t in range(delta.shape[1] - 2, -1, -1):
        delta[:, t] += gamma * lam * delta[:, t + 1]
    return delta


@mistake("gae", "whitens the advantages before handing them back")
def gae_whitened(rewards, values, gamma, lam, mask):
    v = torch.where(mask, values, 0.0)
    adv = torch.where(mask, rewards + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)
    for t in range(v.shape[1] - 2, -1, -1):
        adv[:, t] += gamma * lam * adv[:, t + 1]
    return torch.where(mask, (adv - adv[mask].mean()) / (adv[mask].std() + 1e-8), 0.0)


# discounted_returns


@mistake("discounted_returns", "adds up past rewards instead of those to come")
def returns_of_the_past(rewards, gamma, mask):
    rewards = torch.where(mask, rewards, 0.0)
    out, run = torch.zeros_like(rewards), torch.zeros(len(rewards))
    for t in range(rewards.shape[1]):
        run = rewards[:, t] + gamma * run
        out[:, t] = run
    return torch.where(mask, out, 0.0)


@mistake("discounted_returns", "does not discount at all")
def returns_undiscounted(rewards, gamma, mask):
    r = torch.where(mask, rewards, 0.0)
    to_go = r.flip(1).cumsum(1).flip(1)
    return torch.where(mask, to_go, 0.0)


@mistake("discounted_returns", "gives every token the whole response's return")
def returns_total(rewards, gamma, mask):
    r = torch.where(mask, rewards, 0.0)
    weights = gamma ** torch.arange(r.shape[1], dtype=r.dtype)
    total = (r * weights).sum(dim=1, keepdim=True)
    return torch.where(mask, total, 0.0)


@mistake("discounted_returns", "discounts from the start of the response, not from each token")
def returns_from_start(rewards, gamma, mask):
    r = torch.where(mask, rewards, 0.0)
    r = r * torch.tensor([gamma**t for t in range(r.shape[1])])
    return torch.where(mask, r.flip(1).cumsum(1).flip(1), 0.0)


@mistake("discounted_returns", "leaves out the token's own reward")
def returns_without_own(rewards, gamma, mask):
    out = torch.zeros_like(rewards)
    for b in range(len(rewards)):
        n = int(mask[b].sum())
        for t in range(n):
            for k in range(t + 1, n):
                out[b, t] += gamma ** (k - t) * rewards[b, k]
    return out


@mistake("discounted_returns", "lets rewards on the padding flow back into the response")
def returns_leaky(rewards, gamma, mask):
    out = rewards.clone()
    for t in range(rewards.shape[1] - 2, -1, -1):
        out[:, t] = rewards[:, t] + gamma * out[:, t + 1]
    return torch.where(mask, out, 0.0)


@mistake("discounted_returns", "discounts the token's own reward once too often")
def returns_extra_gamma(rewards, gamma, mask):
    run, columns = 0.0, []
    for r in torch.where(mask, rewards, 0.0).flip(1).T:
        run = gamma * (r + run)
        columns.append(run)
    return torch.where(mask, torch.stack(columns[::-1], dim=1), 0.0)


@mistake("discounted_returns", "carries the running sum over from one response to the next")
def returns_across_rows(rewards, gamma, mask):
    out, running = torch.zeros_like(rewards), 0.0
    for b in range(rewards.shape[0]):
        for t in reversed(range(int(mask[b].sum()))):
            running = rewards[b, t] + gamma * running
            out[b, t] = running
    return out


# masked_mean


@mistake("masked_mean", "zeroes the padding but still divides by the number of all positions")
def mean_divides_by_all(x, mask):
    return torch.where(mask, x, 0.0).mean()


@mistake("masked_mean", "averages over the padding too")
def mean_of_everything(x, mask):
    return x.sum() / x.numel()


@mistake("masked_mean", "averages each row first, so short responses weigh as much as long ones")
def mean_of_row_means(x, mask):
    per_row = torch.where(mask, x, 0.0).sum(dim=1) / mask.sum(dim=1)
    return per_row.mean()


@mistake("masked_mean", "throws out counted values that happen to be exactly 0")
def mean_of_nonzero(x, mask):
    kept = torch.where(mask, x, 0.0)
    return kept[kept != 0].mean()


@mistake("masked_mean", "averages the padding instead of the counted tokens: the mask is inverted")
def mean_inverted(x, mask):
    return x.masked_fill(mask, 0.0).sum() / (~mask).sum()


@mistake("masked_mean", "sums the counted values and divides by the number of rows")
def mean_per_response(x, mask):
    return x[mask].sum() / x.shape[0]


# masked_var


@mistake("masked_var", "divides by n instead of n − 1")
def var_biased(x, mask):
    kept = x[mask]
    return ((kept - kept.mean()) ** 2).mean()


@mistake("masked_var", "takes the mean over the padding too")
def var_wrong_mean(x, mask):
    centred = torch.where(mask, x - x.mean(), 0.0)
    return centred.pow(2).sum() / (mask.sum() - 1)


@mistake("masked_var", "counts the zeroed padding as values of their own")
def var_zeroed_padding(x, mask):
    return torch.where(mask, x, torch.zeros_like(x)).var()


@mistake("masked_var", "returns the standard deviation")
def var_is_std(x, mask):
    return torch.std(torch.masked_select(x, mask))


@mistake("masked_var", "never subtracts the mean")
def var_uncentred(x, mask):
    n = mask.sum()
    return torch.where(mask, x.square(), 0.0).sum() / (n - 1)


@mistake("masked_var", "ignores the mask")
def var_no_mask(x, mask):
    return x.var(unbiased=True)


@mistake("masked_var", "sums the squared deviations of the zeroed padding into the numerator")
def var_padding_in_sum(x, mask):
    n = mask.sum()
    y = x.masked_fill(~mask, 0.0)
    mean = y.sum() / n
    return ((y - mean) ** 2).sum() / (n - 1)


# whiten_advantages


@mistake("whiten_advantages", "whitens each response by itself instead of the whole batch")
def whiten_per_row(advantages, mask):
    out = torch.zeros_like(advantages)
    for b in range(len(advantages)):
        a = advantages[b][mask[b]]
        spread = a.var() if len(a) > 1 else torch.tensor(0.0)
        out[b, mask[b]] = (a - a.mean()) * torch.rsqrt(spread + 1e-8)
    return out


@mistake("whiten_advantages", "takes mean and variance over the padding too")
def whiten_over_padding(advantages, mask):
    white = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return torch.where(mask, white, 0.0)


@mistake("whiten_advantages", "divides by the variance instead of its square root")
def whiten_by_variance(advantages, mask):
    a = advantages[mask]
    return torch.where(mask, (advantages - a.mean()) / (a.var() + 1e-8), 0.0)


@mistake("whiten_advantages", "only subtracts the mean and never scales")
def whiten_only_centres(advantages, mask):
    mean = torch.where(mask, advantages, 0.0).sum() / mask.sum()
    return (advantages - mean) * mask


@mistake("whiten_advantages", "scales but does not subtract the mean")
def whiten_keeps_mean(advantages, mask):
    std = advantages[mask].std()
    return torch.where(mask, advantages / (std + 1e-8), 0.0)


@mistake("whiten_advantages", "leaves values other than 0 at the padding")
def whiten_unmasked_result(advantages, mask):
    kept = advantages[mask]
    return (advantages - kept.mean()) * torch.rsqrt(kept.var() + 1e-8)


@mistake(
    "whiten_advantages", "zeroes the padding first and then counts those zeros in mean and std"
)
def whiten_zeroed_padding(advantages, mask):
    a = advantages.masked_fill(~mask, 0.0)
    a = (a - a.mean()) / (a.std() + 1e-8)
    return a.masked_fill(~mask, 0.0)


@mistake("whiten_advantages", "adds the mean back after scaling, as one does for rewards")
def whiten_shift_back(advantages, mask):
    a = advantages[mask]
    scaled = (advantages - a.mean()) / (a.var() + 1e-8).sqrt() + a.mean()
    return torch.where(mask, scaled, 0.0)


# explained_variance


@mistake("explained_variance", "returns the unexplained share: forgets the 1 −")
def ev_unexplained(values, returns, mask):
    v, r = values[mask], returns[mask]
    return (r - v).var() / r.var()


@mistake("explained_variance", "divides by the variance of the values instead of the returns")
def ev_wrong_denominator(values, returns, mask):
    v, r = values[mask], returns[mask]
    return 1 - torch.var(r - v) / torch.var(v)


@mistake(
    "explained_variance", "uses the mean squared error, so a constant offset counts against it"
)
def ev_mse(values, returns, mask):
    v, r = values[mask], returns[mask]
    return 1 - F.mse_loss(v, r) / r.var(unbiased=False)


@mistake("explained_variance", "includes the padding in both variances")
def ev_padding(values, returns, mask):
    return 1.0 - (returns - values).var() / returns.var()


@mistake("explained_variance", "returns the squared correlation, blind to the scale of the values")
def ev_correlation(values, returns, mask):
    pair = torch.stack([values[mask], returns[mask]])
    return torch.corrcoef(pair)[0, 1] ** 2


@mistake("explained_variance", "compares variances of values and returns and ignores the residual")
def ev_ratio_of_variances(values, returns, mask):
    return values[mask].var() / returns[mask].var()


@mistake("explained_variance", "uses standard deviations instead of variances")
def ev_std(values, returns, mask):
    gap = (returns - values)[mask]
    return 1 - gap.std() / returns[mask].std()


# ratio


@mistake("ratio", "forgets the exponential: returns 1 plus the difference of log-probs")
def ratio_linear(logprobs, old_logprobs, mask):
    return torch.where(mask, 1 + (logprobs - old_logprobs), 1.0)


@mistake("ratio", "returns the log ratio itself, without the exponential")
def ratio_of_logs(logprobs, old_logprobs, mask):
    return torch.where(mask, logprobs - old_logprobs, 1.0)


@mistake("ratio", "is upside down: old over new")
def ratio_upside_down(logprobs, old_logprobs, mask):
    r = torch.exp(old_logprobs - logprobs)
    r[~mask] = 1.0
    return r


@mistake("ratio", "divides the log-probs by each other")
def ratio_divides_logs(logprobs, old_logprobs, mask):
    return torch.where(mask, logprobs / old_logprobs, torch.ones_like(logprobs))


@mistake("ratio", "is 0 instead of 1 at the padding")
def ratio_zero_padding(logprobs, old_logprobs, mask):
    return torch.where(mask, (logprobs - old_logprobs).exp(), 0.0)


@mistake("ratio", "ignores the mask, so the padding has ratios of its own")
def ratio_unmasked(logprobs, old_logprobs, mask):
    return torch.exp(logprobs) / torch.exp(old_logprobs)


@mistake("ratio", "compares the policy with itself, so the ratio is always 1")
def ratio_always_one(logprobs, old_logprobs, mask):
    before = logprobs.detach()
    return torch.exp(torch.where(mask, logprobs - before, 0.0))


@mistake("ratio", "multiplies the ratios of all tokens into one per response")
def ratio_of_sequence(logprobs, old_logprobs, mask):
    diff = torch.where(mask, logprobs - old_logprobs, 0.0)
    whole = diff.sum(dim=1, keepdim=True).exp()
    return torch.where(mask, whole, 1.0)


# policy_loss


@mistake("policy_loss", "takes the larger of the two gains instead of the smaller")
def policy_max(logprobs, old_logprobs, advantages, mask, cliprange):
    r = torch.exp(logprobs - old_logprobs)
    clipped = torch.clamp(r, 1 - cliprange, 1 + cliprange)
    return -torch.max(r * advantages, clipped * advantages)[mask].mean()


@mistake("policy_loss", "forgets the minus sign, so descent makes the policy worse")
def policy_no_minus(logprobs, old_logprobs, advantages, mask, cliprange):
    ratio = (logprobs - old_logprobs).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(1 - cliprange, 1 + cliprange) * advantages)
    return torch.where(mask, gain, 0.0).sum() / mask.sum()


@mistake("policy_loss", "averages over the padding too")
def policy_padding(logprobs, old_logprobs, advantages, mask, cliprange):
    ratio = (logprobs - old_logprobs).exp()
    pg1 = -advantages * ratio
    pg2 = -advantages * torch.clamp(ratio, 1.0 - cliprange, 1.0 + cliprange)
    return torch.max(pg1, pg2).mean()


@mistake("policy_loss", "always uses the clipped ratio and never compares with the unclipped one")
def policy_only_clipped(logprobs, old_logprobs, advantages, mask, cliprange):
    ratio = torch.exp(logprobs - old_logprobs).clamp(1 - cliprange, 1 + cliprange)
    return -(ratio * advantages)[mask].mean()


@mistake("policy_loss", "does not clip at all")
def policy_unclipped(logprobs, old_logprobs, advantages, mask, cliprange):
    weights = mask.float() / mask.sum()
    return -(weights * advantages * torch.exp(logprobs - old_logprobs)).sum()


@mistake("policy_loss", "clips the ratio to ±ε instead of 1 ± ε")
def policy_clips_around_zero(logprobs, old_logprobs, advantages, mask, cliprange):
    ratio = torch.exp(logprobs - old_logprobs)[mask]
    a = advantages[mask]
    return -torch.minimum(ratio * a, ratio.clamp(-cliprange, cliprange) * a).mean()


@mistake("policy_loss", "has old and new policy swapped in the ratio")
def policy_swapped(logprobs, old_logprobs, advantages, mask, cliprange):
    r = torch.exp(old_logprobs - logprobs)
    surr1 = r * advantages
    surr2 = torch.clip(r, 1 - cliprange, 1 + cliprange) * advantages
    return -torch.min(surr1, surr2)[mask].mean()


@mistake("policy_loss", "averages per response first, so short responses weigh more per token")
def policy_row_means(logprobs, old_logprobs, advantages, mask, cliprange):
    r = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    gain = torch.minimum(r * advantages, r.clamp(1 - cliprange, 1 + cliprange) * advantages)
    rows = (gain * mask).sum(1) / mask.sum(1)
    return -rows.mean()


@mistake("policy_loss", "leaves the old policy out: ratio is always 1 (old = new placeholder)")
def policy_placeholder(logprobs, old_logprobs, advantages, mask, cliprange):
    old = logprobs.detach().clone()
    ratio = (logprobs - old).exp()
    clipped = ratio.clamp(1 - cliprange, 1 + cliprange)
    return -torch.minimum(ratio * advantages, clipped * advantages)[mask].mean()


@mistake("policy_loss", "clips only from above, which lets bad actions run below 1 − ε")
def policy_one_sided(logprobs, old_logprobs, advantages, mask, cliprange):
    total = torch.tensor(0.0)
    for lp, old, a in zip(logprobs[mask], old_logprobs[mask], advantages[mask], strict=True):
        r = (lp - old).exp()
        total = total + torch.min(r * a, r.clamp(max=1 + cliprange) * a)
    return -total / mask.sum()


@mistake("policy_loss", "sums over the tokens instead of averaging")
def policy_sum(logprobs, old_logprobs, advantages, mask, cliprange):
    ratio = (logprobs - old_logprobs).exp()
    clipped = ratio.clamp(1 - cliprange, 1 + cliprange)
    return -torch.minimum(ratio * advantages, clipped * advantages)[mask].sum()


@mistake("policy_loss", "zeroes the padding but divides by all positions")
def policy_divides_by_all(logprobs, old_logprobs, advantages, mask, cliprange):
    r = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    gain = torch.minimum(r * advantages, r.clamp(1 - cliprange, 1 + cliprange) * advantages)
    return -torch.where(mask, gain, 0.0).mean()


# value_loss


@mistake("value_loss", "takes the smaller of the two squares instead of the larger")
def value_min(values, old_values, returns, mask, cliprange_value):
    clipped = old_values + (values - old_values).clamp(-cliprange_value, cliprange_value)
    loss = torch.min((values - returns) ** 2, (clipped - returns) ** 2)
    return 0.5 * loss[mask].mean()


@mistake("value_loss", "forgets the half")
def value_no_half(values, old_values, returns, mask, cliprange_value):
    c = torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
    worst = torch.maximum((values - returns).square(), (c - returns).square())
    return torch.where(mask, worst, 0.0).sum() / mask.sum()


@mistake("value_loss", "does not clip: a plain squared error")
def value_unclipped(values, old_values, returns, mask, cliprange_value):
    return 0.5 * F.mse_loss(values[mask], returns[mask])


@mistake("value_loss", "averages over the padding too")
def value_padding(values, old_values, returns, mask, cliprange_value):
    c = torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
    return 0.5 * torch.max((values - returns) ** 2, (c - returns) ** 2).mean()


@mistake("value_loss", "uses only the clipped square")
def value_only_clipped(values, old_values, returns, mask, cliprange_value):
    moved = (values - old_values).clamp(-cliprange_value, cliprange_value)
    return ((old_values + moved - returns)[mask] ** 2).mean() / 2


@mistake("value_loss", "clips relatively, to old value times 1 ± ε, as for the policy")
def value_relative_clip(values, old_values, returns, mask, cliprange_value):
    a, b = old_values * (1 - cliprange_value), old_values * (1 + cliprange_value)
    clipped = torch.clamp(values, torch.minimum(a, b), torch.maximum(a, b))
    worst = torch.maximum((values - returns) ** 2, (clipped - returns) ** 2)
    return 0.5 * worst[mask].mean()


@mistake("value_loss", "uses absolute errors instead of squares")
def value_absolute(values, old_values, returns, mask, cliprange_value):
    c = torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
    worst = torch.maximum((values - returns).abs(), (c - returns).abs())
    return 0.5 * worst[mask].mean()


@mistake("value_loss", "compares the two batch means instead of taking the larger square per token")
def value_max_of_means(values, old_values, returns, mask, cliprange_value):
    c = torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
    plain = ((values - returns)[mask] ** 2).mean()
    clipped = ((c - returns)[mask] ** 2).mean()
    return 0.5 * torch.max(plain, clipped)


# entropy


@mistake("entropy", "has the sign wrong: the entropy comes out negative")
def entropy_negative(logits, mask):
    logp = logits.log_softmax(-1)
    return (logp.exp() * logp).sum(-1)[mask].mean()


@mistake("entropy", "measures in bits instead of nats")
def entropy_bits(logits, mask):
    p = logits.softmax(-1)
    return -(p * torch.log2(p)).sum(-1)[mask].mean()


@mistake("entropy", "averages over the padding too")
def entropy_padding(logits, mask):
    return torch.distributions.Categorical(logits=logits).entropy().mean()


@mistake("entropy", "multiplies by the raw logits instead of the log-probs")
def entropy_raw_logits(logits, mask):
    p = torch.softmax(logits, dim=-1)
    per_token = -(p * logits).sum(dim=-1)
    return per_token[mask].mean()


@mistake("entropy", "averages over the vocabulary instead of summing")
def entropy_mean_over_vocabulary(logits, mask):
    logp = F.log_softmax(logits, dim=-1)
    per_token = -(logp.exp() * logp).mean(dim=-1)
    return torch.where(mask, per_token, 0.0).sum() / mask.sum()


@mistake("entropy", "divides by log V, so the entropy is a share and not in nats")
def entropy_relative(logits, mask):
    h = torch.distributions.Categorical(logits=logits[mask]).entropy()
    return h.mean() / math.log(logits.shape[-1])


@mistake("entropy", "does not weight the log-probs by the probabilities")
def entropy_unweighted(logits, mask):
    logp = logits.log_softmax(dim=-1)
    return -logp.mean(dim=-1)[mask].mean()


@mistake("entropy", "adds the tokens up instead of averaging")
def entropy_sum(logits, mask):
    logp = logits.log_softmax(dim=-1)
    return torch.special.entr(logp.exp()).sum(-1)[mask].sum()


@mistake("entropy", "takes −log p of the most likely token for the entropy")
def entropy_of_best(logits, mask):
    best = logits.log_softmax(-1).max(-1).values
    return -(best[mask]).mean()


# clip_fraction


@mistake("clip_fraction", "counts every ratio outside the range, whatever the advantage's sign")
def fraction_outside(ratio, advantages, mask, cliprange):
    outside = (ratio - 1.0).abs() > cliprange
    return outside[mask].float().mean()


@mistake("clip_fraction", "counts the padding in the denominator")
def fraction_all_positions(ratio, advantages, mask, cliprange):
    up = (ratio > 1 + cliprange) & (advantages > 0)
    down = (ratio < 1 - cliprange) & (advantages < 0)
    return ((up | down) & mask).float().mean()


@mistake("clip_fraction", "has the advantage's sign reversed")
def fraction_wrong_sign(ratio, advantages, mask, cliprange):
    gain = ratio * advantages
    clipped = ratio.clamp(1 - cliprange, 1 + cliprange) * advantages
    return (clipped > gain)[mask].float().mean()


@mistake("clip_fraction", "looks only above 1 + ε and misses negative advantages below 1 − ε")
def fraction_only_above(ratio, advantages, mask, cliprange):
    removed = (ratio > 1 + cliprange) & (advantages > 0)
    return removed[mask].sum() / mask.sum()


@mistake("clip_fraction", "returns the share of tokens that were not clipped")
def fraction_kept(ratio, advantages, mask, cliprange):
    clipped = ratio.clamp(1 - cliprange, 1 + cliprange) * advantages < ratio * advantages
    return 1 - clipped[mask].float().mean()


@mistake("clip_fraction", "counts clipped padding as well as clipped tokens")
def fraction_padding(ratio, advantages, mask, cliprange):
    hit = torch.where(advantages > 0, ratio > 1 + cliprange, ratio < 1 - cliprange)
    hit = hit & (advantages != 0)
    return hit.float().mean()


@mistake("clip_fraction", "returns a count instead of a share")
def fraction_is_count(ratio, advantages, mask, cliprange):
    clipped = ratio.clamp(1 - cliprange, 1 + cliprange) * advantages < ratio * advantages
    return (clipped & mask).sum().float()


# preference_probability


@mistake("preference_probability", "is the chance that b wins: the difference is reversed")
def preference_reversed(score_a, score_b):
    return torch.sigmoid(score_b - score_a)


@mistake("preference_probability", "divides raw scores a/(a + b), without the exponential")
def preference_raw_share(score_a, score_b):
    return score_a / (score_a + score_b)


@mistake("preference_probability", "looks at score a alone")
def preference_alone(score_a, score_b):
    return 1 / (1 + torch.exp(-score_a))


@mistake("preference_probability", "subtracts two sigmoids instead of taking one of the difference")
def preference_two_sigmoids(score_a, score_b):
    return torch.sigmoid(score_a) - torch.sigmoid(score_b)


@mistake("preference_probability", "decides hard: 1 for the higher score, otherwise 0")
def preference_hard(score_a, score_b):
    return (score_a > score_b).float()


@mistake("preference_probability", "returns the log of the probability")
def preference_log(score_a, score_b):
    return F.logsigmoid(score_a - score_b)


# bradley_terry_loss


@mistake("bradley_terry_loss", "has chosen and rejected swapped")
def bt_swapped(chosen, rejected):
    return F.softplus(chosen - rejected).mean()


@mistake("bradley_terry_loss", "forgets the logarithm")
def bt_no_log(chosen, rejected):
    return -torch.sigmoid(chosen - rejected).mean()


@mistake("bradley_terry_loss", "forgets the minus sign")
def bt_no_minus(chosen, rejected):
    return torch.log(torch.sigmoid(chosen - rejected)).mean()


@mistake("bradley_terry_loss", "sums over the pairs instead of averaging")
def bt_sum(chosen, rejected):
    loss = torch.zeros(())
    for c, r in zip(chosen, rejected, strict=True):
        loss = loss - F.logsigmoid(c - r)
    return loss


@mistake("bradley_terry_loss", "averages the probabilities before taking the logarithm")
def bt_log_of_mean(chosen, rejected):
    p = torch.sigmoid(chosen - rejected)
    return -torch.log(p.mean())


@mistake("bradley_terry_loss", "applies the sigmoid twice (before a loss that takes logits)")
def bt_double_sigmoid(chosen, rejected):
    p = torch.sigmoid(chosen - rejected)
    return F.binary_cross_entropy_with_logits(p, torch.ones_like(p))


@mistake("bradley_terry_loss", "uses a hinge with margin 1 instead of the log-sigmoid")
def bt_hinge(chosen, rejected):
    return F.margin_ranking_loss(chosen, rejected, torch.ones_like(chosen), margin=1.0)


@mistake("bradley_terry_loss", "subtracts after the sigmoid, not before")
def bt_scores_apart(chosen, rejected):
    return -F.logsigmoid(torch.sigmoid(chosen) - torch.sigmoid(rejected)).mean()


@mistake("bradley_terry_loss", "ignores the rejected response")
def bt_chosen_only(chosen, rejected):
    return -F.logsigmoid(chosen).mean()


# normalize_scores


@mistake("normalize_scores", "uses the scores' own mean and spread instead of the reference's")
def normalize_own(scores, reference_scores):
    return (scores - scores.mean()) / scores.std()


@mistake("normalize_scores", "divides by the variance instead of the standard deviation")
def normalize_by_variance(scores, reference_scores):
    return (scores - reference_scores.mean()) / reference_scores.var()


@mistake("normalize_scores", "divides before subtracting the mean")
def normalize_order(scores, reference_scores):
    return scores / reference_scores.std() - reference_scores.mean()


@mistake("normalize_scores", "subtracts the mean but never divides")
def normalize_only_centres(scores, reference_scores):
    mu = sum(reference_scores) / len(reference_scores)
    return scores - mu


@mistake(
    "normalize_scores", "divides by n in the reference's spread instead of n − 1 (numpy's std)"
)
def normalize_biased(scores, reference_scores):
    ref = reference_scores.numpy()
    return (scores - float(np.mean(ref))) / float(np.std(ref))


@mistake("normalize_scores", "squeezes into the reference's range (min–max) instead")
def normalize_min_max(scores, reference_scores):
    low, high = reference_scores.min(), reference_scores.max()
    return (scores - low) / (high - low)


@mistake("normalize_scores", "takes mean and spread over scores and reference together")
def normalize_pooled(scores, reference_scores):
    both = torch.cat([scores, reference_scores])
    return (scores - both.mean()) / both.std()


@mistake("normalize_scores", "centres on the scores' own mean, so the batch always averages 0")
def normalize_own_mean(scores, reference_scores):
    return (scores - scores.mean()) / reference_scores.std()


@mistake("normalize_scores", "divides by the spread but does not subtract the mean")
def normalize_only_scales(scores, reference_scores):
    return scores / reference_scores.std()


# pair_accuracy


@mistake("pair_accuracy", "counts a tie as right")
def accuracy_tie_right(chosen, rejected):
    return (chosen >= rejected).float().mean()


@mistake("pair_accuracy", "counts a tie as wrong")
def accuracy_tie_wrong(chosen, rejected):
    return torch.tensor([float(c > r) for c, r in zip(chosen, rejected, strict=True)]).mean()


@mistake("pair_accuracy", "is reversed: the share of pairs it gets wrong")
def accuracy_reversed(chosen, rejected):
    wins = (rejected > chosen).float() + 0.5 * (rejected == chosen).float()
    return wins.mean()


@mistake("pair_accuracy", "returns the average probability and not the share of right pairs")
def accuracy_soft(chosen, rejected):
    return torch.sigmoid(chosen - rejected).mean()


@mistake("pair_accuracy", "leaves ties out of the denominator")
def accuracy_drops_ties(chosen, rejected):
    decided = chosen != rejected
    return (chosen > rejected)[decided].float().mean()


@mistake("pair_accuracy", "checks whether the chosen score is positive, not whether it is higher")
def accuracy_positive(chosen, rejected):
    right = torch.where(chosen == rejected, 0.5, (chosen > 0).float())
    return right.mean()


@mistake("pair_accuracy", "compares every chosen with every rejected instead of pair by pair")
def accuracy_all_against_all(chosen, rejected):
    gap = chosen[:, None] - rejected[None, :]
    return ((gap > 0).float() + 0.5 * (gap == 0).float()).mean()


@mistake("pair_accuracy", "returns a count of right pairs instead of the share")
def accuracy_count(chosen, rejected):
    return (chosen > rejected).sum().float() + 0.5 * (chosen == rejected).sum()


# right, in unusual ways


@correct("gather_logprobs")
def gather_by_cross_entropy(logits, tokens):
    B, T, V = logits.shape
    loss = F.cross_entropy(logits.reshape(B * T, V), tokens.reshape(-1), reduction="none")
    return -loss.view(B, T)


@correct("gather_logprobs")
def gather_by_one_hot(logits, tokens):
    hot = F.one_hot(tokens, logits.shape[-1]).to(logits.dtype)
    return torch.einsum("btv,btv->bt", logits.log_softmax(-1), hot)


@correct("gather_logprobs")
def gather_by_distribution(logits, tokens):
    return torch.distributions.Categorical(logits=logits).log_prob(tokens)


@correct("response_mask")
def mask_by_first_index(response_tensors, eos_token_id):
    length = response_tensors.shape[1]
    steps = torch.arange(length)
    first = torch.where(response_tensors == eos_token_id, steps, length).amin(dim=1)
    return steps <= first.unsqueeze(1)


@correct("response_mask")
def mask_by_loop(response_tensors, eos_token_id):
    rows = []
    for row in response_tensors.tolist():
        going, out = True, []
        for token in row:
            out.append(going)
            going = going and token != eos_token_id
        rows.append(out)
    return torch.tensor(rows)


@correct("position_ids")
def positions_exclusive_cumsum(mask):
    return F.pad(mask.long().cumsum(1)[:, :-1], (1, 0))


@correct("position_ids")
def positions_triangle(mask):
    before = torch.ones(mask.shape[1], mask.shape[1], dtype=torch.long).triu(1)
    return mask.long() @ before


@correct("kl_estimate")
def kl_by_table(logprobs, ref_logprobs, estimator="k1"):
    logr = ref_logprobs - logprobs
    table = {
        "k1": lambda: -logr,
        "k2": lambda: logr * logr / 2,
        "k3": lambda: logr.exp() - 1 - logr,
    }
    return table[estimator]()


@correct("shape_rewards")
def shape_by_next_mask(scores, logprobs, ref_logprobs, mask, kl_coef):
    is_last = mask & ~F.pad(mask[:, 1:], (0, 1))
    kl = (logprobs - ref_logprobs).masked_fill(~mask, 0.0)
    return is_last * scores[:, None] - kl_coef * kl


@correct("shape_rewards")
def shape_by_loop(scores, logprobs, ref_logprobs, mask, kl_coef):
    out = torch.zeros_like(logprobs)
    for b, n in enumerate(mask.sum(1).tolist()):
        for t in range(n):
            out[b, t] = kl_coef * (ref_logprobs[b, t] - logprobs[b, t])
        out[b, n - 1] += scores[b]
    return out


@correct("td_errors")
def td_by_rows(rewards, values, gamma, mask):
    rows = []
    for r, v, m in zip(rewards, values, mask, strict=True):
        v = torch.cat([v[m], torch.zeros(1)])
        delta = r[m] + gamma * v[1:] - v[:-1]
        rows.append(F.pad(delta, (0, len(m) - len(delta))))
    return torch.stack(rows)


@correct("gae")
def gae_by_matrix(rewards, values, gamma, lam, mask):
    v = torch.where(mask, values, 0.0)
    delta = torch.where(mask, rewards + gamma * F.pad(v[:, 1:], (0, 1)) - v, 0.0)
    t = torch.arange(v.shape[1])
    gap = t[:, None] - t[None, :]  # later token k down, earlier token t across
    weights = torch.where(gap >= 0, (gamma * lam) ** gap.clamp(min=0).to(v.dtype), 0.0)
    return torch.where(mask, delta @ weights, 0.0)


@correct("gae")
def gae_by_lambda_return(rewards, values, gamma, lam, mask):
    out = torch.zeros_like(rewards)
    for b, n in enumerate(mask.sum(1).tolist()):
        target, after = 0.0, 0.0
        for t in reversed(range(n)):
            target = rewards[b, t] + gamma * ((1 - lam) * after + lam * target)
            after = values[b, t]
            out[b, t] = target - after
    return out


@correct("discounted_returns")
def returns_by_double_loop(rewards, gamma, mask):
    r = torch.where(mask, rewards, 0.0)
    out = torch.zeros_like(r)
    for ahead in range(r.shape[1]):
        out = out + gamma**ahead * F.pad(r[:, ahead:], (0, ahead))
    return torch.where(mask, out, 0.0)


@correct("masked_mean")
def mean_by_indexing(x, mask):
    return x[mask].mean()


@correct("masked_mean")
def mean_by_nanmean(x, mask):
    return x.masked_fill(~mask, float("nan")).nanmean()


@correct("masked_var")
def var_by_moments(x, mask):
    kept = x[mask].double()
    n = kept.numel()
    return ((kept.square().sum() - kept.sum() ** 2 / n) / max(n - 1, 1)).to(x.dtype)


@correct("whiten_advantages")
def whiten_by_filling_in(advantages, mask):
    kept = advantages[mask]
    out = torch.zeros_like(advantages)
    var, mean = torch.var_mean(kept) if len(kept) > 1 else (torch.zeros(()), kept.mean())
    out[mask] = (kept - mean) / torch.sqrt(var + 1e-8)
    return out


@correct("explained_variance")
def ev_unbiased(values, returns, mask):
    residual, target = (returns - values)[mask], returns[mask]
    return (target.var() - residual.var()) / target.var()


@correct("ratio")
def ratio_by_filling_in(logprobs, old_logprobs, mask):
    out = torch.ones_like(logprobs)
    out[mask] = (logprobs[mask] - old_logprobs[mask]).exp()
    return out


@correct("policy_loss")
def policy_by_sign(logprobs, old_logprobs, advantages, mask, cliprange):
    r, a = (logprobs - old_logprobs)[mask].exp(), advantages[mask]
    bound = torch.where(a > 0, r.clamp(max=1 + cliprange), r.clamp(min=1 - cliprange))
    return -(bound * a).mean()


@correct("policy_loss")
def policy_max_of_losses(logprobs, old_logprobs, advantages, mask, cliprange):
    ratio = torch.exp(torch.where(mask, logprobs - old_logprobs, torch.zeros_like(logprobs)))
    pg1 = -advantages * ratio
    pg2 = -advantages * torch.clamp(ratio, 1.0 - cliprange, 1.0 + cliprange)
    return torch.where(mask, torch.max(pg1, pg2), 0.0).sum() / mask.sum()


@correct("value_loss")
def value_by_errors(values, old_values, returns, mask, cliprange_value):
    step = (values - old_values).clamp(-cliprange_value, cliprange_value)
    errors = torch.stack([values - returns, old_values + step - returns])
    return errors.abs().amax(0)[mask].square().mean() / 2


@correct("entropy")
def entropy_by_logsumexp(logits, mask):
    kept = logits[mask]
    return (kept.logsumexp(-1) - (kept.softmax(-1) * kept).sum(-1)).mean()


@correct("entropy")
def entropy_by_distribution(logits, mask):
    per_token = torch.distributions.Categorical(logits=logits).entropy()
    return per_token[mask].mean()


@correct("clip_fraction")
def fraction_by_gradient(ratio, advantages, mask, cliprange):
    with torch.enable_grad():
        r, a = ratio[mask].detach().requires_grad_(), advantages[mask]
        gain = torch.minimum(r * a, r.clamp(1 - cliprange, 1 + cliprange) * a)
        (slope,) = torch.autograd.grad(gain.sum(), r)
    return ((slope == 0) & (a != 0)).float().mean()


@correct("clip_fraction")
def fraction_by_sides(ratio, advantages, mask, cliprange):
    moved = (ratio - 1) * advantages.sign()
    return ((moved > cliprange) & mask).sum() / mask.sum()


@correct("preference_probability")
def preference_by_softmax(score_a, score_b):
    return torch.stack([score_a, score_b], dim=-1).softmax(dim=-1)[..., 0]


@correct("preference_probability")
def preference_by_tanh(score_a, score_b):
    return 0.5 + 0.5 * torch.tanh((score_a - score_b) / 2)


@correct("bradley_terry_loss")
def bt_by_cross_entropy(chosen, rejected):
    logits = torch.stack([chosen, rejected], dim=1)
    return F.cross_entropy(logits, torch.zeros(len(chosen), dtype=torch.long))


@correct("bradley_terry_loss")
def bt_by_softplus(chosen, rejected):
    return F.softplus(rejected - chosen).mean()


@correct("normalize_scores")
def normalize_by_hand(scores, reference_scores):
    n = reference_scores.numel()
    mean = reference_scores.sum() / n
    std = ((reference_scores - mean).square().sum() / (n - 1)) ** 0.5
    return (scores - mean) / std


@correct("pair_accuracy")
def accuracy_by_sign(chosen, rejected):
    return 0.5 + 0.5 * torch.sign(chosen - rejected).mean()


@correct("pair_accuracy")
def accuracy_by_heaviside(chosen, rejected):
    return torch.heaviside(chosen - rejected, torch.tensor(0.5)).mean()
