"""Notebook 06: the loop `train`, run with steps that note what they are given."""

import copy
import inspect
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from helpers.checks.judging.report import show
from helpers.checks.judging.runner import is_empty
from helpers.checks.trainer.course_steps import COURSE, NAMES, in_place
from helpers.checks.trainer.inputs import Seen, Wrong, expect, recorded

GARBAGE = {"write_responses": -2.0, "forward_logprobs": -5.0}  # log-probs on padding


class Spy:
    """The course's seven steps, which note what they were given; the update trains nothing.

    Responses end before the limit, as if all had stopped, and log-probs on padding are garbage.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.calls: list[tuple[str, dict, object]] = []
        self.rates: list[list[float]] = []

    def functions(self) -> dict[str, Callable]:
        """The steps by name."""
        return {name: self.step(name) for name in NAMES if name != "train"}

    def step(self, name: str) -> Callable:
        """One step that notes its arguments and its result."""
        signature = inspect.signature(COURSE[name])

        def noted(*arguments, **named):
            given = signature.bind(*arguments, **named).arguments
            self.check_length(name, given)
            if name == "update":
                says = "Gradients are off where update is called, so it cannot train: under"
                says += " torch.no_grad() belongs the reference's forward, and not the loop."
                expect(torch.is_grad_enabled(), "no gradient in the update", says)
                self.rates.append([group["lr"] for group in given["optimizer"].param_groups])
            result = None if name == "update" else self.call(name, given)
            self.calls.append((name, given, result))
            return result

        return noted

    def check_length(self, name: str, given: dict) -> None:
        """Wrong: T is taken from the config, and not from the responses that were written."""
        argument = {"forward_logprobs": "length", "total_rewards": "counted"}.get(name)
        if argument is None or not self.of("write_responses"):
            return
        x, T = given[argument], self.of("write_responses")[-1][1][2].shape[1]
        got = x.shape[-1] if isinstance(x, Tensor) and x.dim() else x
        says = f"The responses are {T} tokens long here, and your {argument} {got}. T is at most"
        says += " config.response_length, and less when all stop early: take logprobs.shape[1]."
        expect(got != self.limit, "T is not the limit", says)

    def call(self, name: str, given: dict) -> object:
        """The course's step, with garbage on padding. Wrong: it cannot use what it was given."""
        try:
            if name == "write_responses":
                short = {"response_length": self.limit - 4}
                temperature = given["config"].temperature
                given = given | {"config": SimpleNamespace(**short, temperature=temperature)}
            result = COURSE[name](**given)
            if name == "write_responses":
                ids, mask, logprobs = result
                return ids, mask, spoilt(name, logprobs, mask)
            if name == "forward_logprobs" and self.of(name):
                result = result - 3.0  # after the first iteration the KL is far above 10 nats
            return spoilt(name, result, given["mask"]) if name in GARBAGE else result
        except ValueError as problem:
            says = f"{name} cannot use what it is given: {problem}"
            raise Wrong(f"what {name} is given", says) from None

    def of(self, name: str) -> list[tuple[dict, object]]:
        """Arguments and results of the calls of one step."""
        return [(given, result) for called, given, result in self.calls if called == name]


def spoilt(name: str, logprobs: Tensor, mask: Tensor) -> Tensor:
    """Log-probs [B, T] with garbage where the mask [B, P + T] says padding."""
    return torch.where(mask[:, -logprobs.shape[1] :], logprobs, GARBAGE[name])


