"""Exercise of notebook 13: mean and variance of all, from what each process sends, in pieces."""

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def weighted(n, m, s):
    """The mean of all."""
    return (n * m).sum() / n.sum()


def merge_moments(
    mean=weighted, about=None, within=lambda n, m, s: s.sum(),
    between=lambda n, m, c: (n * (m - c) ** 2).sum(), below=lambda n: n.sum() - 1,
    variance=lambda within, between, below: (within + between) / below,
    finish=lambda mean, variance: torch.stack([mean, variance]),
):  # fmt: skip
    """Mean and unbiased variance [2], from count, mean and Σ(x − its mean)² of each process.

    With another piece. `about` is the mean in the part between the processes, `mean` if not given.
    """

    def wrong(counts, means, squares):
        center = mean(counts, means, squares)
        inner = center if about is None else about(counts, means, squares)
        spread = variance(
            within(counts, means, squares), between(counts, means, inner), below(counts)
        )
        return finish(torch.as_tensor(center), torch.as_tensor(spread))

    return wrong


def plain(n, m, s):
    """The means' mean."""
    return m.mean()


def one_less(n):
    """n − 1, at least 1."""
    return (n - 1).clamp(min=1)


# fmt: off
WEIGH = "as if all processes held as many tokens; weigh each by its count."
SLIPS = [Slip(*entry) for entry in [
    ("mean of means", f"You averaged the means {WEIGH}", {"mean": plain}),
    ("median of the means", "You took the median of the means; weigh each by its count, and average.",
     {"mean": lambda n, m, s: m.median()}),
    ("one process's mean", "You took one process's mean for all.", {"mean": lambda n, m, s: m[0]}),
    ("one process's mean", "You took one process's mean for all.", {"mean": lambda n, m, s: m[-1]}),
    ("sum of the means", "You added the means; weigh each by its count, and divide by N.",
     {"mean": lambda n, m, s: m.sum()}),
    ("sums instead of the mean", "In place of the mean you have the sum Σ n·m; divide it by N.",
     {"mean": lambda n, m, s: (n * m).sum()}),
    ("the mean divided by n − 1", "You divided the mean by N − 1; only the variance is.",
     {"mean": lambda n, m, s: (n * m).sum() / (n.sum() - 1)}),
    ("the mean divided by n − P", "You divided the mean by N − P; divide it by N.",
     {"mean": lambda n, m, s: (n * m).sum() / (n.sum() - len(n))}),
    ("the mean divided by P", "You divided Σ n·m by the number of processes; divide it by N.",
     {"mean": lambda n, m, s: (n * m).sum() / len(n)}),
    ("the sum of the means by N", "You left out the counts in Σ n·m.", {"mean": lambda n, m, s: m.sum() /
     n.sum()}),
    ("weighed by n − 1", "You weighed the means by n − 1; weigh them by n.",
     {"mean": lambda n, m, s: ((n - 1) * m).sum() / (n - 1).sum()}),
    ("weighed by the squares", "You weighed the means by `squares`; weigh them by the counts.",
     {"mean": lambda n, m, s: (s * m).sum() / s.sum()}),
    ("weighed by n²", "You weighed the means by n²; weigh them by n.",
     {"mean": lambda n, m, s: (n * n * m).sum() / (n * n).sum()}),
    ("middle of the means", "You took the middle between the least and the largest mean.",
     {"mean": lambda n, m, s: (m.max() + m.min()) / 2}),
    ("between measured from the plain mean", "In the variance the means are measured from their plain mean;"
     " take the mean of all, weighed by the counts.", {"about": plain}),
    ("between measured from one process", "The means are measured from one process's mean; take the mean of"
     " all.", {"about": lambda n, m, s: m[0]}),
    ("squares about zero", "`squares` are about each process's own mean, not about 0: what is missing"
     " is n·(m − mean)², not n·m².", {"about": lambda n, m, s: 0.0}),
    ("nothing between the processes", "The means of the processes differ, and that is variance too:"
     " add Σ n·(m − mean)². (Without the square they cancel.)", {"between": lambda n, m, c: 0.0}),
    ("between the processes unweighted", "Each (m − mean)² stands for n tokens: multiply it by the count.",
     {"between": lambda n, m, c: ((m - c) ** 2).sum()}),
    ("between the processes averaged", "Each (m − mean)² stands for n tokens: multiply it by the count; you"
     " averaged them.", {"between": lambda n, m, c: ((m - c) ** 2).mean()}),
    ("between the processes averaged", "Σ n·(m − mean)² is a sum; you averaged it over the processes.",
     {"between": lambda n, m, c: (n * (m - c) ** 2).mean()}),
    ("between divided by N", "Σ n·(m − mean)² is divided by N too early.",
     {"between": lambda n, m, c: (n * (m - c) ** 2).sum() / n.sum()}),
    ("variance of the means", "You added the variance of the means; add Σ n·(m − mean)².",
     {"between": lambda n, m, c: m.var() if len(m) > 1 else torch.tensor(0.0)}),
    ("the count inside the square", "You squared n·(m − mean); only m − mean is squared.",
     {"between": lambda n, m, c: ((n * (m - c)) ** 2).sum()}),
    ("the count inside the bracket", "You squared n·m − mean; it is n·(m − mean)².",
     {"between": lambda n, m, c: ((n * m - c) ** 2).sum()}),
    ("weighed by n − 1 between", "You weighed (m − mean)² by n − 1; weigh it by n.",
     {"between": lambda n, m, c: ((n - 1) * (m - c) ** 2).sum()}),
    ("sizes, not squares", "You took |m − mean|; square it.", {"between": lambda n, m, c: (n * (m -
     c).abs()).sum()}),
    ("between subtracted", "What lies between the processes is added; you subtract it.",
     {"between": lambda n, m, c: -(n * (m - c) ** 2).sum()}),
    ("between twice", "You added what lies between the processes twice.",
     {"between": lambda n, m, c: 2 * (n * (m - c) ** 2).sum()}),
    ("between halved", "You halved what lies between the processes.",
     {"between": lambda n, m, c: (n * (m - c) ** 2).sum() / 2}),
    ("nothing within the processes", "You left out the squares within each process.",
     {"within": lambda n, m, s: 0.0}),
    ("squares weighed by the counts", "`squares` are sums over tokens already: do not multiply them by n.",
     {"within": lambda n, m, s: (n * s).sum()}),
    ("squares weighed by n − 1", "`squares` are sums over tokens already: do not multiply them by n − 1.",
     {"within": lambda n, m, s: ((n - 1) * s).sum()}),
    ("squares averaged", "You averaged `squares` over the processes; add them.",
     {"within": lambda n, m, s: s.mean()}),
    ("squares divided by the counts", "You divided each process's squares by its own count; add them first.",
     {"within": lambda n, m, s: (s / n).sum()}),
    ("squares divided by n − 1", "You divided each process's squares by its n − 1; add them first.",
     {"within": lambda n, m, s: (s / one_less(n)).sum()}),
    ("squares squared", "`squares` are squared already.", {"within": lambda n, m, s: (s * s).sum()}),
    ("squares rooted", "You took the root of `squares`.", {"within": lambda n, m, s: s.sqrt().sum()}),
    ("squares taken for variances", "You took `squares` for variances and weighed them by n/N; they are"
     " sums.",
     {"within": lambda n, m, s: (n * s).sum() / n.sum()}),
    ("one process's squares", "You took one process's squares; add those of all.", {"within": lambda n, m,
     s: s[0]}),
    ("largest squares", "You took the largest process's squares; add those of all.",
     {"within": lambda n, m, s: s.max()}),
    ("biased variance", "You divided by N; the unbiased variance divides by N − 1.", {"below": lambda n:
     n.sum()}),
    ("one less for each process", "You divided by N − P. Only one mean, that of all, was estimated:"
     " divide by N − 1.", {"below": lambda n: n.sum() - len(n)}),
    ("divided by N + 1", "You divided by N + 1; divide by N − 1.", {"below": lambda n: n.sum() + 1}),
    ("divided by N − 2", "You divided by N − 2; divide by N − 1.", {"below": lambda n: n.sum() - 2}),
    ("divided by the number of processes", "You divided the variance by the number of processes; divide by"
     " N − 1.", {"below": len}),
    ("divided by P − 1", "You divided the variance by P − 1; divide by N − 1.", {"below": lambda n: len(n)
     - 1}),
    ("divided by a correction for processes", "You divided by N·(P − 1)/P, a correction that counts"
     " processes;"
     " tokens count: N − 1.", {"below": lambda n: n.sum() * (len(n) - 1) / len(n)}),
    ("never divided", "You never divided the sum of squares; divide by N − 1.", {"below": lambda n: 1}),
    ("divided by the largest count", "You divided by one process's count; divide by N − 1 of all.",
     {"below": lambda n: n.max()}),
    ("brackets around the division", "Only the second part is divided: put both into brackets.",
     {"variance": lambda w, b, d: w + b / d}),
    ("brackets around the division", "Only the first part is divided: put both into brackets.",
     {"variance": lambda w, b, d: w / d + b}),
    ("the parts multiplied", "You multiplied the two parts; add them.", {"variance": lambda w, b, d: w * b
     / d}),
    ("the larger part", "You took the larger part; add them.",
     {"variance": lambda w, b, d: torch.maximum(torch.as_tensor(w), torch.as_tensor(b)) / d}),
    ("standard deviation", "You returned the root; return the variance.",
     {"finish": lambda mean, var: torch.stack([mean, var.sqrt()])}),
    ("the other way round", "Return the mean first, then the variance.",
     {"finish": lambda mean, var: torch.stack([var, mean])}),
    ("the variance alone", "Return two numbers: the mean, then the variance.", {"finish": lambda mean,
     var: var}),
    ("the mean alone", "Return two numbers: the mean, then the variance.", {"finish": lambda mean, var:
     mean}),
    ("the mean square", "You added mean² to the variance.",
     {"finish": lambda mean, var: torch.stack([mean, var + mean**2])}),
    ("mean² subtracted", "You subtracted mean² once too often: `squares` are about the means already.",
     {"finish": lambda mean, var: torch.stack([mean, var - mean**2])}),
]]


