"""Answers to lesson 11's exercises as learners write them: right ones of another build, and wrong ones.

RIGHT lists (exercise, function), WRONG lists (exercise, mistake, function). None is taken from the
checks.
"""

import copy
import math
from functools import partial

import torch
import torch.nn.functional as F

RIGHT, WRONG = [], []


def right(exercise, function):
    RIGHT.append((exercise, function))
    return function


def wrong(exercise, name, function):
    WRONG.append((exercise, name, function))
    return function


# fmt: off

# --- implicit_reward ------------------------------------------------------------------------------

reward = partial(right, "implicit_reward")
reward(lambda lp, ref, beta: beta * lp - beta * ref)
reward(lambda lp, ref, beta: -beta * (ref - lp))
reward(lambda lp, ref, beta: beta * torch.sub(lp, ref.detach()))
reward(lambda lp, ref, beta: torch.stack([beta * (p - q) for p, q in zip(lp, ref, strict=True)]))
reward(lambda lp, ref, beta: (lp.double() - ref.double()) * beta)

reward = partial(wrong, "implicit_reward")
reward("wrong for long responses",
       lambda lp, ref, beta: (lp.double().exp() / ref.double().exp()).log() * beta)
reward("wrong for long responses", lambda lp, ref, beta: beta * (lp.exp().log() - ref))
reward("β missing", lambda lp, ref, beta: torch.sub(lp, ref))
reward("divided by β", lambda lp, ref, beta: lp / beta - ref / beta)
reward("reversed", lambda lp, ref, beta: -beta * (lp - ref))
reward("reference missing", lambda lp, ref, beta: lp * beta)
reward("β on the policy alone", lambda lp, ref, beta: beta * lp - ref)
reward("β on the reference alone", lambda lp, ref, beta: lp - beta * ref)
reward("log-probs added", lambda lp, ref, beta: beta * lp + beta * ref)
reward("ratio without the logarithm", lambda lp, ref, beta: beta * lp.exp() / ref.exp())
reward("quotient of log-probs", lambda lp, ref, beta: beta * torch.div(lp, ref))
reward("mean over responses", lambda lp, ref, beta: beta * (lp.mean() - ref.mean()))
reward("sigmoid taken", lambda lp, ref, beta: F.sigmoid(beta * (lp - ref)))
reward("centred", lambda lp, ref, beta: beta * (lp - ref) - beta * (lp - ref).mean())
reward("detached", lambda lp, ref, beta: beta * (lp.detach() - ref))
reward("β missing, and sign flipped", lambda lp, ref, beta: ref - lp)
reward("exception", lambda lp, ref, beta: kl_coef * (lp - ref))  # noqa: F821
reward("wrong type", lambda lp, ref, beta: (beta * (lp - ref)).tolist())


# --- dpo_loss -------------------------------------------------------------------------------------

def by_binary_cross_entropy(c, r, rc, rr, beta):
    logits = beta * ((c - rc) - (r - rr))
    return F.binary_cross_entropy_with_logits(logits, torch.ones_like(logits))

def by_softmax(c, r, rc, rr, beta):
    rewards = torch.stack([beta * (c - rc), beta * (r - rr)], dim=1)
    return F.cross_entropy(rewards, torch.zeros(len(c), dtype=torch.long))

def by_logaddexp(c, r, rc, rr, beta):
    margin = beta * (c - r - rc + rr)
    return torch.logaddexp(torch.zeros_like(margin), -margin).sum() / len(margin)

def by_loop(c, r, rc, rr, beta):
    losses = [F.softplus(beta * ((r[i] - rr[i]) - (c[i] - rc[i]))) for i in range(len(c))]
    return sum(losses) / len(losses)

loss = partial(right, "dpo_loss")
loss(by_binary_cross_entropy)
loss(by_softmax)
loss(by_logaddexp)
loss(by_loop)
loss(lambda c, r, rc, rr, b: -F.logsigmoid(b * ((c - r) - (rc - rr))).mean())
loss(lambda c, r, rc, rr, b: F.softplus(-b * ((c - rc) - (r - rr))).mean())
loss(lambda c, r, rc, rr, b: -F.logsigmoid((b * (c - rc)) - b * (r - rr)).double().mean())

