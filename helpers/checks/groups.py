"""Exercises of notebook 10: advantages without a critic, the loss and its means, pass@k."""

import torch

from helpers import groups, ppo
from helpers.checks.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judge import checker
from helpers.checks.raised import Expected, explained
from helpers.groups import grpo_advantages, per_token, rloo_advantages
from helpers.whitening import masked_mean

t = torch.tensor
FEW = (t([1.0, 2.0, 6.0, 0.0, 4.0, -1.0]), 3)
MANY = (noise(7, 8) + 1, 4)
EASY = (t([1.0, 3.0, 2.0, 2.0]), 2)  # the second prompt's responses are equal
CLOSE = (t([0.0, 2e-4, 1.0, 3.0]), 2)  # the first prompt's are nearly so: ε counts


def grouped(rewards, k):
    """[B] → [B / K, K]."""
    return rewards.view(-1, k)


def mean(rewards, k):
    """The group's mean, [B / K, 1]."""
    return grouped(rewards, k).mean(1, keepdim=True)


def others(rewards, k):
    """Sum of the other rewards of the group, [B / K, K]."""
    return grouped(rewards, k).sum(1, keepdim=True) - grouped(rewards, k)


def centred(rewards, k):
    """Rewards minus their group's mean, [B / K, K]."""
    return grouped(rewards, k) - mean(rewards, k)


def std(rewards, k, unbiased=True):
    """The group's standard deviation, [B / K, 1]."""
    return grouped(rewards, k).std(1, keepdim=True, unbiased=unbiased)


def across(function):
    """The same function with wrong groups: every (B / K)-th response together."""

    def wrong(rewards, k):
        count = len(rewards) // k
        turned = rewards.view(k, count).T.flatten()
        return function(turned, k).view(count, k).T.flatten()

    return wrong


# fmt: off
RLOO = Exercise(
    "rloo_advantages", "rewards group_size", rloo_advantages,
    "r_i − mean of the other K − 1 rewards of its group (Ahmadian et al. 2024; notebook 10)",
    [FEW, MANY],
    [
        ("own reward in the baseline", "You subtracted the mean of the whole group; leave out the"
         " response's own reward.", lambda r, k: centred(r, k).flatten()),
        ("mean of the batch", "You subtracted the mean over all prompts; use the mean of the group.",
         lambda r, k: r - r.mean()),
        ("leave-one-out over the whole batch", "You took the mean of all other responses of the batch;"
         " take that of the others of the group.", lambda r, k: r - (r.sum() - r) / (len(r) - 1)),
        ("divided by K", "The others of the group are K − 1: divide by K − 1.",
         lambda r, k: (grouped(r, k) - others(r, k) / k).flatten()),
        ("sum of the others", "You subtracted the sum of the others; take their mean.",
         lambda r, k: (grouped(r, k) - others(r, k)).flatten()),
        ("divided by the std", "That is GRPO; RLOO does not divide by the std.",
         lambda r, k: grpo_advantages(r, k)),
        ("baseline alone", "You returned the baseline; subtract it from the reward.",
         lambda r, k: (others(r, k) / (k - 1)).flatten()),
        ("reversed", "Use reward − baseline: a good response has a positive advantage.",
         lambda r, k: -rloo_advantages(r, k)),
        ("groups taken across", "The K responses to a prompt are next to each other:"
         " use view(-1, group_size).", across(rloo_advantages)),
        ("not flattened", "Return one row of advantages, [B], in the order of the rewards.",
         lambda r, k: grouped(r, k) - others(r, k) / (k - 1)),
        ("best of the others", "You subtracted the maximum of the others; take their mean.",
         lambda r, k: (grouped(r, k) - torch.stack([
             torch.cat([grouped(r, k)[:, :i], grouped(r, k)[:, i + 1:]], 1).amax(1)
             for i in range(k)], 1)).flatten()),
    ],
)

