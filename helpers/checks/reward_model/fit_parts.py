"""Which part of a learner's fit of notebook 05 goes wrong first: texts, vector, score, loss, rate,"
" gradient."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import logsigmoid

from helpers.checks.judging.runner import copy_of
from helpers.checks.reward_model.fit_trace import Fit

Found = tuple[str, str] | None


def numbers(found: list[float]) -> str:
    """A few numbers as text."""
    return ", ".join(f"{x:.3g}" for x in found[:5]) + (", …" if len(found) > 5 else "")


def rates_differ(seen: Fit, given: tuple) -> Found:
    """Learning rates of the steps that are not on the line from `learning_rate` to 0."""
    steps, rate = len(given[6]), given[7]
    wants = [rate * (1 - i / steps) for i in range(steps)]
    same = all(abs(a - b) <= 1e-3 * rate for a, b in zip(seen.rates, wants, strict=False))
    if same or len(seen.rates) != steps:
        return None
    return "another learning rate", (
        f"Step 4: with learning_rate {rate:g} and {steps} steps, yours go at {numbers(seen.rates)}; they"
        f" should go at {numbers(wants)}."
    )


def steps_differ(seen: Fit, wants: int) -> Found:
    """Another number of steps than there are batches."""
    if seen.steps in (0, wants):
        return None
    return "another number of steps", (
        f"Step 4: step() is called {seen.steps} times; {wants} batches are {wants} steps of one"
        " optimizer, one for each."
    )


def pulls_differ(seen: Fit, right: Fit) -> Found:
    """Gradients of another length at one of the steps."""
    for step, (got, want) in enumerate(zip(seen.pulls, right.pulls, strict=False), start=1):
        if abs(got - want) > 2e-3 * want:
            return "another gradient", (
                f"Step 4: the losses begin right, but at step {step} your gradient has length {got:.3g}; it"
                f" should be {want:.3g}. Is something clipped, scaled, added, or left from the step before?"
            )
    return None


def first_loss_differs(function: Callable, right: Callable, given: tuple) -> Found:
    """The loss before any step, where it is wrong although the texts are right."""
    got, want = (float(fit(*copy_of(given))[0]) for fit in (function, right))
    if abs(got - want) <= 1e-4 * abs(want) + 1e-5:
        return None
    return "another loss", (
        f"The first loss, before any step, is {got:.4g}; it should be {want:.4g}. Look at the score (step"
        " 1) and at the loss made of it (step 3)."
    )


def first_loss_of_far_scores(fit: Callable, given: tuple) -> float:
    """The first batch's loss where scores are 1000 times as large, and the rejected ones the higher."""
    encoder, head, *texts, batches, rate = copy_of(given)
    with torch.no_grad():
        head.weight.mul_(-1000.0)
    return float(fit(encoder, head, *texts, batches[:1], rate)[0])


def overflows(function: Callable, right: Callable, given: tuple) -> Found:
    """A loss that is right for small differences of scores, and not where they are some hundred."""
    got, want = (first_loss_of_far_scores(fit, given) for fit in (function, right))
    if abs(got - want) <= 1e-3 * want:
        return None
    what = f"it should be {want:.4g}, and yours is {got:.4g}"
    if math.isfinite(got):
        return "the loss bounded for large differences", (
            f"Step 3: right where scores are near each other; where they differ by some hundred, {what}. Is"
            " there a clamp, or a small number inside the logarithm? They stop the gradient; logsigmoid needs"
            " neither."
        )
    return "overflow for large differences", (
        f"Step 3: right where scores are near each other; where they differ by some hundred, {what}. Does"
        " sigmoid round to 0 there, or exp leave what a float32 holds? Take logsigmoid of the difference."
    )


def first_part_wrong(function: Callable, given: tuple) -> Found:
    """What is handed to encoder and head at the first step: ids, masks, the vectors, or none of these."""
    encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, _ = given
    texts, vectors, hidden = [], [], []

    def to_encoder(model, args, named):
        names = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | named
        texts.append((names.get("input_ids"), names.get("attention_mask")))

    encoder.register_forward_pre_hook(to_encoder, with_kwargs=True)
    encoder.register_forward_hook(lambda model, args, out: hidden.append(out.last_hidden_state))
    head.register_forward_pre_hook(lambda model, args: vectors.append(args[0]))
    function(*given)
    rows = batches[0]
    wants = [(chosen[rows], chosen_mask[rows]), (rejected[rows], rejected_mask[rows])]
    wants_of_both = wants
    both = tuple(torch.cat(pair) for pair in zip(*wants, strict=True))
    one = len(texts[0][0]) == 2 * len(rows)
    calls, wants = (texts[:1], [both]) if one else (texts[:2], wants)
    names = ["the texts"] if one else ["the chosen texts", "the rejected texts"]
    if not one and torch.equal(texts[0][0], rejected[rows]):  # the other order is as good
        wants, names = wants[::-1], names[::-1]
    if one and torch.equal(texts[0][0], torch.cat([rejected[rows], chosen[rows]])):
        wants = [tuple(torch.cat(pair[::-1]) for pair in zip(*wants_of_both, strict=True))]
    for (ids, mask), (want, want_mask), side in zip(calls, wants, names, strict=False):
        if ids.shape != want.shape or not torch.equal(ids, want):
            return "other texts", (
                f"Step 2: what the encoder reads first as {side} is not rows {rows.tolist()} of them, whole:"
                " look at how you pick them, or cut them."
            )
        if mask is None or mask.shape != want_mask.shape or not torch.equal(mask.bool(), want_mask):
            return "another mask", (
                f"Step 2: {side} of the first step come without a mask, or with another one than theirs:"
                " take the same rows of the mask that belongs to them."
            )
    if not vectors:
        return "head not called", "Step 1: `head` is never called: the score is head(vector)."
    if vectors[0].shape[-1] == hidden[0].shape[-1] and vectors[0].dim() == 2:
        firsts = [h[:, 0] for h in hidden[:2]]
        if not any(
            v.shape == vectors[0].shape and torch.allclose(vectors[0], v, atol=1e-5) for v in firsts
        ):
            return "another vector", (
                "Step 1: the head is given another vector than the first token's: take"
                " last_hidden_state[:, 0]."
            )
    return None


