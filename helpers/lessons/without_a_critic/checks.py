"""Exercises of lesson 10: RLOO's and GRPO's advantages, the whole step from scores to the loss, pass@k."""

from collections import namedtuple

import torch
from torch import Tensor

from helpers.kit.exercise import Seen, by_name, floats, noise, prefix_mask
from helpers.kit.judge import exercise

FEW = (floats(1.0, 2.0, 6.0, 0.0, 4.0, -1.0), 3)
GROUPS = [FEW, (noise(7, 8) + 1, 4), (noise(9, 10), 2)]
EDGES = [
    ("two rewards of a group are equal", (floats(1.0, 1.0, 4.0, 2.0, 5.0, 5.0), 3)),
    ("there is one group", (floats(1.0, 4.0), 2)),
    ("one reward stands far above a large group", (torch.cat([floats(60.0), noise(11, 128)]), 129)),
]

check_rloo_advantages = exercise(
    """\
def rloo_advantages(rewards, group_size):
    groups = rewards.view(-1, group_size)
    others = groups.sum(dim=1, keepdim=True) - groups
    return (groups - others / (group_size - 1)).flatten()
""",
    "r_i − mean of the other K − 1 rewards of its group (Ahmadian et al. 2024)",
    GROUPS,
    """\
own reward in the baseline: You subtracted the mean of the whole group; leave out the response's own reward.
- others / (group_size - 1)
+ groups.mean(1, keepdim=True)
mean of the batch: You subtracted the mean over all prompts; a response is compared with its group alone.
- others / (group_size - 1)
+ groups.mean()
divided by the std: You divided by the group's std, as GRPO does; RLOO does not.
- (groups - others / (group_size - 1))
+ ((groups - others / (group_size - 1)) / groups.std(1, keepdim=True))
""",
    further=EDGES,
)

CLOSE = floats(0.0, 1.3e-4, 1.0, 3.0)  # the first group's are nearly equal: ε counts

check_grpo_advantages = exercise(
    """\
def grpo_advantages(rewards, group_size):
    groups = rewards.view(-1, group_size)
    centred = groups - groups.mean(dim=1, keepdim=True)
    return (centred / (groups.std(dim=1, keepdim=True) + 1e-4)).flatten()
""",
    "(r_i − mean)/(std + 1e-4) within the group, unbiased std (Shao et al. 2024)",
    [*GROUPS, (CLOSE, 2)],
    """\
variance instead of std: You divided by the variance; divide by its square root.
- groups.std(
+ groups.var(
biased std: You divided by K inside the std; the unbiased std divides by K − 1.
- std(dim=1,
+ std(dim=1, unbiased=False,
epsilon as a lower limit: Your ε is a lower limit of the std (clamp, maximum); add 1e-4 to the std, whatever
 it is.
- (groups.std(dim=1, keepdim=True) + 1e-4)
+ groups.std(dim=1, keepdim=True).clamp(min=1e-4)
epsilon inside the root: Add 1e-4 to the std, not to the variance.
- (groups.std(dim=1, keepdim=True) + 1e-4)
+ (groups.var(dim=1, keepdim=True) + 1e-4).sqrt()
""",
    further=[
        *EDGES,
        ("rewards are large and differ little", (300 + noise(8, 6), 3)),
    ],
)


Settings = namedtuple(  # the fields of an `RLHFConfig` that a group step reads
    "Settings",
    "method responses_per_prompt kl_coef loss_aggregation cliprange cliprange_high response_length",
)
TWO = (
    floats(1.0, -1.5),
    floats([-1.0, -2.0, -0.4, -5.0], [-0.9, -1.5, -1.0, -1.0]),
    floats([-1.5, -1.0, -0.7, -2.0], [-0.5, -1.9, -1.0, -1.0]),
    floats([-1.9, -1.2, -0.5, -4.0], [-0.4, -2.5, -0.6, -2.0]),
    prefix_mask(4, 3, 1),
)
SIX = (
    2 * noise(1, 6),
    *(-noise(seed, 6, 4).abs() for seed in (2, 3, 4)),
    prefix_mask(4, 2, 4, 3, 1, 4, 3),
)
FOUR = (*(-noise(seed, 4, 5).abs() for seed in (5, 6, 6)), prefix_mask(5, 3, 2, 5, 1))  # no KL
INF = (SIX[0], *(torch.where(SIX[4], x, -torch.inf) for x in SIX[1:4]), SIX[4])
SMALL = (
    TWO[0],
    *(torch.cat([x, x], dim=1)[:, :5] for x in TWO[1:4]),
    prefix_mask(5, 3, 1),
)
WEIGHTS, NUDGE = "weight of each token in the loss", 0.1  # a move of one log-prob, within the clip


def step_seen(function, *given: object) -> Seen:
    """The four results; of the small probes, what the loss makes of each token."""
    seen = by_name(("rewards", "advantages", "gains", "loss"), function(*given))
    if given[4].shape != SMALL[4].shape:
        return seen
    written = isinstance(seen["loss"], (Tensor, float))
    return {WEIGHTS: weights(function, given) if written else seen["loss"]}


def weights(function, given: tuple) -> Tensor:
    """What the loss falls by as one token's gain grows by 1, [B, T]: found by moving a log-prob a little."""
    scores, _, old, ref, mask, config = given
    advantages = check_group_step.exercise.right(*given)[1]

    def loss(moved: Tensor) -> float:
        return float(function(scores, old + NUDGE * moved, old, ref, mask, config)[3])

    each = torch.eye(mask.numel()).view(-1, *mask.shape)  # (B·T, B, T), one token moved in each
    falls = torch.tensor([loss(torch.zeros(mask.shape)) - loss(moved) for moved in each])
    return falls.view(mask.shape) / (torch.tensor(NUDGE).expm1() * advantages.unsqueeze(1))


