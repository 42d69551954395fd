"""Exercises of notebook 10: advantages without a critic, RLOO's and GRPO's."""

import torch

from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import far_out
from helpers.groups import grpo_advantages, rloo_advantages

t = torch.tensor
FEW = (t([1.0, 2.0, 6.0, 0.0, 4.0, -1.0]), 3)
MANY = (noise(7, 8) + 1, 4)
NINE = (
    noise(9, 10),
    2,
)  # five groups of two: there groups taken across differ however they are taken
EASY = (t([1.0, 3.0, 2.0, 2.0]), 2)  # the second prompt's responses are equal
CLOSE = (t([0.0, 1e-4, 1.0, 3.0]), 2)  # the first prompt's are nearly so: ε counts
ALIKE = (
    "mean of squares minus squared mean",
    "Right for other rewards, wrong where they are large and differ little, such as 300 ± 1: is the variance"
    " E[x²] − E[x]²? That loses their digits. Subtract the mean first, or take std().",
    (300 + noise(8, 6), 3),
)


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


def not_put_back(function):
    """Groups of every (B / K)-th response, whose advantages then stand in another order."""
    return lambda rewards, k: function(rewards.view(k, -1).T.flatten(), k)


def every_kth(function):
    """The same function with groups of every K-th response: rewards[0::K], rewards[1::K], …"""

    def wrong(rewards, k):
        made = torch.zeros_like(rewards)
        for first in range(k):
            group = rewards[first::k]
            made[first::k] = function(group, len(group)) if len(group) > 1 else 0 * group
        return made

    return wrong


def down_the_columns(function):
    """Right numbers, flattened column by column."""
    return lambda rewards, k: grouped(function(rewards, k), k).T.flatten()


def of_sorted(function):
    """Right numbers of groups that were sorted first."""
    return lambda rewards, k: function(grouped(rewards, k).sort(1).values.flatten(), k)


def then(change, function):
    """Right numbers with one thing more done to them."""
    return lambda rewards, k: change(function(rewards, k), k)


def standardised(a):
    """Mean 0, deviation 1, over all."""
    return (a - a.mean()) / (a.std() + 1e-8)


ORDER = (
    ("flattened down the columns", "Your numbers are right, but in another order: flatten the groups row by"
     " row, as they came (reshape(-1), no transpose).", down_the_columns),
    ("the groups were sorted", "You sorted the groups, so each response has another one's advantage; keep"
     " the order of the rewards.", of_sorted),
    ("groups taken across", "The K responses to a prompt are next to each other:"
     " view(-1, group_size), and statistics over dim 1.", not_put_back),
    ("groups taken across", "The K responses to a prompt are next to each other, not K apart:"
     " view(-1, group_size), and statistics over dim 1.", every_kth),
    ("whitened over the batch", "You whitened the advantages over the batch as well; leave them as they are.",
     lambda function: then(lambda a, k: standardised(a), function)),
    ("the first group for all", "Every group takes the statistics of the first one; each has its own.", None),
)  # fmt: skip


def in_order(function, first_group) -> list:
    """Mistakes that either method can have: the order of the responses, or which of them are a group."""
    return [
        (name, says, first_group if make is None else make(function)) for name, says, make in ORDER
    ]


def across(function):
    """The same function with wrong groups: every (B / K)-th response together."""

    def wrong(rewards, k):
        count = len(rewards) // k
        turned = rewards.view(k, count).T.flatten()
        return function(turned, k).view(count, k).T.flatten()

    return wrong


ROWS_OF_K = "view(group_size, -1) makes group_size groups; it is groups of group_size: view(-1, group_size)."

