"""Exercise of notebook 09: repair steps 5 and 6 of a run. The first result that goes wrong is named.

Judged on the recorded inputs of lesson 06, with its well-known mistakes. Settings there are away from
the defaults (γ = 0.97), so that a setting that is not used shows too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import torch
from torch import Tensor

from helpers.checks.gae.credit_mistakes import biased, gae, read_values
from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Mistake
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report, show
from helpers.checks.judging.runner import MISSING, RAISED, TIMED_OUT, attempt, is_stub, line_of
from helpers.checks.trainer.inputs import Seen, Wrong, ask, expect, no_graph, recorded, tensors
from helpers.checks.trainer.mistakes import MISTAKES
from helpers.checks.trainer.reward_mistakes import rewards_with
from helpers.checks.trainer.reward_probes import name_credit, name_rewards
from helpers.one_page import whiten

NAME = "steps_5_and_6"
ARGUMENTS = "scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam"
RESULTS = ("rewards", "advantages", "returns")  # in the order in which they are computed
LOOK = {
    "rewards": "−β·(logprobs − ref_logprobs) on counted tokens, + score on the last counted one",
    "advantages": "δ = r + γV' − V, A = δ + γλA', whitened over counted tokens",
    "returns": "returns = A + V with A as it was before whitening",
}
TIME_LIMIT = 10.0
UNUSABLE = {  # mistakes with which a function gives no numbers to train on
    "exception", "endless loop", "inputs changed", "not a function", "wrong type", "wrong shape",
    "wrong dtype", "wrong device", "NaN or infinite", "detached", "wrong gradient",
}  # fmt: skip


def last_column(counted: Tensor) -> Tensor:
    """The last column, a pad in most rows."""
    return torch.full((len(counted),), counted.shape[1] - 1)


def lost_on_pads(scores, logprobs, ref_logprobs, counted, kl_coef) -> Tensor:
    """The score in the last column, and padding set to 0 afterwards: most scores are lost."""
    given = scores, logprobs, ref_logprobs, counted, kl_coef
    return rewards_with(place=last_column)(*given) * counted


def paid_twice(scores, logprobs, ref_logprobs, counted, kl_coef) -> Tensor:
    """The score on the last counted token, and once more in the last column where that counts."""
    rewards = rewards_with()(scores, logprobs, ref_logprobs, counted, kl_coef)
    rewards[:, -1] += scores * counted[:, -1]
    return rewards


def without_gamma(rewards: Tensor, values: Tensor, gamma: float, lam: float) -> Tensor:
    """GAE whose δ has no γ."""
    return gae(rewards, values, 1.0, lam, decay=gamma * lam)


def as_found(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam) -> tuple:
    """What the patient's function gives: three lines are wrong."""
    rewards = lost_on_pads(scores, logprobs, ref_logprobs, counted, kl_coef)
    advantages = whiten(without_gamma(rewards, values, gamma, lam), counted)
    return rewards, advantages, (advantages + values) * counted


LOST = (
    "the score stands on a pad",
    "The score stands in the last column, and padding is set to 0: only responses that fill all columns"
    " keep theirs. Its place is each row's last counted token.",
)
TWICE = (
    "the score twice",
    "Responses that fill all columns get the score twice: is the line that adds it to the last column still"
    " there?",
)
NO_GAMMA = (
    "no γ in δ",
    "Your advantages lack γ in one place. This check has γ = 0.97: look at each place where γ should stand.",
)
TOO_EARLY = (
    "returns of whitened advantages",
    "Your returns are whitened advantages + values. They are targets in reward units: form them before"
    " you whiten.",
)


@dataclass(frozen=True)
class Inputs:
    """What the function is called with: recorded, or with rewards of its own."""

    given: tuple
    counted: Tensor


@cache
def inputs() -> Inputs:
    """The recorded arguments; values are 0 on padding, as in the loop."""
    r = recorded()
    with torch.no_grad():
        values = read_values(r.parts.critic, r.ids, r.mask, r.length) * r.counted
    given = r.scores, r.logprobs, r.ref_logprobs, values, r.counted
    return Inputs((*given, r.config.kl_coef, r.config.gamma, r.config.lam), r.counted)


def observe(function: Callable) -> Seen:
    """Rewards everywhere; advantages and returns where they count."""
    given = inputs()
    answer = ask(function, *given.given)
    found = tensors(answer, tuple(f"{name} [B, T]" for name in RESULTS), tuple(given.counted.shape))
    no_graph(**dict(zip(RESULTS, found, strict=True)))
    seen = dict(zip(RESULTS, found, strict=True))
    return {
        name: x if name == "rewards" else torch.where(given.counted, x, 0.0)
        for name, x in seen.items()
    }


def right(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam) -> tuple:
    """The repaired function, from the parts that lesson 06 is checked with."""
    rewards = rewards_with()(scores, logprobs, ref_logprobs, counted, kl_coef)
    advantages = gae(rewards, values, gamma, lam)
    return rewards, whiten(advantages, counted), (advantages + values) * counted