GRPO = Exercise(
    "grpo_advantages", "rewards group_size", grpo_advantages,
    "(r_i − mean)/(std + 1e-4) within the group, unbiased std (Shao et al. 2024; notebook 10)",
    [FEW, MANY, EASY, CLOSE],
    [
        ("std missing", "You centred the group; divide by its std as well.",
         lambda r, k: centred(r, k).flatten()),
        ("statistics of the batch", "You used mean and std of all prompts; use those of the group.",
         lambda r, k: (r - r.mean()) / (r.std() + 1e-4)),
        ("std of the batch", "The mean is the group's; use the group's std too.",
         lambda r, k: (centred(r, k) / (r.std() + 1e-4)).flatten()),
        ("mean of the batch", "The std is the group's; use the group's mean too.",
         lambda r, k: (grouped(r - r.mean(), k) / (std(r, k) + 1e-4)).flatten()),
        ("variance instead of std", "You divided by the variance; divide by its square root.",
         lambda r, k: (centred(r, k) / (std(r, k).square() + 1e-4)).flatten()),
        ("biased std", "You divided by K inside the std; the unbiased std divides by K − 1.",
         lambda r, k: (centred(r, k) / (std(r, k, unbiased=False) + 1e-4)).flatten()),
        ("no epsilon", "A group whose rewards are all equal has std 0: add 1e-4 to it.",
         lambda r, k: (centred(r, k) / std(r, k)).flatten()),
        ("smaller epsilon", "Your ε is smaller than 1e-4: rewards that hardly differ are scaled up to"
         " full size.", lambda r, k: (centred(r, k) / (std(r, k) + 1e-8)).flatten()),
        ("epsilon inside the root", "Add 1e-4 to the std, not to the variance.",
         lambda r, k: (centred(r, k) / (std(r, k).square() + 1e-4).sqrt()).flatten()),
        ("leave-one-out", "That is RLOO's baseline; GRPO uses the mean of the whole group.",
         lambda r, k: (grouped(rloo_advantages(r, k), k) / (std(r, k) + 1e-4)).flatten()),
        ("RLOO", "That is RLOO; GRPO divides by the group's std.",
         lambda r, k: rloo_advantages(r, k)),
        ("mean not subtracted", "You only divided; subtract the group's mean first.",
         lambda r, k: (grouped(r, k) / (std(r, k) + 1e-4)).flatten()),
        ("multiplied by the std", "You multiplied by the std; divide by it.",
         lambda r, k: (centred(r, k) * (std(r, k) + 1e-4)).flatten()),
        ("groups taken across", "The K responses to a prompt are next to each other:"
         " use view(-1, group_size).", across(grpo_advantages)),
        ("not flattened", "Return one row of advantages, [B], in the order of the rewards.",
         lambda r, k: centred(r, k) / (std(r, k) + 1e-4)),
    ],
)


# --- the loss -------------------------------------------------------------------------------------


def grpo_loss(
    logprobs, old_logprobs, advantages, mask, aggregation, cliprange, cliprange_high, response_length
):
    """The clipped loss of responses with one advantage each, averaged as `aggregation` says."""
    per_response = {
        "token": masked_mean,
        "response": groups.mean_of_means,
        "fixed": lambda x, mask: groups.mean_over_length(x, mask, response_length),
    }
    tokens = per_token(advantages, mask)
    limits = cliprange, cliprange_high
    return ppo.policy_loss(
        logprobs, old_logprobs, tokens, mask, *limits, mean=per_response[aggregation]
    )[0]


def kept(x, mask):
    """0 where masked."""
    return torch.where(mask, x, 0.0)


def gains(p, old, a, mask, low, high):
    """The clipped gain of each token, [B, T]."""
    rho = kept(p - old, mask).exp()
    tokens = per_token(a, mask)
    return torch.minimum(rho * tokens, rho.clamp(1 - low, 1 + high) * tokens)


def averaged(x, mask, how, length, **wrong):
    """The mean named by `how`; `wrong` replaces one of the three."""
    right = {
        "token": lambda: kept(x, mask).sum() / mask.sum(),
        "response": lambda: (kept(x, mask).sum(1) / mask.sum(1)).mean(),
        "fixed": lambda: kept(x, mask).sum() / (len(x) * length),
    }
    return wrong[how](x, mask, length) if how in wrong else right[how]()


def with_gain(gain):
    """The loss with another gain(ρ, A, low, high) of each token."""

    def wrong(p, old, a, mask, how, low, high, length):
        rho, tokens = kept(p - old, mask).exp(), per_token(a, mask)
        return -averaged(gain(rho, tokens, low, high), mask, how, length)

    return wrong


def with_mean(**wrong_means):
    """The loss with one of the three means replaced."""

    def wrong(p, old, a, mask, how, low, high, length):
        return -averaged(gains(p, old, a, mask, low, high), mask, how, length, **wrong_means)

    return wrong