def own_variances(n, s):
    """Each process's own unbiased variance; 0 where it has one token."""
    return s / one_less(n)


AVERAGED = "You averaged the processes' variances. Add their sums of squares, then divide once."
LAW = (
    "Mean variance + variance of the means is not the variance here: add sums of squares, then divide"
)
VARIANCES = [
    ("average of the variances", AVERAGED, lambda n, m, s: own_variances(n, s).mean()),
    ("average of the variances", AVERAGED, lambda n, m, s: (s / (n - 1)).mean()),
    ("average of the variances", AVERAGED, lambda n, m, s: (n * own_variances(n, s)).sum() / n.sum()),
    ("average of the variances", AVERAGED, lambda n, m, s: (n * s / (n - 1)).sum() / n.sum()),
    ("average of the variances", AVERAGED, lambda n, m, s: (s / n).mean()),
    ("mean variance plus variance of the means", LAW + " by N − 1.",
     lambda n, m, s: own_variances(n, s).mean() + (m.var() if len(m) > 1 else 0.0)),
    ("mean variance plus variance of the means", LAW + " by N − 1.",
     lambda n, m, s: own_variances(n, s).mean() + m.var(unbiased=False)),
    ("mean variance plus variance of the means", LAW + " by N − 1.",
     lambda n, m, s: (s / (n - 1)).mean() + m.var()),
    ("mean variance plus variance of the means", LAW + " by N − 1.",
     lambda n, m, s: (s / n).mean() + m.var(unbiased=False)),
    ("mean variance plus variance of the means", LAW + " by N − 1.",
     lambda n, m, s: (n * own_variances(n, s)).sum() / n.sum()
     + (n * (m - weighted(n, m, s)) ** 2).sum() / n.sum()),
    ("mean variance plus variance of the means", LAW + " by N − 1.",
     lambda n, m, s: (n * s / (n - 1)).sum() / n.sum()
     + (n * (m - weighted(n, m, s)) ** 2).sum() / n.sum()),
    ("variance of the means alone", "That is the variance of the means; the tokens' own is missing.",
     lambda n, m, s: m.var()),
    ("analysis of variance", "You divided within by N − P and between by P − 1, as a test does; add both"
     " sums,"
     " and divide by N − 1.", lambda n, m, s: s.sum() / (n.sum() - len(n)) + (
         n * (m - weighted(n, m, s)) ** 2).sum() / (len(n) - 1)),
    ("analysis of variance", "You divided within by N − P and between by P − 1, as a test does; add both"
     " sums,"
     " and divide by N − 1.", lambda n, m, s: s.sum() / (n.sum() - len(n)).clamp(min=1) + (
         n * (m - weighted(n, m, s)) ** 2).sum() / max(len(n) - 1, 1)),
    ("sum of the variances", "You added the processes' variances; add their sums of squares, then divide"
     " once.",
     lambda n, m, s: own_variances(n, s).sum()),
]
FEWER = [
    ("the last process left out", "You left out the last process.", lambda x: x[:-1]),
    ("the first process left out", "You left out the first process.", lambda x: x[1:]),
    ("the first two alone", "You merged the first two processes alone; there may be more.", lambda x: x[:2]),
    ("one process alone", "You merged one process alone.", lambda x: x[:1]),
    ("one process alone", "You merged one process alone.", lambda x: x[-1:]),
]