loss = partial(wrong, "dpo_loss")
loss("reference missing", lambda c, r, rc, rr, b: -F.logsigmoid(b * c - b * r).mean())
loss("reference added", lambda c, r, rc, rr, b: F.softplus(-b * (c - r + rc - rr)).mean())
loss("reference added", lambda c, r, rc, rr, b: -F.logsigmoid(b * ((c + rc) - (r + rr))).mean())
loss("log-ratios added", lambda c, r, rc, rr, b: -F.logsigmoid(b * (c - rc + r - rr)).mean())
loss("chosen and rejected swapped",
     lambda c, r, rc, rr, b: -F.logsigmoid(b * ((r - rr) - (c - rc))).mean())
loss("chosen and rejected swapped", lambda c, r, rc, rr, b: F.softplus(b * (c - rc - r + rr)).mean())
loss("rejected missing", lambda c, r, rc, rr, b: F.softplus(-b * (c - rc)).mean())
loss("policy left out", lambda c, r, rc, rr, b: -F.logsigmoid(b * (rc - rr) + 0 * c + 0 * r).mean())
loss("β missing", lambda c, r, rc, rr, b: -F.logsigmoid(c - rc - r + rr).mean())
loss("β outside the sigmoid", lambda c, r, rc, rr, b: -(b * F.logsigmoid(c - rc - r + rr)).mean())
loss("divided by β", lambda c, r, rc, rr, b: -F.logsigmoid((c - rc - r + rr) / b).mean())
loss("logarithm missing", lambda c, r, rc, rr, b: -torch.sigmoid(b * (c - rc - r + rr)).mean())
loss("probability of an error",
     lambda c, r, rc, rr, b: (1 - torch.sigmoid(b * (c - rc - r + rr))).mean())
loss("minus sign missing", lambda c, r, rc, rr, b: F.logsigmoid(b * (c - rc - r + rr)).mean())
loss("overflow", lambda c, r, rc, rr, b: -torch.log(torch.sigmoid(b * (c - rc - r + rr))).mean())
loss("overflow", lambda c, r, rc, rr, b: torch.log(1 + torch.exp(-b * (c - rc - r + rr))).mean())
loss("epsilon in the logarithm",
     lambda c, r, rc, rr, b: -torch.log(torch.sigmoid(b * (c - rc - r + rr)) + 1e-8).mean())
loss("no sigmoid", lambda c, r, rc, rr, b: (b * (r - rr - c + rc)).mean())
loss("hinge", lambda c, r, rc, rr, b: F.relu(1 - b * (c - rc - r + rr)).mean())
loss("IPO", lambda c, r, rc, rr, b: ((c - rc - r + rr - 0.5 / b) ** 2).mean())
loss("sum instead of mean", lambda c, r, rc, rr, b: F.softplus(-b * (c - rc - r + rr)).sum())
loss("one loss per pair", lambda c, r, rc, rr, b: F.softplus(-b * (c - rc - r + rr)))
loss("mean of the margins first",
     lambda c, r, rc, rr, b: -F.logsigmoid(b * (c.mean() - rc.mean() - r.mean() + rr.mean())))
loss("ratios without the logarithm",
     lambda c, r, rc, rr, b: -F.logsigmoid(b * ((c - rc).exp() - (r - rr).exp())).mean())
loss("one reward in the sigmoid each", lambda c, r, rc, rr, b: (
    F.logsigmoid(b * (r - rr)) - F.logsigmoid(b * (c - rc))).mean())
loss("every margin 0",
     lambda c, r, rc, rr, b: F.softplus(b * (r - r.detach() - c + c.detach())).mean())
loss("logarithm of the mean",
     lambda c, r, rc, rr, b: -torch.log(torch.sigmoid(b * (c - rc - r + rr)).mean()))
loss("detached", lambda c, r, rc, rr, b: F.softplus(-b * (c - rc - r.detach() + rr)).mean())
loss("detached", lambda c, r, rc, rr, b: by_softmax(c, r, rc, rr, b).item())
loss("wrong type", lambda c, r, rc, rr, b: (by_softmax(c, r, rc, rr, b), {}))
loss("wrong type", lambda c, r, rc, rr, b: print(end=""))
loss("in bits", lambda c, r, rc, rr, b: by_softmax(c, r, rc, rr, b) / math.log(2))
# fmt: on


# --- train_dpo ------------------------------------------------------------------------------------


