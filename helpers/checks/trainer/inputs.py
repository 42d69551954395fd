"""Recorded inputs for the checks of notebook 06, and how a learner's function is called on them.

Made from a seed with the shipped models: a rollout of responses of several lengths, an actor that has
moved away from the reference, a critic that is not 0, and garbage on the padding.
"""

import copy
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.checks.gae.credit_mistakes import read_values
from helpers.checks.judging.report import kind_of
from helpers.checks.judging.runner import differs, is_empty
from helpers.checks.trainer.course_steps import COURSE, trainer_config, trainer_parts
from helpers.checks.trainer.logprob_mistakes import all_logprobs, picked

# away from the defaults, so that each setting that is not used shows
SETTINGS = {
    "gamma": 0.97, "lam": 0.8, "temperature": 0.8, "response_length": 18, "kl_coef": 0.3,
    "cliprange": 0.15, "cliprange_value": 0.3, "vf_coef": 0.3, "minibatch_size": 6, "max_grad_norm": 1e6,
}  # fmt: skip
Seen = dict[str, Tensor]  # what a function gave, by name, in the order in which it is looked at


class Wrong(Exception):
    """A mistake that is seen without comparing numbers: name, message, two values."""

    def __init__(self, name: str, says: str, yours: object = None, expected: object = None):
        super().__init__(says)
        self.name, self.says, self.yours, self.expected = name, says, yours, expected


def expect(condition: bool, name: str, says: str, yours: object = None, expected=None) -> None:
    """Raise `Wrong` unless the condition holds."""
    if not condition:
        raise Wrong(name, says, yours, expected)


def nudge(model: nn.Module, size: float, generator: torch.Generator) -> nn.Module:
    """Add noise to every matrix, in place: a model that has been trained a little."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter += size * torch.randn(parameter.shape, generator=generator)
    return model


def first_layer(model: nn.Module) -> nn.Module:
    """A copy with one layer, whose gradients are quick to compute."""
    copied = copy.deepcopy(model)
    copied.transformer.h = copied.transformer.h[:1]
    return copied


def six_responses(parts: SimpleNamespace, config) -> tuple[Tensor, Tensor, Tensor]:
    """Six sampled responses, from the shortest to one that was cut at the limit."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        given = parts.actor, parts.tokenizer, parts.prompts[:48], config
        ids, mask, logprobs = COURSE["write_responses"](*given)
    order = mask[:, -logprobs.shape[1] :].sum(1).argsort(stable=True)
    rows = order[torch.linspace(0, len(order) - 1, 6).long()]
    return ids[rows], mask[rows], logprobs[rows]


@torch.no_grad()
def old_rollout(shallow, ids, mask, advantages, config, generator) -> dict[str, Tensor]:
    """What the update is given: the models have moved on since, so ratios are not 1 and clips bite.

    Padding holds garbage through which a gradient would flow if it were counted.
    """
    T = advantages.shape[1]
    counted = mask[:, -T:]
    every = all_logprobs(shallow.actor, ids, mask, config.temperature)
    now = picked(every[:, -T - 1 : -1], ids[:, -T:])
    values = read_values(shallow.critic, ids, mask, T)
    noise = torch.randn(3, *now.shape, generator=generator)
    return {
        "logprobs": torch.where(counted, now + 0.3 * noise[0], now - 0.1),
        "values": torch.where(counted, values + 0.4 * noise[1], 2.0),
        # whitened over more than this batch, so that whitening them again shows
        "advantages": torch.where(counted, 1.3 * advantages + 0.4, 3.0),
        "returns": torch.where(counted, values + noise[2], 6.0),
    }


