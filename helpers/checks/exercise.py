"""What an exercise is: a reference, probe inputs, and the wrong answers that the field knows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor


class Mistake(NamedTuple):
    """A known wrong answer; `says` may use {counted}, {total}, {padded} and any number argument."""

    name: str
    says: str
    wrong: Callable


@dataclass(frozen=True)
class Exercise:
    """A function to write, and all that is needed to tell how far an answer has come."""

    name: str
    arguments: str  # names in order, with blanks between
    reference: Callable
    look: str  # the formula, and where it stands
    probes: list[tuple]  # positional arguments; the smallest first: the first failing one is shown
    mistakes: list[Mistake]
    gradient: tuple[str, ...] = ()  # arguments that must receive the reference's gradient
    group: str = ""  # an argument whose values are judged one after the other
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "names", tuple(self.arguments.split()))
        object.__setattr__(self, "mistakes", [Mistake(*entry) for entry in self.mistakes])

    @property
    def signature(self) -> str:
        """As the learner writes it."""
        return f"{self.name}({', '.join(self.names)})"

    def named(self, probe: tuple) -> dict:
        """Arguments of a probe by name."""
        return dict(zip(self.names, probe, strict=True))

    def counted(self, probe: tuple, expected: Tensor) -> Tensor | None:
        """The probe's mask, where the result has one entry for each of its positions."""
        mask = self.named(probe).get("mask")
        return mask if mask is not None and mask.shape == expected.shape else None

    def facts(self, probe: tuple) -> dict:
        """What a message may speak about."""
        named = self.named(probe)
        known = {name: x for name, x in named.items() if not isinstance(x, Tensor)}
        if "mask" in named:
            mask = named["mask"]
            counted, total = int(mask.sum()), mask.numel()
            known |= {"counted": counted, "total": total, "padded": total - counted}
        return known


def floats(*rows) -> Tensor:
    """Hand-written numbers."""
    return torch.tensor(rows, dtype=torch.float32)


def prefix_mask(width: int, *lengths: int) -> Tensor:
    """[B, T], True for the first `lengths[b]` positions of row b."""
    return torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]


def noise(seed: int, *shape: int) -> Tensor:
    """The same normal numbers every time, whatever the learner's own seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
