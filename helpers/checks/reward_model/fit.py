"""The large exercise of notebook 05: scores read at [CLS], and the loop that fits them to preferences."""

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.checks.judging.exercise import WHOLE_FIT, Exercise, noise, prefix_mask
from helpers.checks.reward_model.fit_parts import more_mistakes
from helpers.reward_model import bradley_terry_loss


class TinyEncoder(nn.Module):
    """A small encoder: each vector is tanh(own word + mean of the words that the mask counts)."""

    def __init__(self, words: Tensor):
        super().__init__()
        self.words = nn.Parameter(words.clone())

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Output with `last_hidden_state` [B, L, d] for ids and mask [B, L]; no mask counts everything."""
        own = self.words[input_ids]
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        weight = mask.to(own.dtype).unsqueeze(-1)
        mean = (own * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        place = 0.2 * torch.arange(own.shape[1])[:, None] - 0.5  # so that positions differ
        return SimpleNamespace(last_hidden_state=torch.tanh(own + mean + place))

    def __repr__(self) -> str:
        return "a small encoder: {} words, vectors of {}".format(*self.words.shape)


def head_of(hidden: Tensor, head: nn.Module) -> Tensor:
    """The score at [CLS]: [B, L, d] → [B]."""
    return head(hidden[:, 0]).squeeze(-1)


def scores_of(encoder, head, ids: Tensor, mask: Tensor) -> Tensor:
    """Scores of whole texts: ids and mask [B, L] → [B]."""
    return head_of(encoder(input_ids=ids, attention_mask=mask).last_hidden_state, head)


def falling(step: int, steps: int) -> float:
    """Factor of the learning rate: 1 at the first step, on a straight line to 0 after the last."""
    return 1 - step / steps


def fit_pairs(
    encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, learning_rate,
    score: Callable = scores_of, loss_of: Callable = bradley_terry_loss, factor: Callable = falling,
    descent: Callable = torch.optim.Adam, trained: str = "both", zero: bool = True, step: bool = True,
    renewed: bool = False, sign: float = 1.0, keep: str = "before", pick: Callable | None = None,
    detached: str = "",
) -> Tensor:  # fmt: skip
    """Fit encoder and head to pairs, in place; → the loss before each step, [steps].

    ids and masks [N, L]; `batches` [steps, B] has the rows of each gradient step. The arguments from
    `score` on are what the well-known mistakes change.
    """
    pick = pick or (lambda batches, i: (batches[i], batches[i]))
    models = {"both": (encoder, head), "head": (head,), "encoder": (encoder,)}[trained]
    weights = [weight for model in models for weight in model.parameters()]
    optimizer, losses = descent(weights, lr=learning_rate), []
    for i in range(len(batches)):
        first, second = pick(batches, i)
        c = score(encoder, head, chosen[first], chosen_mask[first])
        r = score(encoder, head, rejected[second], rejected_mask[second])
        c = c.detach() if detached == "chosen" else c
        r = r.detach() if detached == "rejected" else r
        loss = loss_of(c, r)
        if renewed:
            optimizer = descent(weights, lr=learning_rate)
        if zero:
            encoder.zero_grad()
            head.zero_grad()
        (sign * loss).mean().backward()
        optimizer.param_groups[0]["lr"] = learning_rate * factor(i, len(batches))
        if step:
            optimizer.step()
        if keep == "after":
            loss = loss_of(
                score(encoder, head, chosen[first], chosen_mask[first]),
                score(encoder, head, rejected[second], rejected_mask[second]),
            )
        losses.append(loss.detach())
    return torch.stack(losses)


def pooled(pool: Callable) -> Callable:
    """Another score: the head on another vector of the text, `pool(hidden, mask)` [B, d]."""

    def score(encoder, head, ids, mask):
        hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return head(pool(hidden, mask)).squeeze(-1)

    return score


def counted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens that the mask counts."""
    weight = mask.to(hidden.dtype).unsqueeze(-1)
    return (hidden * weight).sum(1) / weight.sum(1)


