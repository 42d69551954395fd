"""Further looks at the update of notebook 04: other settings, each minibatch's gradient, masks, no step."""

import copy
from collections.abc import Callable

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from helpers.checks.judging.exercise import kept
from helpers.checks.trainer.course_steps import COURSE
from helpers.checks.trainer.inputs import recorded
from helpers.checks.trainer.logprob_mistakes import logprobs_with
from helpers.checks.trainer.update import Recorder, rows_seen, run_update
from helpers.checks.trainer.update_mistakes import smaller_gain, update_with

Found = tuple[str, str] | None
OTHER = {
    "vf_coef": 0.7, "cliprange": 0.03, "cliprange_value": 0.04, "temperature": 1.4, "max_grad_norm": 0.02,
}  # fmt: skip
HIGH = 1e9  # a max_grad_norm that clips nothing


def settings(**other) -> object:
    """The recorded config with other settings, for one epoch of the whole batch if not said otherwise."""
    config = recorded().config
    whole = {"num_ppo_epochs": 1, "max_grad_norm": HIGH}
    return type(config)(**config.as_dict() | whole | other)


def first_gradient(function: Callable, config) -> torch.Tensor | None:
    """The gradient of actor and critic at the first step; None if there is no step."""
    seen = run_update(function, recorded(), config)[0].seen
    return torch.cat(seen[0]) if seen else None


def apart(got: torch.Tensor | None, want: torch.Tensor) -> bool:
    """Whether two gradients differ."""
    return got is None or bool((got - want).norm() > 2e-3 * want.norm() + 1e-7)


def other_settings(function: Callable) -> Found:
    """A look at an update that passed: is one of the settings a number written in?"""
    config = settings(**OTHER)
    if not apart(first_gradient(function, config), first_gradient(COURSE["update"], config)):
        return None
    for name, value in OTHER.items():
        config = settings(**{name: value})
        if apart(first_gradient(function, config), first_gradient(COURSE["update"], config)):
            return f"wrong at another {name}", (
                f"Right at the course's settings, wrong at config.{name} = {value:g}: is a number written in"
                f" where config.{name} belongs, or does what it sets act in part only?"
            )
    return None


def each_minibatch(function: Callable) -> Found:
    """A look at an update that passed: is every minibatch's gradient that of its own mean loss?"""
    r, config = recorded(), settings(minibatch_size=2)
    recorder, forwards = run_update(function, r, config, lr=0.0, rows=5)
    order = rows_seen(forwards, r, len(recorder.seen))
    for rows, seen in zip(order or [], recorder.seen, strict=False):
        want, got = course_gradient(list(rows)), torch.cat(seen)
        if not apart(got, want):
            continue
        size = float(got @ want / (want @ want))
        if not apart(got, size * want):
            return "minibatches weighed", (
                f"A minibatch of {len(rows)} responses has a gradient {size:.3g} times what it should be:"
                " each minibatch's loss is a mean of its own, not weighed by its size or divided once more."
            )
        return "another gradient in a minibatch", (
            f"Right for the whole batch, wrong for the minibatch of responses {list(rows)}: what is taken"
            " from the whole batch, or from other rows?"
        )
    return None


def every_step_clipped(function: Callable) -> Found:
    """A look at an update that passed: is the gradient of each step clipped, not only of the first?"""
    limit = OTHER["max_grad_norm"]
    config = settings(minibatch_size=2, max_grad_norm=limit)
    recorder, _ = run_update(function, recorded(), config, lr=0.0, rows=5)
    long = [
        step for step, seen in enumerate(recorder.seen, 1) if torch.cat(seen).norm() > 1.01 * limit
    ]
    if not long:
        return None
    return "not every step clipped", (
        f"Step {long[0]} is made with a gradient longer than max_grad_norm. Clip before each step; parameters"
        " in a generator are used up by the first clip: make a list of them."
    )


def course_gradient(rows: list[int]) -> torch.Tensor:
    """The course's gradient for these responses."""
    r, config = recorded(), settings(minibatch_size=len(rows))
    actor, critic = copy.deepcopy(r.shallow.actor), copy.deepcopy(r.shallow.critic)
    recorder = Recorder(actor, critic, lr=0.0)
    rollout = tuple(x[rows].clone() for x in (r.ids, r.mask, *r.old.values()))
    with torch.enable_grad():
        COURSE["update"](actor, critic, recorder, rollout, config)
    return torch.cat(recorder.seen[0])


