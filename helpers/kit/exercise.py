"""An exercise: one text of the solution, inputs to try it on, and mistakes as edits of that text."""

import ast
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor, nn

from helpers.kit.patterns import form
from helpers.kit.running import Wrong, call

Seen = dict[str, object]  # what a function gave, by name, in the order in which it is computed


class Mistake(NamedTuple):
    """A conceptual mistake: its name, one sentence on it, and the edit of the solution that makes it.

    `old` stands once in the solution. The sentence may name {counted} and {total}.
    """

    name: str
    says: str
    old: str
    new: str


class Change(NamedTuple):
    """What a mistake makes of a source: its name, its sentence, whose source it is, and that source."""

    name: str
    says: str
    of: str
    source: str


def mistakes_of(text: str) -> list[Mistake]:
    """Mistakes written as small differences, `name: sentence`, then `- old` and `+ new` lines.

    A line of one blank and text goes on with the sentence before it. An edit without `+` takes text away.
    """
    found: list[dict] = []
    for line in text.splitlines():
        if line[:2] in ("- ", "+ ") or line in ("-", "+"):
            found[-1][line[0]].append(line[2:])
        elif line.startswith(" ") and not found[-1]["-"]:
            found[-1]["says"] += line
        elif line:
            name, _, says = line.partition(": ")
            found.append({"name": name, "says": says, "-": [], "+": []})
    return [Mistake(m["name"], m["says"], "\n".join(m["-"]), "\n".join(m["+"])) for m in found]


def expect(condition: bool, name: str, says: str, yours: object = None, expected=None) -> None:
    """Raise `Wrong` unless the condition holds."""
    if not condition:
        raise Wrong(name, says, yours, expected)


@dataclass(eq=False)  # itself alone is equal to it, and a key
class Exercise:
    """A function for the learner to write, with everything needed to check it.

    `probes` are inputs, smallest first; `further` are inputs at an edge, tried when all else is right:
    ("what is special there" or "what: a hint", inputs). Both may be functions, called once, where making
    them costs time.
    `observe(function, *probe)` tries a function and returns what it gave by name; by default its result,
    or its `results` by their names. It may raise `Wrong`.
    """

    solution: str  # as the notebook folds it
    look: str  # the formula and its source
    probes: list[tuple] | Callable[[], list[tuple]]
    mistakes: str | list[Mistake] = ""  # as `mistakes_of` reads them
    results: tuple[str, ...] = ("result",)
    gradient: tuple[str, ...] = ()  # arguments whose gradient must be right too
    further: list[tuple[str, tuple]] | Callable[[], list[tuple[str, tuple]]] = ()
    observe: Callable[..., Seen] | None = None
    cause: Callable[..., None] | None = None  # (function, *probe): raises Wrong with the reason
    uses: dict[str, object] = field(default_factory=dict)  # what the solution calls beside torch;
    # an Exercise where it is its function: its mistakes count here, too, and the learner's own function is
    # judged before this one is blamed
    seconds: float = 5.0  # for all probes together
    advice: str = "Calculate this small case by hand."  # where nothing else can be said
    remark: Callable[[Callable], str] = lambda function: ""  # said to a right answer, if anything

    memo: dict = field(default_factory=dict, init=False)
    name: str = field(init=False)  # of the solution's last function
    names: tuple[str, ...] = field(init=False)  # of its arguments

    def __post_init__(self):
        function = ast.parse(self.solution).body[-1]
        self.name, self.names = function.name, tuple(one.arg for one in function.args.args)
        if isinstance(self.mistakes, str):
            self.mistakes = mistakes_of(self.mistakes)

    @property
    def signature(self) -> str:
        """The call as the learner writes it: `gae(rewards, values)`."""
        return f"{self.name}({', '.join(self.names)})"

    @cached_property
    def cases(self) -> list[tuple]:
        """The probes."""
        return self.probes() if callable(self.probes) else self.probes

    @cached_property
    def edges(self) -> list[tuple[str, tuple]]:
        """The further inputs."""
        return self.further() if callable(self.further) else list(self.further)

    @cached_property
    def right(self) -> Callable:
        """The solution as a function."""
        return self.compiled(self.solution)

    @cached_property
    def used(self) -> dict[str, "Exercise"]:
        """The exercises whose functions the solution calls."""
        return {name: one for name, one in self.uses.items() if isinstance(one, Exercise)}

    @cached_property
    def known(self) -> list[Change]:
        """What its mistakes make of its solution, and theirs of the functions it calls; then two at once."""
        found = [Change(one.name, one.says, self.name, self.text(one)) for one in self.mistakes]
        for name, used in self.used.items():
            inner = [(f"{name}: {m.name}", m.says, name, used.text(m)) for m in used.mistakes]
            found += [Change(*one) for one in inner]
        for a, b in combinations(self.mistakes, 2):
            with suppress(ValueError):  # both are of one place
                both = f"Two at once. {a.says} And: {b.says}"
                found.append(Change(f"{a.name}, and {b.name}", both, self.name, self.text(a, b)))
        return found

    def compiled(self, source: str, **called: Callable) -> Callable:
        """The function of the exercise's name in a source; `called`: other functions it calls."""
        used = {name: one.right for name, one in self.used.items()}
        names = {"torch": torch, **self.uses, **used, **called}
        exec(compile(source, f"<{self.name}>", "exec"), names)  # noqa: S102 (our own text)
        return names[self.name]

    def with_change(self, change: Change) -> Callable:
        """The solution with the changed source of one of its functions."""
        if change.of == self.name:
            return self.compiled(change.source)
        called = {change.of: self.used[change.of].compiled(change.source)}
        return self.compiled(self.solution, **called)

    def text(self, *mistakes: Mistake) -> str:
        """The solution with these mistakes made. ValueError: an old text is not there exactly once."""
        text = self.solution
        for one in mistakes:
            if (times := text.count(one.old)) != 1:
                raise ValueError(f"{self.name}, {one.name}: {one.old!r} stands {times} times")
            text = text.replace(one.old, one.new)
        return text

    def edited(self, *mistakes: Mistake) -> Callable:
        """The solution with these mistakes made, as a function."""
        return self.compiled(self.text(*mistakes))

    @torch.enable_grad()  # a check may be called where gradients are off
    def seen(self, function: Callable, given: tuple) -> Seen:
        """What a function gives on these inputs, by name; models are in eval mode at first."""
        for x in given:
            if isinstance(x, nn.Module):
                x.eval()
        trained = {
            name: self.named(given)[name].detach().requires_grad_() for name in self.gradient
        }
        for name, x in trained.items():
            given = self.changed(given, name, x)
        if self.observe is not None:
            seen = self.observe(wraps(function)(lambda *inputs: call(function, inputs)), *given)
        elif len(self.results) > 1:
            seen = by_name(self.results, call(function, given))
        else:
            answer = call(function, given)
            number = isinstance(answer, float)  # so that a tensor may be returned as well
            seen = {self.results[0]: torch.tensor(answer).double() if number else answer}
        found = {name: x.detach() if isinstance(x, Tensor) else x for name, x in seen.items()}
        return found | gradients(seen, trained)

    def expected(self, probe: tuple) -> Seen:
        """What the solution gives on a probe, computed once."""
        if id(probe) not in self.memo:
            self.memo[id(probe)] = self.seen(self.right, probe)
        return self.memo[id(probe)]

    def named(self, probe: tuple, apart: bool = False) -> dict:
        """Arguments of a probe by name; none where `observe` makes them itself.

        `apart`: settings (a NamedTuple) field by field, `config.kl_coef`.
        """
        if len(probe) != len(self.names):
            return {}
        named = dict(zip(self.names, probe, strict=True))
        for name, x in list(named.items()) if apart else ():
            if hasattr(x, "_fields"):
                del named[name]
                named |= {f"{name}.{field}": value for field, value in x._asdict().items()}
        return named

    def changed(self, probe: tuple, name: str, value: object) -> tuple:
        """The probe with another value of one argument, or of one field of settings."""
        name, _, field = name.partition(".")
        place = self.names.index(name)
        value = probe[place]._replace(**{field: value}) if field else value
        return (*probe[:place], value, *probe[place + 1 :])

    def mask(self, probe: tuple) -> Tensor | None:
        """The probe's mask, where it has one."""
        named = self.named(probe)
        return named.get("mask", named.get("counted"))