def observe_train(function: Callable) -> Seen:
    """Three iterations of seven responses, with steps that note what they are given.

    The models are copies: what a loop does to them is not left behind for the next check.
    """
    r = recorded()
    sizes = {"batch_size": 7, "iterations": 3, "learning_rate": 0.01, "adam_eps": 1e-4}
    config = type(r.config)(**r.config.as_dict() | sizes)
    parts, spy = SimpleNamespace(**vars(r.parts)), Spy(config.response_length)
    for role in ("actor", "critic", "reference"):
        setattr(parts, role, copy.deepcopy(getattr(parts, role)))
    steps = in_place(spy.functions() | {"train": function})
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), steps:
        torch.manual_seed(0)
        rounds = function(parts, config)
        if rounds is NotImplemented or (rounds is None and is_empty(function)):
            raise NotImplementedError
        numbers = isinstance(rounds, (tuple, list)) and len(rounds) == 2 and len(spy.rates) == 1
        says = "The loop ends after one iteration, with a return. Make it a generator: `yield`."
        expect(not numbers, "returned, not yielded", says)
        says = "Make it a generator: `yield` mean score and mean KL at the end of each iteration."
        expect(rounds is not None and hasattr(rounds, "__iter__"), "nothing is yielded", says)
        rounds = collected(rounds, spy)
    check_calls(spy, parts, config, len(rounds))
    check_batches(spy)
    pairs = zip(parts.reference.parameters(), r.parts.reference.parameters(), strict=True)
    says = "The reference's weights have changed during training. It stays as it was at the start, or the"
    says += " KL is measured from somewhere else in each iteration."
    expect(all(torch.equal(a, b) for a, b in pairs), "the reference is changed", says)
    for i in range(config.iterations):
        check_iteration(spy, i, parts, config)
    check_rates(spy, config)
    ok = all(isinstance(x, (tuple, list)) and len(x) == 2 for x in rounds)
    expect(ok, "wrong type", "Yield two numbers: mean score, mean KL.", rounds[:1])
    check_yields(spy, rounds, config)
    return {}


def collected(rounds, spy: Spy) -> list:
    """All that is yielded. Wrong: the first pair comes out before the first update is made."""
    if isinstance(rounds, (list, tuple)):
        return list(rounds)
    rounds = iter(rounds)
    one = next(rounds, None)
    drawn, trained = len(spy.of("write_responses")), len(spy.of("update"))
    says = "The pair of an iteration comes out before its update is made; who stops there misses an update."
    early = one is not None and drawn == 1 and trained == 0
    rest = list(rounds)
    # where an update is missing, that is what is said
    late = len(spy.of("update")) == len(spy.of("write_responses"))
    expect(not (early and late), "yielded before the update", f"{says} Yield at the end.")
    return [] if one is None else [one, *rest]


def check_batches(spy: Spy) -> None:
    """Wrong: the same prompts in every iteration, though they are drawn anew."""
    drawn = [tuple(batch) for _, batch in spy.of("draw_prompts")]
    says = "draw_prompts gives the same prompts in every iteration: is a seed set inside the loop?"
    expect(len(set(drawn)) > 1, "the same prompts in each iteration", says)


def check_calls(spy: Spy, parts, config, rounds: int) -> None:
    """Each step once an iteration, by its name."""
    counts = {name: len(spy.of(name)) for name in NAMES if name != "train"}
    N = config.iterations
    again = [given for given, _ in spy.of("forward_logprobs") if given["policy"] is parts.actor]
    says = "You ask the actor for its log-probs again. The old ones are those that write_responses"
    says += " returned; in the loop only the reference is asked."
    expect(counts["forward_logprobs"] <= N or not again, "old log-probs recomputed", says)
    says = f"Your loop ends after {rounds} of {N} iterations: does the range end too soon, or is there an"
    says += " early stop (the KL is large here)?"
    stopped = 0 < rounds < N and set(counts.values()) == {rounds}
    expect(not stopped, "fewer iterations", says)
    for name, count in counts.items():
        says = f"config.iterations is {N}, and {name} was called {count} times: that many iterations, and one"
        says += " call in each."
        once = {1: "only once, before the loop?", 0: "is it called by its name?"}.get(count, "")
        fits = count == N
        label = f"{name} is not called" if count == 0 else f"{name} is not called once an iteration"
        expect(fits, label, f"{says} {once.capitalize()}".strip())
    says = f"You yield {rounds} times in {N} iterations; yield once at the end of each."
    expect(rounds == N, "another number of iterations", says)