def no_step(function: Callable) -> Found:
    """Why the given optimizer makes no step: another one does, or the last minibatch is skipped."""
    steps = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: steps.append(type(optimizer)))
    try:
        run_update(function, recorded(), settings())
    finally:
        hook.remove()
    if any(kind is not Recorder for kind in steps):
        return "an optimizer of its own", (
            "Steps are made by an optimizer of your own: use the one that is given. It keeps its moments and"
            " its learning rate from update to update."
        )
    recorder, _ = run_update(function, recorded(), settings(minibatch_size=2), lr=0.0, rows=5)
    if len(recorder.seen) == 2:
        return "a minibatch is skipped", (
            "One minibatch of each epoch gets no step (the last, or the first?): where there is one"
            " alone, there is none at all."
        )
    return "no optimizer.step", (
        "There was no optimizer.step(): it is missing, or never reached (a break, a condition, an empty"
        " loop)."
    )


def attention(function: Callable) -> Found:
    """Whether the actor reads the padding, or leaves tokens out."""
    r, sums = recorded(), []

    def note(model, arguments, named):
        mask = named.get("attention_mask", arguments[1] if len(arguments) > 1 else None)
        if torch.is_grad_enabled():
            sums.append(None if mask is None else int(mask.sum()))

    hook = r.shallow.actor.register_forward_pre_hook(note, with_kwargs=True)  # its copies keep it
    try:
        run_update(function, r, settings(), lr=0.0)
    finally:
        hook.remove()
    if len(sums) == 1 and (sums[0] is None or sums[0] > int(r.mask[:6].sum())):
        return "padding attended to", (
            "Your policy reads the padding: hand it query_mask and response_mask, which are 0 there."
        )
    return None


def extra_term(function: Callable) -> Found:
    """Whether the actor's gradient is the right one and that of a well-known further term."""
    r, config = recorded(), settings()
    size = sum(p.numel() for p in r.shallow.actor.parameters())
    got, want = (first_gradient(f, config) for f in (function, COURSE["update"]))
    if got is None or apart(got[size:], want[size:]):
        return None
    over = got[:size] - want[:size]
    ids, mask, old = r.ids, r.mask, r.old["logprobs"]
    counted = mask.bool()[:, -old.shape[1] :]
    for words, term in TERMS.items():
        actor = copy.deepcopy(r.shallow.actor)
        with torch.enable_grad():
            new = logprobs_with(first=1)(actor, ids, mask, old.shape[1], config.temperature)
            slopes = torch.autograd.grad(
                term((new - old)[counted], new[counted]),
                list(actor.parameters()),
                allow_unused=True,
            )
        flat = [torch.zeros_like(p) if g is None else g
                for g, p in zip(slopes, actor.parameters(), strict=True)]  # fmt: skip
        slope = torch.cat([g.flatten() for g in flat])
        factor = float(over @ slope / (slope @ slope))
        if not apart(factor * slope, over):
            return f"{words} in the loss", (
                f"The policy's loss holds {factor:.3g} times {words} more than it should: leave that out (the"
                " KL's price is in the rewards already, and there is no bonus)."
            )
    return None


TERMS = {
    "the mean log-prob of the tokens (an entropy bonus, or a KL)": lambda change, new: new.mean(),
    "the mean squared log-ratio (a KL)": lambda change, new: change.square().mean(),
    "ρ − 1 − log ρ (a KL)": lambda change, new: (change.exp() - 1 - change).mean(),
    "1/ρ − 1 + log ρ (a KL)": lambda change, new: ((-change).exp() - 1 + change).mean(),
    "log-prob times probability (an entropy)": lambda change, new: (new.exp() * new).mean(),
    "the mean ratio": lambda change, new: change.exp().mean(),
}


class Clears:
    """An optimizer whose zero_grad clears one model alone."""

    def __init__(self, optimizer, model):
        self.optimizer, self.model = optimizer, model

    def zero_grad(self):
        """Clear the gradients of one model."""
        self.model.zero_grad()

    def step(self):
        """Step as the optimizer does."""
        self.optimizer.step()


def clearing(which: int) -> Callable:
    """The update with the gradients of one model cleared: 0 the actor's, 1 the critic's."""

    def wrong(actor, critic, optimizer, rollout, config):
        model = (actor, critic)[which]
        update_with()(actor, critic, Clears(optimizer, model), rollout, config)

    return wrong


