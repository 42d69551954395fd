"""Definition of an exercise: a reference solution, test inputs, and well-known mistakes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

WHOLE_FIT = (  # the advice of an exercise whose answer is a training run
    "This is a whole fit, too long for paper: print what each part gives at the first step, and read it"
    " against the words of the scaffold."
)


class Mistake(NamedTuple):
    """A well-known mistake: name, message, wrong function.

    The message may contain {counted}, {total} (positions) and the name of any number argument.
    """

    name: str
    says: str
    wrong: Callable


def kept(mistakes: list[tuple]) -> list[Mistake]:
    """Tuples as `Mistake`s."""
    return [Mistake(*entry) for entry in mistakes]


@dataclass(frozen=True, eq=False)  # itself alone is equal to it, and a key
class Exercise:
    """A function for the learner to write, with everything needed to check it."""

    name: str
    arguments: str  # names in order, separated by spaces
    reference: Callable
    look: str  # the formula and its source
    probes: list[tuple]  # positional arguments, smallest first: the first failing one is shown
    mistakes: list[Mistake]
    gradient: tuple[str, ...] = ()  # arguments whose gradient must equal the reference's
    group: str = ""  # an argument, or a field of one, whose values are checked one after the other
    advice: str = "Calculate this small case by hand."  # for a mistake without a name
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "names", tuple(self.arguments.split()))
        object.__setattr__(self, "mistakes", [Mistake(*entry) for entry in self.mistakes])

    @property
    def signature(self) -> str:
        """The call as the learner writes it: `gae(rewards, values)`."""
        return f"{self.name}({', '.join(self.names)})"

    def named(self, probe: tuple) -> dict:
        """Arguments of a probe by name."""
        return dict(zip(self.names, probe, strict=True))

    def key(self, probe: tuple) -> object:
        """The value of `group` in a probe; None without a group."""
        name, _, field = self.group.partition(".")
        value = self.named(probe).get(name)
        return getattr(value, field) if field else value

    def counted(self, probe: tuple, expected: Tensor) -> Tensor | None:
        """The probe's mask if the result has the mask's shape, else None."""
        mask = self.named(probe).get("mask")
        return mask if mask is not None and mask.shape == expected.shape else None

    def facts(self, probe: tuple) -> dict:
        """The numbers that a message may contain."""
        named = self.named(probe)
        known = {name: x for name, x in named.items() if not isinstance(x, Tensor)}
        if "mask" in named:
            mask = named["mask"]
            known |= {"counted": int(mask.sum()), "total": mask.numel()}
        return known


def floats(*rows) -> Tensor:
    """Rows of numbers as a float32 tensor."""
    return torch.tensor(rows, dtype=torch.float32)


def prefix_mask(width: int, *lengths: int) -> Tensor:
    """[B, T], True for the first `lengths[b]` positions of row b."""
    return torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]


def noise(seed: int, *shape: int) -> Tensor:
    """Normal random numbers that do not depend on the learner's seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