@cache
def recorded() -> SimpleNamespace:
    """Models, settings and one rollout of six responses, from a seed."""
    parts, generator = trainer_parts(), torch.Generator().manual_seed(6)
    nudge(parts.actor, 0.02, generator), nudge(parts.critic, 0.02, generator)
    nn.init.normal_(parts.critic.lm_head.weight, std=0.1, generator=generator)
    config = trainer_config(**SETTINGS)
    ids, mask, logprobs = six_responses(parts, config)
    T = logprobs.shape[1]
    counted = mask[:, -T:]
    with torch.no_grad():
        ref_logprobs = COURSE["forward_logprobs"](parts.reference, ids, mask, T, config.temperature)
    scores = torch.linspace(-1.5, 2.0, len(ids))[torch.randperm(len(ids), generator=generator)]
    rewards = COURSE["total_rewards"](scores, logprobs, ref_logprobs, counted, config.kl_coef)
    given = parts.critic, ids, mask, rewards, config.gamma, config.lam
    _, advantages, _ = COURSE["estimate_advantages"](*given)
    shallow = SimpleNamespace(actor=first_layer(parts.actor), critic=first_layer(parts.critic))
    return SimpleNamespace(
        parts=parts, shallow=shallow, config=config, length=T,
        ids=ids, mask=mask, counted=counted, scores=scores, rewards=rewards,
        logprobs=torch.where(counted, logprobs, -2.0),
        ref_logprobs=torch.where(counted, ref_logprobs, -5.0),
        old=old_rollout(shallow, ids, mask, advantages, config, generator),
    )  # fmt: skip


def own_copy(x: object) -> object:
    """A tensor or list that may be changed without harm; anything else as it is."""
    if isinstance(x, Tensor):
        return x.clone()
    return list(x) if isinstance(x, list) else x


def ask(function: Callable, *arguments) -> object:
    """Call a learner's function on copies of tensors; NotImplementedError from a stub.

    Wrong: it changed one of its inputs in place.
    """
    given = [own_copy(x) for x in arguments]
    answer = function(*given)
    untouched = answer is NotImplemented or answer is Ellipsis
    if untouched or (answer is None and is_empty(function)):
        raise NotImplementedError
    for before, after in zip(arguments, given, strict=True):
        same = not differs(before, after)
        says = (
            "You changed an input in place, but the loop still needs the old numbers. Use a copy."
        )
        expect(same, "inputs changed", says)
    return answer


def tensors(answer: object, names: tuple[str, ...], shape: tuple) -> list[Tensor]:
    """The tensors of an answer, of this shape. Wrong: not so many, not tensors, another shape."""
    found = (answer,) if len(names) == 1 else answer
    wants = f"Return {', '.join(names)}" if len(names) > 1 else f"Return a tensor: {names[0]}"
    kinds = isinstance(found, (tuple, list)) and len(found) == len(names)
    says = f"{wants}. {not_these(answer, names)}"
    expect(kinds and all(isinstance(x, Tensor) for x in found), "wrong type", says)
    for name, x in zip(names, found, strict=True):
        says = f"Your {name} have shape {tuple(x.shape)}; it should be {tuple(shape)}."
        expect(x.shape == torch.Size(shape), "wrong shape", says + shape_hint(x, shape))
        says = f"Your {name} are {x.dtype}, which keeps two or three digits; the loop computes in float32."
        rough = x.dtype in (torch.float16, torch.bfloat16)
        expect(not rough, "half precision", says)
    return list(found)


def not_these(answer: object, names: tuple[str, ...]) -> str:
    """What is returned in place of tensors of these names: too many, too few, or something else."""
    if answer is None:
        return "You return None: is there a `return`?"
    if len(names) == 1 or not isinstance(answer, (tuple, list)):
        return f"You return {kind_of(answer)}."
    if len(answer) != len(names):
        return f"You return {len(answer)} result{'s' * (len(answer) != 1)}; {len(names)} are asked."
    other = next((k for k, x in enumerate(answer) if not isinstance(x, Tensor)), 0)
    return f"Your result {other + 1} is {kind_of(answer[other])}, no tensor."


def shape_hint(x: Tensor, shape: tuple) -> str:
    """What a wrong shape may mean."""
    if x.dim() == len(shape) + 1 and 1 in (x.shape[-1], x.shape[1]):
        return " An axis of length 1 is left: squeeze it."
    if x.dim() == 1 and len(shape) == 2 and len(x) == shape[0]:
        return " That is one number a row; return one per token."
    return ""


def no_graph(**named: Tensor) -> None:
    """Wrong: a tensor that still hangs on the model that made it."""
    for name, x in named.items():
        says = f"Your {name} still carry a gradient. They are data for the update: compute them"
        expect(not x.requires_grad, "gradient kept", f"{says} under torch.no_grad().")
