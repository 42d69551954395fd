"""Exercise of notebook 05: scores in units of the reference's spread."""

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect

t = torch.tensor


def normalize(scores, reference_scores):
    """(scores − mean)/std, with mean and std of the reference scores."""
    return (scores - reference_scores.mean()) / reference_scores.std()


# fmt: off
NORMALIZE = Exercise(
    "normalize_scores", "scores reference_scores", normalize,
    "(scores − mean_ref)/std_ref, unbiased std, both of the reference (notebook 05)",
    [(t([1.0, 4.0]), t([3.0, 2.0, 7.0])), (noise(3, 5) + 1, 2 * noise(4, 8) - 1)],
    [
        ("own statistics", "You used mean and std of `scores`, which hides any progress; use those"
         " of the reference.",
         lambda s, ref: normalize(s, s)),
        ("own mean", "You used the mean of `scores` (or centred the result once more); use the"
         " reference's.",
         lambda s, ref: (s - s.mean()) / ref.std()),
        ("own std", "You used the std of `scores` (or divided the result by its own); use the"
         " reference's.",
         lambda s, ref: (s - ref.mean()) / s.std()),
        ("variance instead of std", "You divided by the variance; divide by its square root.",
         lambda s, ref: (s - ref.mean()) / ref.var()),
        ("mean not subtracted", "You only divided; subtract the reference's mean first.",
         lambda s, ref: s / ref.std()),
        ("std missing", "You only subtracted the mean; divide by the std as well.",
         lambda s, ref: s - ref.mean()),
        ("mean subtracted last", "Divide the difference: (scores − mean)/std needs the brackets.",
         lambda s, ref: s - ref.mean() / ref.std()),
        ("mean subtracted after dividing", "Subtract the mean first, then divide by the std.",
         lambda s, ref: s / ref.std() - ref.mean()),
        ("mean added", "You added the mean; subtract it.",
         lambda s, ref: (s + ref.mean()) / ref.std()),
        ("biased std", "You divided by n inside the std; the unbiased std divides by n − 1.",
         lambda s, ref: (s - ref.mean()) / ref.std(unbiased=False)),
        ("multiplied by std", "You multiplied by the std; divide by it.",
         lambda s, ref: (s - ref.mean()) * ref.std()),
        ("reference normalised", "You normalised the reference scores; normalise `scores`.",
         lambda s, ref: normalize(ref, ref)),
        ("statistics of both", "You used the statistics of both; use only the reference's.",
         lambda s, ref: normalize(s, torch.cat([s, ref]))),
        ("biased variance", "You divided by the biased variance; divide by the unbiased std.",
         lambda s, ref: (s - ref.mean()) / ref.var(unbiased=False)),
        *(("other spread", f"You divided by {words}; divide by the reference's std.",
           lambda s, ref, spread=spread: (s - ref.mean()) / spread(ref)) for words, spread in (
            ("the interquartile range", lambda r: r.quantile(0.75) - r.quantile(0.25)),
            ("the mean distance from the mean", lambda r: (r - r.mean()).abs().mean()),
            ("the median distance from the median", lambda r: (r - r.median()).abs().median()),
            ("the range", lambda r: r.max() - r.min()), ("the largest size", lambda r: r.abs().max()),
            ("the maximum", lambda r: r.max()), ("the norm", lambda r: r.norm()),
            ("the root mean square", lambda r: r.square().mean().sqrt()),
            ("the mean", lambda r: r.mean()), ("the root of the std", lambda r: r.std().sqrt()),
            ("the standard error", lambda r: r.std() / len(r) ** 0.5),
            ("the sum of squares", lambda r: (r - r.mean()).square().sum()),
            ("the root of the sum of squares", lambda r: (r - r.mean()).norm()),
            ("the std plus 1", lambda r: r.std() + 1), ("twice the std", lambda r: 2 * r.std()),
            ("the squared std twice", lambda r: r.var() ** 2))),
        *(("other centre", f"You subtracted {words}; subtract the reference's mean.",
           lambda s, ref, centre=centre: (s - centre(ref)) / ref.std()) for words, centre in (
            ("the median", lambda r: r.median()), ("the median", lambda r: r.quantile(0.5)),
            ("the minimum", lambda r: r.min()), ("the maximum", lambda r: r.max()),
            ("the sum", lambda r: r.sum()), ("the first reference score", lambda r: r[0]),
            ("the last reference score", lambda r: r[-1]),
            ("the middle of the range", lambda r: (r.max() + r.min()) / 2),
            ("the mean over n − 1", lambda r: r.sum() / (len(r) - 1)),
            ("the std", lambda r: r.std()), ("the variance", lambda r: r.var()))),
        *(("some of the reference left out", f"Mean and std are those of {words}; take all reference scores.",
           lambda s, ref, some=some: normalize(s, some(ref, s))) for words, some in (
            ("as many reference scores as there are scores", lambda r, s: r[: len(s)]),
            ("the last of the reference scores", lambda r, s: r[-len(s) :]),
            ("all but the outermost ones", lambda r, s: r.sort().values[1:-1]),
            ("all but the first", lambda r, s: r[1:]), ("all but the last", lambda r, s: r[:-1]),
            ("the positive ones", lambda r, s: r[r > 0]), ("the first half", lambda r, s: r[: len(r) // 2]))),
        ("own std, and no mean", "You divided by the std of `scores`, and subtracted no mean; use mean"
         " and std of the reference.", lambda s, ref: s / s.std()),
        ("reference and scores exchanged", "You normalised the reference by the scores; it is the other way"
         " round.", lambda s, ref: normalize(ref, s)),
        ("one number", "You averaged the normalised scores; return one for each score.",
         lambda s, ref: normalize(s, ref).mean()),
        ("every score with every reference score", "[N, 1] against [M] is [N, M]; take the reference's mean"
         " and std, two numbers.", lambda s, ref: (s[:, None] - ref) / ref.std()),
        ("squashed", "You squashed the result by a tanh or sigmoid; return it as it is.",
         lambda s, ref: normalize(s, ref).tanh()),
        ("squashed", "You squashed the result by a tanh or sigmoid; return it as it is.",
         lambda s, ref: normalize(s, ref).sigmoid()),
        ("mean added at the end", "You added the reference's mean again; leave the result centred.",
         lambda s, ref: normalize(s, ref) + ref.mean()),
        ("minimum and maximum", "You used minimum and maximum of the reference; use mean and std.",
         lambda s, ref: (s - ref.min()) / (ref.max() - ref.min())),
    ],
)
# fmt: on
FAR_OUT = (
    "wrong far from the mean",
    "Right near the reference's mean, wrong far from it: is something clamped, or left out?",
    (t([40.0, -30.0]), t([2.0, 3.0, 7.0])),
)
LARGE_MEAN = (
    "wrong where the mean is large",
    "Right for small scores, wrong where the mean is large against the spread: E[x²] − E[x]² loses its digits"
    " there; or is something clamped? Subtract the mean before you square, or use .std().",
    (t([900.0, 902.5]), t([901.0, 900.2, 901.3, 899.9])),
)
NARROW = (
    "a small spread",
    "Right where reference scores differ by much; where their deviation is 0.0015 it is not. Is a number"
    " added to it, or is it bounded below?",
    (t([0.5, 0.502]), t([0.5, 0.501, 0.503])),
)
ONE = ("wrong for one score", "Right for several scores, wrong for one: squeeze() without an axis, or a"
 " statistic of"
       " the scores? Mean and std are the reference's.",
       (t([2.5]), t([2.0, 3.0, 7.0])))  # fmt: skip
FORTY = (
    "wrong for many scores",
    "Right for a few scores, wrong for forty against sixty: all of both count.",
    (noise(8, 40), noise(9, 60) + 1),
)
check_normalize_scores = explained(
    checker(NORMALIZE),
    then=also_on(NORMALIZE, FAR_OUT, LARGE_MEAN, NARROW, ONE, FORTY),
    cause=one_of(
        NORMALIZE,
        other_inputs(),
        result_changed,
        without_effect,
        case_by_case(
            ("there is one score", (t([2.0]), t([2.0, 3.0, 7.0]))),
            ("there are as many scores as references", (t([1.0, 4.0, 0.0]), t([2.0, 3.0, 7.0]))),
            ("the reference has mean 0", (t([1.0, 4.0]), t([-2.0, 0.0, 2.0]))),
            ("the reference has mean 0 and std 1", (t([1.0, 4.0]), t([-1.0, 0.0, 1.0]))),
            ("the reference has two scores", (t([1.0, 4.0]), t([2.0, 7.0]))),
        ),
    ),
)
