"""Notebook 06, step 7: the gradient of each step of an update, and which responses it saw."""

import copy
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.checks.trainer.inputs import Seen, Wrong, expect, recorded


class Recorder(torch.optim.SGD):
    """Plain gradient descent that keeps the gradient of each step."""

    def __init__(self, actor: nn.Module, critic: nn.Module, lr: float):
        self.sizes = [sum(p.numel() for p in m.parameters()) for m in (actor, critic)]
        self.seen: list[tuple[Tensor, Tensor]] = []
        every = [*actor.parameters(), *critic.parameters()]
        self.before = [p.detach().clone() for p in every]
        super().__init__(every, lr=lr)

    def moved(self) -> bool:
        """Whether the models have changed, by whatever means."""
        now = [p for group in self.param_groups for p in group["params"]]
        return any(not torch.equal(a, b) for a, b in zip(self.before, now, strict=True))

    def step(self, closure=None):
        """Keep the gradients of actor and critic, then step."""
        every = [p for group in self.param_groups for p in group["params"]]
        flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in every]
        whole = torch.cat([g.detach().flatten() for g in flat])
        self.seen.append(tuple(whole.split(self.sizes)))
        return super().step(closure)


def run_update(function: Callable, r: SimpleNamespace, config, lr: float = 0.02, rows: int = 6):
    """One call on copies of the models: the recorder, and the ids of each forward between steps.

    The rollout has the first `rows` responses.
    """
    actor, critic = copy.deepcopy(r.shallow.actor), copy.deepcopy(r.shallow.critic)
    recorder, forwards = Recorder(actor, critic, lr), []

    def note(model, arguments, named):
        ids = named.get("input_ids", arguments[0] if arguments else None)
        if torch.is_grad_enabled() and ids is not None:
            forwards.append((len(recorder.seen), ids))

    actor.register_forward_pre_hook(note, with_kwargs=True)
    rollout = tuple(x[:rows].clone() for x in (r.ids, r.mask, *r.old.values()))
    with torch.enable_grad():
        if function(actor, critic, recorder, rollout, config) is NotImplemented:
            raise NotImplementedError
    return recorder, forwards


def observe_update(function: Callable) -> Seen:
    """Gradients of two epochs of the whole batch; then of minibatches, their rows; then clipped."""
    r = recorded()
    recorder, _ = run_update(function, r, r.config)
    steps = len(recorder.seen)
    says = "There was no step of the optimizer that update is given. Make no other one: Adam's averages, and"
    says += " the learning rate that train sets, are in the one of the loop."
    expect(steps > 0 or not recorder.moved(), "another optimizer", says)
    if not steps and run_update(function, r, minibatches(r), lr=0.0, rows=5)[0].seen:
        observe_minibatches(function)  # one minibatch alone gets no step, several do
    says = "There was no optimizer.step(): it is missing, or never reached (a break, a condition on the"
    says += " KL, an empty loop)."
    expect(steps > 0, "no optimizer.step", says)
    epochs = r.config.num_ppo_epochs
    made = f"{steps} gradient step{'' if steps == 1 else 's'}"
    says = f"You made {made}; {epochs} epochs of one minibatch are {epochs}."
    name = "one epoch only" if steps == 1 else "another number of steps"
    expect(steps == epochs, name, says)
    (actor, critic), *_ = recorder.seen
    says = (
        "At optimizer.step() all gradients are 0. Is zero_grad after backward, or backward missing?"
    )
    expect(bool(actor.any() or critic.any()), "zero_grad after backward", says)
    seen = {}
    for k, (actor, critic) in enumerate(recorder.seen, start=1):
        seen[f"gradient of the actor, step {k}"] = actor
        seen[f"gradient of the critic, step {k}"] = critic
    clipped = type(r.config)(**r.config.as_dict() | {"max_grad_norm": 0.05, "num_ppo_epochs": 1})
    (actor, critic), *_ = run_update(function, r, clipped)[0].seen
    return seen | {"clipped gradient of the actor": actor, "clipped gradient of the critic": critic}


def minibatches(r: SimpleNamespace):
    """The recorded settings, for two epochs of minibatches of two."""
    return type(r.config)(**r.config.as_dict() | {"minibatch_size": 2, "num_ppo_epochs": 2})


def observe_minibatches(function: Callable) -> Seen:
    """Which responses each gradient step sees: two epochs of five responses, two at a time."""
    r = recorded()
    config, orders = minibatches(r), []
    for _ in range(3):
        recorder, forwards = run_update(function, r, config, lr=0.0, rows=5)
        steps, wants = len(recorder.seen), 6
        made = f"{steps} gradient step{'' if steps == 1 else 's'}"
        says = f"You made {made}; 2 epochs of 5 responses, 2 at a time, are {wants}."
        names = {2: "minibatches ignored", 3: "one epoch only", 4: "the last minibatch is dropped"}
        name = names.get(steps, "another number of steps")
        if steps == 2 and forwards and all(len(ids) <= 2 for _, ids in forwards):
            says += " optimizer.step() stands outside the loop over minibatches: make one step for each."
            raise Wrong("one step an epoch", says)
        if steps == 4 and last_never_seen(function, r, config):
            raise Wrong("a response is left out", f"{says} The last response is never among them.")
        says += " The last minibatch may be short; it counts too." if steps == 4 else ""
        expect(steps == wants, name, says)
        orders.append(rows_seen(forwards, r, steps))
    check_rows(orders)
    return {}


def last_never_seen(function: Callable, r: SimpleNamespace, config) -> bool:
    """Whether the last of five responses is in no gradient step of three updates."""
    for _ in range(3):
        recorder, forwards = run_update(function, r, config, lr=0.0, rows=5)
        rows = rows_seen(forwards, r, len(recorder.seen)) or [(4,)]
        if any(4 in some for some in rows):
            return False
    return True


def rows_seen(forwards: list, r: SimpleNamespace, steps: int) -> list[tuple[int, ...]] | None:
    """Rows of the rollout in each gradient step; None if they cannot be told from the ids."""
    keys = [tuple(ids[m].tolist()) for ids, m in zip(r.ids, r.mask, strict=True)]
    stop = r.parts.tokenizer.pad_token_id
    found = [[] for _ in range(steps)]
    for step, ids in forwards:
        for row in ids.tolist():
            key = tuple(token for token in row if token != stop)
            matches = [i for i, k in enumerate(keys) if k[: len(key)] == key or key == k]
            if len(matches) != 1 or step >= steps:
                return None
            found[step].append(matches[0])
    return [tuple(sorted(set(rows))) for rows in found]


def check_rows(orders: list) -> None:
    """Every response once an epoch, in an order that changes."""
    if any(order is None or not all(order) for order in orders):
        return
    for order in orders:
        for epoch in (order[:3], order[3:]):
            rows = sorted(row for part in epoch for row in part)
            says = f"In one epoch the gradient steps saw responses {rows}; each should come once."
            expect(rows == list(range(5)), "not every response once an epoch", says)
    unshuffled = all(order[:3] == [(0, 1), (2, 3), (4,)] == order[3:] for order in orders)
    says = "The responses are never shuffled: draw a new order for each epoch (torch.randperm)."
    expect(not unshuffled, "not shuffled", says)
    says = "All epochs reuse the same order: draw a new one for each epoch."
    expect(any(o[:3] != o[3:] for o in orders), "epochs reuse the same order", says)
    says = "It is the same order at each call. Is a seed set inside?"
    expect(len({tuple(o) for o in orders}) > 1, "the same order each time", says)
