"""The large exercise of notebook 11: a whole DPO training, from tokens to losses."""

import copy
from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from helpers.checks.direct.dpo_loss import gains
from helpers.checks.judging.exercise import WHOLE_FIT, Exercise, noise


class TablePolicy(nn.Module):
    """A language model of one table: row v holds the logits of the token after v, [V, V]."""

    def __init__(self, table: Tensor):
        super().__init__()
        self.table = nn.Parameter(table.clone())

    def forward(self, tokens: Tensor) -> SimpleNamespace:
        """Output with `logits` [N, L, V] for tokens [N, L], as a transformers model gives it."""
        return SimpleNamespace(logits=self.table[tokens])

    def __repr__(self) -> str:
        return "a table of {} × {} logits, policy(tokens).logits".format(*self.table.shape)


def response_logprobs(model: nn.Module, tokens: Tensor, mask: Tensor) -> Tensor:
    """log π(response) of each row of prompt + response: the sum over the tokens the mask counts: [N]."""
    logprobs = model(tokens[:, :-1]).logits.log_softmax(dim=-1)
    taken = logprobs.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return torch.where(mask[:, 1:], taken, 0.0).sum(dim=1)


def mean_dpo(logprobs: Tensor, ref_logprobs: Tensor, kl_coef: float) -> Tensor:
    """The DPO loss of rows of which the first half are chosen, the second rejected."""
    sides = (*logprobs.chunk(2), *ref_logprobs.chunk(2))
    return -logsigmoid(kl_coef * gains(*sides)).mean()


def train_dpo(
    policy, reference, tokens, mask, kl_coef, learning_rate, steps,
    sequence=response_logprobs, loss_of=mean_dpo, ref_from="reference", trained="policy",
    zero=True, step=True, sign=1.0, keep="before", descent=torch.optim.SGD,
):  # fmt: skip
    """DPO by gradient descent on all pairs; → the loss before each step, [steps].

    The arguments of the second and third line are what the well-known mistakes change.
    """
    policy, reference = copy.deepcopy(policy), copy.deepcopy(reference)
    weights = {"policy": policy, "reference": reference}[trained].parameters()
    optimizer = descent(weights, lr=learning_rate)
    ref_logprobs = sequence(reference, tokens, mask)
    losses = []
    for _ in range(steps):
        logprobs = sequence(policy, tokens, mask)
        if trained == "reference":
            ref_logprobs = sequence(reference, tokens, mask)
        elif ref_from == "policy":
            ref_logprobs = logprobs
        fixed = ref_logprobs if trained == "reference" else ref_logprobs.detach()
        loss = loss_of(logprobs, fixed, kl_coef)
        if zero:
            optimizer.zero_grad()
        (sign * loss).sum().backward()
        if step:
            optimizer.step()
        if keep == "after":
            loss = loss_of(sequence(policy, tokens, mask), fixed, kl_coef)
        losses.append(loss.detach())
    return torch.stack(losses)


def per_token(take, mask_of=lambda mask: mask[:, 1:], reduce=lambda x, mask: (x * mask).sum(1)):
    """Another `response_logprobs`: other numbers of each token, another mask, another reduction."""

    def sequence(model, tokens, mask):
        return reduce(take(model, tokens), mask_of(mask))

    return sequence


def logprobs_of(model, tokens, normalise=lambda x: x.log_softmax(-1)):
    """The correct log-probs of the tokens after the first: [N, L − 1]."""
    scores = normalise(model(tokens[:, :-1]).logits)
    return scores.gather(-1, tokens[:, 1:, None]).squeeze(-1)


def own_position(model, tokens):
    """Log-probs of the tokens by the logits at their own position: one too late."""
    return model(tokens).logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)[:, 1:]


def last_left_out(mask):
    """The mask without the last counted token of each row."""
    after = torch.nn.functional.pad(mask[:, 2:], (0, 1))
    return mask[:, 1:] & after


