"""The large exercise of notebook 08: best of n, and its KL.

The four results of `keep_best` are looked at in the order in which they are computed.
"""

import math

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Exercise, floats, noise
from helpers.checks.judging.parts import parts_checker
from helpers.checks.judging.raised import explained

ARGUMENTS = "scores gold n"
PROBES = [
    (floats([0.3, -1.2, 0.8, 1.9]), floats([1.5, -2.0, 0.2, -1.0]), 2),
    (noise(5, 2, 7), noise(6, 2, 7), 1),
    (floats([1.0, 0.0, 1.0, 0.0, 0.0], [0.5, 2.0, 2.0, -1.0, 0.1]), noise(7, 2, 5), 3),
    (noise(8, 3, 9), noise(9, 3, 9), 5),
]


def ranks(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Per sample, how many of its row are smaller, and how many are smaller or equal: [P, N] each."""
    below = (scores[:, None, :] < scores[:, :, None]).sum(-1)
    return below, (scores[:, None, :] <= scores[:, :, None]).sum(-1)


def chances(scores: Tensor, gold: Tensor, n: int) -> Tensor:
    """P(this sample is the best of n independent draws from its row): [P, N] → [P, N]."""
    low, high = ranks(scores)
    total = scores.shape[1]
    return ((high / total) ** n - (low / total) ** n) / (high - low)


def by_position(scores: Tensor) -> Tensor:
    """Ranks 1 … N where ties are told apart by their place."""
    return scores.argsort(dim=1, stable=True).argsort(dim=1) + 1


def subsets(scores: Tensor, gold: Tensor, n: int) -> Tensor:
    """The same without replacement: C(k − 1, n − 1) of the C(N, n) draws."""
    total = scores.shape[1]
    share = [math.comb(k, n - 1) / math.comb(total, n) for k in range(total)]
    return torch.tensor(share)[by_position(scores) - 1]


def combined(scores: Tensor, gold: Tensor, n: int) -> Tensor:
    """C(high, n) − C(low, n) of the C(N, n) draws without replacement, shared among ties."""
    low, high = ranks(scores)
    total = scores.shape[1]
    ways = torch.tensor([math.comb(k, n) for k in range(total + 1)]).float()
    return (ways[high] - ways[low]) / ways[total] / (high - low)


def mean_kept(values: Tensor, scores: Tensor, n: int) -> Tensor:
    """Mean over prompts of what best of n keeps."""
    return (chances(scores, scores, n) * values).sum(dim=1).mean()


def kl(scores: Tensor, gold: Tensor, n: int) -> Tensor:
    """KL(best of n‖reference), the reference drawing each of the N with 1/N; mean over prompts."""
    chance = chances(scores, gold, n)
    return torch.xlogy(chance, chance * scores.shape[1]).sum(dim=1).mean()


def floored(chance: Tensor, total: int, floor: float) -> Tensor:
    """The KL with chances of at least `floor` in the logarithm."""
    return (chance * (chance.clamp(min=floor) * total).log()).sum(1).mean()


def part(look: str, reference, mistakes: list) -> Exercise:
    """One of the results, as an exercise of its own on the shared probes."""
    return Exercise("keep_best", ARGUMENTS, reference, look, PROBES, mistakes)


def row_sums_to_one(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=1, keepdim=True)


def at_ranks(change) -> object:
    """A wrong chance made from (low, high, N, n)."""
    return lambda s, g, n: change(*ranks(s), s.shape[1], n)


# fmt: off
CHANCE = part(
    "P(all n at or below) − P(all n below) = (high/N)ⁿ − (low/N)ⁿ, shared by those of equal score"
    " (notebook 08)",
    chances,
    [
        ("ties not shared", "Samples of equal score each get the whole group's chance: divide it by"
         " their number. Each row must sum to 1.",
         at_ranks(lambda low, high, total, n: (high / total) ** n - (low / total) ** n)),
        ("ties not shared", "You make each row sum to 1 by its total. What is too much stands with the"
         " samples of equal score only: share a group's chance among them.",
         lambda s, g, n: row_sums_to_one(at_ranks(
             lambda low, high, total, n: (high / total) ** n - (low / total) ** n)(s, g, n))),
        ("at or below", "(high/N)ⁿ, made to sum to 1, is no chance to be kept. Subtract the chance that the"
         " best is below this sample.",
         lambda s, g, n: row_sums_to_one(at_ranks(
             lambda low, high, total, n: (high / total) ** n)(s, g, n))),
        ("argsort once", "`argsort` says which sample stands at each rank, not the rank of each sample:"
         " count those below (or argsort twice, and see to equal scores).",
         lambda s, g, n: ((s.argsort(1) + 1) / s.shape[1]) ** n - (s.argsort(1) / s.shape[1]) ** n),
        ("ties told apart", "Samples of equal score are ranked by their place in the row. They are"
         " equally likely to be kept: count those below, and those below or equal.",
         lambda s, g, n: (by_position(s) / s.shape[1]) ** n
         - ((by_position(s) - 1) / s.shape[1]) ** n),
        ("one less at or below", "`low` is taken as high − 1. It counts the samples that are smaller: with"
         " equal scores that is fewer.", at_ranks(
             lambda low, high, total, n: ((high / total) ** n - ((high - 1) / total) ** n)
             / (high - low))),
        ("one less at or below", "`low` is taken as high − 1. It counts the samples that are smaller: with"
         " equal scores that is fewer.", at_ranks(
             lambda low, high, total, n: (high / total) ** n - ((high - 1) / total) ** n)),
        ("one more than below", "`high` is taken as low + 1. It counts the samples that are smaller or equal:"
         " with equal scores that is more.", at_ranks(
             lambda low, high, total, n: ((low + 1) / total) ** n - (low / total) ** n)),
        ("one more than below", "`high` is taken as low + 1. It counts the samples that are smaller or equal:"
         " with equal scores that is more.", at_ranks(
             lambda low, high, total, n: (((low + 1) / total) ** n - (low / total) ** n)
             / (high - low))),
        ("N of all prompts", "Your N is the number of all samples; it is that of one row, scores.shape[1].",
         lambda s, g, n: (lambda low, high, total: (
             (high / total) ** n - (low / total) ** n) / (high - low))(*ranks(s), s.numel())),
        ("N is the number of prompts", "Your N is the number of rows; it is that of the samples in a row,"
         " scores.shape[1].",
         lambda s, g, n: (lambda low, high, total: (
             (high / total) ** n - (low / total) ** n) / (high - low))(*ranks(s), len(s))),
        ("the first prompt for all", "Every row gets the chances of the first one; rank each row by itself.",
         lambda s, g, n: chances(s[:1], g, n).expand_as(s)),
        ("in the order of the ranks", "Your chances stand in the order of the sorted scores; they belong in"
         " that of the samples.", lambda s, g, n: chances(s, g, n).sort(1).values),
        ("in the order of the ranks", "Your chances stand in the order of the sorted scores, the best first;"
         " they belong in that of the samples.",
         lambda s, g, n: chances(s, g, n).sort(1, descending=True).values),
        ("drawn at all", "That is the chance to be among the n, 1 − (1 − 1/N)ⁿ. The best of them is kept: the"
         " others must be at or below.",
         lambda s, g, n: torch.full_like(s, 1 - (1 - 1 / s.shape[1]) ** n)),
        ("the best has all", "All the chance is with the best of all N, and others can be kept, too. If"
         " you took"
         " high // N: that is 0 for all but the best. Divide with /.", at_ranks(lambda low, high, total, n: (
             (high // total) ** n - (low // total) ** n) / (high - low))),
        ("the n best alike", "You keep the n best of all N alike. One of n drawn ones is kept.",
         lambda s, g, n: (by_position(s) > s.shape[1] - n).float() / n),
        ("the n best alike", "You keep the n best of all N alike. One of n drawn ones is kept.",
         lambda s, g, n: (by_position(s) > s.shape[1] - n).float()),
        ("rounded scores", "Scores that differ a little count as equal: compare them as they are.",
         lambda s, g, n: chances((s * 10).round() / 10, g, n)),
        ("rounded scores", "Scores that differ a little count as equal: compare them as they are.",
         lambda s, g, n: chances(s.round(), g, n)),
        ("without replacement", "That is for n different samples. Here each draw is independent, as responses"
         " of a policy are: the same one may come twice.", combined),
        ("at or below", "(high/N)ⁿ is the chance that the best is at or below this sample. Subtract"
         " the chance that it is below.",
         at_ranks(lambda low, high, total, n: (high / total) ** n)),
        ("the worst of n", "You keep the lowest score: count the samples below, not those above.",
         lambda s, g, n: chances(-s, g, n)),
        ("one rank too low", "Your ranks start at 0, so the best sample has N − 1: `high` counts the"
         " sample itself.",
         at_ranks(lambda low, high, total, n: (
             (high - 1) / total) ** n - ((low - 1).clamp(min=0) / total) ** n)),
        ("the top alone", "You always keep the best of all N. Only n are drawn, and often that one"
         " is not among them.",
         lambda s, g, n: torch.nn.functional.one_hot(s.argmax(1), s.shape[1]).float()),
        ("n left out", "Every sample has chance 1/N: that is n = 1. Where is n?",
         lambda s, g, n: torch.full_like(s, 1 / s.shape[1])),
        ("a density", "n·(k/N)ⁿ⁻¹/N is the slope of (k/N)ⁿ. With N samples take the difference.",
         at_ranks(lambda low, high, total, n: n * (high / total) ** (n - 1) / total)),
        ("a density", "(k/N)ⁿ⁻¹, made to sum to 1, is a slope. With N samples take the difference.",
         lambda s, g, n: row_sums_to_one(at_ranks(
             lambda low, high, total, n: (high / total) ** (n - 1))(s, g, n))),
        ("drawn, and the others below", "You multiply the chance to be drawn by the chance that n − 1 others"
         " are at or below. But it may be drawn twice. Subtract: all n at or below, less all n below.",
         at_ranks(lambda low, high, total, n: (
             1 - (1 - 1 / total) ** n) * (high / total) ** (n - 1))),
        ("power of the difference", "You raised the difference to the power n. Raise (high/N) and"
         " (low/N), then subtract.",
         at_ranks(lambda low, high, total, n: ((high - low) / total) ** n)),
        ("counts instead of shares", "Your counts are not divided by N.",
         at_ranks(lambda low, high, total, n: (high**n - low**n) / (high - low))),
        ("without replacement", "That is for n different samples. Here each draw is independent, as"
         " responses of a policy are: the same one may come twice.", subsets),
        ("ranked by gold", "You rank by gold. Only the proxy is seen when one is kept.",
         lambda s, g, n: chances(g, g, n)),
        ("ranks over the batch", "You rank over all prompts together. Each row is a prompt of its"
         " own.",
         lambda s, g, n: chances(s.flatten()[None], g, n).view_as(s)),
        ("a softmax", "A softmax of the scores is another policy. Best of n knows ranks only.",
         lambda s, g, n: s.softmax(1)),
        ("a softmax of n·score", "A softmax of the scores is another policy. Best of n knows ranks"
         " only.",
         lambda s, g, n: (n * s).softmax(1)),
        ("n times as likely", "No sample can be kept more often than (1 − (1 − 1/N)ⁿ), and they"
         " cannot all be n times as likely.",
         lambda s, g, n: torch.full_like(s, n / s.shape[1])),
    ],
)


def weighted(change) -> object:
    """A wrong mean made from (chance, scores, gold)."""
    return lambda s, g, n: change(chances(s, g, n), s, g)


PROXY = part(
    "Σ chance · score in each row, then the mean over prompts (notebook 08)",
    lambda s, g, n: mean_kept(s, s, n),
    [
        ("not weighted", "That is the mean of all samples, best or not. Weigh them by their chance.",
         weighted(lambda w, s, g: s.mean())),
        ("the maximum", "That is the best of all N. Weigh every sample by its chance.",
         weighted(lambda w, s, g: s.amax(1).mean())),
        ("divided by N", "The chances sum to 1 already: sum over samples, average over prompts only.",
         weighted(lambda w, s, g: (w * s).mean())),
        ("summed over prompts", "You added the prompts up. Average them.",
         weighted(lambda w, s, g: (w * s).sum())),
        ("the wrong axis", "You summed over the prompts and averaged over the samples: sum over the samples,"
         " dim=1, then average.", weighted(lambda w, s, g: (w * s).sum(0).mean())),
        ("one a prompt", "You return a number for each prompt. Return their mean.",
         weighted(lambda w, s, g: (w * s).sum(1))),
        ("gold instead", "That is the gold kept. The proxy comes first.",
         weighted(lambda w, s, g: (w * g).sum(1).mean())),
    ],
)
GOLD = part(
    "Σ chance · gold in each row, then the mean over prompts (notebook 08)",
    lambda s, g, n: mean_kept(g, s, n),
    [
        ("kept by gold", "You keep the best by gold. It is kept by the proxy, then judged by gold.",
         lambda s, g, n: mean_kept(g, g, n)),
        ("not weighted", "That is the mean of all samples, best or not. Weigh them by their chance.",
         weighted(lambda w, s, g: g.mean())),
        ("the maximum", "That is the best gold of all N. Weigh every sample by its chance.",
         weighted(lambda w, s, g: g.amax(1).mean())),
        ("gold of the top", "That is the gold of the one with the highest score of all N.",
         weighted(lambda w, s, g: g.gather(1, s.argmax(1, keepdim=True)).mean())),
        ("a gain over the reference", "You subtracted the mean of all samples; return the level itself.",
         weighted(lambda w, s, g: (w * g).sum(1).mean() - g.mean())),
        ("the wrong axis", "You summed over the prompts and averaged over the samples: sum over the samples,"
         " dim=1, then average.", weighted(lambda w, s, g: (w * g).sum(0).mean())),
        ("gold in another order", "You sorted the chances and not the gold: both must be in the order"
         " of the samples.",
         weighted(lambda w, s, g: (w.sort(1).values * g).sum(1).mean())),
        ("gold in another order", "The largest gold gets the largest chance: is `gold` sorted too? A chance"
         " belongs to a sample; multiply it by that sample's gold.",
         weighted(lambda w, s, g: (w.sort(1).values * g.sort(1).values).sum(1).mean())),
        ("divided by N", "The chances sum to 1 already: sum over samples, average over prompts only.",
         weighted(lambda w, s, g: (w * g).mean())),
        ("summed over prompts", "You added the prompts up. Average them.",
         weighted(lambda w, s, g: (w * g).sum())),
        ("one a prompt", "You return a number for each prompt. Return their mean.",
         weighted(lambda w, s, g: (w * g).sum(1))),
        ("the proxy again", "That is the proxy again.",
         weighted(lambda w, s, g: (w * s).sum(1).mean())),
    ],
)
KL = part(
    "Σ chance · log(chance / (1/N)) in each row, then the mean over prompts (notebook 08)",
    kl,
    [
        ("the bound", "log n − (n − 1)/n holds without ties and for endless N. Measure it: sum"
         " chance · log(chance · N).",
         lambda s, g, n: torch.tensor(math.log(n) - (n - 1) / n)),
        ("log n", "You return log n, which is not the KL; sum chance · log(chance · N).",
         lambda s, g, n: torch.tensor(math.log(n))),
        ("1/N left out", "Σ chance · log chance is minus an entropy. The reference's probability, 1/N,"
         " belongs below.",
         weighted(lambda w, s, g: torch.xlogy(w, w).sum(1).mean())),
        ("the wrong direction", "That is KL(reference‖best of n): weigh the logarithms by `chance`.",
         weighted(lambda w, s, g: -(w * s.shape[1]).log().mean())),
        ("not weighted", "You average the log ratios over the reference's samples. Weigh them by"
         " `chance`.",
         weighted(lambda w, s, g: (w * s.shape[1]).log().mean())),
        ("sign flipped", "A KL is never negative: log(chance · N), not log(1/(chance · N)).",
         weighted(lambda w, s, g: -torch.xlogy(w, w * s.shape[1]).sum(1).mean())),
        ("divided by N in the logarithm", "You divide by N where you should multiply: chance / (1/N) is"
         " chance · N.", weighted(lambda w, s, g: torch.xlogy(w, w / s.shape[1]).sum(1).mean())),
        ("a floor in the logarithm", "Small chances are raised to a floor before the logarithm; take"
         " xlogy(chance, chance · N), which is 0 where the chance is.",
         weighted(lambda w, s, g: floored(w, s.shape[1], 0.01))),
        ("a floor in the logarithm", "A number is added to the chances before the logarithm; take"
         " xlogy(chance, chance · N), which is 0 where the chance is.",
         weighted(lambda w, s, g: (w * ((w + 0.01) * s.shape[1]).log()).sum(1).mean())),
        ("a floor in the logarithm", "A number is added within the logarithm; take"
         " xlogy(chance, chance · N), which is 0 where the chance is.",
         weighted(lambda w, s, g: (w * (w * s.shape[1] + 1e-3).log()).sum(1).mean())),
        ("bits", "Your result is in bits; use nats (natural logarithm).",
         lambda s, g, n: kl(s, g, n) / math.log(2)),
        ("divided by N", "The chances sum to 1 already: sum over samples, average over prompts only.",
         weighted(lambda w, s, g: torch.xlogy(w, w * s.shape[1]).mean())),
        ("summed over prompts", "You added the prompts up. Average them.",
         weighted(lambda w, s, g: torch.xlogy(w, w * s.shape[1]).sum())),
        ("one a prompt", "You return a number for each prompt. Return their mean.",
         weighted(lambda w, s, g: torch.xlogy(w, w * s.shape[1]).sum(1))),
    ],
)
# fmt: on


def more_draws(function) -> tuple[str, str] | None:
    """What a right answer does with more draws than samples: the best need not be among them."""
    given = noise(10, 1, 4), noise(11, 1, 4), 6
    with torch.no_grad():
        found = torch.as_tensor(function(*given)[0]).double()
    if torch.allclose(found, chances(*given).double(), 1e-3):
        return None
    return (
        "more draws than samples",
        "All is right, but not for more draws than samples (N = 4, n = 6): draws are put back, so the best"
        " may still be missing. The same formula holds for every n.",
    )


def vanishing_chance(function) -> tuple[str, str] | None:
    """What a right answer does with powers that leave 64 bits, and with a chance that rounds to 0."""
    given = noise(12, 2, 12), noise(13, 2, 12), 40
    try:
        with torch.no_grad():
            found = torch.as_tensor(function(*given)[0]).double()
    except (OverflowError, RuntimeError):  # of a whole number that is too large
        found = torch.tensor(torch.nan).double()
    if not torch.allclose(found, chances(*given).double(), 1e-3, 1e-6):
        return (
            "wrong for a large n",
            "All is right for a small n, but not for N = 12 and n = 40. Do you raise counts to the power n?"
            " 12⁴⁰ leaves 64 bits, and a float32: divide by N first.",
        )
    given = noise(10, 1, 8), noise(11, 1, 8), 300
    with torch.no_grad():
        answers = function(*given)
    if math.isfinite(float(answers[3])):
        return None
    return (
        "0 · log 0",
        f"All numbers are right, but for n = 300 the KL is {float(answers[3])}: (1/8)³⁰⁰ rounds to 0, and"
        " 0 · log 0 is NaN. torch.xlogy(x, y) is x · log y, and 0 where x is 0.",
    )


RESULTS = {"chance": CHANCE, "proxy": PROXY, "gold": GOLD, "KL": KL}
check_keep_best = explained(
    parts_checker(RESULTS), then=lambda f: more_draws(f) or vanishing_chance(f)
)
