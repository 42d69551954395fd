"""Whether a result is the expected one; patterns in the difference where it is not."""

from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor

RTOL, ATOL = 1e-4, 1e-5
Found = tuple[str, str] | None  # the kind of mistake, and what to say


def as_tensor(answer: object, expected: Tensor) -> Tensor | None:
    """The answer as a tensor (for a scalar, a number is accepted), or None."""
    if isinstance(answer, Tensor):
        return answer.detach() if answer.layout == torch.strided else None
    if isinstance(answer, Real) and expected.dim() == 0:
        return torch.tensor(float(answer), dtype=torch.float64)
    return None


def alike(answer: Tensor, expected: Tensor) -> bool:
    """Whether shape and numbers are equal up to float32 rounding; NaN equals NaN, any dtype."""
    if answer.shape != expected.shape or answer.device != expected.device or answer.is_complex():
        return False
    close = torch.allclose(answer.double(), expected.double(), RTOL, ATOL, equal_nan=True)
    return bool(close)


def kind(x: Tensor) -> str:
    """ "float" for any float type, else the type's name, such as "int64" or "bool"."""
    return "float" if x.is_floating_point() else str(x.dtype).removeprefix("torch.")


def right(answer: Tensor | None, expected: Tensor) -> bool:
    """Whether the numbers and the type are correct (gradients are checked elsewhere)."""
    return answer is not None and kind(answer) == kind(expected) and alike(answer, expected)


def form(x: Tensor) -> str:
    """Shape and dtype in words."""
    return f"shape {tuple(x.shape)}, {kind(x)}" if x.dim() else f"no axes (a scalar), {kind(x)}"


def form_problem(got: Tensor, wanted: Tensor) -> Found:
    """Name and message of a wrong device, shape or dtype; None if there is none."""
    if got.device != wanted.device:
        return "wrong device", f"Your result is on {got.device}, the inputs are on {wanted.device}."
    if got.shape != wanted.shape:
        return _shape_problem(got, wanted)
    if kind(got) != kind(wanted):
        fits = " The numbers are right." if alike(got, wanted) else ""
        return "wrong dtype", f"Your result is {kind(got)}; it should be {kind(wanted)}.{fits}"
    return None


def _shape_problem(got: Tensor, wanted: Tensor) -> tuple[str, str]:
    a, b = tuple(got.shape), tuple(wanted.shape)
    says = f"Your result has shape {a}; it should be {b}."
    if sorted(a) == sorted(b):
        return "wrong shape", f"{says} The axes are in another order."
    if [n for n in a if n != 1] == [n for n in b if n != 1]:
        return "wrong shape", f"{says} An axis of length 1 is extra or missing (keepdim, squeeze)."
    return "wrong shape", says


def infinite(got: Tensor, wanted: Tensor) -> Found:
    """Name and message of NaN or infinity where there should be a number; None if there is none."""
    bad = ~got.isfinite() & wanted.isfinite()
    if not bool(bad.any()):
        return None
    index = bad.nonzero()[0].tolist()
    value, where = float(got[tuple(index)]), f" at {index}" if index else ""
    says = "0 · ∞ and 0 · NaN are NaN: what padding holds is replaced (torch.where) before exp or log, not"
    says += " multiplied by 0 after it; and where a probability rounds to 0, log_softmax is finite."
    if value == float("-inf"):
        says = "Is it the log of a probability that rounds to 0? Take log_softmax of the logits."
    return "NaN or infinite", f"Your result is {value}{where}. {says}"


def first_difference(answer: Tensor, expected: Tensor) -> tuple[int, ...]:
    """Index of the first entry in which two tensors of equal shape differ."""
    close = torch.isclose(answer.double(), expected.double(), RTOL, ATOL, equal_nan=True)
    return tuple(next(iter((~close).nonzero().tolist()), ()))


def symptom(pairs: list, masks: list) -> Found:
    """Name and explanation of a pattern in wrong answers of the right shape, or None."""
    if any(kind(expected) == "bool" for _, expected in pairs):
        return of_masks(pairs)

    def everywhere(test: Callable[..., bool]) -> bool:
        return all(test(*pair, mask) for pair, mask in zip(pairs, masks, strict=True))

    if everywhere(lambda a, e, m: alike(-a, e)):
        return "sign flipped", "Every number has the wrong sign."
    masked = everywhere(lambda a, e, m: isinstance(m, Tensor) and m.shape == e.shape)
    if masked and everywhere(lambda a, e, m: alike(torch.where(m, a, e), e)):
        return "masked positions", "All counted positions are correct; the masked ones are not."
    wide = everywhere(lambda a, e, m: a.dim() == 2 and a.shape[1] > 2)
    if wide and everywhere(lambda a, e, m: alike(a[:, 1:], e[:, :-1])):
        return "shifted in time", "Your numbers are correct, but one position too late."
    if wide and everywhere(lambda a, e, m: alike(a[:, :-1], e[:, 1:])):
        return "shifted in time", "Your numbers are correct, but one position too early."
    return scaled(pairs) or moved(pairs)


def of_masks(pairs: list) -> Found:
    """Where masks are True and should not be, or the other way round."""
    got, wanted = (
        torch.cat([x.flatten().bool() for x in side]) for side in zip(*pairs, strict=True)
    )
    if bool((got != wanted).all()):
        return "upside down", "True and False are exchanged everywhere."
    if not bool((wanted & ~got).any()):
        return "too much is True", "All that should be True is, but more is."
    if not bool((got & ~wanted).any()):
        return "too little is True", "All that should be False is, but more is."
    return None


def constant(x: Tensor, atol: float = 0.0) -> float | None:
    """The number that all entries are, up to rounding; None if they vary, or there is one alone."""
    same = x.numel() > 1 and torch.allclose(x, x.median().expand_as(x), 1e-3, atol)
    return float(x.median()) if same else None


def scaled(pairs: list) -> Found:
    """One factor, or one offset, for all numbers."""
    got, wanted = (
        torch.cat([x.double().flatten() for x in side]) for side in zip(*pairs, strict=True)
    )
    zero = wanted == 0
    factor = constant((got / wanted)[~zero]) if bool((got[zero].abs() < ATOL).all()) else None
    if not factor and bool((got.abs() < ATOL).all()):
        return "all zeros", "Your result is 0 everywhere."
    if factor is not None and abs(factor - 1) > 5e-3:
        return "constant factor", f"Every number is {factor:.4g} times what it should be."
    offset = constant(got - wanted, ATOL)
    return offset and ("constant offset", f"Every number is off by {offset:+.4g}.")


def moved(pairs: list) -> Found:
    """Numbers that are a·x + b of the right ones, padding aside: another mean, another deviation."""
    found = []
    for answer, expected in pairs:
        y, x = (z[expected != 0].double().flatten() for z in (answer, expected))
        slope = float(((x - x.mean()) * y).sum() / (x - x.mean()).square().sum())
        fits = torch.allclose(y, slope * (x - x.mean()) + y.mean(), 1e-3, 1e-4)
        if len(x) < 3 or abs(slope) < 1e-3 or not fits:
            return None
        found.append(f"{slope:.4g} times the right ones {float(y.mean() - slope * x.mean()):+.4g}")
    says = f"Your numbers are {found[0]}: is another mean subtracted, or is it another standard deviation?"
    return "another mean or deviation", says
