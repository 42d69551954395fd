"""Notebook 06, steps 3 and 4: what one set of recorded inputs cannot show, and why numbers are wrong.

`then_…` looks once more at a function whose numbers are right: another setting, one token, the gradient.
`cause_…` looks at one whose numbers are wrong and that gives none of the well-known results: at what it
gives to the models, and at how its result changes with its inputs. Both raise `Wrong`.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike
from helpers.checks.judging.model_calls import calls_made, check_call
from helpers.checks.judging.report import show
from helpers.checks.trainer.course_steps import COURSE
from helpers.checks.trainer.inputs import Seen, Wrong, expect, recorded
from helpers.checks.trainer.logprob_mistakes import all_logprobs, picked

# --- 3: scores ------------------------------------------------------------------------------------


def numbered(texts: list[str]) -> Tensor:
    """A reward without a model: another number for each text."""
    return torch.tensor([1.0 + sum(map(ord, squeezed(text))) % 97 for text in texts])


def compared_texts(function: Callable, ids: Tensor, mask: Tensor) -> None:
    """Wrong: `reward` is given other texts than these rows, or its numbers are changed."""
    tokenizer, asked = recorded().parts.tokenizer, []

    def reward(texts):
        asked.extend(texts)
        return numbered(list(texts))

    answer = function(reward, tokenizer, ids.clone(), mask.clone())
    rows = tokenizer.batch_decode(ids, skip_special_tokens=True)
    says = (
        f"You give `reward` {len(asked)} texts for {len(rows)} rows: one whole text for each row."
    )
    expect(len(asked) == len(rows), "not one text a row", says)
    off = [k for k, pair in enumerate(zip(asked, rows, strict=True)) if not same_text(*pair)]
    if sorted(map(squeezed, asked)) == sorted(map(squeezed, rows)):
        if answer.shape == (len(rows),) and alike(answer, numbered(rows)):
            return  # asked in another order or not, each row has its score
        expect(not off, "another order of rows", "Your texts are right, in another order of rows.")
    says = f"The text of row {off[0] if off else 0} that you give `reward` is not that of the row. Decode ids"
    says += " as they are: prompt and response, up to the end."
    if off:
        raise Wrong("other texts", says, asked[off[0]], rows[off[0]])
    check_untouched(answer, numbered(rows))


def check_untouched(answer: Tensor, right: Tensor) -> None:
    """Wrong: what `reward` gave is changed before it is returned."""
    if answer.shape == right.shape and alike(answer, right):
        return
    if answer.shape == right.shape and alike(answer.sort().values, right.sort().values):
        says = "Your scores are right, but they stand in another order than the rows of ids."
        raise Wrong("another order of rows", says, show(answer), show(right))
    says = "The texts are right, and `reward` scores them; but you change its numbers before you return them."
    says += " Return them as they are, one for each row."
    raise Wrong("scores changed", says, show(answer), show(right))


def squeezed(text: str) -> str:
    """The text without blanks: how punctuation is joined does not matter."""
    return "".join(text.split())


def same_text(one: str, other: str) -> bool:
    """Whether two texts hold the same words."""
    return squeezed(one) == squeezed(other)


def long_rows() -> tuple[Tensor, Tensor]:
    """Three long texts, of which two are equal: the longest responses, written twice."""
    r = recorded()
    pick = [5, 4, 5]
    ids, mask = (torch.cat([x, x[:, -r.length :]], 1)[pick] for x in (r.ids, r.mask))
    return ids, mask


def then_scores(function: Callable) -> Seen:
    """Long texts, of which two are equal; one row; forty rows."""
    compared_texts(function, *long_rows())
    r = recorded()
    compared_texts(function, r.ids[:1], r.mask[:1])
    compared_texts(function, r.ids.repeat(7, 1)[:40], r.mask.repeat(7, 1)[:40])
    return {}


def cause_scores(function: Callable) -> None:
    """Whether the texts are wrong or the numbers."""
    r = recorded()
    compared_texts(function, r.ids, r.mask)


# --- 4: log-probs ---------------------------------------------------------------------------------


def some(rows: slice | list, function: Callable, temperature: float, policy=None) -> Tensor:
    """The function's log-probs of some of the recorded rows, 0 on padding."""
    r = recorded()
    policy = r.parts.actor if policy is None else policy
    with torch.no_grad():
        x = function(policy, r.ids[rows], r.mask[rows], r.length, temperature)
    return torch.where(r.counted[rows], x, 0.0)


