"""Notebook 06, step 7: second looks at an update whose gradients are right, and causes of wrong ones."""

from collections.abc import Callable
from types import SimpleNamespace

import torch

from helpers.checks.judging.model_calls import calls_made, check_call
from helpers.checks.trainer.course_steps import COURSE
from helpers.checks.trainer.inputs import Seen, expect, recorded
from helpers.checks.trainer.update import run_update

SETTINGS = {  # other values, for which gradients change
    "max_grad_norm": 0.02, "vf_coef": 0.7, "cliprange": 0.02, "cliprange_value": 0.05, "temperature": 1.4,
}  # fmt: skip
TENSORS = ("logprobs", "values", "advantages", "returns")


def with_old(r: SimpleNamespace, **changed) -> SimpleNamespace:
    """The recorded rollout with other tensors."""
    return SimpleNamespace(**vars(r) | {"old": r.old | changed})


def changed(r: SimpleNamespace, **settings):
    """The recorded settings for one gradient step, some of them changed."""
    return type(r.config)(**r.config.as_dict() | {"num_ppo_epochs": 1} | settings)


def step(function: Callable, r: SimpleNamespace, config, rows: int = 6) -> torch.Tensor:
    """The gradient of the first step, of actor and critic together."""
    recorder, _ = run_update(function, r, config, lr=0.0, rows=rows)
    says = "On a further rollout you made no gradient step. Is there an early stop?"
    expect(bool(recorder.seen), "no optimizer.step", says)
    return torch.cat(recorder.seen[0])


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal gradients, up to rounding."""
    return bool((one - other).norm() <= 2e-3 * other.norm() + 1e-7)


def then_update(function: Callable) -> Seen:
    """Ratios far from 1; then a minibatch of two responses."""
    r = recorded()
    noise = torch.randn(r.counted.shape, generator=torch.Generator().manual_seed(8))
    far = with_old(r, logprobs=torch.where(r.counted, r.old["logprobs"] + 2 * noise, -3.0))
    config = changed(r)
    says = "All is right until ratios are far from 1, such as 10: there your gain is not min(ρA, clip(ρ)·A)."
    says += " Is there a second limit?"
    expect(
        close(step(function, far, config), step(COURSE["update"], far, config)),
        "large ratios",
        says,
    )
    then_extremes(function, r)
    check_minibatch(function, r)
    return {}


def same_step(function: Callable, r: SimpleNamespace, config) -> bool:
    """Whether the first step has the gradient of the course's own."""
    return close(step(function, r, config), step(COURSE["update"], r, config))


def then_extremes(function: Callable, r: SimpleNamespace) -> None:
    """Wrong: very unlikely tokens, large errors of the critic, responses of one token."""
    config = changed(r, temperature=0.02)
    with torch.no_grad():
        given = r.shallow.actor, r.ids, r.mask, r.length, config.temperature
        now = COURSE["forward_logprobs"](*given)
    unlikely = with_old(r, logprobs=torch.where(r.counted, now - 0.1, -3.0))
    least = float(now[r.counted].min())
    says = f"All is right until tokens are very unlikely (one has log-prob {least:.0f})"
    says += (
        ". Is exp taken of each (it is 0 there, and 0/0 NaN), or something clamped? Subtract the log-probs,"
        " then take one exp."
    )
    expect(same_step(function, unlikely, config), "very unlikely tokens", says)
    far = with_old(r, returns=torch.where(r.counted, r.old["returns"] * 30 + 40, 6.0))
    says = "All is right until the critic's errors are large, such as 40: the loss is their square. Is it"
    says += " bent (Huber), or are returns clipped?"
    expect(same_step(function, far, changed(r)), "large errors of the critic", says)
    end = r.ids.shape[1] - r.length + 1
    short = {name: x[:, :1] for name, x in r.old.items()}
    one = SimpleNamespace(
        **vars(r) | {"ids": r.ids[:, :end], "mask": r.mask[:, :end], "old": short}
    )
    says = "All is right until responses have one token: is the tokens' axis dropped too"
    says += " (squeeze() without an axis), so that [B] meets [B, 1]? Say which: squeeze(-1)."
    expect(same_step(function, one, changed(r)), "responses of one token", says)


def check_minibatch(function: Callable, r: SimpleNamespace) -> None:
    """Wrong: the first of two minibatches has another gradient than its responses alone, or the second."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    recorder, _ = run_update(function, r, changed(r, minibatch_size=2), lr=0.0, rows=3)
    got, later = (torch.cat(seen) for seen in recorder.seen[:2])
    alone = []
    for rows in [*pairs, (0,), (1,), (2,)]:
        one = SimpleNamespace(**vars(r))
        one.ids, one.mask = r.ids[list(rows)], r.mask[list(rows)]
        one.old = {name: x[list(rows)] for name, x in r.old.items()}
        alone.append(step(COURSE["update"], one, changed(r, minibatch_size=len(rows))))
    says = "With one minibatch all is right; of a smaller minibatch the gradient is not. Are its means over"
    says += " its own counted tokens? Neither the whole rollout's nor minibatch_size belongs below."
    expect(any(close(got, right) for right in alone), "the mean of a minibatch", says)
    says = "The first minibatch's gradient is right; that of the second holds the first one's too. Call"
    says += " zero_grad before each backward, not once an epoch."
    added = any(close(later - got, right) for right in alone)
    expect(not added, "gradients of the minibatch before are kept", says)
    says = "The first minibatch's gradient is right, the second one's is not. Is something kept from it?"
    expect(any(close(later, right) for right in alone), "the second minibatch", says)


def cause_update(function: Callable) -> None:
    """What the models are given; then which settings and which tensors have no effect."""
    r = recorded()
    config = changed(r)
    for role in ("actor", "critic"):
        calls = []

        def kept(actor, critic, optimizer, rollout, config, role=role, calls=calls):
            model = {"actor": actor, "critic": critic}[role]
            calls += calls_made(model, lambda: function(actor, critic, optimizer, rollout, config))

        run_update(kept, r, config)
        for call in calls[:1]:
            check_call(call, mask_of(call.ids, r), f"the {role}")
    mine = step(function, r, config)
    for name, value in SETTINGS.items():
        other = changed(r, **{name: value})
        says = f"config.{name} has no effect. Is a number written in its place"
        says += ", or are the gradients clipped after the step?" if name == "max_grad_norm" else "?"
        expect(not close(step(function, r, other), mine), f"{name} not used", says)
    for name in TENSORS:
        moved = with_old(r, **{name: torch.where(r.counted, r.old[name] * 0.7 - 0.3, r.old[name])})
        says = f"The rollout's {name} have no effect on your gradient."
        expect(not close(step(function, moved, config), mine), f"{name} not used", says)
    name_rows(function, r, mine)


def mask_of(ids: torch.Tensor, r: SimpleNamespace) -> torch.Tensor:
    """The masks of these rows of the recorded rollout."""
    rows = [int((r.ids == row).all(1).nonzero()[0]) for row in ids]
    return r.mask[rows]


def name_rows(function: Callable, r: SimpleNamespace, mine: torch.Tensor) -> None:
    """Wrong: the loss depends on how the responses are shuffled, so rows are mixed up."""
    config = changed(r)
    again = [step(function, r, config) for _ in range(2)]
    says = "Each shuffling gives another gradient of the same whole batch: is one of the tensors not taken"
    says += " by the same rows as the others (x[rows], for each of the six), or something random?"
    expect(all(close(one, mine) for one in again), "rows mixed up", says)
