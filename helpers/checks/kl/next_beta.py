"""The next β of notebook 07's large exercise, in pieces: error, clip, step, and how it changes β."""

import math

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import without_effect


def within(x, low=-0.2, high=0.2):
    """x, clipped."""
    return min(max(x, low), high)


def factor(b, x):
    """β times 1 + the step."""
    return b * (1 + x)


def next_beta(
    error=lambda kl, t: kl / t - 1, clip=within, step=lambda x, n, h: x * n / h, change=factor
):
    """The next β with another piece, called as the exercise is."""

    def wrong(lp, r, b, kl, t, n, h):
        return change(b, step(clip(error(kl, t)), n, h))

    return wrong


def sign(x):
    """−1, 0 or 1."""
    return (x > 0) - (x < 0)


# fmt: off
SLIPS = [Slip(*entry) for entry in [
    ("no clip", "The error is not clipped to ±0.2.", {"clip": lambda x: x}),
    ("clipped above only", "You clip the error at +0.2; below it is −0.2.", {"clip": lambda x: min(x, 0.2)}),
    ("clipped below only", "You clip the error at −0.2; above it is +0.2.", {"clip": lambda x: max(x, -0.2)}),
    ("never lowered", "Below the target you leave β as it is: β could only"
     " rise.", {"clip": lambda x: within(x, 0.0)}),
    ("never raised", "Above the target you leave β as it is: β could only"
     " fall.", {"clip": lambda x: within(x, -0.2, 0.0)}),
    *(("another clip", f"You clip the error to ±{c:g}; it is ±0.2.", {"clip": lambda x, c=c: within(x, -c,
     c)})
      for c in (0.1, 0.02, 0.3, 0.5, 0.25, 0.15, 0.05, 0.01)),
    ("clipped around 1", "The error is clipped to ±0.2, not to 1 ± 0.2.",
     {"clip": lambda x: within(x, 0.8, 1.2)}),
    ("the clip turned round", "Your clipped error is +0.2 (or −0.2) whatever the KL is: limits are"
     " exchanged, or the error is never near 0.",
     {"clip": lambda x: max(min(x, -0.2), 0.2)}),
    ("the clip turned round", "Your clipped error is +0.2 (or −0.2) whatever the KL is: limits are"
     " exchanged, or the error is never near 0.",
     {"clip": lambda x: min(max(x, 0.2), -0.2)}),
    ("always the full step", "You always go the full ±0.2; a small error takes a small step.",
     {"clip": lambda x: 0.2 * sign(x)}),
    ("nothing within 20 %", "Within 20 % of the target you leave β alone; a small error takes a small step.",
     {"clip": lambda x: 0.0 if abs(x) <= 0.2 else within(x)}),
    ("nothing within 20 %", "Within 20 % of the target you leave β alone; a small error takes a small step.",
     {"clip": lambda x: 0.0 if abs(x) <= 0.2 else x}),
    ("0 where the error is large", "Beyond ±0.2 you take 0; a clip takes the limit.",
     {"clip": lambda x: x if abs(x) <= 0.2 else 0.0}),
    ("tanh for the clip", "You squash the error by a tanh; clip it.", {"clip": lambda x: 0.2 * math.tanh(x
     / 0.2)}),
    ("tanh for the clip", "You squash the error by a tanh; clip it.", {"clip": math.tanh}),
    ("without its sign", "You take the error without its sign: β could only rise.",
     {"clip": lambda x: abs(within(x))}),
    ("clipped to a fifth", "You multiply the error by 0.2; clip it to ±0.2.", {"clip": lambda x: 0.2 * x}),
    ("the error squared", "You square the error.", {"clip": lambda x: within(x * x)}),
    ("sign of the error", "Too much drift has to raise the price; yours lowers it.",
     {"error": lambda kl, t: 1 - kl / t}),
    ("target/KL", "The error is KL/target − 1; you have target/KL − 1.", {"error": lambda kl, t: t / kl - 1}),
    ("divided by the KL", "The error is relative to the target: (KL − target)/target; you divide by the KL.",
     {"error": lambda kl, t: (kl - t) / kl}),
    ("error in nats", "The error is relative: KL/target − 1, not KL − target.", {"error": lambda kl, t: kl
     - t}),
    ("1 not subtracted", "At KL = target the error is 0: subtract 1 before the clip.",
     {"error": lambda kl, t: kl / t}),
    ("a logarithm", "You take log(KL/target); the error is KL/target − 1.",
     {"error": lambda kl, t: math.log(kl / t)}),
    ("the KL alone", "You take KL − 1; divide by the target first.", {"error": lambda kl, t: kl - 1}),
    ("brackets in the error", "It is KL/target − 1, not KL/(target − 1).",
     {"error": lambda kl, t: kl / (t - 1)}),
    ("relative to both", "You divide by KL + target; divide by the target.",
     {"error": lambda kl, t: (kl - t) / (kl + t)}),
    ("no n/horizon", "n/horizon is missing: with n = {n} and a horizon of {horizon:g}, each step is"
     " horizon/n times too large.",
     {"step": lambda x, n, h: x}),
    ("n left out", "You divide by the horizon, but n is missing.", {"step": lambda x, n, h: x / h}),
    ("horizon left out", "You multiply by n, but do not divide by the horizon.", {"step": lambda x, n, h:
     x * n}),
    ("horizon/n", "n and horizon are exchanged.", {"step": lambda x, n, h: x * h / n}),
    ("n/horizon added", "You add n/horizon to the error; multiply by it.", {"step": lambda x, n, h: x + n
     / h}),
    ("n/(n + horizon)", "You divide by n + horizon; divide by the horizon.",
     {"step": lambda x, n, h: x * n / (n + h)}),
    ("the root of n/horizon", "You take the root of n/horizon.", {"step": lambda x, n, h: x * (n / h) **
     0.5}),
    ("sign of the error", "Too much drift has to raise the price; yours lowers it.",
     {"change": lambda b, x: b * (1 - x)}),
    ("added, not multiplied", "β is multiplied by the factor; you add the error to it.",
     {"change": lambda b, x: b + x}),
    ("1 + left out", "The factor is 1 + error·n/horizon: without the 1, β is all but lost.",
     {"change": lambda b, x: b * x}),
    ("the factor alone", "That is the factor; multiply β by it.", {"change": lambda b, x: 1 + x}),
    ("the step alone", "That is error·n/horizon; the next β is β times 1 + that.", {"change": lambda b, x:
     x}),
    ("exponential", "You multiply by exp(error·n/horizon); here it is 1 + error·n/horizon.",
     {"change": lambda b, x: b * math.exp(x)}),
    ("β unchanged", "β is returned as it was. (A whole-number division n // horizon gives 0, too.)",
     {"change": lambda b, x: b}),
    ("divided by the factor", "You divide β by the factor: too much drift would be cheap.",
     {"change": lambda b, x: b / (1 + x)}),
    ("divided by 1 − the step", "You divide by 1 − error·n/horizon; multiply by 1 + that.",
     {"change": lambda b, x: b / (1 - x)}),
    ("2 to the step", "You multiply by 2 to the power of the step; by 1 + the step.",
     {"change": lambda b, x: b * 2**x}),
]]
# fmt: on