def check_iteration(spy: Spy, i: int, parts, config) -> None:
    """What each step of iteration i was given, against what the steps before it gave."""
    (asked, batch), (write, wrote) = spy.of("draw_prompts")[i], spy.of("write_responses")[i]
    (score, scores) = spy.of("score_responses")[i]
    (refer, ref_logprobs) = spy.of("forward_logprobs")[i]
    (reward, rewards), (credit, found) = (
        spy.of("total_rewards")[i],
        spy.of("estimate_advantages")[i],
    )
    (train, _) = spy.of("update")[i]
    ids, mask, logprobs = wrote
    counted = mask[:, -logprobs.shape[1] :]
    says = "{} is given another `{}` than it should be."
    wants = [
        ("draw_prompts", asked, {"prompts": parts.prompts, "batch_size": config.batch_size}),
        ("write_responses", write, {"actor": parts.actor, "prompts": batch}),
        ("score_responses", score, {"reward": parts.reward, "ids": ids, "mask": mask}),
        ("forward_logprobs", refer, {"policy": parts.reference, "ids": ids, "mask": mask}),
        ("forward_logprobs", refer, {"length": logprobs.shape[1], "temperature": config.temperature}),
        ("total_rewards", reward, {"scores": scores, "logprobs": logprobs}),
        ("total_rewards", reward, {"ref_logprobs": ref_logprobs, "kl_coef": config.kl_coef}),
        ("total_rewards", reward, {"counted": mask[:, -logprobs.shape[1] :]}),
        ("estimate_advantages", credit, {"critic": parts.critic, "ids": ids, "mask": mask}),
        ("estimate_advantages", credit, {"rewards": rewards, "gamma": config.gamma, "lam": config.lam}),
        ("update", train, {"actor": parts.actor, "critic": parts.critic}),
    ]  # fmt: skip
    swapped = same(reward["logprobs"], ref_logprobs, counted)
    for name, given, right in wants:
        for argument, value in right.items():
            if not same(given[argument], value, counted):
                told = says.format(name, argument)
                raise name_given(name, argument, given[argument], parts, config, told, swapped)
    says = "The reference's log-probs carry a gradient, though nobody trains the reference: ask it"
    says += " under torch.no_grad()."
    expect(not reward["ref_logprobs"].requires_grad, "gradient of the reference kept", says)
    check_rollout(train["rollout"], (ids, mask, logprobs, *found), counted)
    check_optimizer(train["optimizer"], spy.of("update")[0][0]["optimizer"], parts, config)