def pairwise(n, m, s):
    """Chan's rule for the first two, then the mean of two means for the rest."""
    count, mean, inside = n[0], m[0], s[0]
    for i in range(1, len(n)):
        inside = inside + s[i] + (m[i] - mean) ** 2 * count * n[i] / (count + n[i])
        mean, count = (mean + m[i]) / 2, count + n[i]
    return torch.stack([mean, inside / (count - 1)])


MERGE = Exercise(
    "merge_moments", "counts means squares", merge_moments(),
    "mean = Σ n·m / N,  variance = (Σ s + Σ n·(m − mean)²) / (N − 1)  (notebook 13; Chan et al. 1983)",
    [
        (floats([2.0, 4.0])[0], floats([1.0, 4.0])[0], floats([0.5, 3.0])[0]),
        (floats([5.0, 1.0, 10.0])[0], floats([-2.0, 7.0, 0.5])[0], floats([4.0, 0.0, 20.0])[0]),
        (floats([7.0])[0], floats([1.5])[0], floats([9.0])[0]),
    ],
    [
        ("mean of means, nothing between", "You weigh processes, not tokens, in the mean, and leave out"
         " what differs between the processes in the variance.",
         merge_moments(plain, between=lambda n, m, c: 0.0)),
        *alone(merge_moments, SLIPS),
        *((slip.name, slip.says, merge_moments(**slip.change, about=weighted))
          for slip in SLIPS if "mean" in slip.change),
        *((name, says, lambda n, m, s, var=var, mean=mean: torch.stack([mean(n, m, s), torch.as_tensor(
            var(n, m, s))])) for name, says, var in VARIANCES for mean in (weighted, plain)),
        *((name, says, lambda n, m, s, cut=cut: merge_moments()(cut(n), cut(m), cut(s)))
          for name, says, cut in FEWER),
        *(("standard error", "You divided the variance by N once more: that is the error of the mean, or its"
           " square. Return the variance.", lambda n, m, s, power=power: torch.stack([
               weighted(n, m, s), (merge_moments()(n, m, s)[1] / n.sum()) ** power])) for power in (0.5, 1)),
        ("as many tokens in each", f"You counted {WEIGH}",
         lambda n, m, s: merge_moments()(n[:1].expand_as(n), m, s)),
        ("as many tokens in each", f"You counted {WEIGH}",
         lambda n, m, s: merge_moments()(n.mean().expand_as(n), m, s)),
        ("the merged mean not weighed", "Merging one process after the other, you averaged two means; weigh"
         " each by its count.", pairwise),
        ("one row per process", "You return two numbers for each process; return those of all together, [2].",
         lambda n, m, s: torch.stack([m, s / (n - 1)], 1)),
        ("one row per process", "You return two numbers for each process; return those of all together, [2].",
         lambda n, m, s: torch.stack([m, s / one_less(n)], 1)),
    ],
)
# fmt: on
SINGLE = (
    "wrong for processes of one token",
    "Right for others, wrong where each process has one token: its squares are 0, and its n − 1 is 0. Divide"
    " by N − 1 of all, once.",
    (floats([1.0, 1.0, 1.0])[0], floats([1.0, 2.0, 4.0])[0], floats([0.0, 0.0, 0.0])[0]),
)
FAR_OFF = (
    "digits lost where means are large",
    "Right for small means, wrong where they lie around 9000: is it Σ n·m² − N·mean²? These are large and"
    " nearly"
    " equal, and float32 has no digits left. Subtract the mean first, then square.",
    (floats([4.0, 4.0])[0], floats([9000.0, 9001.0])[0], floats([3.0, 5.0])[0]),
)
NARROW = (
    "a small spread",
    "Right for larger variances, wrong for one of 0.0004: is something added to it, or bounded? Neither"
    " belongs there.",
    (floats([2.0, 2.0])[0], floats([0.5, 0.53])[0], floats([1e-4, 2e-4])[0]),
)
EMPTY = (
    "wrong where a process has no tokens",
    "Right where each process has tokens, wrong where one of them has none: its count is 0. Is something"
    " divided by it?",
    (floats([3.0, 0.0, 5.0])[0], floats([1.0, 0.0, 2.0])[0], floats([2.0, 0.0, 3.5])[0]),
)
FORTY = (
    "wrong for forty processes",
    "Right for a few processes, wrong for forty.",
    (torch.arange(40.0) % 5 + 1, torch.arange(40.0) % 7, torch.arange(40.0) % 3),
)
check_merge_moments = explained(
    checker(MERGE),
    then=also_on(MERGE, SINGLE, FAR_OFF, NARROW, EMPTY, FORTY),
    cause=one_of(
        MERGE,
        two_at_once(merge_moments, SLIPS),
        result_changed,
        other_inputs(),
        without_effect,
        case_by_case(
            ("there is one process", (floats([7.0])[0], floats([1.5])[0], floats([9.0])[0])),
            ("all means are equal", (floats([2.0, 5.0])[0], floats([3.0, 3.0])[0], floats([1.0, 4.0])[0])),
            ("all counts are equal", (floats([4.0, 4.0])[0], floats([1.0, 3.0])[0], floats([1.0, 4.0])[0])),
            ("counts and means differ", (floats([2.0, 4.0])[0], floats([1.0, 4.0])[0],
                                         floats([0.5, 3.0])[0])),
        ),
    ),
)  # fmt: skip
