"""What an update does to actor and critic: the gradient of each step, and the responses it saw.

An update is `update(actor, critic, optimizer, rollout, config)`, and a rollout six tensors: `(ids, mask,
logprobs, values, advantages, returns)`. Cases go from one response to padding, to clips, to minibatches, so
the first gradient that is wrong says which line is.
"""

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from helpers.kit.exercise import Seen, expect
from helpers.kit.model_calls import Call, check_call, recorded_calls
from helpers.kit.recorded import recorded
from helpers.rollouts import forward_logprobs

FREE = {"cliprange": 1e6, "cliprange_value": 1e6, "num_ppo_epochs": 1}  # nothing is clipped
MOVES = {"logprobs": "actor", "values": "critic", "advantages": "actor", "returns": "critic"}
OTHER = {
    "temperature": 1.4, "vf_coef": 0.7, "cliprange": 0.02, "cliprange_value": 0.05, "max_grad_norm": 0.02,
}  # fmt: skip
CLIPPED, ORDER = "with the clips", "the order of responses"  # words of cases


class Recorder(torch.optim.SGD):
    """Plain gradient descent that keeps the gradients of actor and critic at each step."""

    def __init__(self, actor: nn.Module, critic: nn.Module, lr: float):
        self.sizes = [sum(p.numel() for p in m.parameters()) for m in (actor, critic)]
        self.seen: list[tuple[Tensor, Tensor]] = []
        self.calls: list[int] = []  # how many times the actor had been called, at each step
        self.every = [*actor.parameters(), *critic.parameters()]
        super().__init__(self.every, lr=lr)

    def step(self, closure=None):
        """Keep the gradients, then step."""
        flat = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self.every]
        self.seen.append(torch.cat(flat).split(self.sizes))
        self.calls.append(len(self.made))
        return super().step(closure)


def stepped(update: Callable, rollout: tuple, config, lr: float = 0.0) -> tuple:
    """One update of copies of the models: the recorder, and the calls of actor and of critic."""
    models = [copy.deepcopy(m) for m in vars(recorded().shallow).values()]
    recorder = Recorder(*models, lr)
    with recorded_calls(models[0]) as calls, recorded_calls(models[1]) as critic_calls:
        recorder.made = calls
        before = [p.detach().clone() for p in recorder.every]
        with torch.enable_grad():
            update(*models, recorder, tuple(x.clone() for x in rollout), config)
    moved = any(not torch.equal(*pair) for pair in zip(before, recorder.every, strict=True))
    says = "The optimizer that update is given made no step, and another one did: Adam's averages, and the"
    says += " learning rate that the loop sets, are in the one that it is given."
    expect(bool(recorder.seen) or not moved, "another optimizer", says)
    return recorder, calls, critic_calls


def rows_of(rollout: tuple, rows: list[int]) -> tuple:
    """Some responses of a rollout."""
    return tuple(x[rows] for x in rollout)


def unpadded(rollout: tuple, row: int) -> tuple:
    """One response by itself, without the padding of prompt and response."""
    ids, mask, *rest = rows_of(rollout, [row])
    columns, counted = mask[0], mask[0, -rest[0].shape[1] :]
    return ids[:, columns], mask[:, columns], *(x[:, counted] for x in rest)


def cases() -> list[tuple]:
    """(words, rollout, config, learning rate), from the simplest to the whole."""
    r = recorded()
    free, two = replace(r.config, **FREE), replace(r.config, minibatch_size=2)
    short, once = replace(r.config, max_grad_norm=0.05), replace(two, num_ppo_epochs=1)
    return [
        ("of one response, nothing clipped", unpadded(r.rollout, 1), free, 0.0),
        ("with padding, nothing clipped", r.rollout, free, 0.0),
        (CLIPPED, r.rollout, r.config, 0.02),
        ("where max_grad_norm is 0.05 over both models", r.rollout, short, 0.0),
        ("for copies of a response, two at a time", rows_of(r.rollout, [3] * 5), once, 0.0),
        (ORDER, rows_of(r.rollout, [0, 1, 2, 3, 4]), two, 0.0),
    ]


def edges() -> list[tuple[str, tuple]]:
    """Cases that are right in most updates whose others are."""
    r = recorded()
    ids, mask, logprobs, values, advantages, returns = r.rollout
    counted, T = r.counted, r.length
    config = replace(r.config, num_ppo_epochs=1)
    cold = replace(config, temperature=0.02)
    tokens = ids[:, :-T], mask[:, :-T], ids[:, -T:], counted
    with torch.no_grad():
        now = forward_logprobs(r.shallow.actor, *tokens, temperature=cold.temperature)
    rare = torch.where(counted, now - 0.1, -3.0), values, advantages, returns
    end = ids.shape[1] - T + 1
    one = tuple(x[:, :1] for x in r.rollout[2:])
    return [
        ("tokens are very unlikely: subtract log-probs, then take one exp",
         ("", (ids, mask, *rare), cold)),
        ("responses have one token: squeeze() drops its axis, squeeze(-1) does not",
         ("", (ids[:, :end], mask[:, :end], *one), config)),
    ]  # fmt: skip