def after(step):
    """A wrong rule of its own: `step(b, kl, t, n, h)`, called as the exercise is."""
    return lambda lp, r, b, kl, t, n, h: step(b, kl, t, n, h)


def doubled_or_halved(width: float, twice: bool = True):
    """The other controller of PPO: β changes by a factor where the KL leaves a band."""

    def step(b, kl, t, n, h):
        up, down = (2, 0.5) if twice else (1.5, 1 / 1.5)
        return b * (up if kl > width * t else down if kl < t / width else 1)

    return after(step)


def next_beta_mistakes() -> list[tuple]:
    """Wrong ways to the next β: one piece changed, or another rule."""
    other = (
        "That is the other controller of PPO: a fixed factor (2) where the KL leaves a band; here it is a"
        " small step."
    )
    power = "You raise 1 + error to the power n/horizon; multiply the error by n/horizon."
    late = "You clip error·n/horizon; clip the error alone."
    return [
        *alone(next_beta, SLIPS),
        ("clipped after n/horizon", late,
         after(lambda b, kl, t, n, h: b * (1 + within((kl / t - 1) * n / h)))),
        ("always 0.2", "You return 0.2, whatever is given: is β itself clipped? Clip the error.",
         after(lambda b, kl, t, n, h: within(b * (1 + (kl / t - 1) * n / h)))),
        ("a power of 1 + error", power,
         after(lambda b, kl, t, n, h: b * (1 + within(kl / t - 1)) ** (n / h))),
        ("KL/target itself", "You multiply β by KL/target; the step is small, error·n/horizon.",
         after(lambda b, kl, t, n, h: b * kl / t)),
        *(("doubled or halved", other, doubled_or_halved(width, twice))
          for width in (1.5, 1.0, 1.2, 2.0) for twice in (True, False)),
        ("the sum multiplied", "You multiply 1 + error by n/horizon: only the error is multiplied.",
         after(lambda b, kl, t, n, h: b * (1 + within(kl / t - 1)) * n / h)),
        ("β in the error", "You add the error to β, and multiply both by n/horizon.",
         after(lambda b, kl, t, n, h: (b + within(kl / t - 1)) * n / h)),
    ]  # fmt: skip


NEXT_BETA_LOOKS = (
    two_at_once(next_beta, SLIPS),
    other_inputs(skip=("ref_logprobs", "scores")),
    result_changed,
    without_effect,
)
