"""Exercises of lesson 09: a rule that finds faults in other runs, and a repair of steps 5 and 6."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy
import torch
from torch import Tensor

from helpers.kit.diagnosis import made_alike
from helpers.kit.exercise import (
    Exercise,
    Seen,
    by_name,
    counted_only,
    expect,
    floats,
    noise,
    prefix_mask,
    sizes,
)
from helpers.kit.judge import exercise, judge
from helpers.kit.recorded import either_deviation
from helpers.kit.report import CORRECT, NOT_ATTEMPTED, Report, counted, kind_of
from helpers.kit.running import attempt
from helpers.lessons.debugging.diagnose import RULES, diagnose
from helpers.lessons.debugging.figures import BY_KEY
from helpers.lessons.debugging.study import load_clinic
from helpers.studies.runs import Run

SEEN, UNSEEN = (0, 1, 2), (3, 4, 5)
SECRET = ("gold", "grammatical", "flattery")  # what people wanted: no run of real life records it
READABLE = tuple(BY_KEY)
MISSED = "clip_max", "top_k_raw"  # not flagged by `diagnose` on all unseen seeds; a test holds it


class Record(dict):
    """The metrics of one iteration. Wrong: another one is asked for."""

    def __missing__(self, name: str):
        says = "A rule may not use what people wanted; no run of real life records it."
        expect(name not in SECRET, "the gold score", says)
        says = f"There is no metric {name!r}: the twelve are {', '.join(READABLE)}."
        expect(False, "another metric", says)


@cache
def recorded_runs() -> list[Run]:
    """The clinic's runs, with the metrics that a rule may read. FileProblem: missing or damaged."""
    runs = load_clinic().runs
    return [
        replace(run, history=[{k: r[k] for k in READABLE} for r in run.history]) for run in runs
    ]


def alarm(rule: Callable, run: Run) -> bool | None:
    """What a rule says of a run; None where it is not written. Wrong: it says neither True nor False."""
    history = [Record(record) for record in run.history]
    try:
        answer = rule(history)
    except NotImplementedError:
        return None
    expect(history == run.history, "inputs changed", "You changed the history; only read it.")
    if isinstance(answer, Tensor) and answer.numel() == 1 and answer.dtype == torch.bool:
        answer = bool(answer)
    shown = repr(answer) if len(repr(answer)) <= 40 else f"{repr(answer)[:39]}…"
    says = f"You return {shown}, {kind_of(answer)}. Return True or False: compare the number."
    says = "You return None: is there a `return` on every path?" if answer is None else says
    expect(isinstance(answer, (bool, numpy.bool_)), "wrong type", says)
    return bool(answer)


def said(rule: Callable) -> dict[tuple[str, int], bool]:
    """What a rule says of each run, by kind and seed. NotImplementedError: nothing."""
    found = {(run.kind, run.config.seed): alarm(rule, run) for run in recorded_runs()}
    missing = [x is None for x in found.values()]
    if all(missing):
        raise NotImplementedError
    says = "Some runs still reach the stub's `return NotImplemented`. Return True or False there."
    expect(not any(missing), "half a stub", says)
    return found


def healthy(kind: str) -> bool:
    """Whether runs of this kind have no fault."""
    return kind.startswith("healthy")


def found_by(alarms: dict) -> list[str]:
    """The faults that are found on all unseen seeds."""
    kinds = dict.fromkeys(kind for kind, _ in alarms if not healthy(kind))
    return [kind for kind in kinds if all(alarms[kind, seed] for seed in UNSEEN)]


@cache
def flagged_runs() -> dict[str, set[tuple[str, int]]]:
    """The runs on which each rule of `diagnose` raises its flag, by kind and seed."""
    runs = recorded_runs()
    names = {
        (run.kind, run.config.seed): {flag.name for flag in diagnose(run.history)} for run in runs
    }
    return {rule.name: {key for key in names if rule.name in names[key]} for rule in RULES}


def copied(alarms: dict) -> str:
    """The rule of `diagnose` that shares four fifths of its alarms with these, or ""."""
    mine = {key for key, says in alarms.items() if says}
    alike = {name: len(mine & runs) / len(mine | runs) for name, runs in flagged_runs().items()}
    nearest = max(alike, key=alike.get)
    return nearest if alike[nearest] >= 0.8 else ""


