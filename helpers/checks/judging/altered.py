"""Right formula, other inputs: the numbers are those of an argument sorted, moved, averaged, cut …"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import Found, equals


def _whitened(x: Tensor) -> Tensor:
    return (x - x.mean()) / x.std()


# the words fit into "as if `scores` were …"
CHANGES = {
    "sorted, so that each number belongs to another entry": lambda x: x.sort(-1).values,
    "sorted downwards, so that each number belongs to another entry": lambda x: (
        x.sort(-1, descending=True).values
    ),
    "in reverse order": lambda x: x.flip(-1),
    "moved on by one position": lambda x: x.roll(1, -1),
    "moved back by one position (each takes its neighbour's)": lambda x: x.roll(-1, -1),
    "moved on by one position, with 0 at the start": lambda x: torch.cat(
        [torch.zeros_like(x[..., :1]), x[..., :-1]], -1
    ),
    "moved back by one position, with 0 at the end": lambda x: torch.cat(
        [x[..., 1:], torch.zeros_like(x[..., :1])], -1
    ),
    "its mean everywhere": lambda x: x.mean().expand_as(x),
    "its median everywhere": lambda x: x.median().expand_as(x),
    "its first number everywhere": lambda x: x.flatten()[0].expand_as(x),
    "its last number everywhere": lambda x: x.flatten()[-1].expand_as(x),
    "its largest number everywhere": lambda x: x.max().expand_as(x),
    "its smallest number everywhere": lambda x: x.min().expand_as(x),
    "its row's mean everywhere": lambda x: x.mean(-1, keepdim=True).expand_as(x),
    "its sum everywhere": lambda x: x.sum().expand_as(x),
    "centred (its mean subtracted)": lambda x: x - x.mean(),
    "whitened (its mean subtracted, divided by its std)": _whitened,
    "whitened with the biased std": lambda x: (x - x.mean()) / x.std(unbiased=False),
    "divided by its std": lambda x: x / x.std(),
    "divided by its largest size": lambda x: x / x.abs().max(),
    "divided by its sum": lambda x: x / x.sum(),
    "softmaxed": lambda x: x.softmax(-1),
    "centred row by row": lambda x: x - x.mean(-1, keepdim=True),
    "whitened row by row": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
    "cumulated": lambda x: x.cumsum(-1),
    "without its sign": lambda x: x.abs(),
    "of the opposite sign": lambda x: -x,
    "its sign alone (−1, 0 or 1)": lambda x: x.sign(),
    "0 wherever it is negative": lambda x: x.clamp(min=0),
    "0 wherever it is positive": lambda x: x.clamp(max=0),
    "clamped to ±1": lambda x: x.clamp(-1, 1),
    "squared": lambda x: x * x,
    "its square root": lambda x: x**0.5,
    "its exponential": lambda x: x.exp() if isinstance(x, Tensor) else 2.718281828459045**x,
    "its sigmoid": lambda x: x.sigmoid(),
    "its tanh": lambda x: x.tanh(),
    "doubled": lambda x: 2 * x,
    "halved": lambda x: x / 2,
    "0": lambda x: 0 * x,
    "1": lambda x: 0 * x + 1,
    "1 more": lambda x: x + 1,
    "1 less": lambda x: x - 1,
    "its inverse (1 divided by it)": lambda x: 1 / x,
    "rounded to whole numbers": lambda x: x.round(),
}
CUTS = {
    "the first entry": lambda x: x[..., 1:],
    "the last entry": lambda x: x[..., :-1],
    "all but the first entry": lambda x: x[..., :1],
    "all but the last entry": lambda x: x[..., -1:],
    "every second entry": lambda x: x[..., ::2],
    "the first row": lambda x: x[1:],
    "the last row": lambda x: x[:-1],
    "all but the first row": lambda x: x[:1],
}


def _float(x: object) -> bool:
    return x.is_floating_point() if isinstance(x, Tensor) else isinstance(x, float)


def other_inputs(
    skip: tuple[str, ...] = (), also: dict | None = None, cut: tuple[str, ...] | None = None
) -> Callable:
    """A look for an argument that was changed before it was used; `skip` names those to leave alone.

    `also` has further changes of an argument: name → {words: change}. `cut` names the arguments that
    have one entry for each case, by default every tensor.
    """

    def look(exercise: Exercise, function: Callable, answers: list[Tensor]) -> Found:
        for place, name in enumerate(exercise.names):
            if name in skip or not any(_float(probe[place]) for probe in exercise.probes):
                continue
            for words, change in (CHANGES | (also or {}).get(name, {})).items():
                if _matches(exercise, answers, place, change):
                    return _changed(name, words)
        return (
            _together(exercise, answers)
            or _exchanged(exercise, answers)
            or _cut(exercise, answers, cut or exercise.names)
        )

    return look


def _matches(exercise: Exercise, answers: list[Tensor], place: int, change: Callable) -> bool:
    def wrong(*given):
        return exercise.reference(*given[:place], change(given[place]), *given[place + 1 :])

    return informative(exercise, answers) and equals(answers, wrong, exercise.probes)


def informative(exercise: Exercise, answers: list[Tensor]) -> bool:
    """Whether the answers vary between or within the inputs, so that a match is no accident."""
    numbers = torch.cat([a.detach().double().flatten() for a in answers])
    return len(numbers[numbers.isfinite()].unique()) > 1


def _changed(name: str, words: str) -> tuple[str, str]:
    says = (
        f"Your numbers are those that come out as if `{name}` were {words}. Take it as it is given."
    )
    return f"{name} {words.split(',')[0].split(' (')[0]}", says


def _together(exercise: Exercise, answers: list[Tensor]) -> Found:
    """All tensors of floats sorted, reversed or averaged, each by itself."""
    if not informative(exercise, answers):
        return None
    for words, change in list(CHANGES.items())[:3] + [("its mean", CHANGES["its mean everywhere"])]:

        def wrong(*given, change=change):
            return exercise.reference(
                *(change(x) if isinstance(x, Tensor) and _float(x) else x for x in given)
            )

        right = [exercise.reference(*copy_of(probe)) for probe in exercise.probes]
        if not equals(right, wrong, exercise.probes) and equals(answers, wrong, exercise.probes):
            says = f"Your numbers are those that come out as if every argument were {words}."
            return f"all {words.split(',')[0]}", says
    return None


def _exchanged(exercise: Exercise, answers: list[Tensor]) -> Found:
    """Two arguments in each other's place, or one in place of another."""
    for i, one in enumerate(exercise.names):
        for j, other in enumerate(exercise.names):
            if i == j or "mask" in (one, other):
                continue

            def replaced(*given, i=i, j=j):
                return exercise.reference(*given[:i], given[j], *given[i + 1 :])

            def swapped(*given, i=i, j=j):
                moved = list(given)
                moved[i], moved[j] = given[j], given[i]
                return exercise.reference(*moved)

            if not informative(exercise, answers):
                return None
            if i < j and equals(answers, swapped, exercise.probes):
                return f"{one} and {other} exchanged", f"`{one}` and `{other}` are exchanged."
            if equals(answers, replaced, exercise.probes):
                says = f"You used `{other}` where `{one}` belongs."
                return f"{other} for {one}", says
    return None


def _cut(exercise: Exercise, answers: list[Tensor], names: tuple[str, ...]) -> Found:
    """These tensors without their first or last entries, for results that are one number."""
    if any(a.dim() for a in answers) or not informative(exercise, answers):
        return None
    for words, cut in CUTS.items():

        def wrong(*given, cut=cut):
            pairs = zip(exercise.names, given, strict=True)
            return exercise.reference(
                *(cut(x) if isinstance(x, Tensor) and name in names else x for name, x in pairs)
            )

        if _fits(exercise, answers, wrong):
            return f"{words} left out", f"You left out {words}: everything that is given counts."
    return None


def _fits(exercise: Exercise, answers: list[Tensor], wrong: Callable) -> bool:
    """Whether the wrong function gives these answers, wherever the cut leaves anything (twice at least)."""
    fitting = 0
    for answer, probe in zip(answers, exercise.probes, strict=True):
        try:
            made = torch.as_tensor(wrong(*copy_of(probe)))
        except Exception:  # noqa: BLE001 (nothing is left to calculate with)
            continue
        if not bool(made.isfinite().all()):
            continue
        if not alike(answer, made):
            return False
        fitting += not alike(made, exercise.reference(*copy_of(probe)))
    return fitting > 1