def first_left_out(mask):
    """The mask without the first counted token of each row."""
    return mask[:, 1:] & (mask.long().cumsum(1)[:, 1:] > 1)


def without_last_column(mask):
    """The mask without its last column."""
    return mask[:, 1:] & (torch.arange(1, mask.shape[1]) < mask.shape[1] - 1)


def by_pairs(logprobs, ref_logprobs, kl_coef):
    """The loss of rows taken two by two."""
    sides = logprobs[0::2], logprobs[1::2], ref_logprobs[0::2], ref_logprobs[1::2]
    return -logsigmoid(kl_coef * gains(*sides)).mean()


def with_margin(loss):
    """A wrong loss of the right margins."""
    return lambda p, ref, b: loss(b * gains(*p.chunk(2), *ref.chunk(2)))


def other_gains(h):
    """The right loss of other gains h(chosen, rejected, ref_chosen, ref_rejected)."""
    return lambda p, ref, b: -logsigmoid(b * h(*p.chunk(2), *ref.chunk(2))).mean()


def table(seed: int, size: int) -> TablePolicy:
    return TablePolicy(noise(seed, size, size))


TOKENS = torch.tensor([[0, 1, 2, 3], [0, 2, 3, 3]])  # 3 ends a response, and fills up
COUNTS = torch.tensor([[False, True, True, True], [False, True, True, False]])
MORE = torch.tensor(
    [
        [1, 0, 2, 4, 5, 5],
        [2, 3, 3, 1, 0, 5],
        [3, 1, 5, 5, 5, 5],
        [1, 0, 4, 4, 2, 5],
        [2, 3, 5, 5, 5, 5],
        [3, 1, 0, 2, 5, 5],
    ]
)
LENGTHS = torch.tensor([3, 4, 1, 4, 1, 3])  # after a prompt of two tokens
MORE_COUNTS = (torch.arange(6) >= 2) & (torch.arange(6) < 2 + LENGTHS[:, None])