def padding_in_gain(p, old, a, mask, how, low, high, length):
    """The ratio is 1 in the padding, so the gain there is A, and it is summed with the others."""
    x = clipped(kept(p - old, mask).exp(), a.unsqueeze(1).expand_as(p), low, high)
    total = {"token": x.sum() / mask.sum(), "fixed": x.sum() / (len(x) * length)}
    return -(x.sum(1) / mask.sum(1)).mean() if how == "response" else -total[how]


def clipped(rho, a, low, high):
    """The right gain."""
    return torch.minimum(rho * a, rho.clamp(1 - low, 1 + high) * a)


def times_mask(p, old, a, mask, how, low, high, length):
    """Right until padding gives NaN, which 0 does not remove."""
    rho = (p - old).exp()
    tokens = a.unsqueeze(1).expand_as(p)
    x = torch.minimum(rho * tokens, rho.clamp(1 - low, 1 + high) * tokens) * mask
    total = {"token": x.sum() / mask.sum(), "fixed": x.sum() / (len(x) * length)}
    return -(x.sum(1) / mask.sum(1)).mean() if how == "response" else -total[how]


def tokens_of_rows(p, old, a, mask, how, low, high, length):
    """The advantages run along the tokens: response b's stands at token b of every response."""
    width = p.shape[1]
    along = torch.cat([a, a.new_zeros(width)])[:width].expand_as(p)
    rho = kept(p - old, mask).exp()
    return -averaged(clipped(rho, along, low, high), mask, how, length)


TWO = (
    floats([-1.0, -2.0, -0.4, -5.0], [-0.9, -1.5, -1.0, -1.0]),
    floats([-1.5, -1.0, -0.7, -2.0], [-0.5, -1.9, -1.0, -1.0]),
    t([1.0, -2.0]),
    prefix_mask(4, 3, 1),
)
FIVE = (
    -noise(1, 5, 6).abs(),
    -noise(2, 5, 6).abs(),
    t([1.0, -0.5, -2.0, 1.5, -1.0]),
    prefix_mask(6, 2, 5, 4, 1, 6),
)
INF = (
    torch.where(TWO[3], TWO[0], float("-inf")),
    torch.where(TWO[3], TWO[1], float("-inf")),
    *TWO[2:],
)
HOW = ("response", "fixed", "token")
# the padding of the last one is −inf: only there, so that two mistakes at once can still be told

