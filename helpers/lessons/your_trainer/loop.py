"""Lesson 06's loop, tried with steps that train nothing and note what they are given."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.kit.exercise import Seen, expect, noise, prefix_mask
from helpers.kit.judge import exercise
from helpers.kit.recorded import trainer_config
from helpers.kit.running import is_empty
from helpers.lessons.your_trainer.steps import STEPS

B, P, T = 7, 5, 14  # T is less than the limit, as when all responses stop early
GIVES = {"total_rewards": ["rewards"], "estimate_advantages": ["values", "advantages", "returns"]}


@contextmanager
def in_place(functions: dict[str, Callable]) -> Iterator[None]:
    """While it holds, `train` finds these steps under their names, wherever it was written."""
    names = getattr(inspect.unwrap(functions["train"]), "__globals__", {})
    steps = {name: functions[name] for name in STEPS}
    before = {name: names[name] for name in steps if name in names}
    names.update(steps)
    try:
        yield
    finally:
        for name in steps:
            names.pop(name, None)
        names.update(before)


class Noted:
    """Steps that give numbers of their own and note each argument, by what it is."""

    def __init__(self, parts: SimpleNamespace, config):
        self.parts = parts
        of_steps = [f"{what} of {step}" for step, exercise in STEPS.items()
                    for what in ("number of calls", *exercise.names)]  # fmt: skip
        names = (*of_steps, "gradients in update", "learning rate of update")
        self.seen: dict[str, list] = {name: [] for name in names}
        settings = ("batch_size", "kl_coef", "gamma", "lam", "temperature")
        self.always = {f"parts.{name}": x for name, x in vars(parts).items()} | {"config": config}
        self.always |= {f"config.{name}": getattr(config, name) for name in settings}
        self.known, self.optimizer, self.seed = self.always, None, 0

    def step(self, name: str) -> Callable:
        """One step."""

        def noted(*given, **named):
            expect(len(given) + len(named) == len(STEPS[name].names), f"{name} is called wrongly",
                   f"Call it as {STEPS[name].signature}.")  # fmt: skip
            arguments = dict(zip(STEPS[name].names, given, strict=False)) | named
            for argument, x in arguments.items():
                self.seen[f"{argument} of {name}"].append(self.label(x))
            self.seen[f"number of calls of {name}"].append(name)
            if name in GIVES:
                return self.keep(**{one: self.normal(B, T) for one in GIVES[name]})
            return getattr(self, name)(arguments)

        return noted

    def label(self, x: object) -> object:
        """What a value is: a name that it is known by, or how it looks."""
        if isinstance(x, (tuple, list)) and x and isinstance(x[0], Tensor):
            return ", ".join(str(self.label(one)) for one in x)
        if isinstance(x, torch.optim.Optimizer):
            return self.of_optimizer(x)
        for name, other in self.known.items():
            if self.same(x, other):
                return f"{name}, with a gradient" if getattr(x, "requires_grad", False) else name
        if isinstance(x, (Tensor, tuple, list)):
            size = list(x.shape) if isinstance(x, Tensor) else len(x)
            return f"another {type(x).__name__} of size {size}"
        return round(x, 6) if isinstance(x, float) else x

    def same(self, x: object, other: object) -> bool:
        """The same object or number; of tensors the same where they count."""
        if isinstance(x, Tensor) and isinstance(other, Tensor):
            counted = self.known.get("counted")
            if x.shape == other.shape == (B, T) and other.is_floating_point():
                x, other = x[counted], other[counted]
            return x.shape == other.shape and bool(torch.equal(x.float(), other.float()))
        plain = isinstance(x, (int, float, list)) and type(x) is type(other)
        return x is other or (plain and x == other)

    def of_optimizer(self, x: torch.optim.Optimizer) -> str:
        """What matters of an optimizer."""
        held = {id(p) for group in x.param_groups for p in group["params"]}
        roles = [role for role in ("actor", "critic", "reference")
                 if {id(p) for p in getattr(self.parts, role).parameters()} <= held]  # fmt: skip
        kind = "Adam" if "Adam" in type(x).__name__ else type(x).__name__
        decay = " with weight decay" if any(g.get("weight_decay") for g in x.param_groups) else ""
        self.optimizer = self.optimizer or x
        again = "" if self.optimizer is x else " (a new one)"
        return f"{kind}{decay} of {' and '.join(roles)}, eps {x.defaults.get('eps')}{again}"

    def keep(self, **found: object) -> object:
        """Know these by their names from now on."""
        self.known = self.known | found
        return next(iter(found.values())) if len(found) == 1 else tuple(found.values())

    def draw_prompts(self, given: dict) -> list[str]:
        self.known = self.always
        count = len(self.seen["number of calls of draw_prompts"])
        return self.keep(batch=[f"prompt {count}.{k}" for k in range(B)])

    def normal(self, *shape: int) -> Tensor:
        """Other random numbers each time."""
        self.seed += 1
        return noise(self.seed, *shape)

    def generate_responses(self, given: dict) -> tuple:
        counted = prefix_mask(T, 3, 14, 7, 1, 9, 12, 5)
        mask = torch.cat([prefix_mask(P, 5, 3, 4, 5, 2, 5, 1).flip(1), counted], 1)
        found = self.keep(
            ids=(1000 * self.normal(B, P + T)).long(), mask=mask, logprobs=self.normal(B, T)
        )
        self.keep(counted=counted, **{"T, the width of logprobs": T})
        return found

    def score_responses(self, given: dict) -> Tensor:
        return self.keep(scores=self.normal(B))

    def forward_logprobs(self, given: dict) -> Tensor:
        weight = self.parts.reference.weight.sum()
        return self.keep(ref_logprobs=self.normal(B, T) - 3 + 0 * weight)  # a KL far above 10 nats

    def update(self, given: dict) -> None:
        rates = sorted({round(group["lr"], 8) for group in given["optimizer"].param_groups})
        self.seen["learning rate of update"].append(rates if len(rates) > 1 else rates[0])
        self.seen["gradients in update"].append("on" if torch.is_grad_enabled() else "off")
        with torch.no_grad():
            self.parts.actor.weight += 1  # so that a reference that follows it shows


def observe_train(train: Callable) -> Seen:
    """Three iterations: what each step was given, and what was yielded."""
    sizes = {"batch_size": B, "iterations": 3, "response_length": T + 4, "minibatch_size": 6}
    others = {"kl_coef": 0.3, "gamma": 0.97, "lam": 0.8, "temperature": 0.6, "adam_eps": 1e-4}
    config = trainer_config(**sizes, **others, learning_rate=0.01)
    models = {role: nn.Linear(1, 1) for role in ("actor", "critic", "reference")}
    parts = SimpleNamespace(**models, reward=object(), tokenizer=object(), prompts=["one", "two"])
    noted, before = Noted(parts, config), parts.reference.weight.clone()
    steps = {name: noted.step(name) for name in STEPS}
    with torch.enable_grad(), in_place(steps | {"train": train}):
        rounds = train(parts, config)
        if rounds is NotImplemented or (rounds is None and is_empty(train)):
            raise NotImplementedError
        calls = noted.seen["number of calls of update"]
        says = "Make it a generator: `yield` mean score and mean KL at the end of each iteration."
        pair = isinstance(rounds, (tuple, list)) and len(calls) < 2
        expect(hasattr(rounds, "__iter__") and not pair, "nothing is yielded", says)
        made, found = [], []
        for one in rounds:
            found.append(one)
            made.append(len(calls))
    pairs = all(isinstance(one, (tuple, list)) and len(one) == 2 for one in found)
    expect(pairs, "wrong type", "Yield two numbers: mean score, mean KL.", found[:1])
    seen = {name: told(name, got) for name, got in noted.seen.items()}
    late = all(k >= i for i, k in enumerate(made, start=1))
    return {
        **seen,
        "reference model": "frozen" if torch.equal(parts.reference.weight, before) else "changed",
        "number of pairs yielded": len(found),
        "time of the yield": "after the update" if late else "before the update",
        "mean scores yielded": torch.tensor([float(score) for score, _ in found]),
        "mean KLs yielded": torch.tensor([float(kl) for _, kl in found]),
    }


def told(name: str, got: list) -> object:
    """One value for all iterations, or all of them."""
    if name.startswith("number"):
        return len(got)
    return got[0] if all(x == got[0] for x in got[1:]) and got else got


check_train = exercise(
    """\
