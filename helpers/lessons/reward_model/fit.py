"""The large exercise of lesson 05: encoder and head fitted to pairs, seen from the first loss to the last."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from helpers.kit.exercise import Seen, expect, noise, prefix_mask, tensor_of
from helpers.kit.judge import exercise


class TinyEncoder(nn.Module):
    """A small encoder: each vector is tanh(own word + mean of the words that the mask counts + place)."""

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


MODELS = ("encoder", "head")


def watched(function, words: Tensor, weight: Tensor, *given: object) -> SimpleNamespace:
    """One fit of fresh models, and what happened in it.

    A phase goes from a forward to the first forward after a backward: the weights of encoder and head at its
    start (`states`, and those at the end), the gradients that arrived (`pulls`). `rates`: the learning rate
    of each step of an optimizer. The head's bias cancels: it is left out.
    """
    encoder, head = TinyEncoder(words), nn.Linear(len(weight[0]), 1)
    with torch.no_grad():
        head.weight.copy_(weight), head.bias.fill_(0.3)
    both = encoder.words, head.weight
    seen = SimpleNamespace(states=[], pulls=[], rates=[])

    def start() -> None:
        seen.states.append([p.detach().clone() for p in both])
        seen.pulls.append([torch.zeros_like(p) for p in both])

    def before_forward(*_) -> None:
        if not seen.pulls or any(bool(pull.any()) for pull in seen.pulls[-1]):
            start()

    def before_step(optimizer, *_) -> None:
        groups = {float(group["lr"]) for group in optimizer.param_groups}
        says = "Your optimizer has two groups of parameters, whose rates differ: set that of each."
        expect(len(groups) == 1, "rate of one group alone", says)
        seen.rates.append(groups.pop())

    encoder.register_forward_pre_hook(before_forward)
    for k, parameter in enumerate(both):
        parameter.register_hook(lambda g, k=k: seen.pulls[-1][k].add_(g))
    hook = register_optimizer_step_pre_hook(before_step)
    try:
        seen.losses = function(encoder, head, *given)
    finally:
        hook.remove()
    start()  # the end
    return seen


STAGES = {  # the shape of the texts → what is looked at
    (1, 3): "first loss, of one pair",
    (2, 4): "first loss, where there is padding",
    (6, 6): "first loss, of several pairs",
}


def fit_seen(function, *given: object) -> Seen:
    """The first loss; then, step by step, gradients, rates and weights; the losses."""
    chosen, batches, learning_rate = given[2], given[6], given[7]
    steps = len(batches)
    fit = watched(function, *given)
    tensor_of(fit.losses, (steps,), f"one loss a step, stacked: [{steps}] numbers")
    seen = {STAGES[tuple(chosen.shape)]: fit.losses[0].detach()}
    if steps == 1:
        return seen
    line = [learning_rate * (1 - i / steps) for i in range(steps)]
    for k in range(steps):
        now, after = (min(i, len(fit.states) - 1) for i in (k, k + 1))
        for model, pull in zip(MODELS, fit.pulls[now], strict=True):
            seen[f"gradient of the {model} at step {k + 1}"] = pull.flatten()
        if k == 0:  # Adam written by hand has no optimizer to be asked
            seen["number of steps"] = len(fit.rates) or len(fit.states) - 1
            seen["learning rate of each step"] = torch.tensor(fit.rates or line)
        for model, old, new in zip(MODELS, fit.states[now], fit.states[after], strict=True):
            seen[f"move of the {model}'s weights at step {k + 1}"] = (new - old).flatten()
    seen["losses"] = fit.losses.detach()
    return seen | {"the losses hold their graph": fit.losses.requires_grad}


def texts(seed: int, words: int, lengths: tuple[int, ...], width: int) -> tuple[Tensor, Tensor]:
    """Ids [N, L] that begin with word 1 and end in padding (0), and their mask."""
    mask = prefix_mask(width, *lengths)
    ids = torch.randint(2, words, mask.shape, generator=torch.Generator().manual_seed(seed))
    ids[:, 0] = 1
    return ids * mask, mask


SMALL, LARGE = (noise(1, 6, 3), noise(2, 1, 3)), (noise(3, 12, 4), noise(4, 1, 4))
PAIRS = (  # in some batches the longest rejected text is the longer one
    *texts(3, 12, (5, 3, 4, 2, 4, 5), 6),
    *texts(4, 12, (2, 6, 4, 3, 6, 5), 6),
)
BATCHES = torch.tensor([[4, 0, 2], [1, 5, 3], [0, 3, 5], [2, 1, 4], [3, 5, 0]])

check_fit_pairs = exercise(
    """\
def fit_pairs(
    encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, learning_rate
):
    def score(ids, mask):
        hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, L, d)
        return head(hidden[:, 0]).squeeze(-1)  # (B,)

    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer, losses = torch.optim.Adam(parameters, lr=learning_rate), []
    for i, rows in enumerate(batches):
        c = score(chosen[rows], chosen_mask[rows])
        r = score(rejected[rows], rejected_mask[rows])
        loss = -torch.nn.functional.logsigmoid(c - r).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - i / len(batches))
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)
""",
    "score = head(vector of the first token); loss = −mean log σ(chosen − rejected); Adam, its rate on"
    " a line to 0 (Stiennon et al. 2020; notebook 05)",
    [
        (*SMALL, *texts(1, 6, (3,), 3), *texts(2, 6, (3,), 3), torch.tensor([[0]]), 0.1),
        (*SMALL, *texts(1, 6, (3, 4), 4), *texts(2, 6, (4, 2), 4), torch.tensor([[0, 1]]), 0.1),
        (*LARGE, *PAIRS, BATCHES, 0.05),
    ],
    """\
chosen and rejected swapped: Step 3: your difference is rejected − chosen: the loss falls as the model learns
 to prefer what was rejected.
- c - r
+ r - c
every chosen against every rejected: Step 3: a score of shape [B, 1] less one of shape [B] is [B, B]: every
 chosen against every rejected. Squeeze the scores to [B].
- c - r
+ c[:, None] - r
no gradient through one side: Step 4: no gradient goes through the rejected scores (no_grad, detach): train
 both sides.
- c - r
+ c - r.detach()
the padding is read: Step 1: the encoder reads the padding: hand it attention_mask, too.
- , attention_mask=mask
+
plain gradient descent: Step 4: that is SGD; use torch.optim.Adam.
- Adam
+ SGD
AdamW: Step 4: AdamW pulls every weight towards 0; use torch.optim.Adam.
- Adam
+ AdamW
rate multiplied again: Step 4: you multiply the rate of the step before: each factor is one of the first rate.
- ["lr"] = learning_rate
+ ["lr"] *= 1
new optimizer at each step: Step 4: Adam has a memory: make it once, before the loop.
- optimizer.zero_grad()
+ optimizer = torch.optim.Adam(parameters, lr=learning_rate)
+         optimizer.zero_grad()
""",
    further=[
        (
            "scores differ by some hundred: sigmoid rounds to 0 there, exp leaves what a float32 holds, and a"
            " clamp or an epsilon stops the gradient. Take logsigmoid of the difference",
            (LARGE[0], -1000 * LARGE[1], *PAIRS, BATCHES[:1], 0.05),
        )
    ],
    observe=fit_seen,
    seconds=10.0,
    advice="`encoder` is shown as its table of word vectors, `head` as its weights. Print each"
    " quantity of the first step.",
)