def then_logprobs(function: Callable) -> Seen:
    """Another temperature, unlikely tokens, one response of one token, the gradient."""
    right, r = COURSE["forward_logprobs"], recorded()
    rows = slice(0, 2)
    got, want = some(rows, function, 1.3), some(rows, right, 1.3)
    says = f"All is right at temperature {r.config.temperature}, and at 0.1, and not at 1.3: is"
    expect(alike(got, want), "another temperature", f"{says} `temperature` limited?", got, want)
    cold = r.config.temperature * float(some(rows, right, r.config.temperature).min()) / -300
    got, want = some(rows, function, cold), some(rows, right, cold)
    worst = (got - want).abs().nan_to_num(torch.inf).argmax()
    says = f"A token of log-prob {float(want.flatten()[worst]):.3g} gets {float(got.flatten()[worst]):.3g}:"
    says += " unlikely tokens are wrong. Is it a logarithm of probabilities, or clamped? Take log_softmax of"
    says += " the logits."
    expect(bool(torch.isclose(got, want, 1e-2, 1e-3).all()), "unlikely tokens", says)
    check_one_token(function)
    check_gradient(function)
    return {}


def check_one_token(function: Callable) -> None:
    """Wrong: another shape for one response of one token."""
    r = recorded()
    end = r.ids.shape[1] - r.length + 1
    with torch.no_grad():
        x = function(r.parts.actor, r.ids[:1, :end], r.mask[:1, :end], 1, r.config.temperature)
    says = f"For one response of one token you return shape {tuple(x.shape)}; it should be (1, 1). squeeze()"
    says += " drops every axis of length 1: say which, squeeze(-1)."
    expect(tuple(x.shape) == (1, 1), "one response of one token", says)


def check_gradient(function: Callable) -> None:
    """Wrong: right numbers through which another gradient flows."""
    r = recorded()
    model, weights = r.shallow.actor, torch.linspace(-1, 1, r.counted.numel()).view_as(r.counted)
    found = []
    for one in (function, COURSE["forward_logprobs"]):
        with torch.enable_grad():
            x = one(model, r.ids, r.mask, r.length, r.config.temperature)
            loss = torch.where(r.counted, weights * x, 0.0).sum()
            parts = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        found.append(torch.cat([g.flatten() for g in parts if g is not None]))
    got, want = found
    near = got.shape == want.shape and bool((got - want).norm() <= 2e-3 * want.norm())
    says = "Your numbers are right, but the gradient that they pass on to the policy is not. Is a part of"
    expect(near, "wrong gradient", f"{says} log_softmax detached, or computed under no_grad?")


class Flat(torch.nn.Module):
    """A policy that looks at each text's first token only: logits [V] times 1 + that token."""

    def __init__(self, logits: Tensor):
        super().__init__()
        self.row = torch.nn.Parameter(logits)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **other):
        """Output with `logits` [B, L, V]."""
        rows = (1 + input_ids[:, :1, None]) * self.row
        return SimpleNamespace(logits=rows.expand(*input_ids.shape, len(self.row)))


