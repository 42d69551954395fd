"""Exercise of notebook 05: the share of pairs that the scores rank right."""

import torch

from helpers import reward_model
from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect
from helpers.checks.reward_model.bradley_terry import probability

t = torch.tensor


def accuracy(chosen, rejected):
    """`reward_model.pair_accuracy` of given scores."""
    scored = iter([chosen, rejected])
    pairs = [{"prompt": "", "chosen": "", "rejected": ""}] * len(chosen)
    return t(reward_model.pair_accuracy(lambda texts: next(scored), pairs))


# fmt: off
SEVERAL = ((3 * noise(5, 41)).round() / 2, (3 * noise(6, 41)).round() / 2)  # with ties
ACCURACY = Exercise(
    "pair_accuracy", "chosen rejected", accuracy,
    "share of pairs with chosen > rejected, a tie counts half (notebook 05)",
    [
        (t([1.0, 0.0, 2.0, -1.0, 3.0]), t([0.0, 3.0, 2.0, -2.0, 1.0])),
        (t([0.5, 0.5, -1.0, 2.0, 0.0, 1.0, -3.0]), t([0.5, 0.5, -2.0, 3.0, 4.0, 0.0, -1.0])),
        SEVERAL,
    ],
    [
        ("tie counts fully", "With >= a tie counts as 1; it should count 1/2.",
         lambda c, r: (c >= r).float().mean()),
        ("tie counts nothing", "With > a tie counts as 0; it should count 1/2.",
         lambda c, r: (c > r).float().mean()),
        ("tie left out", "You left out the ties; each should count 1/2.",
         lambda c, r: (c > r)[c != r].float().mean()),
        ("reversed", "You counted the pairs in which rejected is higher.",
         lambda c, r: 1 - accuracy(c, r)),
        ("all against all", "You compared every chosen with every rejected; compare within pairs.",
         lambda c, r: (((c[:, None] > r).float() + (c[:, None] >= r).float()) / 2).mean()),
        ("count instead of share", "You counted; divide by the number of pairs.",
         lambda c, r: accuracy(c, r) * len(c)),
        ("percent", "Return a share between 0 and 1, not percent.", lambda c, r: 100 * accuracy(c, r)),
        ("mean probability", "You averaged probabilities; count the pairs with chosen > rejected.",
         lambda c, r: probability(c, r).mean()),
        ("above zero", "You tested chosen > 0; compare chosen with rejected.",
         lambda c, r: (c > 0).float().mean()),
        ("mean difference", "You averaged the differences; count the positive ones.",
         lambda c, r: (c - r).mean()),
        ("ties subtracted", "A tie adds a half; yours takes it away.",
         lambda c, r: (c > r).float().mean() - (c == r).float().mean() / 2),
        *(("another weight of a tie", f"You count a tie as {w:.3g}; it should count 1/2.",
           lambda c, r, w=w: (c > r).float().mean() + w * (c == r).float().mean())
          for w in (0.25, 2.0, 1 / 3, 0.1, -1.0)),
        ("ties added as a number", "You add half the number of ties; add half of their share of the pairs.",
         lambda c, r: (c > r).float().mean() + (c == r).sum() / 2),
        ("another share", "You divided the wins by the losses; the share is wins (and half the ties) by"
         " pairs.", lambda c, r: (c > r).sum() / (c < r).sum()),
        ("another share", "You took wins less losses; the share is wins (and half the ties) by pairs.",
         lambda c, r: ((c > r).sum() - (c < r).sum()).float()),
        ("means compared", "You compared the two means; compare pair by pair, and average.",
         lambda c, r: (c.mean() > r.mean()).float()),
        ("all or nothing", "You return 0 in every test case: a share rounded to a whole number (//, int), or"
         " whether all pairs are right? Return the share.",
         lambda c, r: (c > r).all().float()),
        ("all or nothing", "You return 1 in every test case: a share rounded up, or whether any pair is"
         " right? Return the share.",
         lambda c, r: (c > r).any().float()),
        ("divided by n − 1", "You divided by n − 1; divide by the number of pairs.",
         lambda c, r: accuracy(c, r) * len(c) / (len(c) - 1)),
        ("divided by n + 1", "You divided by n + 1; divide by the number of pairs.",
         lambda c, r: accuracy(c, r) * len(c) / (len(c) + 1)),
        ("half the share", "Your share is half of the right one: is it divided by 2n, the number of"
         " texts? Divide by that of pairs.",
         lambda c, r: accuracy(c, r) / 2),
        ("always ½", "You return ½ in every test case (each has a tie): each tie counts ½, every other"
         " pair 0 or 1.", lambda c, r: t(0.5) if bool((c == r).any()) else accuracy(c, r)),
        ("median of the pairs", "You took the median over the pairs; take the mean.",
         lambda c, r: (((c - r).sign() + 1) / 2).median()),
        ("the better of both directions", "You took the larger of the share and 1 − the share; it may be"
         " below one half.", lambda c, r: torch.maximum(accuracy(c, r), 1 - accuracy(c, r))),
        ("weighed by the difference", "You weighed the pairs by the size of their difference; each counts"
         " alike.",
         lambda c, r: (c - r).relu().sum() / (c - r).abs().sum()),
        ("weighed by the difference", "You averaged the positive differences; count them.",
         lambda c, r: (c - r).relu().mean()),
        *(("pairs torn apart", f"You {words}: chosen and rejected of a pair must stay together.",
           lambda c, r, f=f: accuracy(*f(c, r))) for words, f in (
            ("compared with a neighbouring pair's rejected score", lambda c, r: (c, r.roll(-1))),
            ("compared with a neighbouring pair's rejected score", lambda c, r: (c, r.roll(1))),
            ("compared with a neighbouring pair's rejected score", lambda c, r: (c[:-1], r[1:])),
            ("compared with a neighbouring pair's rejected score", lambda c, r: (c[1:], r[:-1])),
            ("sorted the scores", lambda c, r: (c.sort().values, r.sort().values)),
            ("sorted the scores", lambda c, r: (c.sort(descending=True).values,
             r.sort(descending=True).values)),
            ("sorted one side", lambda c, r: (c.sort().values, r)),
            ("sorted one side", lambda c, r: (c, r.sort().values)),
            ("reversed one side", lambda c, r: (c, r.flip(0))))),
        *(("pairs torn apart, and ties", f"You {words}: chosen and rejected of a pair must stay together."
         f" (And"
           " a tie counts 1/2.)", lambda c, r, f=f, o=o: o(*f(c, r)).float().mean()) for words, f in (
            ("compared with a neighbouring pair's rejected score", lambda c, r: (c, r.roll(-1))),
            ("compared with a neighbouring pair's rejected score", lambda c, r: (c, r.roll(1))),
            ("sorted the scores", lambda c, r: (c.sort().values, r.sort().values)),
            ("reversed one side", lambda c, r: (c, r.flip(0)))) for o in (torch.gt, torch.ge)),
        ("compared with a mean", "You compared each chosen score with the rejected ones' mean; compare it"
         " with that of its own pair.", lambda c, r: (c > r.mean()).float().mean()),
        ("compared with a mean", "You compared with the mean of all scores; compare within the pair.",
         lambda c, r: (c > torch.cat([c, r]).mean()).float().mean()),
        ("a margin", "You asked for a difference of some size (1, or ½); any difference above 0 counts.",
         lambda c, r: (c - r > 1).float().mean()),
        ("a margin", "You asked for a difference of some size (1, or ½); any difference above 0 counts.",
         lambda c, r: (c - r > 0.5).float().mean()),
        ("a margin", "You counted differences below a threshold as ties; a tie is a difference of 0.",
         lambda c, r: ((c - r > 1).float() + ((c - r).abs() <= 1).float() / 2).mean()),
        ("largest chosen", "You compared the best chosen text with every rejected one; compare within pairs.",
         lambda c, r: (c.max() > r).float().mean()),
        ("mean sign", "You averaged signs, from −1 to 1; the share is (1 + that)/2.",
         lambda c, r: (c - r).sign().mean()),
        ("not averaged", "You return a result for each pair; return their mean.",
         lambda c, r: ((c - r).sign() + 1) / 2),
    ],
)
# fmt: on
NO_TIE = (
    "wrong where no pair is a tie",
    "Right where some pairs are ties, wrong where none is: does something take for granted that there is one,"
    " or divide by their number?",
    (t([2.0, 0.0, 5.0]), t([0.0, 3.0, 1.0])),
)
NEARLY_EQUAL = [
    (
        "nearly equal taken for a tie",
        f"{one} and {two} differ, and that is no tie: compare the scores as they are, with ==.",
        (t([one, 1.0, 0.0]), t([two, 0.0, 3.0])),
    )
    for one, two in ((1.004, 1.0), (2.0, 1.9998), (0.500001, 0.5), (4000.25, 4000.0))
]  # fmt: skip
check_pair_accuracy = explained(
    checker(ACCURACY),
    then=also_on(ACCURACY, NO_TIE, *NEARLY_EQUAL, *sizes(SEVERAL, token=False)),
    cause=one_of(
        ACCURACY,
        result_changed,
        other_inputs(),
        case_by_case(
            ("a pair is ranked right", (t([1.0]), t([0.0]))),
            ("a pair is ranked wrong", (t([0.0]), t([1.0]))),
            ("a pair is a tie", (t([1.0]), t([1.0]))),
            ("one of two is a tie", (t([1.0, 2.0]), t([1.0, 0.0]))),
            ("both scores are negative", (t([-1.0]), t([-2.0]))),
            ("one of three is right", (t([1.0, 0.0, 0.0]), t([0.0, 1.0, 2.0]))),
        ),
        without_effect,
    ),
)