# fmt: off
RLOO = Exercise(
    "rloo_advantages", "rewards group_size", rloo_advantages,
    "r_i − mean of the other K − 1 rewards of its group (Ahmadian et al. 2024; notebook 10)",
    [FEW, MANY, NINE],
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
         " view(-1, group_size), and statistics over dim 1.", across(rloo_advantages)),
        ("not flattened", "Return one row of advantages, [B], in the order of the rewards.",
         lambda r, k: grouped(r, k) - others(r, k) / (k - 1)),
        *in_order(rloo_advantages, lambda r, k: (
            grouped(r, k) - (others(r, k) / (k - 1))[:1]).flatten()),
        ("the next response for baseline", "Your baseline is one neighbour's reward; take the mean of all"
         " K − 1 others.", lambda r, k: (grouped(r, k) - grouped(r, k).roll(-1, 1)).flatten()),
        ("the next response for baseline", "Your baseline is one neighbour's reward; take the mean of all"
         " K − 1 others.", lambda r, k: (grouped(r, k) - grouped(r, k).roll(1, 1)).flatten()),
        ("divided by the std", "You divided by the group's std, as GRPO does; RLOO does not.",
         lambda r, k: (grouped(rloo_advantages(r, k), k) / std(r, k)).flatten()),
        ("divided by the std", "You divided by the group's std, as GRPO does; RLOO does not.",
         lambda r, k: (centred(r, k) / std(r, k)).flatten()),
        ("divided by the std", "You divided by the group's std, as GRPO does; RLOO does not.",
         lambda r, k: (grouped(rloo_advantages(r, k), k) / (std(r, k) + 1e-4)).flatten()),
        ("(K − 1)/K", "The factor is upside down: r − mean of the others is K/(K − 1) times r − mean of all.",
         lambda r, k: (centred(r, k) * (k - 1) / k).flatten()),
        ("K times the centred reward", "K·(r − mean) is r·(K − 1) minus the others' sum: divide it by K − 1.",
         lambda r, k: (centred(r, k) * k).flatten()),
        ("group_size groups", ROWS_OF_K, lambda r, k: (lambda g: (
            g - (g.sum(1, True) - g) / (k - 1)).flatten())(r.view(k, -1))),
        ("own reward in the baseline", "Your sum has the response's own reward in it, and K − 1 below it:"
         " subtract the own one first.",
         lambda r, k: (grouped(r, k) - grouped(r, k).sum(1, True) / (k - 1)).flatten()),
        ("own reward in the baseline", "The own reward is added to the sum; subtract it from it.",
         lambda r, k: (grouped(r, k) - (grouped(r, k).sum(1, True) + grouped(r, k)) / (k - 1)).flatten()),
        ("summed over the prompts", "Your sum runs over dim=0, from prompt to prompt; the others of a group"
         " stand in its row: dim=1.",
         lambda r, k: (lambda g: (g - (g.sum(0, True) - g) / (k - 1)).flatten())(grouped(r, k))),
        *[("one group's sum for all", f"You take the sum of the {which} group for every group; each has its"
           " own.", lambda r, k, at=at: (lambda g: (
               g - (g[at].sum() - g) / (k - 1)).flatten())(grouped(r, k)))
          for which, at in (("first", 0), ("last", -1))],
        ("baseline added", "You added the mean of the others; subtract it.",
         lambda r, k: (grouped(r, k) + others(r, k) / (k - 1)).flatten()),
        ("divided by K + 1", "The others of the group are K − 1: divide by K − 1.",
         lambda r, k: (grouped(r, k) - others(r, k) / (k + 1)).flatten()),
        ("multiplied by K − 1", "You multiplied the others' sum by K − 1; divide it.",
         lambda r, k: (grouped(r, k) - others(r, k) * (k - 1)).flatten()),
        ("mean for sum", "Take the own reward off the group's sum, then divide by K − 1; you took it off the"
         " mean.", lambda r, k: (
             grouped(r, k) - (mean(r, k) - grouped(r, k)) / (k - 1)).flatten()),
        ("divided by the prompts", "You divided by the number of prompts less 1; the others of a group are"
         " K − 1.", lambda r, k: (grouped(r, k) - others(r, k) / (len(r) // k - 1)).flatten()),
        ("the whole divided", "You divide the whole difference by K − 1; divide the others' sum alone. Mind"
         " the brackets.", lambda r, k: ((grouped(r, k) - others(r, k)) / (k - 1)).flatten()),
        ("median of the others", "You subtracted a median; take the mean of the others.",
         lambda r, k: (grouped(r, k) - torch.stack([
             torch.cat([grouped(r, k)[:, :i], grouped(r, k)[:, i + 1:]], 1).median(1).values
             for i in range(k)], 1)).flatten()),
        ("best of the others", "You subtracted the maximum of the others; take their mean.",
         lambda r, k: (grouped(r, k) - torch.stack([
             torch.cat([grouped(r, k)[:, :i], grouped(r, k)[:, i + 1:]], 1).amax(1)
             for i in range(k)], 1)).flatten()),
    ],
)

GRPO = Exercise(
    "grpo_advantages", "rewards group_size", grpo_advantages,
    "(r_i − mean)/(std + 1e-4) within the group, unbiased std (Shao et al. 2024; notebook 10)",
    [FEW, MANY, EASY, CLOSE, NINE],
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
        ("smaller epsilon", "Your ε is smaller than 1e-4, or there is none: rewards that hardly differ"
         " are scaled up to full size.", lambda r, k: (centred(r, k) / (std(r, k) + 1e-8)).flatten()),
        *[("epsilon as a lower limit", "Your ε is a lower limit of the std (clamp, maximum); add 1e-4 to the"
           " std, whatever it is.", lambda r, k, least=least: (
               centred(r, k) / std(r, k).clamp(min=least)).flatten()) for least in (1e-4, 1e-3)],
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
         " view(-1, group_size), and statistics over dim 1.", across(grpo_advantages)),
        ("not flattened", "Return one row of advantages, [B], in the order of the rewards.",
         lambda r, k: centred(r, k) / (std(r, k) + 1e-4)),
        *in_order(grpo_advantages, lambda r, k: (
            (grouped(r, k) - mean(r, k)[:1]) / (std(r, k)[:1] + 1e-4)).flatten()),
        ("group_size groups", ROWS_OF_K, lambda r, k: (lambda g: (
            (g - g.mean(1, keepdim=True)) / (g.std(1, keepdim=True) + 1e-4)).flatten())(r.view(k, -1))),
        ("mean added", "You added the group's mean; subtract it.",
         lambda r, k: ((grouped(r, k) + mean(r, k)) / (std(r, k) + 1e-4)).flatten()),
        ("sum subtracted", "You subtracted the group's sum; subtract its mean.",
         lambda r, k: ((grouped(r, k) - k * mean(r, k)) / (std(r, k) + 1e-4)).flatten()),
        ("epsilon subtracted", "You subtracted 1e-4 from the std; add it.",
         lambda r, k: (centred(r, k) / (std(r, k) - 1e-4)).flatten()),
        ("epsilon of 1", "You added 1 to the std; add 1e-4.",
         lambda r, k: (centred(r, k) / (std(r, k) + 1)).flatten()),
        ("divided by the sum of squares", "You never divided the squares by K − 1: take the std.",
         lambda r, k: (centred(r, k) / (
             centred(r, k).square().sum(1, True).sqrt() + 1e-4)).flatten()),
        ("std about zero", "You took the root of the mean square about 0; subtract the mean first (std).",
         lambda r, k: (centred(r, k) / (
             grouped(r, k).square().mean(1, keepdim=True).sqrt() + 1e-4)).flatten()),
        ("larger epsilon", "Your ε is 1e-2; it is 1e-4.",
         lambda r, k: (centred(r, k) / (std(r, k) + 1e-2)).flatten()),
        ("larger epsilon", "Your ε is 1e-3; it is 1e-4.",
         lambda r, k: (centred(r, k) / (std(r, k) + 1e-3)).flatten()),
        ("smaller epsilon", "Your ε is smaller than 1e-4, or there is none: rewards that hardly differ"
         " are scaled up to full size.", lambda r, k: (centred(r, k) / (std(r, k) + 1e-6)).flatten()),
        ("smaller epsilon", "Your ε is smaller than 1e-4, or there is none: rewards that hardly differ"
         " are scaled up to full size.", lambda r, k: (centred(r, k) / std(r, k).clamp(min=1e-8)).flatten()),
        ("median of the group", "You subtracted the median; subtract the mean.",
         lambda r, k: ((grouped(r, k) - grouped(r, k).median(1, keepdim=True).values)
                       / (std(r, k) + 1e-4)).flatten()),
        ("one std for all groups", "You divided all groups by the mean of their stds; each has its own.",
         lambda r, k: (centred(r, k) / (std(r, k).mean() + 1e-4)).flatten()),
        ("divided by the range", "You divided by max − min; divide by the standard deviation.",
         lambda r, k: (centred(r, k) / ((grouped(r, k).amax(1, keepdim=True)
                       - grouped(r, k).amin(1, keepdim=True)) + 1e-4)).flatten()),
        ("mean absolute deviation", "You divided by the mean of |r − mean|; divide by the standard"
         " deviation.", lambda r, k: (centred(r, k) / (
             centred(r, k).abs().mean(1, keepdim=True) + 1e-4)).flatten()),
    ],
)
# fmt: on