def last_counted(hidden: Tensor, mask: Tensor) -> Tensor:
    """The vector of the last token that is no padding."""
    return hidden[torch.arange(len(hidden)), mask.long().sum(1) - 1]


def without_head(encoder, head, ids, mask):
    """The sum of the vector's numbers."""
    return encoder(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0].sum(-1)


def margin(loss: Callable) -> Callable:
    """A wrong loss of the right differences [B]."""
    return lambda chosen, rejected: loss(chosen - rejected)


def squashed(encoder, head, ids, mask):
    """A score between 0 and 1."""
    return scores_of(encoder, head, ids, mask).sigmoid()


def table(seed: int, words: int, width: int) -> tuple[TinyEncoder, nn.Linear]:
    """Encoder and head with numbers that do not depend on the learner's seed."""
    head = nn.Linear(width, 1)
    with torch.no_grad():
        head.weight.copy_(noise(seed + 1, 1, width))
        head.bias.fill_(0.3)
    return TinyEncoder(noise(seed, words, width)), head


def texts(seed: int, words: int, lengths: tuple[int, ...], width: int) -> tuple[Tensor, Tensor]:
    """Ids [N, L] that begin with word 1 and end in padding (0), and their mask."""
    mask = prefix_mask(width, *lengths)
    ids = torch.randint(2, words, mask.shape, generator=torch.Generator().manual_seed(seed))
    ids[:, 0] = 1
    return ids * mask, mask


ONE_BATCH = (
    *table(1, 6, 3), *texts(1, 6, (3, 4), 4), *texts(2, 6, (4, 2), 4), torch.tensor([[0, 1], [0, 1]]), 0.1,
)  # fmt: skip
MORE = (
    *table(3, 12, 4),
    *texts(
        3, 12, (5, 3, 4, 2, 4, 5), 6
    ),  # in some batches the longest rejected text is the longer one
    *texts(4, 12, (2, 6, 4, 3, 6, 5), 6),
    torch.tensor([[4, 0, 2], [1, 5, 3], [0, 3, 5], [2, 1, 4], [3, 5, 0]]),
    0.05,
)

# fmt: off
wrong = partial(partial, fit_pairs)