def gradients(seen: Seen, trained: dict[str, Tensor]) -> Seen:
    """The gradients of the sum of all results by these inputs; 0 where there is none."""
    linked = [x for x in seen.values() if isinstance(x, Tensor) and x.requires_grad]
    sums = [x.double().sum() for x in linked if not x.is_meta]
    inputs = list(trained.values())
    found = map(torch.zeros_like, inputs)
    if sums and inputs:
        found = torch.autograd.grad(sums, inputs, materialize_grads=True)
    return {f"gradient of {name}": g for name, g in zip(trained, found, strict=True)}


def by_name(names: tuple[str, ...], answer: object) -> Seen:
    """Several results by their names. Wrong: another number of them."""
    wants = f"Return {len(names)} results: {', '.join(names)}."
    several = isinstance(answer, (tuple, list))
    got = f"{len(answer)} results" if several else f"{type(answer).__name__}: {answer!r:.40}"
    expect(several and len(answer) == len(names), "wrong type", f"{wants} You return {got}.")
    return dict(zip(names, answer, strict=True))


def tensor_of(answer: object, shape: tuple[int, ...], wants: str) -> Tensor:
    """The answer, if it is a tensor of this shape. Wrong: it is something else."""
    tensor = isinstance(answer, Tensor)
    got = form(answer) if tensor else type(answer).__name__
    expect(tensor and answer.shape == shape, "wrong shape", f"Return {wants}. You return {got}.")
    return answer


def floats(*rows) -> Tensor:
    """Rows of numbers as a float32 tensor."""
    return torch.tensor(rows, dtype=torch.float32)


def prefix_mask(width: int, *lengths: int) -> Tensor:
    """[B, T], True for the first `lengths[b]` positions of row b."""
    return torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]


def masks(*rows: str) -> Tensor:
    """A mask from rows of 0 and 1."""
    return torch.tensor([[one == "1" for one in row] for row in rows])


def counted_only(x: object, mask: Tensor) -> object:
    """A result with 0 where the mask is False, since what stands there may be anything; else as it is."""
    fits = isinstance(x, Tensor) and x.shape == mask.shape
    return torch.where(mask, x, torch.zeros_like(x)) if fits else x


def noise(seed: int, *shape: int) -> Tensor:
    """Normal random numbers that do not depend on the learner's seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sizes(given: tuple, token: bool = True, row: bool = True) -> list[tuple[str, tuple]]:
    """Edges made from a probe whose tensors have one entry a row: one row, one token, forty rows."""

    def each(change: Callable) -> tuple:
        return tuple(change(x) if isinstance(x, Tensor) else x for x in given)

    edges = [("there is one row", each(lambda x: x[:1]))] if row else []
    if token:
        edges.append(("there is one token", each(lambda x: x[:1, :1] if x.dim() > 1 else x[:1])))
    return [*edges, ("there are forty rows", each(lambda x: torch.cat([x] * 40)[:40]))]
