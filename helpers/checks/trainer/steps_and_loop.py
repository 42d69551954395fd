"""Checks of notebook 06: seven steps and a loop; the first that is wrong is named, and how.

What a function gives on the recorded inputs (`trainer_inputs`) is compared with what the course's
function gives, and where they differ, with what well-known wrong versions give (`mistakes.py`).
"""

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import torch

from helpers.checks.gae.credit_mistakes import advantages_with, biased, read_values
from helpers.checks.judging.model_calls import calls_made, check_call
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED, Report
from helpers.checks.rollouts.cached_sampling import observe_cached
from helpers.checks.trainer.course_steps import NAMES, write_responses
from helpers.checks.trainer.further import then_advantages, then_rewards
from helpers.checks.trainer.inputs import Seen, Wrong, ask, expect, no_graph, recorded, tensors
from helpers.checks.trainer.loop import observe_train
from helpers.checks.trainer.mistakes import MISTAKES
from helpers.checks.trainer.probes import cause_logprobs, cause_scores, then_logprobs, then_scores
from helpers.checks.trainer.reward_probes import name_credit, name_rewards
from helpers.checks.trainer.sampling import observe_prompts, observe_sampling
from helpers.checks.trainer.sampling_looks import cause_sampling, then_sampling
from helpers.checks.trainer.scored_texts import observe_scores
from helpers.checks.trainer.step_judge import TIME_LIMIT, Step, judge_step, mistaken
from helpers.checks.trainer.update import observe_minibatches, observe_update
from helpers.checks.trainer.update_mistakes import UPDATE_MISTAKES
from helpers.checks.trainer.update_probes import cause_update, then_update


def observe_logprobs(function: Callable) -> Seen:
    """Log-probs of counted tokens, and their gradient in one matrix of the policy."""
    r = recorded()
    policy = r.parts.actor
    with torch.enable_grad():
        answer = ask(function, policy, r.ids, r.mask, r.length, r.config.temperature)
        (logprobs,) = tensors(answer, ("log-probs [B, T]",), tuple(r.counted.shape))
        seen = {"log-probs": torch.where(r.counted, logprobs, 0.0).detach()}
        with torch.no_grad():
            seen |= other_logprobs(function, r)
        says = (
            "No gradient reaches the policy, so the update could not train it. Do not use no_grad,"
        )
        says += " .detach() or .item() here; the loop turns gradients off where none is wanted."
        expect(logprobs.requires_grad, "no gradient", says)
    return seen


def other_logprobs(function: Callable, r) -> Seen:
    """Log-probs of unlikely tokens, as a low temperature makes them, and of a single row."""
    seen = {}
    for what, rows, temperature in (
        ("log-probs at temperature 0.1, where most tokens are very unlikely", 6, 0.1),
        ("log-probs of a batch of one row", 1, r.config.temperature),
    ):
        given = r.parts.actor, r.ids[:rows], r.mask[:rows], r.length, temperature
        (found,) = tensors(ask(function, *given), (what,), tuple(r.counted[:rows].shape))
        seen[what] = torch.where(r.counted[:rows], found, 0.0).detach()
    return seen


def observe_rewards(function: Callable) -> Seen:
    """Rewards, where log-probs on padding are garbage."""
    r = recorded()
    given = r.scores, r.logprobs, r.ref_logprobs, r.counted, r.config.kl_coef
    (rewards,) = tensors(ask(function, *given), ("rewards [B, T]",), tuple(r.counted.shape))
    return {"rewards": rewards.detach()}


def cause_advantages(function: Callable) -> None:
    """What the critic is given; then the lines of step 6."""
    r = recorded()
    given = r.parts.critic, r.ids, r.mask, r.rewards

    def found(gamma, lam):
        with torch.no_grad():
            return function(*given, gamma, lam)

    setting = r.config.gamma, r.config.lam
    for call in calls_made(r.parts.critic, lambda: found(*setting))[-1:]:
        check_call(call, r.mask, "the critic")
    values = torch.where(r.counted, found(*setting)[0], 0.0)
    right = read_values(r.parts.critic, r.ids, r.mask, r.length).detach()
    check_values(values, torch.where(r.counted, right, 0.0))
    name_credit(lambda gamma, lam: found(gamma, lam)[1:], r.rewards, values, r.counted)


