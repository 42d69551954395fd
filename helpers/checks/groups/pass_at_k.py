"""Exercise of notebook 10: pass@k, the probability that one of k answers is right."""

import torch

from helpers import groups
from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.where import case_by_case


def shares(correct):
    """Share of right answers to each prompt, [B]."""
    return correct.double().mean(1)


def none_right(count, n, k):
    """C(count, k)/C(n, k): k drawn answers are all among these `count`."""
    drawn = torch.arange(k)
    return ((count.unsqueeze(1) - drawn).clamp(min=0).double() / (n - drawn)).prod(1)


def drawn(count, n, draws, top=1):
    """The factors (count − i)/(n − i), one column a draw; with `top` 0 the count stays: [B, k]."""
    i = torch.tensor(list(draws))
    return (count.unsqueeze(1) - top * i).clamp(min=0).double() / (n - i)


ANSWERS = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]]).bool()

# fmt: off
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
        ("any of all n", "Your result is that of asking whether any of all n is right: draw k"
         " of them, and do not round the factors.",
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
        ("one draw too few", "You multiply k − 1 factors; there are k draws, the first included.",
         lambda c, k: 1 - none_right((~c).sum(1), c.shape[1], k - 1)),
        ("one draw too many", "You multiply k + 1 factors; there are k draws.",
         lambda c, k: 1 - drawn((~c).sum(1), c.shape[1], range(k + 1)).prod(1)),
        ("the numerator does not count down", "The divisor counts down, n, n − 1, …, but n − c stays: after"
         " each draw one wrong answer fewer is left.",
         lambda c, k: 1 - drawn((~c).sum(1), c.shape[1], range(k), top=0).prod(1)),
        ("n from the wrong axis", "Your n is the number of prompts; it is the number of answers to each,"
         " correct.shape[1].", lambda c, k: 1 - drawn(
             len(c) - c.sum(1), len(c), range(k)).prod(1).nan_to_num()),
        ("factors averaged", "You averaged the k factors; multiply them.",
         lambda c, k: 1 - drawn((~c).sum(1), c.shape[1], range(k)).mean(1)),
        ("factors averaged", "You averaged the k factors; multiply them.", lambda c, k: 1 - (
            ((~c).sum(1, keepdim=True) - torch.arange(k)) / (c.shape[1] - torch.arange(k))).mean(1)),
        ("factors added", "You added the k factors; multiply them.",
         lambda c, k: 1 - drawn((~c).sum(1), c.shape[1], range(k)).sum(1)),
        ("certain too early", "You answer 1 where exactly k are wrong; there all k drawn may be wrong: 1 only"
         " if fewer than k are.", lambda c, k: torch.where(
             (~c).sum(1) <= k, 1.0, 1 - none_right((~c).sum(1), c.shape[1], k))),
        ("blocks of k", "You cut the answers into blocks of k; average over all choices of k.",
         lambda c, k: c[:, : c.shape[1] // k * k].reshape(len(c), -1, k).any(2).double().mean(1)),
        ("yes or no", "You rounded to 0 or 1; return the probability.",
         lambda c, k: (groups.pass_at_k(c, k) > 0.5).double()),
        ("k written in", "Your k is 2, whatever is asked for.", lambda c, k: groups.pass_at_k(c, 2)),
        ("1 or 0", "You have 1 where fewer than k answers are wrong, and 0 elsewhere, where it is 1 − C(n"
         " − c, k)/"
         "C(n, k). If your factors make that: do they use k where n belongs?",
         lambda c, k: 1 - none_right((~c).sum(1).clamp(max=k), k, k)),
    ],
)
# fmt: on

# more answers than 64-bit factorials hold
MANY = (
    "many answers",
    "Right for few answers, wrong for 40: do you divide factorials? Those of 21 and more leave 64 bits, those"
    " of 35 and more a float32. Multiply the k factors (n − c − i)/(n − i).",
    (noise(8, 3, 40) > 1, 3),
)


def answers(right: int, wrong: int) -> torch.Tensor:
    """One prompt with so many right and wrong answers."""
    return torch.tensor([[True] * right + [False] * wrong])


ONE = (
    "wrong for one answer",
    "With one answer, pass@1 is 1 or 0.",
    (torch.tensor([[True], [False]]), 1),
)
FORTY = (
    "wrong for forty prompts", "Right for a few prompts, wrong for forty.", (noise(9, 40, 6) > 0, 2),
)  # fmt: skip
by_count = case_by_case(
    ("k is 1", (answers(2, 3), 1)),
    ("more than k are wrong", (answers(2, 5), 2)),
    ("exactly k are wrong", (answers(3, 2), 2)),
    ("fewer than k are wrong", (answers(4, 1), 3)),
    ("none is wrong", (answers(4, 0), 3)),
    ("none is right", (answers(0, 4), 2)),
)
check_pass_at_k = explained(
    checker(PASS),
    then=also_on(PASS, MANY, ONE, FORTY),
    cause=one_of(PASS, by_count, only=("unrecognised",)),
)
