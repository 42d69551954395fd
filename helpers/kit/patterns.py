"""Whether a result is the expected one; patterns in the difference where it is not."""

from itertools import permutations, product
from numbers import Real

import torch
from torch import Tensor

RTOL, ATOL = 1e-4, 1e-5


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


def form_problem(got: Tensor, wanted: Tensor) -> tuple[str, str] | None:
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
    if got.dim() == 2 and alike(got.T, wanted):
        return "transposed", f"{says} Rows and columns are exchanged."
    if sorted(a) == sorted(b):
        return "wrong shape", f"{says} The axes are in another order."
    if [n for n in a if n != 1] == [n for n in b if n != 1]:
        return "wrong shape", f"{says} An axis of length 1 is extra or missing (keepdim, squeeze)."
    return "wrong shape", says


def infinite(got: Tensor, wanted: Tensor) -> tuple[str, str] | None:
    """Name and message of NaN or infinity where there should be a number; None if there is none."""
    bad = ~got.isfinite() & wanted.isfinite()
    if not bool(bad.any()):
        return None
    index = bad.nonzero()[0].tolist()
    value, where = float(got[tuple(index)]), f" at {index}" if index else ""
    if value == float("-inf"):
        cause = "Is it the log of a probability that rounds to 0? Take log_softmax of the logits."
    else:
        cause = (
            "Which step can cause that? NaN · 0 is NaN: what padding holds is replaced with torch.where, not"
            " multiplied by 0."
        )
    return "NaN or infinite", f"Your result is {value}{where}. {cause}"


def first_difference(answer: Tensor, expected: Tensor) -> tuple[int, ...]:
    """Index of the first entry in which two tensors of equal shape differ."""
    close = torch.isclose(answer.double(), expected.double(), RTOL, ATOL, equal_nan=True)
    return tuple(next(iter((~close).nonzero().tolist()), ()))


def _everywhere(pairs, test) -> bool:
    return all(test(answer, expected) for answer, expected in pairs)


def _constant(pairs, combine) -> float | None:
    """The number that `combine(answer, expected)` gives everywhere, or None if it varies."""
    found = torch.cat([combine(a.double(), e.double()).flatten() for a, e in pairs])
    found = found[~found.isnan()]
    if found.numel() < 2 or not bool(found.isfinite().all()):
        return None
    same = torch.allclose(found, found[0].expand_as(found), 1e-3, 1e-5)
    return float(found[0]) if same else None


def _shifted(answer: Tensor, expected: Tensor, step: int) -> bool:
    width = answer.shape[-1] if answer.dim() else 0
    if answer.dim() != 2 or width < 3:
        return answer.dim() == 2
    moved, still = (answer, expected) if step > 0 else (expected, answer)
    return alike(moved[:, 1:], still[:, :-1])


def _last_only(answer: Tensor, expected: Tensor, mask: Tensor | None) -> bool:
    if mask is None or answer.dim() != 2:
        return False
    after = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return alike(torch.where(mask & ~after, expected, answer), expected)


def turned(pairs: list) -> tuple[str, str] | None:
    """Name and explanation if all numbers have the wrong sign."""
    if any(kind(a) == "bool" for a, _ in pairs):
        return None
    flipped = _everywhere(pairs, lambda a, e: alike(-a, e))
    return ("sign flipped", "Every number has the wrong sign.") if flipped else None


def symptom(pairs: list, masks: list) -> tuple[str, str] | None:
    """Name and explanation of a pattern in wrong answers of the right shape, or None."""
    if any(kind(expected) == "bool" for _, expected in pairs):
        return _of_masks(pairs)
    if turned(pairs):
        return turned(pairs)
    fitting = [
        m if m is not None and m.shape == e.shape else None
        for (_, e), m in zip(pairs, masks, strict=True)
    ]
    triples = [(*pair, mask) for pair, mask in zip(pairs, fitting, strict=True)]
    if all(m is not None and alike(torch.where(m, a, e), e) for a, e, m in triples):
        return "masked positions", "All counted positions are correct; the masked ones are not."
    if all(_last_only(*triple) for triple in triples):
        return "last counted position", "Only the last counted position of a row is wrong."
    return _moved(pairs) or _scaled(pairs)


def _of_masks(pairs: list) -> tuple[str, str] | None:
    if _everywhere(pairs, lambda a, e: alike(~a.bool(), e)):
        return "upside down", "True and False are exchanged everywhere."
    for name, wrong, says in (
        ("too much is True", lambda a, e: a & ~e, "should be True is, but more is"),
        ("too little is True", lambda a, e: e & ~a, "should be False is, but more is"),
    ):
        more = [wrong(a.bool(), e) for a, e in pairs]
        alone = all(
            bool(((a.bool() ^ e) == x).all()) for (a, e), x in zip(pairs, more, strict=True)
        )
        if alone:
            where = next(x for x in more if bool(x.any())).nonzero()[0].tolist()
            return name, f"All that {says}: first at {where}."
    return _of_prefixes(pairs)