def observe_rule(rule: Callable) -> Seen:
    """Wrong: it calls a healthy run on unseen seeds ill, finds no fault on all of these, or copies a rule."""
    alarms = said(rule)
    well = {key: says for key, says in alarms.items() if healthy(key[0])}
    unseen = [key for key in well if key[1] in UNSEEN]
    false = [f"{kind} on seed {seed}" for kind, seed in unseen if well[kind, seed]]
    says = f"False alarms: {len(false)} of {len(unseen)} healthy runs on seeds 3 to 5, such as"
    says += f" {', '.join(false[:3])}. There are some on seeds 0 to 2, too: look there."
    before = any(says for (_, seed), says in well.items() if seed in SEEN)
    expect(not (false and before), "false alarms", says)
    says = says.replace("are some on seeds 0 to 2, too: look there", "is none on seeds 0 to 2")
    says += "; is a limit too near to the runs it was chosen on? One at exactly 0 may: rounding crosses it."
    expect(not false, "fitted to the seen seeds", says)
    says = "No fault is found on all three of seeds 3 to 5."
    expect(bool(found_by(alarms)), "not on every seed", says)
    twin = copied(alarms)
    says = f"It raises nearly the same alarms as the rule “{twin}” above. Look for another sign."
    expect(not twin, "a rule that is there already", says)
    return {}


def worth(rule: Callable) -> str:
    """Which faults a right rule finds on seeds 3 to 5."""
    alarms = said(rule)
    found = found_by(alarms)
    well = sum(healthy(kind) and seed in UNSEEN for kind, seed in alarms)
    says = f"False alarms: 0 of {well} healthy runs on seeds 3 to 5. Found on all three of them: "
    says += f"{', '.join(found)}." + " One fault alone: the sharpest kind." * (len(found) == 1)
    more = ", ".join(kind for kind in found if kind in MISSED)
    if more:
        says += f" You found what the rules miss: `diagnose` does not find {more} on all three."
    return says


check_my_rule = exercise(
    """\
def my_rule(history):
    errors = [record["first_ratio_error"] for record in history]
    return errors[0] < 1e-3 and max(errors) > 1e-3  # right at first, wrong later: against the reference
""",
    "True for what looks wrong: no alarm for a healthy run, one fault found on all three seeds, no copy",
    [()],
    observe=observe_rule,
    seconds=10.0,
    remark=worth,
)

# --- the repair -----------------------------------------------------------------------------------

SETTINGS = 0.3, 0.97, 0.8  # β, γ and λ away from the defaults, so that one that is not used shows


def inputs(seed: int, width: int, *lengths: int) -> tuple:
    """Random arguments; values are 0 on padding, as in the loop."""
    mask, shape = prefix_mask(width, *lengths), (len(lengths), width)
    pair = -noise(seed, *shape).abs(), -noise(seed + 1, *shape).abs()
    values = torch.where(mask, noise(seed + 2, *shape), 0.0)
    return 2 * noise(seed + 3, len(lengths)), *pair, values, mask, *SETTINGS


SHORT = (
    torch.tensor([2.0, 1.0]),
    floats([-1.0, -0.5, -2.0, 3.0], [-1.0, -2.0, -1.0, -1.0]),
    floats([-1.5, -1.5, -0.5, 1.0], [-2.0, -2.0, -1.5, -0.5]),
    floats([0.5, 1.0, 1.5, 0.0], [1.0, 0.0, -1.0, 0.5]),
    prefix_mask(4, 3, 4),
    *SETTINGS,
)
BATCH = inputs(1, 6, 3, 6, 5)
SMALL = (0.1 * BATCH[0], *BATCH[1:3], 0.1 * BATCH[3], BATCH[4], 0.1 * BATCH[5], *BATCH[6:])


