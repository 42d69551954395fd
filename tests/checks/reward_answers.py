"""Answers to lesson 05's exercises as learners write them: right ones of another build, and wrong ones.

RIGHT lists (exercise, function), WRONG lists (exercise, mistake, function). None is taken from the
checks.
"""

import copy
import math

import torch
import torch.nn.functional as F

RIGHT, WRONG = [], []


def right(function):
    RIGHT.append(("fit_pairs", function))
    return function


def wrong(name, function, exercise="fit_pairs"):
    WRONG.append((exercise, name, function))
    return function


def cls(encoder, head, ids, mask):
    hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    return head(hidden[:, 0, :])[:, 0]


def loop(
    score=cls, loss_of=None, rate=None, optimizer=torch.optim.Adam, order="czbs", weights=None, rows=None
):  # fmt: skip
    """A plain loop, with a slip where asked for."""

    def fit_pairs(
        encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, learning_rate
    ):
        found = [*encoder.parameters(), *head.parameters()]
        found = found if weights is None else list(weights(encoder, head))
        opt, losses = optimizer(found, lr=learning_rate), []
        for step, picked in enumerate(batches):
            index = picked if rows is None else rows(batches, step)
            win = score(encoder, head, chosen[index], chosen_mask[index])
            lose = score(encoder, head, rejected[index], rejected_mask[index])
            loss = -F.logsigmoid(win - lose).mean() if loss_of is None else loss_of(win, lose)
            falls = learning_rate * (1 - step / len(batches))
            opt.param_groups[0]["lr"] = falls if rate is None else rate(opt, step, len(batches))
            for letter in order:
                if letter == "z":
                    opt.zero_grad()
                if letter == "b":
                    loss.backward()
                if letter == "u":
                    (-loss).backward()
                if letter == "s":
                    opt.step()
            losses.append(loss.item())
        return torch.tensor(losses)

    return fit_pairs


# --- right ----------------------------------------------------------------------------------------

right(loop())
right(loop(order="bsz"))  # cleared afterwards
right(loop(loss_of=lambda c, r: F.softplus(r - c).mean()))
right(loop(loss_of=lambda c, r: F.binary_cross_entropy_with_logits(c - r, torch.ones_like(c))))
right(loop(loss_of=lambda c, r: F.cross_entropy(
    torch.stack([c, r], 1), torch.zeros(len(c), dtype=torch.long))))  # fmt: skip
right(loop(score=lambda e, h, ids, m: e(ids, m).last_hidden_state[:, 0] @ h.weight[0] + h.bias))
right(loop(score=lambda e, h, ids, m: h(e(ids, m.long()).last_hidden_state)[:, 0].squeeze(-1)))


@right
def both_in_one_batch(encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, rate):
    parameters = list(encoder.parameters()) + list(head.parameters())
    optimizer = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 - i / len(batches))
    kept = torch.zeros(len(batches))
    for i in range(len(batches)):
        rows = batches[i]
        ids = torch.cat([chosen[rows], rejected[rows]])
        mask = torch.cat([chosen_mask[rows], rejected_mask[rows]])
        c, r = head(encoder(ids, mask).last_hidden_state[:, 0]).flatten().chunk(2)
        loss = F.softplus(r - c).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        kept[i] = loss.detach()
    return kept


@right
def adam_by_hand(encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, rate):
    parameters = [*encoder.parameters(), head.weight]  # the bias cancels in every difference
    means, squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    kept = []
    for i, rows in enumerate(batches, start=1):
        c = cls(encoder, head, chosen[rows], chosen_mask[rows])
        r = cls(encoder, head, rejected[rows], rejected_mask[rows])
        kept.append(F.softplus(r - c).sum() / len(rows))
        gradients = torch.autograd.grad(kept[-1], parameters)
        lr = rate * (1 - (i - 1) / len(batches))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= lr * (m / (1 - 0.9**i)) / ((v / (1 - 0.999**i)).sqrt() + 1e-8)
    return torch.stack(kept).detach()


# --- wrong ----------------------------------------------------------------------------------------


def reading(take):
    """The head on what `take(hidden, mask)` gives."""
    return loop(score=lambda e, h, ids, m: h(take(e(ids, m).last_hidden_state, m)).squeeze(-1))


def scored(change):
    return loop(score=lambda *a: change(cls(*a)))


def by(difference):
    return loop(loss_of=lambda c, r: difference(c - r))


def swapped_sides(e, h, c, cm, r, rm, b, lr):
    return loop()(e, h, r, rm, c, cm, b, lr)


def wrong_masks(e, h, c, cm, r, rm, b, lr):
    return loop()(e, h, c, rm, r, cm, b, lr)


def same_mask(e, h, c, cm, r, rm, b, lr):
    return loop()(e, h, c, cm, r, cm, b, lr)


def same_texts(e, h, c, cm, r, rm, b, lr):
    return loop()(e, h, c, cm, c, cm, b, lr)


def other_partner(e, h, c, cm, r, rm, b, lr):
    return loop(loss_of=lambda c, r: F.softplus(r.roll(1) - c).mean())(e, h, c, cm, r, rm, b, lr)


