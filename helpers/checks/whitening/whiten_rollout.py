"""The large exercise of notebook 03: from raw advantages to what actor and critic are given, with gauges.

What the learner's function gives is looked at in the order in which it is computed, so that the first
line that goes wrong is the one that is named.
"""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import torch
from torch import Tensor

from helpers.checks.judging.exercise import noise, prefix_mask
from helpers.checks.judging.report import NOT_ATTEMPTED, Report
from helpers.checks.judging.runner import is_stub
from helpers.checks.trainer.inputs import Seen, ask, expect, tensors
from helpers.checks.trainer.step_judge import TIME_LIMIT, Step, judge_step
from helpers.checks.whitening.whiten_mistakes import MISTAKES
from helpers.checks.whitening.whiten_slips import FLOOR, whiten_rollout

NAME = "whiten_rollout"
GAUGES = ("mean", "standard deviation", "share pushed up", "explained variance")


def batches() -> dict[str, SimpleNamespace]:
    """Small batches by what is special about them."""
    mask = prefix_mask(8, 5, 8, 2, 6)
    a, v = noise(1, 4, 8) * 1.5 + 0.4, noise(2, 4, 8) + 0.8
    garbage = torch.where(mask, a, 9.0), torch.where(mask, v, -7.0)
    nan = torch.where(mask, a, float("nan")), torch.where(mask, v, float("nan"))
    near = torch.where(mask, 0.3 + 1e-3 * a, 0.0), torch.where(mask, v, 0.0)
    # above the floor, not its square; and returns whose variance is far below 1
    small = torch.where(mask, 0.1 * a, 9.0), torch.where(mask, 0.1 * v, -7.0)
    lone, pairs, flat = prefix_mask(2, 1), prefix_mask(4, 3), torch.full((2, 4), 0.25)
    steps = torch.tensor([[-2.0, 0.0, 2.0, 7.0]]), torch.tensor([[1.0, 3.0, -1.0, 2.0]])
    # eighths and 16 counted tokens: sums and means are exact in any order
    sixteen = prefix_mask(8, 8, 5, 3)
    far = 1000.0 + (noise(1, 3, 8) * 8).round() / 8, v[:3]
    outlier = (
        torch.cat([torch.tensor([60.0]), noise(11, 128)]).view(3, 43),
        noise(3, 3, 43),
    )
    bad = a, 0.2 * noise(4, 4, 8) - 0.9 * a  # a critic that is further off than a constant
    made = {
        "": (*garbage, mask),
        " where scores are nearly equal": (*near, mask),
        " where scores hardly differ": (*small, mask),
        " with NaN in the padding": (*nan, mask),
        " of a single token": (torch.tensor([[0.7, 4.0]]), torch.tensor([[0.2, 3.0]]), lone),
        " of two tokens": (
            torch.tensor([[0.7, 1.9, 4.0]]),
            torch.tensor([[0.2, 3.0, 1.0]]),
            prefix_mask(3, 2),
        ),
        " where all scores are equal": (flat, v[:2, :4], prefix_mask(4, 4, 2)),
        " where the deviation is the floor": (*steps, pairs, 2.0),
        " around 1000": (*far, sixteen),
        " with one far from all others": (*outlier, prefix_mask(43, 43, 40, 43)),
        " of a bad critic": (*bad, mask),
        " where all scores are equal and the floor is 0": (
            flat,
            v[:2, :4],
            prefix_mask(4, 4, 2),
            0.0,
        ),
    }
    made = {name: (*given, FLOOR)[:4] for name, given in made.items()}
    return {name: SimpleNamespace(given=given, mask=given[2]) for name, given in made.items()}


BATCHES = batches()


def observe(function: Callable) -> Seen:
    """What comes out for each batch, in the order of the computation."""
    seen = {}
    for what, batch in BATCHES.items():
        answer = ask(function, *batch.given)
        good = isinstance(answer, (tuple, list)) and len(answer) == 3
        says = f"Return three tensors: whitened, returns, gauges. You return a {type(answer).__name__}."
        expect(good, "wrong type", says)
        shape = tuple(batch.mask.shape)
        whitened, returns = tensors(answer[:2], ("whitened", "returns"), shape)
        gauges = answer[2]
        says = f"Your gauges are a {type(gauges).__name__}; return one tensor of four: torch.stack([…])."
        expect(isinstance(gauges, Tensor), "wrong type", says)
        (gauges,) = tensors(gauges, ("gauges",), (4,))
        named = {name: x.reshape(1) for name, x in zip(GAUGES, gauges.detach(), strict=True)}
        if what == " of a single token":
            named = {}  # no spread to explain
        first = {"returns": returns.detach()}
        first |= {name: named[name] for name in GAUGES[:2] if name in named}
        first["whitened advantages"] = whitened.detach()
        first |= {name: named[name] for name in GAUGES[2:] if name in named}
        seen |= {name + what: x for name, x in first.items()}
    return seen


STEP = Step(
    NAME,
    "returns = A + V; then Â = (A − mean)/√(var + 1e-8) over counted tokens, or A − mean where the"
    " deviation is below `floor`; 0 where masked (notebook 03)",
    observe,
    MISTAKES,
    own=whiten_rollout,
    mask=BATCHES[""].mask,
    by_first=True,
)


SPECIAL = {  # right elsewhere, wrong for such a batch: name, what to say
    " around 1000": (
        "digits lost",
        "Is it the mean of squares minus the square of the mean? Where advantages lie around 1000 these are"
        " large and nearly equal: float32 has few digits left. Subtract the mean first.",
    ),
    " with one far from all others": (
        "wrong for an outlier",
        "Wrong where one of 126 advantages is 11 deviations from the mean: is something clipped, or limited?",
    ),
    " of a bad critic": (
        "wrong for a bad critic",
        "Right for a fair critic; where the error varies more than the returns do, the explained variance is"
        " below 0, and stays so: is it clamped?",
    ),
    " where the deviation is the floor": (
        "at the floor",
        "A deviation equal to `floor` is not below it: divide there too.",
    ),
    " of a single token": (
        "one token",
        "Wrong with one counted token, where n − 1 is 0, and 0/0 NaN: divide by at least 1 (clamp).",
    ),
    " of two tokens": (
        "two tokens",
        "Wrong with two counted tokens, where n − 1 is 1: is the divisor kept above 1, or is 0 returned for"
        " too few?",
    ),
    " with NaN in the padding": (
        "NaN from the padding",
        "Nothing of it may come through, and 0 · NaN is NaN. Choose with torch.where(mask, x, 0.0).",
    ),
    " where all scores are equal and the floor is 0": (
        "no epsilon",
        "Where all advantages are equal and `floor` is 0 the variance is 0: is 0 divided by 0? Add 1e-8 to"
        " it.",
    ),
}


def by_case(report: Report) -> Report:
    """The same report, where the batch that shows the mistake says what it is."""
    if report.mistake in ("unrecognised", "NaN or infinite", "constant factor", "nearly right"):
        for case, (name, says) in SPECIAL.items():
            if f"{case}:" in report.message:
                says = f"{report.message.partition(':')[0]}: {says}"
                return replace(report, mistake=name, message=says)
    return report


def check_whiten_rollout(function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """Check your `whiten_rollout(advantages, values, mask, floor)`."""
    if not callable(function) or is_stub(function):
        says = f"Write {STEP.signature} and run the cell again. The notebook works without it, too."
        return Report(NAME, NOT_ATTEMPTED, says)
    return by_case(judge_step(STEP, function, seconds))