def more_mistakes(fit_pairs: Callable, scores_of: Callable) -> list[tuple]:
    """Rarer mistakes, which the fit's own pieces can make."""
    wrong = partial(partial, fit_pairs)

    def first_component(encoder, head, ids, mask):
        return encoder(input_ids=ids, attention_mask=mask).last_hidden_state[..., 0].mean(1)

    def first_mask_rows(e, h, c, cm, r, rm, b, lr):
        """The masks of the first rows of the data, whatever the batch."""
        count = b.shape[1]

        def score(encoder, head, ids, mask):
            own = cm if any(torch.equal(ids, c[rows]) for rows in b) else rm
            return scores_of(encoder, head, ids, own[:count])

        return fit_pairs(e, h, c, cm, r, rm, b, lr, score=score)

    def centred(c, r):
        return -logsigmoid((c - c.mean()) - (r - r.mean())).mean()

    def interleaved(c, r):
        both = torch.cat([c, r])
        return -logsigmoid(both[::2] - both[1::2]).mean()

    def both_rows(change):
        return lambda b, i: (b[i], change(b[i]))

    return [
        ("one mask for both", "Step 2: the chosen texts have a mask of their own, chosen_mask.",
         lambda e, h, c, cm, r, rm, b, lr: fit_pairs(e, h, c, rm, r, rm, b, lr)),
        ("masks of other rows", "Step 2: the masks are those of the first rows of the data; take the batch's"
         " rows of the masks, too.", first_mask_rows),
        ("scores centred in the batch", "Step 3: you subtracted the batch's mean from the scores; the loss"
         " takes each difference as it is.", wrong(loss_of=centred)),
        ("both sides taken apart wrongly", "Step 2: chosen and rejected went through the encoder together,"
         " first all chosen, then all rejected; take them apart in halves, not every second row.",
         wrong(loss_of=interleaved)),
        ("batches transposed", "Step 2: `batches` is [steps, B]; you took its columns for steps.",
         lambda e, h, c, cm, r, rm, b, lr: fit_pairs(e, h, c, cm, r, rm, b.T, lr)),
        ("pairs torn apart", "Step 2: chosen and rejected of a pair must stand in the same row; the rejected"
         " ones stand in reverse order.", wrong(pick=both_rows(lambda rows: rows.flip(0)))),
        ("pairs torn apart", "Step 2: chosen and rejected of a pair must stand in the same row; yours are of"
         " neighbouring rows.", wrong(pick=both_rows(lambda rows: rows.roll(-1)))),
        ("pairs torn apart", "Step 2: chosen and rejected of a pair must stand in the same row; you"
         " sorted one side.", wrong(pick=both_rows(lambda rows: rows.sort().values))),
        ("rate of half a line", "Step 4: your rate falls only towards half of learning_rate; let it fall"
         " to 0.",
         wrong(factor=lambda i, n: 1 - i / n / 2)),
        ("rate falls with the square", "Step 4: your rate falls as a square; let it fall on a straight line.",
         wrong(factor=lambda i, n: (1 - i / n) ** 2)),
        ("rate falls as an exponential", "Step 4: your rate falls by the same factor each step; let it"
         " fall on a straight line to 0.", wrong(factor=lambda i, n: 0.9**i)),
        ("rate falls as 1/step", "Step 4: your rate falls as 1/(step + 1); let it fall on a straight line.",
         wrong(factor=lambda i, n: 1 / (i + 1))),
        ("a margin", "Step 3: you subtracted a margin from the difference; Bradley–Terry has none.",
         wrong(loss_of=lambda c, r: -logsigmoid(c - r - 1).mean())),
        ("absolute difference", "Step 3: you took the difference without its sign.",
         wrong(loss_of=lambda c, r: -logsigmoid((c - r).abs()).mean())),
        ("rejected ignored", "Step 3: the rejected score is left out.",
         wrong(loss_of=lambda c, r: -logsigmoid(c).mean())),
        ("scores added", "Step 3: you added the scores; subtract rejected.",
         wrong(loss_of=lambda c, r: -logsigmoid(c + r).mean())),
        ("a component for the score", "Step 1: you took a component of the vectors; the score is"
         " head(first token's vector).", wrong(score=first_component)),
    ]  # fmt: skip