OUTLIER = (
    "wrong for an outlier",
    "Right for ordinary rewards, wrong where one stands far above a large group: is something clipped, or"
    " limited?",
    (torch.cat([t([60.0]), noise(11, 128)]), 129),
)
TIED = (
    "wrong where two rewards are equal",
    "Right for rewards that all differ, wrong where two of a group are equal: the response itself is left"
    " out of the mean, and not every response with its reward.",
    (t([1.0, 1.0, 4.0, 2.0, 5.0, 5.0]), 3),
)
LONE_GROUP = (
    "wrong for one group",
    "Right for several groups, wrong for one alone.",
    (t([1.0, 4.0]), 2),
)
MANY_GROUPS = (
    "wrong for many groups",
    "Right for a few groups, wrong for twenty.",
    (noise(10, 60), 3),
)
LARGE = far_out("rewards are large", (t([300.0, -260.0, 40.0, 20.0, 500.0, -100.0]), 3))
# one group alone comes first: the outlier's case has no other one
FURTHER = LONE_GROUP, OUTLIER, MANY_GROUPS
check_rloo_advantages = explained(
    checker(RLOO),
    then=also_on(RLOO, TIED, LARGE, *FURTHER),
)
check_grpo_advantages = explained(checker(GRPO), then=also_on(GRPO, LARGE, ALIKE, *FURTHER))