@cache
def expected() -> Seen:
    return observe(right)


def of_rewards(mistake: Mistake) -> Tensor:
    """The rewards of a well-known mistake."""
    scores, logprobs, ref_logprobs, _, counted, kl_coef, *_ = inputs().given
    return mistake.wrong(scores, logprobs, ref_logprobs, counted, kl_coef)


@cache
def credit_mistakes() -> list[tuple[Mistake, Tensor, Tensor]]:
    """Well-known mistakes of step 6 with the advantages and returns they give."""
    r, given = recorded(), inputs()
    arguments = r.parts.critic, r.ids, r.mask, expected()["rewards"], r.config.gamma, r.config.lam
    found = []
    for mistake in MISTAKES["estimate_advantages"]:
        if not mistake.name.startswith(("the order", "values of", "no position")):
            _, *pair = mistake.wrong(*arguments)
            found.append((mistake, *(torch.where(given.counted, x, 0.0) for x in pair)))
    return found


def wrong_rewards(got: Tensor) -> tuple[str, str] | None:
    """Name and message of a mistake that gives these rewards."""
    scores, logprobs, ref_logprobs, _, counted, kl_coef, *_ = inputs().given
    for known, wrong in ((LOST, lost_on_pads), (TWICE, paid_twice)):
        if alike(got, wrong(scores, logprobs, ref_logprobs, counted, kl_coef)):
            return known
    for mistake in MISTAKES["total_rewards"]:
        if alike(got, of_rewards(mistake)):
            return mistake.name, mistake.says
    return None


def wrong_advantages(got: Tensor) -> tuple[str, str] | None:
    """Name and message of a mistake that gives these advantages from the right rewards."""
    _, _, _, values, counted, _, gamma, lam = inputs().given
    made = without_gamma(expected()["rewards"], values, gamma, lam)
    for change in (whiten, biased, lambda a, m: a * m):
        if alike(got, change(made, counted)):
            return NO_GAMMA
    for mistake, advantages, _ in credit_mistakes():
        if not alike(advantages, expected()["advantages"]) and alike(got, advantages):
            return mistake.name, mistake.says
    return None


def wrong_returns(got: Tensor, advantages: Tensor) -> tuple[str, str] | None:
    """Name and message of a mistake that gives these returns beside the right advantages."""
    _, _, _, values, counted, *_ = inputs().given
    if alike(got, (advantages + values) * counted):
        return TOO_EARLY
    if alike(got, expected()["returns"]):
        return None
    found = [known for known in credit_mistakes() if alike(got, known[2])]
    for mistake, made, _ in found:
        if alike(made, expected()["advantages"]):
            return mistake.name, mistake.says
    for mistake, *_ in found:  # its words are about advantages, and these here are right
        return mistake.name, f"They fit other advantages than yours. Of those: {mistake.says}"
    return None


IN_ORDER = (
    f"Each of the three is right, but they stand in another order. Return {', '.join(RESULTS)}."
)


def exchanged(seen: Seen) -> bool:
    """Whether the three results are right ones in another order."""
    *_, values, counted, _, gamma, lam = inputs().given
    kept = {name: torch.where(counted, x, 0.0) for name, x in seen.items()}
    right = {name: [torch.where(counted, x, 0.0)] for name, x in expected().items()}
    right["advantages"].append(biased(gae(expected()["rewards"], values, gamma, lam), counted))
    orders = [
        order
        for order in permutations(RESULTS)
        if all(
            any(alike(kept[a], x) for x in right[b]) for a, b in zip(RESULTS, order, strict=True)
        )
    ]
    return bool(orders) and RESULTS not in orders


def cause(name: str, function: Callable) -> tuple[str, str] | None:
    """Name and message of the part that is wrong, from other inputs; None if that fails."""
    *_, values, counted, _, gamma, lam = inputs().given

    def rewards(scores, logprobs, ref_logprobs, counted, kl_coef):
        return function(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam)[0]

    def credit(g, x):
        return function(*inputs().given[:-2], g, x)[1:]

    try:
        with torch.no_grad():
            if name == "rewards":
                name_rewards(rewards)
            name_credit(credit, expected()["rewards"], values, counted)
    except Wrong as found:
        return found.name, found.says
    except Exception:  # noqa: BLE001 (its numbers have been judged already)
        return None
    return None


def same_at_any_scale(function: Callable) -> None:
    """Wrong: right results that are not right for small scores."""
    scores, logprobs, ref_logprobs, values, counted, kl_coef, *rest = inputs().given
    small = 0.1 * scores, logprobs, ref_logprobs, 0.1 * values, counted, 0.1 * kl_coef, *rest
    says = "All is right, until all rewards and values are 10 times smaller: whitened advantages stay the"
    says += " same then. Divide by the standard deviation, whatever its size: no lower limit, no large ε."
    rewards, got, want = *function(*small)[:2], expected()["advantages"]
    about = (
        "Your rewards are right, until scores and kl_coef are 10 times smaller: is a number written"
    )
    about += " in, or"
    fine = alike(rewards, 0.1 * expected()["rewards"])
    expect(fine, "wrong for small scores", f"{about} bounded?")
    off = (torch.where(counted, got - want, 0.0)).abs().max()
    expect(bool(off < 0.1), "the deviation is bounded", says)  # the divisor n is as right as n − 1