def same(one: object, other: object, counted: Tensor) -> bool:
    """The same numbers, or the same object; of real numbers [B, T] the counted ones."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape == other.shape == counted.shape and other.is_floating_point():
            one, other = one[counted], other[counted]
        return one.shape == other.shape and bool(torch.equal(one.float(), other.float()))
    return one is other or (not callable(one) and not isinstance(one, Tensor) and one == other)


def name_given(
    name: str, argument: str, got: object, parts, config, says: str, swapped: bool
) -> Wrong:
    """A wrong argument of a step, with its likely reason."""
    if name == "forward_logprobs" and argument == "policy" and got is parts.actor:
        says = "The log-probs of step 4 are the actor's own, so the KL is always 0: ask parts.reference."
        return Wrong("the actor for the reference", says)
    if name == "total_rewards" and argument == "logprobs" and swapped:
        return Wrong(
            "log-probs exchanged", f"{says} You give it the ref_logprobs there: exchange them."
        )
    if argument in ("gamma", "lam") and got in (config.gamma, config.lam):
        return Wrong("γ and λ exchanged", f"{says} The order is gamma, lam.")
    if isinstance(got, (int, float)) and hasattr(config, argument):
        says = f"{name} is given {got:g} for `{argument}`; the config says {getattr(config, argument):g}."
        return Wrong(f"another {argument}", f"{says} Is a number written in?")
    if argument == "counted":
        return Wrong("the response's mask", f"{says} It is the mask of the last T columns.")
    return Wrong(f"another {argument}", says)


def check_rollout(given: object, right: tuple, counted: Tensor) -> None:
    """The six tensors of the update, in their order."""
    names = "ids, mask, logprobs, values, advantages, returns".split(", ")
    says = f"The rollout of the update is six tensors: ({', '.join(names)})."
    expect(isinstance(given, (tuple, list)) and len(given) == 6, "the rollout", says)
    for k, (name, x) in enumerate(zip(names, right, strict=True)):
        if not same(given[k], x, counted):
            instead = [n for n, y in zip(names, right, strict=True) if same(given[k], y, counted)]
            got = f"It holds the {instead[0]}." if instead else ""
            raise Wrong("the rollout", f"{says} Number {k + 1} should be the {name}. {got}".strip())


def check_optimizer(optimizer, first, parts, config) -> None:
    """One Adam over actor and critic, for the whole run."""
    says = "Each iteration makes a new optimizer, and Adam forgets its averages: make one, before"
    expect(optimizer is first, "a new optimizer each iteration", f"{says} the loop.")
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for role in ("actor", "critic"):
        own = {id(p) for p in getattr(parts, role).parameters()}
        says = f"The optimizer does not hold all parameters of the {role}: the others are never trained."
        expect(own <= held, f"the {role} is not trained", says)
    frozen = {id(p) for p in parts.reference.parameters()}
    says = "The optimizer holds the reference's parameters; the reference is frozen."
    expect(not frozen & held, "the reference is trained", says)
    says = f"Your optimizer is {type(optimizer).__name__}; it is to be torch.optim.Adam, with eps="
    adam = "Adam" in type(optimizer).__name__
    expect(adam, "not Adam", f"{says}config.adam_eps.")
    says = f"Adam's eps is {optimizer.defaults.get('eps')}; config.adam_eps is {config.adam_eps}"
    says += " here, since the check has settings of its own."
    expect(optimizer.defaults.get("eps") == config.adam_eps, "Adam's ε", says)
    says = "Your optimizer pulls weights towards 0 (weight decay), as AdamW does unless told"
    says += " otherwise; take torch.optim.Adam."
    decay = any(group.get("weight_decay") for group in optimizer.param_groups)
    expect(not decay, "weight decay", says)


def check_rates(spy: Spy, config) -> None:
    """The learning rate falls from `learning_rate` towards 0."""
    N, rate = config.iterations, config.learning_rate
    right = [rate * (1 - i / N) for i in range(N)]
    groups = len(spy.rates[0])
    for group in range(groups):
        got = [rates[group] for rates in spy.rates]
        if torch.allclose(torch.tensor(got), torch.tensor(right)):
            continue
        case = show(torch.tensor(got)), show(torch.tensor(right))
        which = f" of optimizer.param_groups[{group}]" if groups > 1 else ""
        says = f"The learning rate{which} stays as it is; anneal it to 0 over the run, before each update"
        says += ", in every parameter group." if groups > 1 else "."
        expect(len(set(got)) > 1, f"learning rate{which} not annealed", says, *case)
        says = f"The learning rate{which} at iteration i (from 0) is learning_rate · (1 − i / iterations),"
        says += " set before the update of that iteration."
        raise Wrong("learning rate annealed otherwise", says, *case)


def check_yields(spy: Spy, rounds: list, config) -> None:
    """Mean score, and mean over responses of the KL summed over counted tokens."""
    for i, (score, kl) in enumerate(rounds):
        scores, (given, _) = spy.of("score_responses")[i][1], spy.of("total_rewards")[i]
        every = given["logprobs"] - given["ref_logprobs"]
        d = every * given["counted"]
        wants = float(scores.mean()), float(d.sum(1).mean())
        says = "The first number is the mean score of the batch."
        expect(abs(float(score) - wants[0]) < 1e-4, "the yielded score", says, score, wants[0])
        says = "Your KL counts the padding, where log-probs may be anything: multiply by counted"
        says += " before you sum."
        padded = abs(float(kl) - float(every.sum(1).mean())) < 1e-4
        fits = abs(float(kl) - wants[1]) < 1e-4
        expect(fits or not padded, "padding in the yielded KL", says, kl, wants[1])
        says = (
            "The second number is the KL in nats per response: Σ over counted tokens of logprobs −"
        )
        says += " ref_logprobs, then the mean over responses."
        expect(fits, "the yielded KL", says, kl, wants[1])