FIT_PAIRS = Exercise(
    "fit_pairs",
    "encoder head chosen chosen_mask rejected rejected_mask batches learning_rate", fit_pairs,
    "score = head(vector of the first token); loss = −mean log σ(chosen − rejected); Adam, its rate on"
    " a line to 0 (Stiennon et al. 2020; notebook 05)",
    [ONE_BATCH, MORE],
    [
        ("mask not handed over", "Step 1: the encoder reads the padding: hand it attention_mask too.",
         wrong(score=lambda e, h, ids, mask: head_of(e(input_ids=ids).last_hidden_state, h))),
        ("last position", "Step 1: you read the last position, which is padding in short texts. The"
         " score is read at the first token: [:, 0].", wrong(score=pooled(lambda x, m: x[:, -1]))),
        ("last counted token", "Step 1: you read the last token that is no padding, as with a decoder."
         " An encoder's score is read at the first: [:, 0].", wrong(score=pooled(last_counted))),
        ("second position", "Step 1: you read position 1; the first token is position 0.",
         wrong(score=pooled(lambda x, m: x[:, 1]))),
        ("mean over all positions", "Step 1: you averaged over all positions, padding included; read"
         " the first alone.", wrong(score=pooled(lambda x, m: x.mean(1)))),
        ("mean over counted positions", "Step 1: you averaged over the text; read the first position"
         " alone.", wrong(score=pooled(counted_mean))),
        ("largest over positions", "Step 1: you took the maximum over positions; read the first alone.",
         wrong(score=pooled(lambda x, m: x.amax(1)))),
        ("head left out", "Step 1: the score is head(vector), one learned weight a number; you left"
         " out the head.", wrong(score=without_head)),
        ("sigmoid of the score", "Step 1: scores have no limits; the sigmoid comes in the loss, of the"
         " difference.", wrong(score=squashed)),
        ("tanh of the score", "Step 1: scores have no limits; leave out the tanh.",
         wrong(score=lambda *a: scores_of(*a).tanh())),
        ("log-sigmoid of the score", "Step 1: take the logarithm of the sigmoid in the loss, of the"
         " difference.", wrong(score=lambda *a: torch.nn.functional.logsigmoid(scores_of(*a)))),
        ("ids of chosen with the mask of rejected", "Step 2: each text comes with its own mask; you"
         " exchanged them.", lambda e, h, c, cm, r, rm, b, lr: fit_pairs(e, h, c, rm, r, cm, b, lr)),
        ("one mask for both", "Step 2: the rejected texts have a mask of their own, rejected_mask.",
         lambda e, h, c, cm, r, rm, b, lr: fit_pairs(e, h, c, cm, r, cm, b, lr)),
        ("both scores the same", "Step 2: every loss is ln 2: the two scores of a pair are the same. Are both"
         " those of the chosen texts (or of the"
         " rejected)?", lambda e, h, c, cm, r, rm, b, lr: fit_pairs(e, h, c, cm, c, cm, b, lr)),
        ("all pairs at each step", "Step 2: you used all pairs at every step; a step has the rows of"
         " its batch.", wrong(pick=lambda b, i: (slice(None), slice(None)))),
        ("always the first batch", "Step 2: you used the first batch at every step.",
         wrong(pick=lambda b, i: (b[0], b[0]))),
        ("batches backwards", "Step 2: you took the batches from the last to the first.",
         wrong(pick=lambda b, i: (b[len(b) - 1 - i], b[len(b) - 1 - i]))),
        ("pairs torn apart", "Step 2: chosen and rejected of a pair must stand in the same row; you"
         " paired each chosen text with another's rejected.",
         wrong(pick=lambda b, i: (b[i], b[i].roll(1)))),
        ("chosen and rejected swapped", "Step 3: your difference is rejected − chosen: the loss falls"
         " as the model learns to prefer what was rejected.",
         wrong(loss_of=margin(lambda d: torch.nn.functional.softplus(d).mean()))),
        ("minus sign missing", "Step 3: the loss is *minus* log σ; the optimizer makes it small.",
         wrong(loss_of=margin(lambda d: torch.nn.functional.logsigmoid(d).mean()))),
        ("logarithm missing", "Step 3: that is −σ(difference); the loss is −log σ(difference).",
         wrong(loss_of=margin(lambda d: -d.sigmoid().mean()))),
        ("probability of the other", "Step 3: that is 1 − σ(difference); the loss is −log σ.",
         wrong(loss_of=margin(lambda d: (-d).sigmoid().mean()))),
        ("no sigmoid", "Step 3: that is −difference, which has no end; the loss is −log σ of it.",
         wrong(loss_of=margin(lambda d: -d.mean()))),
        ("hinge", "Step 3: that is a hinge loss; Bradley–Terry's is −log σ(difference).",
         wrong(loss_of=margin(lambda d: (1 - d).relu().mean()))),
        ("squared error", "Step 3: the labels name an order and no target: −log σ(difference).",
         wrong(loss_of=margin(lambda d: (1 - d).square().mean()))),
        ("sum instead of mean", "Step 3: you summed over the pairs; take the mean.",
         wrong(loss_of=margin(lambda d: torch.nn.functional.softplus(-d).sum()))),
        ("one loss per pair", "Step 3: you have one loss a pair; the step wants their mean.",
         wrong(loss_of=margin(lambda d: torch.nn.functional.softplus(-d)))),
        ("every chosen against every rejected", "Step 3: a score of shape [B, 1] less one of shape [B]"
         " is [B, B]: every chosen against every rejected. Squeeze the scores to [B].",
         wrong(loss_of=lambda c, r: torch.nn.functional.softplus(r - c[:, None]).mean())),
        ("logarithm of the mean", "Step 3: average the logarithms, not the probabilities.",
         wrong(loss_of=margin(lambda d: -d.sigmoid().mean().log()))),
        ("difference of the means", "Step 3: compare each pair, then average.",
         wrong(loss_of=lambda c, r: torch.nn.functional.softplus(r.mean() - c.mean()))),
        ("each score on its own", "Step 3: you took log σ of each score (right or wrong, one text at a"
         " time); only the difference is known.", wrong(loss_of=lambda c, r: (
             torch.nn.functional.softplus(-c) + torch.nn.functional.softplus(r)).mean())),
        ("gradients never cleared", "Step 4: the gradients of all steps add up: call"
         " optimizer.zero_grad() before backward.", wrong(zero=False)),
        ("no step", "Step 4: the weights of encoder and head never change. Is optimizer.step() called, and"
         " does the optimizer hold their parameters?", wrong(step=False)),
        ("uphill", "Step 4: you went up the gradient.", wrong(sign=-1.0)),
        ("encoder not trained", "Step 4: the head learns, but the encoder's weights never change: hand"
         " their parameters to the optimizer too, and let it step.", wrong(trained="head")),
        ("head not trained", "Step 4: the encoder learns, but the head's weights never change: hand"
         " its parameters to the optimizer too, and let it step.", wrong(trained="encoder")),
        ("rejected without a gradient", "Step 4: no gradient reaches the rejected scores: no no_grad,"
         " no detach here; both sides are trained.", wrong(detached="rejected")),
        ("chosen without a gradient", "Step 4: no gradient reaches the chosen scores; both sides are"
         " trained.", wrong(detached="chosen")),
        ("new optimizer at each step", "Step 4: Adam has a memory: make it once, before the loop.",
         wrong(renewed=True)),
        ("plain gradient descent", "Step 4: that is SGD; use torch.optim.Adam.",
         wrong(descent=torch.optim.SGD)),
        ("AdamW", "Step 4: AdamW pulls every weight towards 0; use torch.optim.Adam.",
         wrong(descent=torch.optim.AdamW)),
        ("rate constant", "Step 4: the learning rate stays; let it fall on a line to 0.",
         wrong(factor=lambda i, n: 1.0)),
        ("rate one step early", "Step 4: your rate is one step ahead: at the first step it is still"
         " learning_rate, and the last step is not 0.", wrong(factor=lambda i, n: 1 - (i + 1) / n)),
        ("rate rises", "Step 4: your learning rate rises; it should fall.",
         wrong(factor=lambda i, n: (i + 1) / n)),
        ("rate rises from 0", "Step 4: that is learning_rate · i/steps, which rises from 0; the factor is"
         " 1 − i/steps.", wrong(factor=lambda i, n: i / n)),
        ("rate on a cosine", "Step 4: your rate falls along a cosine; let it fall on a straight line.",
         wrong(factor=lambda i, n: (1 + math.cos(math.pi * i / n)) / 2)),
        ("rate reaches 0 at the last step", "Step 4: the last step moves nothing: divide by the number"
         " of steps, so that 0 is reached after it.", wrong(factor=lambda i, n: 1 - i / max(1, n - 1))),
        ("rate multiplied again and again", "Step 4: you multiply the last rate by the factor; multiply"
         " the first, learning_rate.", wrong(factor=lambda i, n: _product(i, n))),
        ("loss after the step", "Step 5: keep the loss that the step started from.",
         wrong(keep="after")),
        *more_mistakes(fit_pairs, scores_of),
    ],
    advice=WHOLE_FIT,
)
# fmt: on


def _product(step: int, steps: int) -> float:
    """The factors of all steps so far, multiplied."""
    found = 1.0
    for i in range(step + 1):
        found *= falling(i, steps)
    return found