def no_rejected_gradient(e, h, c, cm, r, rm, b, lr):
    return loop(loss_of=lambda c, r: F.softplus(r.detach() - c).mean())(e, h, c, cm, r, rm, b, lr)


def fresh_optimizer(encoder, head, chosen, cm, rejected, rm, batches, lr):
    kept = []
    for i, rows in enumerate(batches):
        opt = torch.optim.Adam(
            [*encoder.parameters(), *head.parameters()], lr=lr * (1 - i / len(batches))
        )
        c = cls(encoder, head, chosen[rows], cm[rows])
        r = cls(encoder, head, rejected[rows], rm[rows])
        loss = F.softplus(r - c).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        kept.append(loss.detach())
    return torch.stack(kept)


def a_copy(e, h, *rest):
    return loop()(copy.deepcopy(e), copy.deepcopy(h), *rest)


def with_graph(encoder, head, chosen, cm, rejected, rm, batches, lr):
    opt, kept = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=lr), []
    for i, rows in enumerate(batches):
        opt.param_groups[0]["lr"] = lr * (1 - i / len(batches))
        c = cls(encoder, head, chosen[rows], cm[rows])
        r = cls(encoder, head, rejected[rows], rm[rows])
        kept.append(F.softplus(r - c).mean())
        opt.zero_grad()
        kept[-1].backward()
        opt.step()
    return torch.stack(kept)


def no_last_step(encoder, head, chosen, cm, rejected, rm, batches, lr):
    opt, kept = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=lr), []
    for i, rows in enumerate(batches):
        opt.param_groups[0]["lr"] = lr * (1 - i / len(batches))
        c = cls(encoder, head, chosen[rows], cm[rows])
        r = cls(encoder, head, rejected[rows], rm[rows])
        loss = F.softplus(r - c).mean()
        kept.append(loss.item())
        if i == len(batches) - 1:
            break
        opt.zero_grad()
        loss.backward()
        opt.step()
    return torch.tensor(kept)


def one_number(*a):
    return loop()(*a)[-1]


def under_no_grad(*a):
    with torch.no_grad():
        return loop()(*a)


@torch.no_grad()
def frozen(encoder, ids, mask):
    return encoder(input_ids=ids, attention_mask=mask).last_hidden_state


def groups(first, second, every=False):
    """Two groups of parameters; the falling rate goes to group 0, or to both."""

    def fit_pairs(encoder, head, chosen, cm, rejected, rm, batches, lr):
        models = {"encoder": encoder, "head": head}
        opt = torch.optim.Adam(
            [{"params": models[name].parameters()} for name in (first, second)], lr=lr
        )
        kept = []
        for i, rows in enumerate(batches):
            c, r = (
                cls(encoder, head, chosen[rows], cm[rows]),
                cls(encoder, head, rejected[rows], rm[rows]),
            )
            kept.append(F.softplus(r - c).mean())
            opt.zero_grad()
            kept[-1].backward()
            for group in opt.param_groups if every else opt.param_groups[:1]:
                group["lr"] = lr * (1 - i / len(batches))
            opt.step()
        return torch.stack(kept).detach()

    return fit_pairs


right(groups("encoder", "head", every=True))


def last_token(hidden, mask):
    return torch.stack([row[int(m.sum()) - 1] for row, m in zip(hidden, mask, strict=True)])


def mean_of_text(hidden, mask):
    return torch.stack([row[m.bool()].mean(0) for row, m in zip(hidden, mask, strict=True)])


# fmt: off
wrong("mask not handed over",
      loop(score=lambda e, h, ids, m: h(e(ids, torch.ones_like(ids)).last_hidden_state[:, 0])[:, 0]))
wrong("another learning rate", loop(
    rate=lambda opt, step, steps: opt.defaults["lr"] * max(0.5, 1 - step / steps)))
wrong("another gradient", loop(loss_of=lambda c, r: F.softplus(r - c).mean() + 1e-3 * c.square().mean()
                               - 1e-3 * c.detach().square().mean()))
wrong("last position", reading(lambda x, m: x[:, -1]))
wrong("last counted token", reading(last_token))
wrong("second position", reading(lambda x, m: x[:, 1]))
wrong("mean over all positions", reading(lambda x, m: x.mean(dim=1)))
wrong("mean over counted positions", reading(mean_of_text))
wrong("largest over positions", reading(lambda x, m: x.max(dim=1).values))
wrong("head left out", loop(score=lambda e, h, ids, m: e(ids, m).last_hidden_state[:, 0].sum(1)))
wrong("sigmoid of the score", scored(torch.sigmoid))
wrong("tanh of the score", scored(torch.tanh))
wrong("ids of chosen with the mask of rejected", wrong_masks)
wrong("one mask for both", same_mask)
wrong("both scores the same", same_texts)
wrong("all pairs at each step", loop(rows=lambda b, i: torch.arange(int(b.max()) + 1)))
wrong("always the first batch", loop(rows=lambda b, i: b[0]))
wrong("batches backwards", loop(rows=lambda b, i: b.flip(0)[i]))
wrong("pairs torn apart", other_partner)
wrong("chosen and rejected swapped", swapped_sides)
wrong("chosen and rejected swapped", by(lambda d: -F.logsigmoid(-d).mean()))
wrong("minus sign missing", by(lambda d: torch.log(torch.sigmoid(d)).mean()))
wrong("logarithm missing", by(lambda d: -torch.sigmoid(d).mean()))
wrong("probability of the other", by(lambda d: (1 - torch.sigmoid(d)).mean()))
wrong("no sigmoid", by(lambda d: -d.mean()))
wrong("hinge", by(lambda d: F.relu(1 - d).mean()))
wrong("squared error", by(lambda d: ((d - 1) ** 2).mean()))
wrong("sum instead of mean", by(lambda d: -F.logsigmoid(d).sum()))
wrong("every chosen against every rejected", loop(
    loss_of=lambda c, r: -F.logsigmoid(c.unsqueeze(1) - r).mean()))
