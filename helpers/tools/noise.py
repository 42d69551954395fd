"""How sure a measured change is: its standard error, and whether chance alone may have made it."""

from collections.abc import Iterable

import torch
from torch import Tensor

FROM_CHANCE = "within the noise"  # what is said of such a change


def below_0(kl: Iterable[float]) -> str:
    """What is said where estimates of a KL are below 0, beyond rounding; else nothing."""
    if min(kl, default=0.0) > -1e-3:
        return ""
    return (
        "A KL below 0 is an error of its estimate: the true one never is. Few samples miss the rare"
        " responses that raise it, and their standard error is then too small as well."
    )


def change(before: Tensor, after: Tensor) -> tuple[float, float]:
    """Change of the mean, and its standard error: [N], [M] → two numbers.

    As many of both are taken for pairs, as two policies' responses to the same prompts in turn.
    """
    before, after = before.double(), after.double()
    moved = float(after.mean() - before.mean())
    if len(before) == len(after):
        return moved, float((after - before).std() / len(after) ** 0.5)
    return moved, float((before.var() / len(before) + after.var() / len(after)).sqrt())


def from_chance(moved: float, error: float, count: int) -> bool:
    """Whether a change of the mean of `count` is less than about two standard errors, so proves nothing.

    Few measurements tell their own spread badly: the two are widened as Student's t is, and up to
    three of them prove nothing at all. A change without any spread is none of chance.
    """
    if error == 0.0:
        return False
    free = count - 1
    spread = (free / (free - 2)) ** 0.5 if free > 2 else torch.inf
    return abs(moved) < 2 * spread * error