def zero_on_padding(function: Callable) -> None:
    """Wrong: right results that hold something on padding."""
    given = inputs()
    for name, x in zip(RESULTS, ask(function, *given.given), strict=True):
        wants = torch.where(given.counted, x, 0.0)
        rows = (x != wants).any(dim=1).nonzero()
        says = f"Your {name} are right where tokens count, and not 0 on padding, as the docstring asks."
        says += " Multiply by `counted`, or choose with torch.where(counted, …, 0.0)."
        row = int(rows[0]) if len(rows) else 0
        expect(not len(rows), "padding not 0", says, x[row], wants[row])


def check_steps_5_and_6(function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """Check your repaired `steps_5_and_6` on recorded inputs."""
    if is_stub(function):
        return _not_attempted()
    if not callable(function):
        got = f"{type(function).__name__} {function!r:.60}"
        return _mistake("not a function", f"Pass the function itself, not the {got}.")
    expected()  # outside of the time limit
    outcome = attempt(observe, (function,), seconds)
    if outcome.state == MISSING:
        return _not_attempted()
    if outcome.state == TIMED_OUT:
        says = f"Not finished after {seconds:g} seconds. Is there an endless loop?"
        return _mistake("endless loop", says)
    if outcome.state == RAISED:
        return _raised(outcome.error, function)
    try:
        report = _compared(outcome.value, function)
        if report.status == CORRECT:
            with torch.no_grad():
                same_at_any_scale(function)
                zero_on_padding(function)
        return report
    except Wrong as wrong:
        return _mistake(wrong.name, wrong.says, wrong.yours, wrong.expected)


def trainable(function: Callable) -> Callable:
    """The function, or the patient's as it was found if this one fails or gives no three tensors."""
    return as_found if check_steps_5_and_6(function).mistake in UNUSABLE else function


def _raised(error: BaseException, function: Callable) -> Report:
    if isinstance(error, Wrong):
        return _mistake(error.name, error.says, error.yours, error.expected)
    line = line_of(error, function)
    says = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    says += f", in {line}." if line else f". It is called as {NAME}({ARGUMENTS})."
    return _mistake("exception", says)


def _compared(seen: Seen, function: Callable) -> Report:
    """The verdict on three tensors; what stands before the first wrong one is right."""
    found, patient = expected(), observe(as_found)
    if all(alike(seen[name], patient[name]) for name in RESULTS):
        return _not_attempted()
    for name in RESULTS:
        bad = ~seen[name].isfinite()
        says = f"Your {name}: NaN or infinite. Which line can cause that?"
        expect(not bool(bad.any()), "NaN or infinite", says)
    expect(not exchanged(seen), "the order of the results", IN_ORDER)
    if not alike(seen["rewards"], found["rewards"]):
        found = wrong_rewards(seen["rewards"]) or cause("rewards", function)
        return _first("rewards", seen, found)
    _, _, _, values, counted, _, gamma, lam = inputs().given
    other = biased(gae(found["rewards"], values, gamma, lam), counted)
    if not alike(seen["advantages"], found["advantages"]) and not alike(seen["advantages"], other):
        known = wrong_advantages(seen["advantages"]) or cause("advantages", function)
        return _first("advantages", seen, known)
    if not alike(seen["returns"], found["returns"]):
        known = wrong_returns(seen["returns"], seen["advantages"]) or cause("returns", function)
        return _first("returns", seen, known)
    return Report(NAME, CORRECT, "Rewards, advantages and returns are right. Now train with it.")


def _first(name: str, seen: Seen, found: tuple[str, str] | None) -> Report:
    """The report on the first result that is wrong."""
    before = RESULTS[: RESULTS.index(name)]
    so_far = f"Right so far: {', '.join(before)}. " if before else ""
    got, want = seen[name], expected()[name]
    close = torch.isclose(got, want, 1e-4, 1e-5)
    row = int((~close).any(dim=1).nonzero()[0])
    label, says = found or ("unrecognised", f"They differ first in row {row}.")
    says = f"{so_far}The first wrong result: the {name}. {says}"
    return _mistake(label, says, got[row], want[row], LOOK[name])


def _not_attempted() -> Report:
    says = f"{NAME} gives what the patient's gives. Repair it and run the cell again."
    return Report(NAME, NOT_ATTEMPTED, says)


def _mistake(name: str, says: str, yours=None, wants=None, look: str = "") -> Report:
    pairs = (("yours", yours), ("expected", wants))
    case = tuple((label, show(x)) for label, x in pairs if x is not None)
    return Report(NAME, MISTAKE, says, name, look, case)