def cause_logprobs(function: Callable) -> None:
    """What the policy is given; then the temperature, the rows, the columns and the softmax."""
    r = recorded()
    T, ids = r.config.temperature, r.ids
    for call in calls_made(r.parts.actor, lambda: some(slice(None), function, T))[-1:]:
        check_call(call, r.mask, "the policy")
    got = some(slice(None), function, T)
    says = "`temperature` has no effect: divide the logits by it, before the softmax. Is a number written"
    says += " in its place?"
    expect(not alike(got, some(slice(None), function, 1.7)), "no temperature", says)
    turned = list(range(len(ids)))[::-1]
    says = "In another order of rows the same response gets other log-probs: is a line along dim=0, the"
    says += " batch, or one row's used for all? The softmax is over the vocabulary, dim=-1."
    expect(alike(some(turned, function, T), got[turned]), "rows depend on each other", says)
    with torch.no_grad():
        every = all_logprobs(r.parts.actor, ids, r.mask, T)
        name_column(got, every)
        name_tokens(got, every)
    check_normalised(function)


def name_column(got: Tensor, every: Tensor) -> None:
    """Wrong: these are right log-probs of the response's tokens, read at other columns [B, L, V]."""
    r = recorded()
    T, width = r.length, r.ids.shape[1]
    for first in range(width - T + 1):
        made = torch.where(r.counted, picked(every[:, first : first + T], r.ids[:, -T:]), 0.0)
        if first != width - T - 1 and alike(got, made):
            says = f"You read the logits of columns {first} to {first + T - 1}. The response's {T} tokens are"
            says += (
                f" predicted one column before each: {width - T - 1} to {width - 2}, [:, -T-1:-1]."
            )
            raise Wrong("other columns", says)


def name_tokens(got: Tensor, every: Tensor) -> None:
    """Wrong: all are log-probs of the right distributions [B, L, V], but of other tokens."""
    r = recorded()
    T, width = r.length, r.ids.shape[1]
    there = every[:, -T - 1 : -1]
    if alike(got, torch.where(r.counted, picked(there, r.ids[:, -T:]), 0.0)):
        return
    says = "Your distributions are right, but you look up other tokens in them"
    for first in range(width - T):
        made = torch.where(r.counted, picked(there, r.ids[:, first : first + T]), 0.0)
        if alike(got, made):
            says += f": those of columns {first} to {first + T - 1} of ids."
            raise Wrong("other tokens", f"{says} The response's are the last {T}, ids[:, -T:].")
    off = (there - got.unsqueeze(-1)).abs().amin(-1)[r.counted]
    says += ". The response's are ids[:, -T:], each in the logits of the column before it."
    expect(not bool((off < 1e-4).all()), "other tokens", says)


@torch.no_grad()
def check_normalised(function: Callable) -> None:
    """Wrong: the probabilities of all tokens do not sum to 1, or are not the softmax of a simple policy."""
    r = recorded()
    V = r.parts.actor.config.vocab_size
    row = torch.randn(V, generator=torch.Generator().manual_seed(4))
    every = torch.arange(V)
    # two texts, whose last token takes each value once
    ids = torch.cat([torch.stack([0 * every + k, 0 * every, every], 1) for k in (0, 1)])
    x = function(Flat(row), ids, torch.ones_like(ids).bool(), 1, 0.9)
    x = x.reshape(2, V)
    same = alike(x, x[:, :1].expand_as(x))
    says = "Whichever token the response has, it gets the same log-prob: look up ids[:, -T:], its tokens."
    expect(not same, "other tokens", says)
    totals = x.double().exp().sum(1)
    total = float(totals[(totals - 1).abs().argmax()])
    says = f"Over all {V} tokens of the vocabulary your probabilities sum to {total:.3g}; they should sum to"
    says += " 1: log_softmax(-1) of the logits / temperature, for each place by itself."
    expect(abs(total - 1) < 1e-3, "not normalised", says)
    right = torch.stack([row, 2 * row]).div(0.9).log_softmax(-1)
    says = "Your probabilities sum to 1, but they are not softmax(logits / temperature). Where does"
    fits = alike(x, right)  # then something else is wrong
    expect(fits, "another temperature", f"{says} `temperature` stand?")