wrong("logarithm of the mean", by(lambda d: -torch.log(torch.sigmoid(d).mean())))
wrong("difference of the means", loop(loss_of=lambda c, r: -F.logsigmoid(c.mean() - r.mean())))
wrong("each score on its own", loop(
    loss_of=lambda c, r: -(F.logsigmoid(c) + F.logsigmoid(-r)).mean()))
wrong("gradients never cleared", loop(order="bs"))
wrong("no step", loop(order="zb"))
wrong("uphill", loop(order="zus"))
wrong("encoder not trained", loop(weights=lambda e, h: h.parameters()))
wrong("head not trained", loop(weights=lambda e, h: e.parameters()))
wrong("rejected without a gradient", no_rejected_gradient)
wrong("chosen without a gradient", loop(loss_of=lambda c, r: -F.logsigmoid(c.detach() - r).mean()))
wrong("new optimizer at each step", fresh_optimizer)
wrong("plain gradient descent", loop(optimizer=torch.optim.SGD))
wrong("AdamW", loop(optimizer=torch.optim.AdamW))
wrong("rate constant", loop(rate=lambda opt, i, n: opt.param_groups[0]["lr"]))
wrong("rate one step early", loop(rate=lambda opt, i, n: opt.defaults["lr"] * (n - i - 1) / n))
wrong("rate multiplied again and again",
      loop(rate=lambda opt, i, n: opt.param_groups[0]["lr"] * (1 - i / n)))
wrong("rate rises from 0", loop(rate=lambda opt, i, n: opt.defaults["lr"] * i / n))
wrong("rate on a cosine", loop(
    rate=lambda opt, i, n: opt.defaults["lr"] * math.cos(math.pi * i / n / 2) ** 2))
wrong("rate of one group alone", groups("encoder", "head"))
wrong("rate of one group alone", groups("head", "encoder"))
wrong("no gradient to the encoder", loop(score=lambda e, h, ids, m: h(frozen(e, ids, m)[:, 0])[:, 0]))
wrong("no gradient to the encoder", loop(
    score=lambda e, h, ids, m: h(e(ids, m).last_hidden_state[:, 0].detach()).squeeze(-1)))
wrong("no gradient to the head", loop(
    score=lambda e, h, ids, m: e(ids, m).last_hidden_state[:, 0] @ h.weight[0].detach() + h.bias.data))
wrong("no backward to the weights", loop(order="zs"))
wrong("gradients cleared before the step", loop(order="bzs"))
wrong("other weights in the optimizer", loop(
    weights=lambda e, h: [*copy.deepcopy(e).parameters(), *copy.deepcopy(h).parameters()]))
wrong("models not as they should be", a_copy)
wrong("models not as they should be", no_last_step)
wrong("losses keep their graph", with_graph)
wrong("no gradient", under_no_grad)
wrong("wrong shape", one_number)
wrong("exception", loop(score=lambda e, h, ids, m: h(e(ids, m)[:, 0])))

# the short ones: what overflows, and what is close to right
preference, loss = "preference_probability", "bradley_terry_loss"
small = "wrong for large scores"
wrong("odds that overflow", lambda a, b: torch.exp(a) / torch.exp(b), preference)
wrong("odds", lambda a, b: torch.exp(a - b), preference)
wrong(small, lambda a, b: 1 / (1 + torch.exp(b.clamp(-20, 20) - a.clamp(-20, 20))), preference)
wrong(small, lambda a, b: a.clamp(max=80).exp() / (a.clamp(max=80).exp() + b.clamp(max=80).exp()), preference)
wrong("both chances", lambda a, b: F.softmax(torch.stack((a, b)), dim=0), preference)
wrong("both chances, a column each", lambda a, b: torch.softmax(torch.stack([a, b], -1), -1), preference)
wrong(small, lambda c, r: -torch.log(torch.sigmoid(c - r) + 1e-8).mean(), loss)
wrong(small, lambda c, r: -torch.sigmoid(c - r).clamp(min=1e-8).log().mean(), loss)
wrong(small, lambda c, r: -F.logsigmoid((c - r).clamp(-30, 30)).mean(), loss)
wrong("every chosen against every rejected", lambda c, r: F.softplus(r - c.unsqueeze(-1)).mean(), loss)
# fmt: on