def check_values(values: torch.Tensor, right: torch.Tensor) -> None:
    """Wrong: values of the critic that are another row's, or another column's."""
    close = torch.isclose(values.double(), right.double(), 1e-4, 1e-5)
    if bool(close.all()):
        return
    row = int((~close).any(1).nonzero()[0])
    says = f"Your values are wrong, first in row {row}. They are the critic's"
    says += " logits of the same row, [:, -T-1:-1], times counted."
    raise Wrong("values", says, values[row], right[row])


def observe_advantages(function: Callable) -> Seen:
    """Values, advantages and returns of counted tokens."""
    r = recorded()
    given = r.parts.critic, r.ids, r.mask, r.rewards, r.config.gamma, r.config.lam
    with torch.enable_grad():
        answer = ask(function, *given)
    names = "values", "advantages", "returns"
    found = tensors(answer, names, tuple(r.counted.shape))
    no_graph(**dict(zip(names, found, strict=True)))
    seen = {n: torch.where(r.counted, x, 0.0) for n, x in zip(names, found, strict=True)}
    return {name: seen[name] for name in ("values", "returns", "advantages")}


STEPS = {
    step.name: step
    for step in (
        Step("draw_prompts", "batch_size different prompts, at random (step 1; notebook 00)",
             observe_prompts),
        Step("write_responses", "token ~ softmax(logits / T); True up to and including the first stop"
             " token; log-prob of each token drawn (step 2; notebook 01)", observe_sampling,
             then=then_sampling, cause=cause_sampling),
        Step("score_responses", "reward(texts), prompt and response together (step 3; notebook 05)",
             observe_scores, MISTAKES["score_responses"], then=then_scores, cause=cause_scores),
        Step("forward_logprobs", "log softmax(logits / temperature) at each token of the response,"
             " read at the token before (step 4; notebook 01)", observe_logprobs,
             MISTAKES["forward_logprobs"], by_first=True, then=then_logprobs, cause=cause_logprobs),
        Step("total_rewards", "−β·(logprobs − ref_logprobs) on counted tokens, + score on the last"
             " (step 5; notebook 02)", observe_rewards, MISTAKES["total_rewards"], then=then_rewards,
             cause=name_rewards),
        Step("estimate_advantages", "δ = r + γV' − V, A = δ + γλA', returns = A + V, then whiten A"
             " (step 6; notebooks 02, 03)", observe_advantages, MISTAKES["estimate_advantages"],
             (advantages_with(change=biased),), by_first=True, then=then_advantages,
             cause=cause_advantages),
        Step("update", "−mean min(ρA, clip(ρ)A) + vf_coef·½·mean max((V − R)², (clip(V) − R)²)"
             " (step 7; notebook 04)", observe_update, UPDATE_MISTAKES,
             more=observe_minibatches, then=then_update, cause=cause_update),
        Step("sample_with_cache", "one forward for the prompt, then one for each new token; the mask of"
             " all tokens, the position of the new one (notebook 01)", observe_cached,
             own=write_responses, then=then_sampling),
        Step("train", "draw, write, score, compare, reward, credit, update; again (notebook 00)",
             observe_train),
    )
}  # fmt: skip


def judge(name: str, function: Callable, seconds: float = TIME_LIMIT) -> Report:
    """The report on one function; it is a report whatever the function does."""
    return _or_blame(STEPS[name], function, judge_step(STEPS[name], function, seconds))


