"""Name the mistake behind wrong numbers: a well-known one, a wrong shape or type, a pattern."""

import warnings
from functools import cache

import torch
from torch import Tensor

from helpers.checks.judging.compare import (
    ATOL,
    RTOL,
    alike,
    first_difference,
    kind,
    symptom,
    turned,
)
from helpers.checks.judging.report import show
from helpers.checks.judging.runner import copy_of
from helpers.checks.judging.second_look import answers_of, equals, with_further_cases
from helpers.checks.judging.slips import slips


def form(x: Tensor) -> str:
    """Shape and dtype in words."""
    return f"shape {tuple(x.shape)}, {kind(x)}" if x.dim() else f"no axes (a scalar), {kind(x)}"


def name_mistake(exercise, function, numbers, answers, expected, first) -> tuple[str, str, int]:
    """Name and message for wrong answers: a well-known mistake, a wrong form, a pattern, or unknown.

    `numbers` are those of the test cases, in `exercise.probes`. Third: which of these cases shows it.
    """
    probes = [exercise.probes[number] for number in numbers]
    facts = exercise.facts(probes[first])
    masks = [exercise.counted(probe, e) for probe, e in zip(probes, expected, strict=True)]
    pairs = list(zip(answers, expected, strict=True))

    def known(mistakes, general=False):
        made = [(m, _results(exercise, m, numbers)) for m in mistakes]
        made = [(m, results) for m, results in made if results is not None]
        if general:  # made for any exercise, so they must say something to be believed
            made = [(m, results) for m, results in made if _telling(results, expected)]
            made = [(m, results) for m, results in made if _of_one_size(answers, results)]
            made = [
                (m, results)
                for m, results in made
                if _further(exercise, function, m, probes[0], answers, results)
            ]
        return _known(made, answers, expected, masks, facts)

    def in_one_case(look):
        cases = ((look(*pair), case) for case, pair in enumerate(pairs))
        return next(((*found, case) for found, case in cases if found), None)

    def in_all(found):
        return found and (*found, first)

    found = in_all(known(exercise.mistakes)) or in_one_case(_form_problem) or in_all(turned(pairs))
    found = found or in_all(known(slips(exercise), general=True)) or in_one_case(_infinite)
    found = found or in_all(symptom(pairs, masks))
    return found or (*_unrecognised(exercise, answers[first], expected[first]), first)


def _results(exercise, mistake, numbers) -> list[Tensor] | None:
    """Results of this mistake on these test cases, or None if it raises on one of them."""
    made = [_result(exercise, mistake, number) for number in numbers]
    return None if any(x is None for x in made) else made


@cache  # whatever the learner's answer, a mistake gives the same
def _result(exercise, mistake, number: int) -> Tensor | None:
    """Result of this mistake on one test case, or None if it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of what is made wrong on purpose
            return torch.as_tensor(mistake.wrong(*copy_of(exercise.probes[number]))).detach()
    except Exception:  # noqa: BLE001 (a wrong formula may fail on some inputs)
        return None


def _further(exercise, function, mistake, given, answers, made) -> bool:
    """Whether a mistake with these very results has the learner's on further test cases too."""
    if not all(map(alike, answers, made)):
        return True  # told apart by `_known`
    more = with_further_cases(exercise).probes[len(exercise.probes) :]
    probes = [probe for probe in more if exercise.key(probe) == exercise.key(given)]
    there = answers_of(exercise, function, probes)
    return there is None or equals(there, mistake.wrong, probes)


def _telling(made: list[Tensor], expected: list[Tensor]) -> bool:
    """Whether results say something: not NaN in each test case, not 0 everywhere, not the right ones."""
    if all(map(alike, made, expected)):
        return False
    finite = [x for x in made if bool(x.double().isfinite().all())]
    return any(bool((x != 0).any()) for x in finite)