def clipped_gains(logprobs, old_logprobs, advantages, mask, config):
    """PPO's clipped gain of each counted token, 0 in the padding: [B, T], advantages [B] → [B, T]."""
    column = advantages.unsqueeze(1)  # (B, 1)
    ratio = torch.where(mask, logprobs - old_logprobs, 0.0).exp()  # 1 in the padding
    clipped = ratio.clamp(1 - config.cliprange, 1 + config.cliprange_high)
    return torch.where(mask, torch.minimum(ratio * column, clipped * column), 0.0)


check_group_step = exercise(
    """\
from helpers.lessons.without_a_critic.checks import clipped_gains


def group_step(scores, logprobs, old_logprobs, ref_logprobs, mask, config):
    kl = torch.where(mask, old_logprobs - ref_logprobs, 0.0).sum(dim=1)  # (B,)
    rewards = scores - config.kl_coef * kl
    advantages_of = rloo_advantages if config.method == "rloo" else grpo_advantages
    advantages = advantages_of(rewards, config.responses_per_prompt)
    gains = clipped_gains(logprobs, old_logprobs, advantages, mask, config)
    sums, counts = gains.sum(dim=1), mask.sum(dim=1)  # (B,)
    if config.loss_aggregation == "response":
        mean = (sums / counts).mean()
    elif config.loss_aggregation == "fixed":
        mean = sums.sum() / (len(sums) * config.response_length)
    else:  # "token"
        mean = sums.sum() / counts.sum()
    return rewards, advantages, gains, -mean
""",
    "reward = score − β·Σ(log π_old − log π_ref); A within the group; loss = −mean of the gains",
    [
        (*TWO, Settings("rloo", 2, 0.5, "token", 0.2, 0.4, 8)),
        (*TWO, Settings("grpo", 2, 0.5, "fixed", 0.2, 0.4, 8)),
        *(
            (*SMALL, Settings("rloo", 2, 0.5, way, 0.2, 0.4, 8))
            for way in ("token", "response", "fixed")
        ),
        (*SIX, Settings("rloo", 3, 0.3, "response", 0.1, 0.3, 8)),
        (*SIX, Settings("grpo", 3, 0.3, "fixed", 0.1, 0.3, 8)),
        (CLOSE, *FOUR, Settings("grpo", 2, 0.3, "token", 0.2, 0.4, 7)),
    ],
    """\
mean over tokens: You average the KL over the tokens; the KL of a response is their sum.
- 0.0).sum(dim=1)
+ 0.0).sum(dim=1) / mask.sum(dim=1)
""",
    results=("rewards", "advantages", "gains", WEIGHTS, "loss"),
    gradient=("logprobs",),
    further=[
        (
            "padding holds −inf: torch.where, not a product with the mask",
            (*INF, Settings("rloo", 3, 0.3, "token", 0.1, 0.3, 8)),
        ),
        (
            "the rewards of a group are equal",
            (floats(1.0, 3.0, 2.0, 2.0), *FOUR, Settings("rloo", 2, 0.3, "token", 0.2, 0.4, 7)),
        ),
    ],
    observe=step_seen,
    uses={
        "rloo_advantages": check_rloo_advantages.exercise,
        "grpo_advantages": check_grpo_advantages.exercise,
    },
)

ANSWERS = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]]).bool()

check_pass_at_k = exercise(
    """\
def pass_at_k(correct, k):
    n = correct.shape[1]
    wrong = (~correct).sum(dim=1, keepdim=True)  # (B, 1)
    j = torch.arange(k)
    all_wrong = ((wrong - j) / (n - j)).prod(dim=1)
    return 1 - all_wrong
""",
    "1 − C(n − c, k)/C(n, k), one number per prompt (Chen et al. 2021, eq. 1)",
    [
        (ANSWERS, 2),
        (noise(4, 6, 7) > 0.4, 3),
        (noise(5, 5, 8) > 0.8, 1),
        (noise(6, 4, 5) > 0, 5),
    ],
    """\
plug-in: 1 − (1 − c/n)^k draws the same answer twice; it is too low for k > 1. Draw without putting back.
- ((wrong - j) / (n - j)).prod(dim=1)
+ (wrong[:, 0] / n) ** k
all k right: That is the probability that all k are right; one of them is enough.
- ~correct).sum(dim=1, keepdim=True)  # (B, 1)
-     j = torch.arange(k)
-     all_wrong = ((wrong - j) / (n - j)).prod(dim=1)
-     return 1 - all_wrong
+ correct).sum(dim=1, keepdim=True)
+     j = torch.arange(k)
+     return ((wrong - j) / (n - j)).prod(dim=1)
first k only: You looked at the first k answers; average over all choices of k.
- 1 - all_wrong
+ correct[:, :k].any(1).float()
k times pass@1: You multiplied c/n by k: right answers that come together are counted twice.
- 1 - all_wrong
+ (k * correct.float().mean(1)).clamp(max=1)
factors averaged: You averaged the k factors; multiply them.
- prod(
+ mean(
""",
    further=[
        ("there are forty answers: do factorials leave 64 bits?", (noise(8, 3, 40) > 1, 3)),
    ],
)
