"""Well-known wrong versions of step 4 of a trainer, the log-probs (notebook 06), and what to say of each.

A check runs them on its recorded inputs, and compares what they give with what the learner's function
gave. Signatures are those of `course_steps`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.exercise import kept
from helpers.one_page import position_ids


def all_logprobs(policy, ids, mask, temperature, positions="right", attend=True) -> Tensor:
    """Log-softmax after each token: [B, L, V]; with other positions, or with padding attended to."""
    m = mask.bool()
    made = {"right": position_ids(m), "columns": None, "from one": m.cumsum(1)}
    made["minus one"] = (m.cumsum(1) - 1).clamp(min=0)
    made["first row"] = position_ids(m[:1]).expand(m.shape)
    more = {} if made[positions] is None else {"position_ids": made[positions]}
    if attend:
        more["attention_mask"] = m
    return (policy(ids, **more).logits / temperature).log_softmax(-1)


def picked(x: Tensor, tokens: Tensor) -> Tensor:
    """x at the tokens: [B, T, V], [B, T] → [B, T]."""
    return x.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def logprobs_with(change=lambda x: x, first=1, **how) -> Callable:
    """Log-probs with one thing changed; `first` = 1 reads before each token, 0 at it, 2 too early."""

    def wrong(policy, ids, mask, length, temperature):
        x = all_logprobs(policy, ids, mask, temperature, **how)
        x = x[:, -length:] if first == 0 else x[:, -length - first : -first]
        return change(picked(x, ids[:, -length:]))

    return wrong


def likeliest(policy, ids, mask, length, temperature):
    """The log-prob of the likeliest token, whichever was drawn."""
    return all_logprobs(policy, ids, mask, temperature)[:, -length - 1 : -1].amax(-1)


def at(change: Callable) -> Callable:
    """At another temperature."""

    def wrong(policy, ids, mask, length, temperature):
        return logprobs_with()(policy, ids, mask, length, change(temperature))

    return wrong


def scaled_logits(policy, ids, mask, length, temperature) -> Tensor:
    """The right logits, divided by the temperature: [B, T, V]."""
    output = policy(ids, attention_mask=mask.bool(), position_ids=position_ids(mask.bool()))
    return output.logits[:, -length - 1 : -1] / temperature


def raw_logits(policy, ids, mask, length, temperature):
    """The logit of each token, without a softmax."""
    return picked(scaled_logits(policy, ids, mask, length, temperature), ids[:, -length:])


def over(dim: int) -> Callable:
    """The softmax along another axis."""

    def wrong(policy, ids, mask, length, temperature):
        x = scaled_logits(policy, ids, mask, length, temperature)
        return picked(x.log_softmax(dim), ids[:, -length:])

    return wrong


def over_the_largest(policy, ids, mask, length, temperature):
    """Each logit minus the largest one."""
    x = scaled_logits(policy, ids, mask, length, temperature)
    return picked(x - x.amax(-1, keepdim=True), ids[:, -length:])


def unscaled_logits(policy, ids, mask, length, temperature):
    """The logit of each token, without a softmax and without the temperature."""
    return raw_logits(policy, ids, mask, length, 1.0)


def no_temperature(policy, ids, mask, length, temperature):
    """At temperature 1."""
    return logprobs_with()(policy, ids, mask, length, 1.0)


def of_previous(policy, ids, mask, length, temperature):
    """The right distribution, gathered at the token before."""
    x = all_logprobs(policy, ids, mask, temperature)[:, -length - 1 : -1]
    return picked(x, ids[:, -length - 1 : -1])


def before(x: Tensor, length: int) -> Tensor:
    """The positions just before the last `length`."""
    return x[:, -length - 1 : -1]


def without_prompt(policy, ids, mask, length, temperature):
    """The response alone is read; its first token by nothing before it."""
    x = all_logprobs(policy, ids[:, -length:], mask[:, -length:], temperature)
    first = torch.zeros_like(x[:, :1, 0])
    return torch.cat([first, picked(x[:, :-1], ids[:, -length + 1 :])], 1)


def half_scaled(policy, ids, mask, length, temperature):
    """The logit is divided by the temperature, what is in the logsumexp is not."""
    m = mask.bool()
    z = before(policy(ids, attention_mask=m, position_ids=position_ids(m)).logits, length)
    return picked(z, ids[:, -length:]) / temperature - z.logsumexp(-1)


def over_batch(policy, ids, mask, length, temperature):
    """The softmax along the batch."""
    m = mask.bool()
    z = before(policy(ids, attention_mask=m, position_ids=position_ids(m)).logits, length)
    return picked((z / temperature).log_softmax(0), ids[:, -length:])


def logsoftmax_again(policy, ids, mask, length, temperature):
    """The log-softmax of probabilities."""
    x = before(all_logprobs(policy, ids, mask, temperature), length)
    return picked(x.exp().log_softmax(-1), ids[:, -length:])


def rounded_up(least: float) -> Callable:
    """The logarithm of a probability plus a small number."""
    return logprobs_with(lambda x: (x.exp() + least).log())


LOGPROB_MISTAKES = kept([
    ("log-probs of the next token", "Your log-probs are those of the next token: logits[:, t] predict"
     " token t + 1, so the response's T tokens are predicted by logits[:, -T-1:-1].",
     logprobs_with(first=0)),
    ("one token too early", "Your logits are one position too early: response token t is predicted at"
     " the position just before it.", logprobs_with(first=2)),
    ("no temperature", "These log-probs are those of the logits as they are: divide them by the temperature,"
     " here and for drawing.",
     no_temperature),
    ("log-probs of the next token, and no temperature", "Two slips: your log-probs are those of the next"
     " token (the response's T tokens are predicted by logits[:, -T-1:-1]), and the logits are not divided"
     " by the temperature.",
     lambda policy, ids, mask, length, T: logprobs_with(first=0)(policy, ids, mask, length, 1.0)),
    ("divided after the softmax", "You divided the log-probs by the temperature; divide the logits by"
     " it, before the softmax.",
     lambda policy, ids, mask, length, T: no_temperature(policy, ids, mask, length, T) / T),
    ("log-probs of the previous tokens", "You gathered the previous tokens, ids[:, -T-1:-1]: those are"
     " in the input already. The logits are right; the tokens are ids[:, -T:].", of_previous),
    ("times the temperature", "Divide the logits by the temperature; you multiplied.",
     lambda policy, ids, mask, length, T: logprobs_with()(policy, ids, mask, length, 1 / T)),
    ("positions count the padding", "Your positions count left padding, which moves the words to positions"
     " they were never trained on: give position_ids, cumsum(mask) − mask.",
     logprobs_with(positions="columns")),
    ("positions count from 1", "Your positions begin at 1; cumsum(mask) − mask begins at 0.",
     logprobs_with(positions="from one")),
    ("padding is read", "The model reads the padding: give it the mask as attention_mask.",
     logprobs_with(attend=False)),
    ("in bits", "Your log-probs are in bits; nats are asked for: the natural logarithm.",
     logprobs_with(lambda x: x / math.log(2))),
    ("the temperature twice", "The logits are divided by the temperature twice.", at(lambda T: T * T)),
    ("divided by 1 + temperature", "Divide by the temperature itself, not by 1 + temperature.",
     at(lambda T: 1 + T)),
    ("softmax over the batch", "Your softmax is along dim=0, the batch; the vocabulary is dim=-1.",
     over(0)),
    ("the largest logit for the normaliser", "You subtracted the largest logit; subtract logsumexp of all.",
     over_the_largest),
    ("padding is read", "The model reads the padding, and counts it in its positions: give it"
     " attention_mask and position_ids.", logprobs_with(attend=False, positions="columns")),
    ("position ids of the first row", "You give every row the position ids of the first; each row has its"
     " own padding.", logprobs_with(positions="first row")),
    ("no prompt", "The model reads the response without its prompt: give it ids, and take the last T"
         " log-probs.",
     without_prompt),
    ("normalised without the temperature", "You divided the logits by the temperature, but not those in the"
     " logsumexp: divide first, then log_softmax.", half_scaled),
    ("root of the temperature", "You divided by the root of the temperature.",
     lambda policy, ids, mask, length, T: logprobs_with()(policy, ids, mask, length, T**0.5)),
    ("times the probability", "You multiplied log p by p, as in an entropy; return log p.",
     logprobs_with(lambda x: x * x.exp())),
    ("in bits", "Your log-probs are in bits (log2); use nats, the natural logarithm.",
     logprobs_with(lambda x: x / math.log(2))),
    ("added up along the response", "You added the log-probs up along the response (cumsum); return one for"
     " each token.", logprobs_with(lambda x: x.cumsum(1))),
    ("mean in every place", "You give the mean log-prob in every place; return one for each token.",
     logprobs_with(lambda x: x.mean(1, keepdim=True).expand_as(x))),
    ("tokens in reverse order", "Your tokens stand in reverse order.", logprobs_with(lambda x: x.flip(1))),
    ("softmax over the batch", "Your softmax is along dim=0, the batch; the vocabulary is dim=-1.",
     over_batch),
    ("log-softmax twice", "You took the softmax twice: log_softmax takes logits.",
     lambda policy, ids, mask, length, T: logsoftmax_again(policy, ids, mask, length, T)),
    ("a small number in the logarithm", "You added a small number before the logarithm: very unlikely tokens"
     " come out too likely. Use log_softmax.", rounded_up(1e-6)),
    ("a small number in the logarithm", "You added a small number before the logarithm: very unlikely tokens"
     " come out too likely. Use log_softmax.", rounded_up(1e-8)),
    ("a small number in the logarithm", "You added a small number before the logarithm: very unlikely tokens"
     " come out too likely. Use log_softmax.", rounded_up(1e-10)),
    ("probabilities", "You have probabilities; PPO needs their logarithms.",
     logprobs_with(torch.exp)),
    ("negative log-probs", "You have −log p, the cross-entropy; return log p, never above 0.",
     logprobs_with(torch.neg)),
    ("softmax over time", "Your softmax is along dim=1, the positions; the vocabulary is dim=-1.",
     over(1)),
    ("no softmax", "You gathered logits; apply log_softmax over the vocabulary first.", raw_logits),
    ("no softmax", "You gathered logits; divide them by the temperature, and apply log_softmax over the"
     " vocabulary first.", unscaled_logits),
    ("the likeliest token", "You took the likeliest token's log-prob; take the one that was drawn.",
     likeliest),
])  # fmt: skip