def scaled(policy: Callable, critic_weight: Callable) -> Callable:
    """The update with other factors in front of the two losses, made from the config."""

    def wrong(actor, critic, optimizer, rollout, config):
        times = policy(config)
        update_with(
            lambda rho, a, eps: times * smaller_gain(rho, a, eps),
            weight=lambda c: critic_weight(c) / 2,
        )(actor, critic, optimizer, rollout, config)

    return wrong


def critic_limit(actor, critic, optimizer, rollout, config):
    """The ratio clipped by `cliprange_value`."""
    other = type(config)(**config.as_dict() | {"cliprange": config.cliprange_value})
    update_with()(actor, critic, optimizer, rollout, other)


def returns_for_advantages(actor, critic, optimizer, rollout, config):
    """The policy learns from the returns, as the critic does."""
    *first, _, returns = rollout
    update_with()(actor, critic, optimizer, (*first, returns, returns), config)


MORE_MISTAKES = kept([
    ("the values' ε for the policy", "The ratio is clipped by `cliprange_value`; its limit is `cliprange`.",
     critic_limit),
    ("returns for advantages", "The policy learns from the returns; it learns from the advantages.",
     returns_for_advantages),
    ("vf_coef weighs the policy's loss", "vf_coef is the weight of the critic's loss; you multiply the"
     " policy's by it.", scaled(lambda c: c.vf_coef, lambda c: 1.0)),
    ("vf_coef weighs both losses", "vf_coef is the weight of the critic's loss alone; you multiply both"
     " by it.",
     scaled(lambda c: c.vf_coef, lambda c: c.vf_coef)),
    ("vf_coef squared", "vf_coef stands twice in front of the critic's loss.",
     scaled(lambda c: 1.0, lambda c: c.vf_coef**2)),
    ("divided by vf_coef", "You divide the critic's loss by vf_coef; multiply.",
     scaled(lambda c: 1.0, lambda c: 1 / c.vf_coef)),
    ("1 − vf_coef", "The policy's loss has the weight 1, not 1 − vf_coef.",
     scaled(lambda c: 1 - c.vf_coef, lambda c: c.vf_coef)),
    ("loss halved", "Your whole loss is half of what it should be. Is it divided by the number of epochs,"
     " here 2? Each epoch takes whole steps.", scaled(lambda c: 0.5, lambda c: c.vf_coef / 2)),
    ("loss divided by the minibatch size", "You divide the loss by minibatch_size; it is a mean over tokens"
     " already.", scaled(lambda c: 1 / c.minibatch_size, lambda c: c.vf_coef / c.minibatch_size)),
    ("no zero_grad, and gradients not clipped", "There is no zero_grad, and the gradient is not clipped.",
     update_with(zero_grad=False, clip=lambda p, size: None)),
    ("values not clipped, and ½ missing", "The critic's loss lacks its clip and its half.",
     update_with(error=lambda v, old, r, c: (v - r).square(), weight=lambda c: c.vf_coef)),
    ("values not clipped, and vf_coef missing", "The critic's loss lacks its clip and vf_coef.",
     update_with(error=lambda v, old, r, c: (v - r).square(), weight=lambda c: 0.5)),
    ("neither policy nor values clipped", "Neither the ratio nor the value is clipped.",
     update_with(gain=lambda r, a, e: r * a, error=lambda v, old, r, c: (v - r).square())),
    ("no temperature, and no clip of the gradient", "config.temperature and the clip to max_grad_norm are"
     " missing.", update_with(temperature=1.0, clip=lambda p, size: None)),
    ("old log-probs recomputed, and no clip", "Old log-probs are the rollout's; yours are the new ones;"
     " and the gradient is not clipped.",
     update_with(old=lambda new, old: new.detach(), clip=lambda p, size: None)),
    ("no zero_grad, and vf_coef missing", "There is no zero_grad, and no vf_coef.",
     update_with(zero_grad=False, weight=lambda c: 0.5)),
    ("vf_coef missing, and gradients not clipped", "There is no vf_coef, and the gradient is not clipped.",
     update_with(weight=lambda c: 0.5, clip=lambda p, size: None)),
    ("only the policy's gradients cleared", "The critic's gradients of the step before are never cleared.",
     clearing(0)),
    ("only the critic's gradients cleared", "The policy's gradients of the step before are never cleared.",
     clearing(1)),
])  # fmt: skip