def called_steps(function: Callable) -> list[str]:
    """The other steps that a learner's function calls by name, of those in its own notebook."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    found = dis.get_instructions(code) if code else ()
    names = {one.argval for one in found if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return [name for name in NAMES if name in names and name != "train"]


def _or_blame(step: Step, function: Callable, report: Report) -> Report:
    """The same report, unless a step that this one calls is at fault."""
    if report.status != MISTAKE or step.name == "train":
        return report
    for name in called_steps(function):
        other = getattr(inspect.unwrap(function), "__globals__", {}).get(name)
        if name == step.name or other is None:
            continue
        judged = judge(name, other)
        if judged.status != CORRECT:
            words = {NOT_ATTEMPTED: "not written yet"}.get(judged.status, "not right yet")
            says = f"It calls {name}, which is {words}: finish that one first."
            return mistaken(step, f"{name} comes first", says)
    return report


def step_checker(name: str) -> Callable[..., Report]:
    """The function `check_<step>`."""

    def check(function: Callable, seconds: float = TIME_LIMIT) -> Report:
        return judge(name, function, seconds)

    check.__name__ = check.__qualname__ = f"check_{name}"
    check.__doc__ = f"Check your `{STEPS[name].signature}` on recorded inputs."
    return check


check_draw_prompts, check_write_responses = (
    step_checker("draw_prompts"),
    step_checker("write_responses"),
)
check_score_responses, check_forward_logprobs = (
    step_checker("score_responses"),
    step_checker("forward_logprobs"),
)
check_total_rewards, check_estimate_advantages = (
    step_checker("total_rewards"),
    step_checker("estimate_advantages"),
)
check_update, check_train = step_checker("update"), step_checker("train")
check_sample_with_cache = step_checker("sample_with_cache")


# --- the whole trainer ----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class TrainerReport:
    """The reports on all eight functions, in the order of the steps."""

    reports: tuple[Report, ...]

    @property
    def first(self) -> Report | None:
        """The first function that is wrong; None if none is."""
        return next((report for report in self.reports if report.status == MISTAKE), None)

    @property
    def status(self) -> str:
        """ "correct" if all are, "mistake" if one is wrong, else "not attempted"."""
        if self.first is not None:
            return MISTAKE
        return CORRECT if not self.missing else NOT_ATTEMPTED

    @property
    def missing(self) -> list[str]:
        """Names of the functions that are not written yet."""
        return [report.exercise for report in self.reports if report.status == NOT_ATTEMPTED]

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.first is not None:
            return f"The first that is not right is {self.first.exercise}; what you wrote before it is."
        if not self.missing:
            return "On the recorded inputs all eight do what the course's own do. Train with them."
        if len(self.missing) == len(self.reports):
            return "Not attempted yet: the lesson goes on with the course's own functions."
        return f"Not attempted yet: {', '.join(self.missing)}. The others are right."

    def __str__(self) -> str:
        lines = [f"{number} {report.title}" for number, report in enumerate(self.reports, start=1)]
        more = [str(self.first)] if self.first is not None else []
        return "\n".join([*lines, self.verdict, *more])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{escape(report.title)}</li>" for report in self.reports)
        more = self.first._repr_html_() if self.first is not None else ""
        return f'<ol style="margin:4px 0">{rows}</ol><p>{escape(self.verdict)}</p>{more}'


def as_functions(functions: object) -> dict[str, Callable]:
    """A trainer as a dict: from a dict, or from functions in a list, by their names."""
    if isinstance(functions, dict):
        return {name: functions[name] for name in NAMES if name in functions}
    named = {getattr(f, "__name__", ""): f for f in functions}
    return {name: named[name] for name in NAMES if name in named}


def check_trainer(functions: object) -> TrainerReport:
    """Check all functions of a trainer, step by step; the first wrong one is explained.

    After a wrong one the rest is still checked, so that all that is right is ticked.
    """
    given = as_functions(functions)
    return TrainerReport(tuple(judge(name, given.get(name)) for name in NAMES))


def right_ones(functions: object) -> dict[str, Callable]:
    """Those functions of a trainer that pass; the course's own can stand in for the others."""
    given = as_functions(functions)
    return {name: f for name, f in given.items() if judge(name, f).status == CORRECT}