def observe_update(update: Callable, words: str, rollout: tuple, config, lr: float = 0.0) -> Seen:
    """The gradients of actor and critic at each step; or how responses are shuffled."""
    if words == ORDER:
        return observe_order(update, rollout, config)
    recorder, *_ = stepped(update, rollout, config, lr)
    seen = {f"number of gradient steps {words}": len(recorder.seen)}
    for k, gradients in enumerate(recorder.seen, start=1):
        at = f" at step {k}" if len(recorder.seen) > 1 else ""
        for role, gradient in zip(("actor", "critic"), gradients, strict=True):
            seen[f"gradient of the {role} {words}{at}"] = gradient
    return seen


def observe_order(update: Callable, rollout: tuple, config) -> Seen:
    """Which responses are seen in two epochs of minibatches; three updates."""
    orders = [order_of(rollout, *stepped(update, rollout, config)[:2]) for _ in range(3)]
    size = len(orders[0]) // config.num_ppo_epochs
    epochs = [(o[:size], o[size:]) for o in orders]
    rows = [sorted(row for part in epoch for row in part) for both in epochs for epoch in both]
    return {
        "number of gradient steps in two epochs of minibatches": len(orders[0]),
        "responses seen in an epoch": next((x for x in rows if x != [0, 1, 2, 3, 4]), rows[0]),
        "responses shuffled (torch.randperm)": any(
            x != y for both in epochs for x in both for y in [[(0, 1), (2, 3), (4,)]]
        ),
        "another order in each epoch": any(one != other for one, other in epochs),
        "another order at each call": len({tuple(o) for o in orders}) > 1,
    }


def order_of(rollout: tuple, recorder: Recorder, calls: list[Call]) -> list[tuple[int, ...]]:
    """The rows of the rollout that each step saw, by the tokens that the actor was given."""
    ids, mask = rollout[:2]
    pad, texts = int(ids[0, 0]), [row[m].tolist() for row, m in zip(ids, mask, strict=True)]
    found, start = [], 0
    for end in recorder.calls:
        given = [row[row != pad].tolist() for call in calls[start:end] for row in call.ids]
        rows = {k for k, text in enumerate(texts) for row in given if text[: len(row)] == row}
        found.append(tuple(sorted(rows)))
        start = end
    return found


def cause_update(update: Callable, words: str, rollout: tuple, config, lr: float = 0.0) -> None:
    """Wrong: what the models are given; which tensors of the rollout, which settings have no effect."""
    if words == ORDER:
        return
    config = replace(config, num_ppo_epochs=1)
    recorder, *both = stepped(update, rollout, config)
    for role, calls in zip(("actor", "critic"), both, strict=True):
        mask = mask_of(rollout, calls[0].ids)
        if mask is not None:
            check_call(calls[0], mask, f"the {role}")
    if words == CLIPPED and all(bool(gradient.any()) for gradient in recorder.seen[0]):
        name_effects(update, rollout, config, recorder.seen[0])


def mask_of(rollout: tuple, given: Tensor) -> Tensor | None:
    """The mask of the responses that a model was given, without columns of padding that it was not."""
    ids, mask = rollout[:2]
    width = given.shape[1]
    for first in range(ids.shape[1] - width + 1):
        hits = (ids[:, first : first + width] == given[:, None]).all(-1)
        if bool(hits.any(1).all()):
            rows = mask[hits.long().argmax(1)]
            counted = rows.any(0).nonzero()
            end = max(first + width, int(counted[-1]) + 1)
            return rows[:, min(first, int(counted[0])) : end]
    return None


def name_effects(update: Callable, rollout: tuple, config, gradients: tuple) -> None:
    """Wrong: a tensor of the rollout, or a setting, that does not change the gradients as it should."""

    def changes(other: tuple, settings) -> list[str]:
        found = zip(stepped(update, other, settings)[0].seen[0], gradients, strict=True)
        far = [bool((new - old).norm() > 2e-3 * old.norm() + 1e-9) for new, old in found]
        return [role for role, moved in zip(("actor", "critic"), far, strict=True) if moved]

    says = "Another shuffling of the same batch gives another gradient. Are all six tensors taken by the same"
    says += " rows (x[rows], for each), and rows drawn without replacement? Is something random?"
    expect(not changes(rollout, config), "rows mixed up", says)
    for k, (name, role) in enumerate(MOVES.items(), start=2):
        moved = rollout[k] + 0.4 * recorded().counted
        got = changes((*rollout[:k], moved, *rollout[k + 1 :]), config)
        says = f"With all {name} of the rollout moved by 0.4, the gradient of the {role} stays the same: are"
        says += " they left out, computed or whitened anew, or others in their place?"
        expect(role in got, f"{name} without effect", says)
        says = f"The rollout's {name} belong to the loss of the {role} alone; they change both gradients."
        expect(got == [role], f"{name} in the wrong loss", says)
    for name, value in OTHER.items():
        says = f"config.{name} has no effect. Is a number written in its place, or is its line missing?"
        expect(bool(changes(rollout, replace(config, **{name: value}))), f"{name} not used", says)
