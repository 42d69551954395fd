"""What right numbers of notebook 03's statistics do not show: NaN in padding, few tokens, large means."""

from collections.abc import Callable

import torch

from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.report import Report
from helpers.checks.judging.second_look import Found, answers_of
from helpers.checks.judging.sizes import far_out, sizes
from helpers.checks.whitening.statistics import LARGE, MEAN, VAR, WHITEN, WITH_ZERO

NAN = float("nan")
LET_IN = (
    "Right where padding holds numbers, wrong where it holds NaN: 0 · NaN is NaN, so mask * x lets it in. Use"
    " torch.where(mask, x, 0.0)"
)
LONE = (floats([3.0, 7.0]), prefix_mask(2, 1))
WITH_NAN = (floats([1.0, NAN, NAN], [2.0, 4.0, 7.0]), prefix_mask(3, 1, 3))
NAN_MISTAKE = ("NaN in the padding", f"{LET_IN}, or x[mask].", WITH_NAN)
ONE_TOKEN = (
    "Wrong with one counted token, where n − 1 is 0, and 0/0 NaN: divide by at least 1 (clamp), so that the"
    " variance is 0."
)

WHOLE = floats([1.0, 4.0, 2.0], [3.0, -1.0, 6.0]), prefix_mask(3, 3, 3)  # without padding


def nan_of_padding(exercise: Exercise) -> Callable:
    """A cause of a NaN that is there only where there is padding, whatever the padding holds."""

    def cause(function: Callable, report: Report) -> Found:
        found = answers_of(exercise, function, [WHOLE])
        if report.mistake != "NaN or infinite" or found is None:
            return None
        if not alike(found[0], exercise.reference(*WHOLE)):
            return None
        return "not finite with padding", (
            "Right without padding, NaN or infinite with it, though it holds numbers. Is NaN put there, or"
            " divided by the mask? Take x[mask], or sum 0 there and divide by how many count."
        )

    return cause


FLOOD = (
    "large numbers in the padding",
    "Right where padding holds small numbers. Where it holds 1e9 it is not: is it added, and taken away"
    " again? That leaves rounding. Choose what counts, torch.where or x[mask].",
    (floats([1.0, 2.0, 1e9], [4.0, -3e9, 1e9]), prefix_mask(3, 2, 1)),
)
ONE_COUNTED = (
    "one counted token",
    "With one counted token the mean is that token: divide by 1, by how many count.",
    LONE,
)
HALF = far_out("x is large, such as 70 000", (floats([70000.0, 1e6, 5.0]), prefix_mask(3, 2)))
check_masked_mean = explained(
    checker(MEAN),
    then=also_on(MEAN, NAN_MISTAKE, ONE_COUNTED, FLOOD, HALF, *sizes(LARGE)),
    cause=nan_of_padding(MEAN),
)
PAIR = (
    "two tokens",
    "Right for three counted tokens and more, wrong for two, where n − 1 is 1. Is the divisor kept above 1,"
    " or is 0 returned for too few?",
    (floats([1.0, 4.0, 9.0]), prefix_mask(3, 2)),
)
COUNTED_ZERO = (
    "zeros left out",
    "Wrong where counted tokens are 0: are they taken for padding? Use the mask.",
    WITH_ZERO,
)
FAR_OFF = (
    "digits lost",
    "Wrong where numbers lie around 9000 and differ little. Is it the mean of squares minus the square of the"
    " mean? These are large there, and nearly equal: float32 has no digits left. Subtract the mean first.",
    (floats([9000.0, 9000.5, 9002.0, 9002.5, 0.0]), prefix_mask(5, 4)),
)
NARROW = (
    "a small spread",
    "Right where numbers differ by much; where their deviation is 0.018 it is not. Is a number larger than"
    " 1e-8 added, or something bounded below?",
    (floats([0.5, 0.53, 0.49, 0.52, 7.0]), prefix_mask(5, 4)),
)
OUTLIER = (
    "wrong for an outlier",
    "Right for ordinary numbers, wrong where one is 11 deviations from the mean, in long rows: is something"
    " clipped, or limited?",
    (torch.cat([floats([60.0])[0], noise(11, 128)]).view(3, 43), prefix_mask(43, 43, 43, 43)),
)
ONE = ("one token", ONE_TOKEN, LONE)
# the row alone has five counted tokens; it comes first, since some of the other cases have one row
ONE_ROW, *MORE = sizes(tuple(x.roll(-1, 0) for x in LARGE))
check_masked_var = explained(
    checker(VAR),
    then=also_on(
        VAR, NAN_MISTAKE, ONE_ROW, ONE, PAIR, COUNTED_ZERO, FAR_OFF, FLOOD, NARROW, OUTLIER, *MORE
    ),
    cause=nan_of_padding(VAR),
)
check_whiten_advantages = explained(
    checker(WHITEN),
    then=also_on(
        WHITEN,
        ("NaN in the padding", f"{LET_IN}.", WITH_NAN),
        ONE_ROW,
        ONE,
        PAIR,
        COUNTED_ZERO,
        FAR_OFF,
        NARROW,
        OUTLIER,
        *MORE,
    ),
)