def _of_one_size(answers: list[Tensor], made: list[Tensor]) -> bool:
    """Whether results differ little for their own size, and not only because all are tiny."""
    if any(a.shape != x.shape for a, x in zip(answers, made, strict=True)):
        return True  # they are told apart elsewhere
    got, there = (torch.cat([x.double().abs().flatten() for x in xs]) for xs in (answers, made))
    near = torch.isclose(got, there, RTOL, ATOL) & got.isfinite()  # padding may hold anything
    off, size = (got - there)[near].abs(), there[near]
    return not len(off) or bool(off.max() <= 0.01 * size.max())


def _known(results, answers, expected, masks, facts) -> tuple[str, str] | None:
    """The mistake with these results, alone or with a flipped sign or wrong padding."""
    for mistake, made in results:
        if all(map(alike, answers, made)):
            return mistake.name, mistake.says.format_map(facts)
    for mistake, made in results:
        if all(map(alike, made, expected)):
            continue  # right in these test cases: the sign alone is wrong, which `turned` says
        if all(alike(a, -x.double()) for a, x in zip(answers, made, strict=True)):
            says = mistake.says.format_map(facts) + " Also, the sign is flipped."
            return f"{mistake.name}, and sign flipped", says
    if any(mask is None or a.shape != mask.shape for a, mask in zip(answers, masks, strict=True)):
        return None
    for mistake, made in results:
        same = _alike_where_counted(answers, made, masks)
        if same and not _alike_where_counted(expected, made, masks):
            says = mistake.says.format_map(facts)
            if _alike_where_counted(answers, expected, [~mask for mask in masks]):
                return mistake.name, says
            return (
                f"{mistake.name}, and masked positions",
                f"{says} Also, the masked positions are wrong.",
            )
    return None


def _alike_where_counted(answers, others, masks) -> bool:
    triples = zip(answers, others, masks, strict=True)
    return all(a.shape == b.shape and alike(a[mask], b[mask]) for a, b, mask in triples)


def _form_problem(answer: Tensor, expected: Tensor) -> tuple[str, str] | None:
    """Name and message of a wrong device, shape or dtype; None if there is none."""
    if answer.device != expected.device:
        says = f"Your result is on {answer.device}, the inputs are on {expected.device}."
        return "wrong device", says
    if answer.shape != expected.shape:
        return _shape_problem(answer, expected)
    if kind(answer) != kind(expected):
        fits = " The numbers are correct." if alike(answer, expected) else ""
        says = f"Your result is {kind(answer)}; it should be {kind(expected)}.{fits}"
        return "wrong dtype", says
    return None


def _infinite(answer: Tensor, expected: Tensor) -> tuple[str, str] | None:
    """Name and message of NaN or infinity where there should be a number; None if there is none."""
    bad = ~answer.isfinite() & expected.isfinite()
    if bool(bad.any()):
        index = bad.nonzero()[0].tolist()
        value = float(answer[tuple(index)])
        where = f" at {index}" if index else ""
        return "NaN or infinite", f"Your result is {value}{where}. Which step can cause that?"
    return None


def _shape_problem(answer: Tensor, expected: Tensor) -> tuple[str, str]:
    got, wanted = tuple(answer.shape), tuple(expected.shape)
    says = f"Your result has shape {got}; it should be {wanted}."
    if answer.dim() == 2 and alike(answer.T.to(expected.device), expected):
        return "transposed", f"{says} Rows and columns are exchanged."
    if sorted(got) == sorted(wanted) and got != wanted:
        return "wrong shape", f"{says} The axes are in another order."
    if [n for n in got if n != 1] == [n for n in wanted if n != 1]:
        return "wrong shape", f"{says} An axis of length 1 is extra or missing (keepdim, squeeze)."
    return "wrong shape", says


def _unrecognised(exercise, answer: Tensor, expected: Tensor) -> tuple[str, str]:
    index = first_difference(answer, expected)
    where = f"At {list(index)} you have" if index else "You have"
    values = show(answer[index]), show(expected[index])
    says = f"{where} {values[0]}; it should be {values[1]}. {exercise.advice}"
    return "unrecognised", says