def log_probs(model, tokens, mask):
    logprobs = model(tokens).logits.log_softmax(-1)[:, :-1]
    index = tokens[:, 1:].unsqueeze(-1)
    return (torch.gather(logprobs, 2, index)[..., 0] * mask[:, 1:]).sum(-1)


def descending(change):
    """A right training whose gradients are changed before each step."""

    def train_dpo(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
        policy, losses = copy.deepcopy(policy), []
        optimizer = torch.optim.SGD(policy.parameters(), lr=learning_rate)
        with torch.no_grad():
            frozen = log_probs(reference, tokens, mask)
        for _ in range(steps):
            chosen, rejected = (log_probs(policy, tokens, mask) - frozen).chunk(2)
            loss = -F.logsigmoid(kl_coef * (chosen - rejected)).mean()
            optimizer.zero_grad()
            loss.backward()
            change(list(policy.parameters()))
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    return train_dpo


def trainer(
    score=log_probs,
    margin_of=None,
    loss_of=None,
    optimize="policy",
    order="usual",
    rule=torch.optim.SGD,
):
    """A plain training loop, with a slip where asked for."""

    def train_dpo(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
        policy = copy.deepcopy(policy)
        model = {"policy": policy, "reference": reference}[optimize]
        optimizer = rule(model.parameters(), lr=learning_rate)
        half = len(tokens) // 2
        with torch.no_grad():
            frozen = score(reference, tokens, mask)
        losses = torch.zeros(steps)
        for i in range(steps):
            logps = score(policy, tokens, mask)
            ratios = (logps - frozen) if margin_of is None else margin_of(logps, frozen)
            margin = kl_coef * (ratios[:half] - ratios[half:])
            loss = -F.logsigmoid(margin).mean() if loss_of is None else loss_of(margin)
            if order != "no zero_grad":
                optimizer.zero_grad()
            (loss if order != "uphill" else -loss).backward(retain_graph=order == "twice")
            if order == "twice":
                loss.backward()
            if order != "no step":
                optimizer.step()
            losses[i] = loss.detach()
        return losses

    return train_dpo


def in_place(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    """Trains the policy it is given, by hand."""
    losses, half = [], len(tokens) // 2
    ref = log_probs(reference, tokens, mask).detach()
    for _ in range(steps):
        ratio = log_probs(policy, tokens, mask) - ref
        losses.append(F.softplus(-kl_coef * (ratio[:half] - ratio[half:])).mean())
        gradients = torch.autograd.grad(losses[-1], list(policy.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(policy.parameters(), gradients, strict=True):
                weight -= learning_rate * gradient
    return torch.stack(losses).detach()


def reference_every_step(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    """The reference is asked at each step: slow, and right."""
    policy, kept = copy.deepcopy(policy), []
    optimizer = torch.optim.SGD(policy.parameters(), learning_rate)
    for _ in range(steps):
        with torch.no_grad():
            ref = log_probs(reference, tokens, mask)
        c, r = log_probs(policy, tokens, mask).chunk(2)
        rc, rr = ref.chunk(2)
        loss = by_binary_cross_entropy(c, r, rc, rr, kl_coef)
        policy.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss.item())
    return torch.tensor(kept)


def by_cross_entropy(model, tokens, mask):
    targets = tokens[:, 1:].masked_fill(~mask[:, 1:], -100)
    logits = model(tokens[:, :-1]).logits.transpose(1, 2)
    return -F.cross_entropy(logits, targets, reduction="none").sum(dim=1)


def by_tokens(model, tokens, mask):
    logprobs = model(tokens).logits.log_softmax(-1)
    rows = [
        sum(logprobs[n, t - 1, tokens[n, t]] for t in range(1, tokens.shape[1]) if mask[n, t])
        for n in range(len(tokens))
    ]
    return torch.stack(rows)


def prompt_too(model, tokens, mask):
    """Counts the prompt as well: it is the same in both responses of a pair, and cancels."""
    counted = mask.int().flip(1).cumsum(1).flip(1) > 0  # everything up to the last counted token
    return log_probs(model, tokens, counted)


train = partial(right, "train_dpo")
train(trainer())
train(reference_every_step)
train(trainer(by_cross_entropy))
train(trainer(by_tokens))
train(trainer(prompt_too))
train(trainer(loss_of=lambda m: F.softplus(-m).sum() / len(m)))


def scored(
    index=lambda x: x[:, 1:], normalise=lambda x: x.log_softmax(-1), weigh=None, mask_of=None
):
    """Another `log_probs`."""

    def score(model, tokens, mask):
        logprobs = normalise(model(tokens).logits)[:, :-1]
        taken = torch.gather(logprobs, 2, index(tokens).unsqueeze(-1))[..., 0]
        counted = (mask[:, 1:] if mask_of is None else mask_of(mask)).float()
        total = (taken * counted).sum(-1)
        return total if weigh is None else weigh(total, taken, counted)

    return score


def without_shift(model, tokens, mask):
    logprobs = model(tokens).logits.log_softmax(-1)
    return (logprobs.gather(2, tokens[..., None])[..., 0] * mask).sum(1)


def without_stop(mask):
    last = mask.int().cumsum(1) == mask.sum(1, keepdim=True)
    return (mask & ~last)[:, 1:]


def growing(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    return trainer(loss_of=lambda m: F.logsigmoid(m).mean())(
        policy, reference, tokens, mask, kl_coef, learning_rate, steps
    )


def over_time(model, tokens, mask):
    logprobs = model(tokens[:, :-1]).logits.log_softmax(1)
    return (logprobs.gather(2, tokens[:, 1:, None])[..., 0] * mask[:, 1:]).sum(-1)


def own_reference(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    return trainer()(policy, policy, tokens, mask, kl_coef, learning_rate, steps)


def two_by_two(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    order = [*range(0, len(tokens), 2), *range(1, len(tokens), 2)]
    return trainer()(policy, reference, tokens[order], mask[order], kl_coef, learning_rate, steps)


def no_gradient(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    with torch.no_grad():
        return trainer()(policy, reference, tokens, mask, kl_coef, learning_rate, steps)


def one_loss(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    return trainer()(policy, reference, tokens, mask, kl_coef, learning_rate, steps)[-1]


def with_graph(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    policy, kept = copy.deepcopy(policy), []
    optimizer, ref = torch.optim.SGD(policy.parameters(), learning_rate), None
    with torch.no_grad():
        ref = log_probs(reference, tokens, mask).chunk(2)
    for _ in range(steps):
        kept.append(
            by_binary_cross_entropy(*log_probs(policy, tokens, mask).chunk(2), *ref, kl_coef)
        )
        optimizer.zero_grad()
        kept[-1].backward()
        optimizer.step()
    return torch.stack(kept)


def ref_with_gradient(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    policy, kept = copy.deepcopy(policy), []
    optimizer = torch.optim.SGD(policy.parameters(), learning_rate)
    ref = log_probs(reference, tokens, mask).chunk(2)
    for _ in range(steps):
        loss = by_binary_cross_entropy(*log_probs(policy, tokens, mask).chunk(2), *ref, kl_coef)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())
    return torch.stack(kept)


def all_squeezed(model, tokens, mask):
    logprobs = model(tokens).logits[:, :-1].log_softmax(-1)
    taken = logprobs.gather(2, tokens[:, 1:].unsqueeze(2)).squeeze()
    return torch.where(mask[:, 1:], taken, 0.0).sum(-1)


def last_only(weights, lr):
    return torch.optim.SGD(list(weights)[-1:], lr=lr)


def squashed(weigh):
    return trainer(scored(weigh=weigh))


# fmt: off
train = partial(wrong, "train_dpo")
train("logits of the token's own position", trainer(without_shift))
train("padding counted", trainer(scored(mask_of=lambda mask: torch.ones_like(mask[:, 1:]))))
train("padding counted", trainer(lambda model, tokens, mask: log_probs(model, tokens, mask | True)))
train("mask one position off", trainer(scored(mask_of=lambda mask: mask[:, :-1])))
train("stop token left out", trainer(scored(mask_of=without_stop)))
train("mean over tokens", squashed(lambda total, taken, counted: total / counted.sum(-1)))
train("mean over all positions", squashed(lambda total, taken, counted: (taken * counted).mean(-1)))
train("logits not normalised", trainer(scored(normalise=lambda x: x)))
train("probabilities instead of log-probs", trainer(scored(normalise=lambda x: F.softmax(x, -1))))
train("softmax over time", trainer(over_time))
train("every loss log 2", trainer(margin_of=lambda p, ref: p - p.detach()))
train("policy as it was for reference", own_reference)
train("reference missing", trainer(margin_of=lambda p, ref: p))
train("reference added", trainer(margin_of=lambda p, ref: p + ref))
train("chosen and rejected swapped", trainer(margin_of=lambda p, ref: ref - p))
train("rows taken two by two", two_by_two)
train("β missing", lambda p, r, t, m, beta, lr, n: trainer()(p, r, t, m, 1.0, lr, n))
train("divided by β", lambda p, r, t, m, beta, lr, n: trainer()(p, r, t, m, 1 / beta, lr, n))
train("logarithm missing", trainer(loss_of=lambda m: -m.sigmoid().mean()))
train("minus sign missing", growing)
train("no sigmoid", trainer(loss_of=lambda m: (-m).mean()))
train("sum instead of mean", trainer(loss_of=lambda m: F.softplus(-m).sum()))
train("gradients never cleared", trainer(order="no zero_grad"))
train("no step", trainer(order="no step"))
train("uphill", trainer(order="uphill"))
train("Adam", trainer(rule=torch.optim.Adam))
train("AdamW", trainer(rule=torch.optim.AdamW))
train("logarithm of the mean", trainer(loss_of=lambda m: -m.sigmoid().mean().log()))
train("wrong for rows of one token", trainer(all_squeezed))
train("a part of the policy trained", trainer(rule=last_only))
train("overflow for large margins", trainer(loss_of=lambda m: -m.sigmoid().log().mean()))
train("overflow for large margins", trainer(loss_of=lambda m: torch.log1p((-m).exp()).mean()))
train("the loss bounded for large margins",
      trainer(loss_of=lambda m: -(m.sigmoid() + 1e-12).log().mean()))
train("the loss bounded for large margins",
      trainer(loss_of=lambda m: F.softplus(-m.clamp(-50, 50)).mean()))
train("caller's policy trained", in_place)
train("losses keep their graph", with_graph)
train("reference with a gradient", ref_with_gradient)
train("the loss of margins of 0", trainer(loss_of=lambda m: F.softplus(-m).pow(1.3).mean()))
train("the loss of margins of 0", trainer(margin_of=lambda p, ref: 2 * p - ref))
train("the log-probs, or the margin", trainer(scored(normalise=lambda x: (x / 2).log_softmax(-1))))
train("the log-probs, or the margin", lambda p, r, t, m, beta, lr, n: trainer()(p, r, t, m, beta**2, lr, n))
train("momentum", trainer(rule=partial(torch.optim.SGD, momentum=0.9, nesterov=True)))
train("weight decay", trainer(rule=partial(torch.optim.SGD, weight_decay=0.1)))
train("another learning rate", trainer(rule=lambda weights, lr: torch.optim.SGD(weights, 0.01)))
train("another gradient", trainer(order="twice"))
train("the first pair alone", trainer(loss_of=lambda m: F.softplus(-m)[0]))
train("mean of the margins first", trainer(loss_of=lambda m: F.softplus(-m.mean())))
train("divided by the rows", trainer(loss_of=lambda m: F.softplus(-m).sum() / (2 * len(m))))
train("smoothed labels", trainer(loss_of=lambda m: F.binary_cross_entropy_with_logits(
    m, torch.full_like(m, 0.9))))
train("last column left out", trainer(scored(mask_of=lambda mask: F.pad(mask[:, 1:-1], (0, 1)))))
train("several pairs", trainer(loss_of=lambda m: F.softplus(-m).median()))
train("exception", trainer(optimize="reference", loss_of=lambda m: m.undefined))
train("exception", no_gradient)
train("wrong shape", one_loss)
# fmt: on


# --- kinds that were added after learners' answers -------------------------------------------------


def half_weighted(chosen, rejected, ref_chosen, ref_rejected, kl_coef):
    left = kl_coef * chosen - kl_coef * ref_chosen
    right = rejected - ref_rejected
    return torch.nn.functional.softplus(right - left).mean()


def unbalanced(chosen, rejected, ref_chosen, ref_rejected, kl_coef):
    margin = chosen - ref_chosen - rejected - ref_rejected
    return torch.nn.functional.softplus(-kl_coef * margin).mean()


WRONG += [
    ("dpo_loss", "β on a part of the margin", half_weighted),
    ("dpo_loss", "a sign in the margin", unbalanced),
    ("implicit_reward", "β written in", lambda new, old, kl_coef: (new - old) / 2),
    (
        "implicit_reward",
        "one reference for all",
        lambda new, old, kl_coef: kl_coef * (new - old[:1]),
    ),
]