def _of_prefixes(pairs: list) -> tuple[str, str] | None:
    """Where the right mask is True up to some place of each row: what the answer is there."""
    for answer, expected in pairs:
        ends = [x.long().cumprod(1).sum(1) for x in (answer, expected)]
        if expected.dim() != 2 or not torch.equal(ends[1], expected.sum(1)):
            return None
        for row in (answer.bool() != expected).any(1).nonzero().flatten().tolist():
            got, want = (int(x[row]) for x in ends)
            if got != int(answer[row].sum()):
                return "True after a False", f"In row {row} your mask is True again after a False."
            return (
                "the end of the mask",
                f"In row {row} your mask ends after {got} positions, not {want}.",
            )
    return None


def _moved(pairs: list) -> tuple[str, str] | None:
    square = [pair for pair in pairs if pair[0].dim() == 2 and len(set(pair[0].shape)) == 1]
    if len(square) == len(pairs) and _everywhere(square, lambda a, e: alike(a.T, e)):
        return "transposed", "Rows and columns are exchanged."
    wide = any(expected.dim() == 2 and expected.shape[1] > 2 for _, expected in pairs)
    for step, where in ((1, "late"), (-1, "early")):
        if wide and _everywhere(pairs, lambda a, e, step=step: _shifted(a, e, step)):
            return "shifted in time", f"Your numbers are correct, but one position too {where}."
    return None


def divided(pairs: list, counts: list[dict[str, int]]) -> tuple[str, str] | None:
    """Name and message of right results divided by another number than they should be, or None.

    `counts` are the numbers there are to divide by in each test case, by what they count.
    """
    ratios = []
    for got, wanted in pairs:
        ratio = (got.double() / wanted.double())[wanted != 0]
        if (
            got.shape != wanted.shape
            or not len(ratio)
            or not alike(ratio, ratio[:1].expand_as(ratio))
        ):
            return None
        ratios.append(float(ratio[0]))
    if max(ratios) - min(ratios) < 1e-3 * max(map(abs, ratios)):
        return None
    for (power, root), (right, yours) in product(
        ((1, ""), (2, "the root of ")), permutations(counts[0], 2)
    ):
        both = [(c[right], c[yours], r**power) for c, r in zip(counts, ratios, strict=True)]
        if all(abs(r * b - a) < 1e-3 * abs(a) and a for a, b, r in both):
            says = f"In each test case your result is the right one times {root}{right} / {yours} (n is how"
            return (
                "another divisor",
                f"{says} many count). Is it divided by {yours}, not by {right}?",
            )
    return None


def _tiny(pairs: list) -> tuple[str, str]:
    """Numbers far smaller than the right ones: 0, a large number's share of them, or rounding errors."""
    ratio = torch.cat([(a.double() / e.double())[e != 0] for a, e in pairs])
    middle = ratio.median()
    if bool(middle) and torch.allclose(ratio, middle.expand_as(ratio), 1e-3, 0.0):
        return "constant factor", _factor_words(float(middle))
    rounding = ", but for rounding errors" if any(bool(a.any()) for a, _ in pairs) else ""
    return "all zeros", f"Your result is 0 everywhere{rounding}."


UNITS = (1000, 1024, 10**6, 1024**2, 10**9, 1024**3, 10**12, 1024**4)


def _factor_words(factor: float) -> str:
    for unit in UNITS:
        if abs(factor * unit - 1) < 1e-3:
            return (
                f"Every number is the right one divided by {unit:,}. In which unit is it asked for?"
            )
    return f"Every number is {factor:.4g} times what it should be."


def _rows_of(pairs: list) -> list:
    """Each row of [B, T] results by itself; none of others."""
    return [row for a, e in pairs if e.dim() == 2 for row in zip(a, e, strict=True)]


def _scaled(pairs: list) -> tuple[str, str] | None:
    factor = _constant(pairs, lambda a, e: torch.where(e == 0, torch.nan, a / e))
    zeros = _everywhere(pairs, lambda a, e: bool((a[e == 0].abs() < ATOL).all()))
    if factor is not None and abs(factor) < ATOL and zeros:
        return _tiny(pairs)
    if factor is not None and zeros and abs(factor - 1) > 5e-3:
        return "constant factor", _factor_words(factor)
    rows = [_constant([pair], lambda a, e: torch.where(e == 0, torch.nan, a / e)) for pair in
            _rows_of(pairs)] if zeros else []  # fmt: skip
    if rows and None not in rows:
        each = ", ".join(f"{x:.4g}" for x in rows[:6])
        return "a factor for each row", (
            f"Row by row your numbers are {each} times what they should be: is each row to be divided by"
            " something of its own, or by one number for all?"
        )
    offset = _constant(pairs, torch.sub)
    if offset is not None:
        return "constant offset", f"Every number is off by {offset:+.4g}."
    return _of_line(pairs)


def _of_line(pairs: list) -> tuple[str, str] | None:
    """Numbers that are a·x + b of the right ones, padding aside: another mean, another deviation."""
    found = []
    for answer, expected in pairs:
        y, x = (z[expected != 0].double().flatten() for z in (answer, expected))
        slope = float(((x - x.mean()) * y).sum() / (x - x.mean()).square().sum())
        if len(x) < 3 or not torch.allclose(y, slope * (x - x.mean()) + y.mean(), 1e-3, 1e-4):
            return None
        found.append(f"{slope:.4g} times the right ones {float(y.mean() - slope * x.mean()):+.4g}")
    says = f"Your numbers are {found[0]}: is another mean subtracted, or is it another standard deviation?"
    return "another mean or deviation", says