# fmt: off
LOSS = Exercise(
    "grpo_loss",
    "logprobs old_logprobs advantages mask aggregation cliprange cliprange_high response_length",
    grpo_loss,
    "−mean min(ρA, clip(ρ, 1 − ε_low, 1 + ε_high)·A); response: mean of the rows' means, token: mean"
    " over all counted tokens, fixed: sum / (B · response_length) (notebook 10)",
    [(*batch, how, *limits, 8) for how in HOW
     for batch, limits in ((TWO, (0.2, 0.4)), (FIVE, (0.1, 0.3)))] + [(*INF, "token", 0.2, 0.4, 8)],
    [
        ("response: all tokens together", "For 'response' you averaged all {counted} tokens together;"
         " take each row's mean first, then the mean of those.",
         with_mean(response=lambda x, m, n: kept(x, m).sum() / m.sum())),
        ("response: length with padding", "For 'response' you divided each row by its whole width;"
         " divide by its counted tokens.",
         with_mean(response=lambda x, m, n: kept(x, m).mean(1).mean())),
        ("response: rows not averaged", "For 'response' you summed the rows' means; average them.",
         with_mean(response=lambda x, m, n: (kept(x, m).sum(1) / m.sum(1)).sum())),
        ("response: rows not divided", "For 'response' you averaged the rows' sums; divide each by its"
         " own number of counted tokens first.",
         with_mean(response=lambda x, m, n: kept(x, m).sum(1).mean())),
        ("gain in the padding not masked", "In the padding the ratio is 1, so the gain there is A, and"
         " you summed it too: mask the gain once more, before the sum.", padding_in_gain),
        ("response: one number per row", "For 'response' you return one number per row; average them.",
         with_mean(response=lambda x, m, n: kept(x, m).sum(1) / m.sum(1))),
        ("fixed: divided by the width", "For 'fixed' you divided by the width of this batch; divide by"
         " response_length = {response_length}, the same in every batch.",
         with_mean(fixed=lambda x, m, n: kept(x, m).sum() / x.numel())),
        ("fixed: divided by the longest response", "For 'fixed' you divided by the longest response of"
         " this batch; divide by response_length = {response_length}, the same in every batch.",
         with_mean(fixed=lambda x, m, n: kept(x, m).sum() / (len(x) * m.sum(1).max()))),
        ("fixed: number of responses missing", "For 'fixed' you divided by response_length alone;"
         " divide by B · response_length.", with_mean(fixed=lambda x, m, n: kept(x, m).sum() / n)),
        ("fixed: length missing", "For 'fixed' you divided by the number of responses alone; divide by"
         " B · response_length.", with_mean(fixed=lambda x, m, n: kept(x, m).sum() / len(x))),
        ("fixed: counted tokens", "For 'fixed' you divided by the counted tokens, which is 'token';"
         " divide by B · response_length.",
         with_mean(fixed=lambda x, m, n: kept(x, m).sum() / m.sum())),
        ("fixed: rows divided twice", "For 'fixed' you divided each row by its own length too; sum its"
         " tokens, then divide all by the same number.",
         with_mean(fixed=lambda x, m, n: (kept(x, m).sum(1) / m.sum(1)).sum() / (len(x) * n))),
        ("fixed: mean of means", "For 'fixed' you took the mean of the rows' means; divide the sum by"
         " B · response_length.",
         with_mean(fixed=lambda x, m, n: (kept(x, m).sum(1) / m.sum(1)).mean())),
        ("token: padding in the divisor", "For 'token' you divided by all {total} positions; only"
         " {counted} count.", with_mean(token=lambda x, m, n: kept(x, m).mean())),
        ("token: mean of means", "For 'token' you averaged each row first; every one of the {counted}"
         " counted tokens should weigh the same.",
         with_mean(token=lambda x, m, n: (kept(x, m).sum(1) / m.sum(1)).mean())),
        ("token: not divided", "For 'token' you summed; divide by the {counted} counted tokens.",
         with_mean(token=lambda x, m, n: kept(x, m).sum())),
        ("token: divided by the responses", "For 'token' you divided by the number of responses;"
         " divide by the {counted} counted tokens.",
         with_mean(token=lambda x, m, n: kept(x, m).sum() / len(x))),
        ("minus sign missing", "The loss is minus the gain: the optimizer minimises it.",
         lambda *x: -grpo_loss(*x)),
        ("max instead of min", "You took the larger gain; take the smaller one.",
         with_gain(lambda r, a, low, high: torch.maximum(r * a, r.clamp(1 - low, 1 + high) * a))),
        ("clip without min", "You used only the clipped ratio; take the smaller of the two gains.",
         with_gain(lambda r, a, low, high: r.clamp(1 - low, 1 + high) * a)),
        ("no clip", "You used ρA without the clip.", with_gain(lambda r, a, low, high: r * a)),
        ("one limit for both sides", "You clipped at 1 + cliprange; above 1 the limit is"
         " 1 + cliprange_high.", with_gain(lambda r, a, low, high: clipped(r, a, low, low))),
        ("higher on both sides", "You clipped at 1 − cliprange_high; below 1 the limit is"
         " 1 − cliprange.", with_gain(lambda r, a, low, high: clipped(r, a, high, high))),
        ("limits exchanged", "You exchanged the limits: 1 − cliprange below, 1 + cliprange_high above.",
         with_gain(lambda r, a, low, high: clipped(r, a, high, low))),
        ("limits without 1", "The ratio is near 1: clip it to 1 − cliprange … 1 + cliprange_high.",
         with_gain(lambda r, a, low, high: torch.minimum(r * a, r.clamp(-low, high) * a))),
        ("smaller ratio", "You took the smaller ratio, then multiplied; take the smaller product.",
         with_gain(lambda r, a, low, high: torch.minimum(r, r.clamp(1 - low, 1 + high)) * a)),
        ("gain clipped", "You clipped ρA; clip ρ, then multiply by A.",
         with_gain(lambda r, a, low, high: torch.minimum(r * a, (r * a).clamp(1 - low, 1 + high)))),
        ("ratio reversed", "You have π_old/π; the ratio is π/π_old.",
         lambda p, old, *rest: grpo_loss(old, p, *rest)),
        ("difference without exp", "You used the log-ratio; take exp of it.",
         with_gain(lambda r, a, low, high: clipped(r.log(), a, low, high))),
        ("ratio of whole responses", "You used one ratio for a response (GSPO); here each token has"
         " its own.",
         lambda p, old, a, mask, *rest: grpo_loss(
             kept(old, mask) + groups.sequence_log_ratio(kept(p, mask), kept(old, mask), mask),
             kept(old, mask), a, mask, *rest)),
        ("advantages along the tokens", "The advantages ran along the tokens; each belongs to a row:"
         " advantages.unsqueeze(1).", tokens_of_rows),
        ("0 times NaN", "Right, until padding holds −inf: (−inf) − (−inf) is NaN, and so is 0 · NaN."
         " Use torch.where, or pick the counted tokens.", times_mask),
    ],
    gradient=("logprobs",),
    group="aggregation",
)