def observe_credit(function: Callable, *given: object) -> Seen:
    """Rewards; advantages, by either standard deviation, and returns where they count; padding."""
    names, mask = ("rewards", "advantages", "returns"), given[4]
    rewards, advantages, returns = answer = tuple(by_name(names, function(*given)).values())
    pads = [
        x[~mask].abs().max() if isinstance(x, Tensor) and x.shape == mask.shape else x
        for x in answer[1:]
    ]
    return {
        "rewards": rewards,
        "returns": counted_only(returns, mask),
        "advantages": either_deviation(counted_only(advantages, mask), mask),
        "advantages on padding": pads[0],
        "returns on padding": pads[1],
    }


REPAIR = Exercise(
    """\
def steps_5_and_6(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam):
    rewards = torch.where(counted, -kl_coef * (logprobs - ref_logprobs), 0.0)
    rewards[torch.arange(len(scores)), counted.sum(dim=1) - 1] += scores  # not on a pad

    advantages = torch.zeros_like(rewards)
    running = following = torch.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * following - values[:, t]  # γ was missing
        running = delta + gamma * lam * running
        advantages[:, t], following = running, values[:, t]

    returns = (advantages + values) * counted  # before whitening
    mean = (advantages * counted).sum() / counted.sum()
    variance = ((advantages - mean) ** 2 * counted).sum() / (counted.sum() - 1)
    advantages = (advantages - mean) / (variance + 1e-8).sqrt() * counted
    return rewards, advantages, returns
""",
    "rewards: −β·(logprobs − ref_logprobs), + score on the last counted token; advantages: δ = r + γV' − V,"
    " A = δ + γλA', whitened over counted tokens; returns: A + V with A as it was before whitening",
    [SHORT, BATCH],
    """\
the score stands on a pad: The score stands in the last column, and padding is set to 0: only responses that
 fill all columns keep theirs. Its place is each row's last counted token.
- rewards[torch.arange(len(scores)), counted.sum(dim=1) - 1] += scores
+ rewards[:, -1] += scores * counted[:, -1]
no γ in δ: Your advantages lack γ in one place. This check has γ = 0.97: look at each place where γ should
 stand.
- gamma * following
+ following
returns of whitened advantages: Your returns are whitened advantages + values. They are targets in reward
 units: form them before you whiten.
- return rewards, advantages, returns
+ return rewards, advantages, (advantages + values) * counted
the score twice: Responses that fill all columns get the score twice: is the line that adds it to the last
 column still there?
-   # not on a pad
+ ; rewards[:, -1] += scores * counted[:, -1]
""",
    results=("rewards", "returns", "advantages"),
    observe=observe_credit,
    further=[
        ("scores, values and kl_coef are 10 times smaller: whitening has no lower limit", SMALL),
        ("a response has one token", inputs(5, 4, 1, 4, 2)),
        *sizes(BATCH, token=False, row=False),
    ],
)
as_found = REPAIR.edited(*REPAIR.mistakes[:3])  # the function as the lesson gives it
right = REPAIR.right
AS_FOUND = "steps_5_and_6 is as it was found. Repair it and run the cell again."


def check_steps_5_and_6(function: Callable) -> Report:
    """Check your repaired `steps_5_and_6`."""
    report = judge(REPAIR, function)
    if callable(function) and report.status != CORRECT and as_it_was_found(function):
        report = Report(REPAIR.name, NOT_ATTEMPTED, "")
    return replace(report, message=AS_FOUND) if report.status == NOT_ATTEMPTED else counted(report)


check_steps_5_and_6.exercise = REPAIR


def given(function: Callable) -> Seen | None:
    """What a function gives on the larger case; None where it fails."""
    return attempt(lambda: REPAIR.seen(function, BATCH), 1.0)[0]


def as_it_was_found(function: Callable) -> bool:
    """Whether it gives what the function as found gives."""
    mine = given(function)
    return mine is not None and made_alike([mine], [given(as_found)], list(mine))


def trainable(function: Callable) -> Callable | None:
    """The function, or None if it fails, gives no three tensors, or gives what the run as found gave."""
    seen = given(function) if callable(function) else None
    found = [x for name, x in (seen or {}).items() if name in REPAIR.results]
    shaped = (isinstance(x, Tensor) and x.shape == BATCH[4].shape for x in found)
    fit = len(found) == 3 and all(shaped) and all(bool(x.isfinite().all()) for x in found)
    return function if fit and not as_it_was_found(function) else None