# fmt: off
TRAIN_DPO = Exercise(
    "train_dpo", "policy reference tokens mask kl_coef learning_rate steps", train_dpo,
    "margin = β·[(log π − log π_ref)(chosen) − (log π − log π_ref)(rejected)], log π of a response ="
    " the sum over its counted tokens; loss = −mean log σ(margin) (Rafailov et al. 2023; notebook 11)",
    [
        (table(11, 4), table(12, 4), TOKENS, COUNTS, 0.5, 0.5, 2),
        (table(13, 6), table(14, 6), MORE, MORE_COUNTS, 0.3, 1.0, 3),
    ],
    [
        ("logits of the token's own position", "Step 1: you read each token's log-prob from the"
         " logits at its own position. They are a forecast of the next token: take those of the"
         " position before.", partial(train_dpo, sequence=per_token(own_position))),
        ("padding counted", "Step 2: you summed over the padding too. Count only where the mask is"
         " True.", partial(train_dpo, sequence=per_token(
             logprobs_of, lambda mask: torch.ones_like(mask[:, 1:])))),
        ("mask one position off", "Step 2: the mask belongs to the tokens. The log-probs are those of"
         " tokens[:, 1:], so the mask is mask[:, 1:].", partial(
             train_dpo, sequence=per_token(logprobs_of, lambda mask: mask[:, :-1]))),
        ("stop token left out", "Step 2: the last counted token of each response is missing. The stop"
         " token is an action like any other.", partial(
             train_dpo, sequence=per_token(logprobs_of, last_left_out))),
        ("mean over tokens", "Step 2: you averaged over the tokens. log π of a response is the sum;"
         " a mean makes β another one for each length.", partial(
             train_dpo, sequence=per_token(
                 logprobs_of, reduce=lambda x, mask: (x * mask).sum(1) / mask.sum(1)))),
        ("mean over all positions", "Step 2: you averaged over all positions, padding included. log π"
         " of a response is a sum.", partial(
             train_dpo, sequence=per_token(
                 logprobs_of, reduce=lambda x, mask: (x * mask).mean(1)))),
        ("logits not normalised", "Step 1: you summed logits; log-probs are log_softmax of them.",
         partial(train_dpo, sequence=per_token(partial(logprobs_of, normalise=lambda x: x)))),
        ("probabilities instead of log-probs", "Step 1: you summed probabilities; take log_softmax.",
         partial(train_dpo, sequence=per_token(
             partial(logprobs_of, normalise=lambda x: x.softmax(-1))))),
        ("softmax over time", "Step 1: your softmax is along dim=1; the vocabulary is dim=-1.",
         partial(train_dpo, sequence=per_token(
             partial(logprobs_of, normalise=lambda x: x.log_softmax(1))))),
        ("every loss log 2", "Every loss is log 2, so every margin is 0. Step 3: are the reference's"
         " log-probs the"
         " policy's own? Ask the frozen reference, once. Step 4: is a side subtracted from itself?",
         partial(train_dpo, ref_from="policy")),
        ("policy as it was for reference", "Step 3: you took the policy at the start as the"
         " reference. Ask the model called reference.",
         lambda policy, reference, *rest: train_dpo(policy, policy, *rest)),
        ("reference trained", "Step 5: your optimizer moves the reference. It stays frozen: train the"
         " policy.", partial(train_dpo, trained="reference")),
        ("reference missing", "Step 4: your margin is of log π alone; take log-ratios to the"
         " reference.", partial(
             train_dpo, loss_of=other_gains(lambda c, r, rc, rr: c - r))),
        ("reference added", "Step 4: you added the reference's log-probs; subtract them.", partial(
            train_dpo, loss_of=other_gains(lambda c, r, rc, rr: c - r + rc - rr))),
        ("chosen and rejected swapped", "Step 4: your margin is rejected − chosen. The first B rows"
         " are the chosen responses.", partial(
             train_dpo, loss_of=with_margin(lambda m: -logsigmoid(-m).mean()))),
        ("rows taken two by two", "Step 4: you took rows 0, 2, … as chosen. The first B rows are the"
         " chosen ones, the last B the rejected: use chunk(2).", partial(
             train_dpo, loss_of=by_pairs)),
        ("β missing", "Step 4: β = {kl_coef} has no effect; it multiplies the log-ratios.", partial(
            train_dpo, loss_of=lambda p, ref, b: mean_dpo(p, ref, 1.0))),
        ("divided by β", "Step 4: you divided the margin by β; multiply it.", partial(
            train_dpo, loss_of=lambda p, ref, b: mean_dpo(p, ref, 1 / b))),
        ("β outside the sigmoid", "Step 4: β belongs inside the sigmoid.", partial(
            train_dpo, loss_of=lambda p, ref, b: b * mean_dpo(p, ref, 1.0))),
        ("logarithm missing", "Step 4: that is −σ(margin); the loss is −log σ(margin).", partial(
            train_dpo, loss_of=with_margin(lambda m: -m.sigmoid().mean()))),
        ("minus sign missing", "Step 4: the loss is *minus* log σ: the optimizer minimises it.",
         partial(train_dpo, loss_of=with_margin(lambda m: logsigmoid(m).mean()))),
        ("no sigmoid", "Step 4: that is −margin; the loss is −log σ(margin).", partial(
            train_dpo, loss_of=with_margin(lambda m: -m.mean()))),
        ("sum instead of mean", "Step 4: you summed over the pairs; take the mean.", partial(
            train_dpo, loss_of=with_margin(lambda m: -logsigmoid(m).sum()))),
        ("one loss per pair", "Step 6: keep one number a step: the mean over the pairs.", partial(
            train_dpo, loss_of=with_margin(lambda m: -logsigmoid(m)))),
        ("gradients never cleared", "Step 5: call optimizer.zero_grad() before each backward;"
         " otherwise the gradients of all steps add up.", partial(train_dpo, zero=False)),
        ("Adam", "Your optimizer is Adam; here it is plain gradient descent: torch.optim.SGD.",
         partial(train_dpo, descent=torch.optim.Adam)),
        ("AdamW", "Your optimizer is AdamW; here it is plain gradient descent: torch.optim.SGD.",
         partial(train_dpo, descent=torch.optim.AdamW)),
        ("logarithm of the mean", "Step 4: you took the logarithm of the mean of σ; take the mean of"
         " log σ.", partial(train_dpo, loss_of=with_margin(lambda m: -m.sigmoid().mean().log()))),
        ("mean of the margins first", "Step 4: you averaged the margins, then took log σ; take log σ of each"
         " pair's margin, then the mean.",
         partial(train_dpo, loss_of=with_margin(lambda m: -logsigmoid(m.mean())))),
        ("the first pair alone", "Step 4: your loss is that of the first pair; average over all B.",
         partial(train_dpo, loss_of=with_margin(lambda m: -logsigmoid(m[0])))),
        ("the last pair alone", "Step 4: your loss is that of the last pair; average over all B.",
         partial(train_dpo, loss_of=with_margin(lambda m: -logsigmoid(m[-1])))),
        ("divided by the rows", "Step 4: your loss is half of the right one, as if divided by the 2B rows;"
         " there are B pairs.",
         partial(train_dpo, loss_of=with_margin(lambda m: -logsigmoid(m).mean() / 2))),
        *[("smoothed labels", f"Step 4: you smoothed the labels by {by}; here they are taken as they are.",
           partial(train_dpo, loss_of=with_margin(lambda m, by=by: -(
               (1 - by) * logsigmoid(m) + by * logsigmoid(-m)).mean()))) for by in (0.05, 0.1, 0.2)],
        ("hinge", "Step 4: that is a hinge loss (SLiC); DPO's is −log σ(margin).",
         partial(train_dpo, loss_of=with_margin(lambda m: (1 - m).relu().mean()))),
        *[("IPO", "Step 4: that is IPO's squared error; DPO's loss is −log σ(margin).",
           partial(train_dpo, loss_of=lambda p, ref, b, at=at: (
               gains(*p.chunk(2), *ref.chunk(2)) - at(b)).square().mean()))
          for at in (lambda b: 1 / (2 * b), lambda b: 1 / b)],
        ("rejected missing", "Step 4: your margin has the chosen responses alone; compare the two.",
         partial(train_dpo, loss_of=other_gains(lambda c, r, rc, rr: c - rc))),
        ("log-ratios added", "Step 4: you added the two log-ratios; the margin is chosen minus rejected.",
         partial(train_dpo, loss_of=other_gains(lambda c, r, rc, rr: c - rc + r - rr))),
        ("β on a part of the margin", "Step 4: β multiplies the policy's log-probs only; it multiplies the"
         " whole margin.", partial(train_dpo, loss_of=lambda p, ref, b: other_gains(
             lambda c, r, rc, rr: c - r - (rc - rr) / b)(p, ref, b))),
        ("last column left out", "Step 2: the log-prob of the last column's token is missing. Rows without"
         " padding end there: read tokens[:, 1:] whole.", partial(
             train_dpo, sequence=per_token(logprobs_of, without_last_column))),
        ("first token left out", "Step 2: the first counted token of each response is missing.", partial(
            train_dpo, sequence=per_token(logprobs_of, first_left_out))),
        ("no step", "Step 5: your losses do not change, so no weight of the model that they are made with"
         " does. Is optimizer.step() called, and does the optimizer hold that model's parameters?",
         partial(train_dpo, step=False)),
        ("uphill", "Step 5: your losses rise: you went up the gradient.",
         partial(train_dpo, sign=-1.0)),
        ("loss after the step", "Step 6: keep the loss that the step started from, not the one after"
         " it.", partial(train_dpo, keep="after")),
    ],
    advice=WHOLE_FIT,
)
# fmt: on