# --- pass@k ---------------------------------------------------------------------------------------


def shares(correct):
    """Share of right answers to each prompt, [B]."""
    return correct.double().mean(1)


def none_right(count, n, k):
    """C(count, k)/C(n, k): k drawn answers are all among these `count`."""
    drawn = torch.arange(k)
    return ((count.unsqueeze(1) - drawn).clamp(min=0).double() / (n - drawn)).prod(1)


ANSWERS = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]]).bool()

PASS = Exercise(
    "pass_at_k", "correct k", groups.pass_at_k,
    "1 − C(n − c, k)/C(n, k), one number per prompt (Chen et al. 2021, eq. 1; notebook 10)",
    [(ANSWERS, 2), (noise(4, 6, 7) > 0.4, 3), (noise(5, 5, 8) > 0.8, 1), (noise(6, 4, 5) > 0, 5)],
    [
        ("plug-in", "1 − (1 − c/n)^k draws the same answer twice; it is too low for k > 1. Draw"
         " without putting back.", lambda c, k: 1 - (1 - shares(c)) ** k),
        ("1 − forgotten", "That is the probability that all k are wrong; subtract it from 1.",
         lambda c, k: none_right((~c).sum(1), c.shape[1], k)),
        ("all k right", "That is the probability that all k are right; one of them is enough.",
         lambda c, k: none_right(c.sum(1), c.shape[1], k)),
        ("right and wrong exchanged", "You counted the right ones where the wrong ones belong:"
         " C(n − c, k), not C(c, k).", lambda c, k: 1 - none_right(c.sum(1), c.shape[1], k)),
        ("all k right, plug-in", "That is (c/n)^k: all k right. One of them is enough.",
         lambda c, k: shares(c) ** k),
        ("pass@1", "That is c/n, the same for every k.", lambda c, k: shares(c)),
        ("k times pass@1", "You multiplied c/n by k: that can exceed 1.", lambda c, k: k * shares(c)),
        ("k times pass@1, at most 1", "You multiplied c/n by k: right answers that come together are"
         " counted twice.", lambda c, k: (k * shares(c)).clamp(max=1)),
        ("first k only", "You looked at the first k answers; average over all choices of k.",
         lambda c, k: c[:, :k].any(1).double()),
        ("first k, averaged", "You averaged the first k answers; use all n.",
         lambda c, k: c[:, :k].double().mean(1)),
        ("any of all n", "You asked whether any of the n is right; draw k of them.",
         lambda c, k: c.any(1).double()),
        ("at least k right", "You asked for k right answers; one among the k drawn is enough.",
         lambda c, k: (c.sum(1) >= k).double()),
        ("one number for all prompts", "Return one number per prompt; do not average them.",
         lambda c, k: groups.pass_at_k(c, k).mean()),
        ("prompts and answers exchanged", "You counted down the prompts; the answers to a prompt"
         " stand in its row.", lambda c, k: 1 - (1 - c.double().mean(0)) ** k),
        ("answers pooled", "You pooled the answers to all prompts; each prompt has its own c.",
         lambda c, k: (1 - (1 - c.double().mean()) ** k).expand(len(c))),
        ("n not counted down", "The divisor stays n in all your factors; after each draw one answer"
         " fewer is left: n − 1, n − 2, …",
         lambda c, k: 1 - (((~c).sum(1, keepdim=True) - torch.arange(k)).clamp(min=0).double()
                           / c.shape[1]).prod(1)),
        ("k of k", "Your factors use k where n belongs.",
         lambda c, k: 1 - none_right((~c).sum(1).clamp(max=k), k, k)),
    ],
)
# fmt: on

NO_COLUMN = Expected(
    "must match the size of tensor", "advantages not a column",
    "Two sizes do not fit. The likely cause: advantages is [B], the ratio [B, T]. Make it a column,"
    " advantages.unsqueeze(1), so that each row has its own advantage.",
)  # fmt: skip

check_rloo_advantages, check_grpo_advantages = checker(RLOO), checker(GRPO)
check_grpo_loss = explained(checker(LOSS), (NO_COLUMN,))
check_pass_at_k = checker(PASS)