def train(parts, config):
    actor, critic, tokenizer = parts.actor, parts.critic, parts.tokenizer
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate, eps=config.adam_eps)
    for iteration in range(config.iterations):
        prompts = draw_prompts(parts.prompts, config.batch_size)
        ids, mask, logprobs = generate_responses(actor, tokenizer, prompts, config)
        length = logprobs.shape[1]
        counted = mask[:, -length:]
        scores = score_responses(parts.reward, tokenizer, ids, mask)
        with torch.no_grad():
            before = forward_logprobs(parts.reference, ids, mask, length, config.temperature)
        rewards = total_rewards(scores, logprobs, before, counted, config.kl_coef)
        values, advantages, returns = estimate_advantages(
            critic, ids, mask, rewards, config.gamma, config.lam
        )
        left = 1 - iteration / config.iterations
        optimizer.param_groups[0]["lr"] = config.learning_rate * left
        update(actor, critic, optimizer, (ids, mask, logprobs, values, advantages, returns), config)
        kl = ((logprobs - before) * counted).sum(1)
        yield scores.mean().item(), kl.mean().item()
""",
    "draw, generate, score, compare, reward, credit, update; again (lesson 00)",
    [()],
    """\
scores whitened: You normalise the scores over the batch before the rewards; total_rewards takes them as
 score_responses gives them.
-         rewards = total_rewards(
+         scores = (scores - scores.mean()) / scores.std()
+         rewards = total_rewards(
padding in the yielded KL: Your KL counts the padding, where log-probs may be anything: multiply by counted.
-  * counted).sum(1)
+ ).sum(1)
KL per token: The second number is the KL per response: sum over its counted tokens, then the mean.
-  * counted).sum(1)
+ * counted).mean(1)
KL averaged over tokens: Sum over each response's counted tokens first, then take the mean over responses.
- ((logprobs - before) * counted).sum(1)
+ (logprobs - before)[counted]
""",
    observe=observe_train,
    uses={name: exercise.right for name, exercise in STEPS.items()},
    advice="Follow this one name through your loop.",
)
