"""A second look at a sampler: what the actor is given, other seeds, large logits, a model that stops soon."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers.checks.judging.model_calls import calls_made, check_call
from helpers.checks.trainer.course_steps import trainer_config
from helpers.checks.trainer.inputs import Seen, Wrong, ask, expect, recorded
from helpers.checks.trainer.sampling import check_answer, check_form
from helpers.rollouts import position_ids


def cause_sampling(function: Callable) -> None:
    """Wrong: a forward that is given other texts than those written so far, their mask or positions."""
    r = recorded()
    config = trainer_config(temperature=r.config.temperature, response_length=8)
    prompts, made = r.parts.prompts[:16], []
    calls = calls_made(
        r.parts.actor,
        lambda: made.append(function(r.parts.actor, r.parts.tokenizer, list(prompts), config)),
    )
    if not made or any(call.cached for call in calls):
        return
    ids, mask, _ = made[0]
    P = r.parts.tokenizer(prompts, return_tensors="pt", padding=True).input_ids.shape[1]
    for k, call in enumerate(calls[: ids.shape[1] - P]):
        says = f"Forward number {k + 1} is given {call.ids.shape[-1]} columns; prompt and {k} new tokens are"
        says += f" {P + k}. Without a cache the actor has to read the whole text so far each time."
        expect(call.ids.shape[-1] == P + k, "not the whole text", says)
        check_call(call, mask[:, : P + k], "the actor")


def then_sampling(function: Callable) -> Seen:
    """Two calls with other seeds; then very large logits."""
    r = recorded()
    prompts, found = r.parts.prompts[:8], []
    config = trainer_config(temperature=1.2, response_length=5)
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            found.append(function(r.parts.actor, r.parts.tokenizer, list(prompts), config)[0])
    says = "Two calls write the same responses, whatever the state of the random generator. Set no seed in"
    expect(not same_tensor(*found), "a seed inside", f"{says} the function.")
    cold = trainer_config(temperature=0.02, response_length=2)
    says = "At temperature 0.02, where logits / temperature are large, your sampling fails. Is exp taken of"
    says += " them? It is infinite: take softmax or log_softmax of torch, which subtract the largest first."
    try:
        logprobs = function(r.parts.actor, r.parts.tokenizer, list(prompts), cold)[2]
    except (RuntimeError, ValueError) as error:
        raise Wrong("overflow", says) from error
    expect(bool(logprobs.isfinite().all()), "overflow", says)
    stops_soon(function)
    draws_padding(function)
    draws_the_tail(function)
    return {}


def draws_the_tail(function: Callable) -> None:
    """Wrong: at a high temperature, where the unlikely tokens are many, some of them are never drawn."""
    r = recorded()
    prompts, config = r.parts.prompts[:64], trainer_config(temperature=2.0, response_length=8)
    answer = ask(function, r.parts.actor, r.parts.tokenizer, list(prompts), config)
    check_answer(answer, r.parts.actor, prompts, config)


def draws_padding(function: Callable) -> None:
    """Wrong: a padding token that the actor itself draws does not count, or ends the response."""
    r, tokenizer = recorded(), recorded().parts.tokenizer
    prompts, config = r.parts.prompts[:16], trainer_config(temperature=1.0, response_length=6)
    actor, share = inclined_to(r.parts.actor, tokenizer, prompts, tokenizer.pad_token_id)
    answer = ask(function, actor, tokenizer, list(prompts), config)
    ids, mask, logprobs = answer
    P = tokenizer(prompts, return_tensors="pt", padding=True).input_ids.shape[1]
    check_form(ids, mask, logprobs, P, config.response_length)
    tokens, counted = ids[:, P:], mask.bool()[:, P:]
    is_stop = (tokens == tokenizer.eos_token_id).long()
    drawn = (is_stop.cumsum(1) == 0) & (tokens == tokenizer.pad_token_id)
    says = f"An actor may draw the padding token (here with {share:.0%}). It is a token like the others: it"
    says += " counts, and the response goes on until the stop token. What counts is what was drawn while a"
    says += " row was running, and not ids != pad_token_id."
    row = int((drawn & ~counted).any(1).long().argmax())
    case = tokens[row].tolist(), counted[row].long().tolist()
    expect(not bool((drawn & ~counted).any()), "a padding token that was drawn", says, *case)
    check_answer(answer, actor, prompts, config)


def same_tensor(one: Tensor, other: Tensor) -> bool:
    """Equal in shape and numbers."""
    return one.shape == other.shape and bool(torch.equal(one, other))


def stops_soon(function: Callable) -> None:
    """Wrong: with an actor that stops soon, a response cannot, or the loop runs on when all have stopped."""
    r, rows = recorded(), 64
    prompts, config = r.parts.prompts[:rows], trainer_config(temperature=1.0, response_length=24)
    stop = r.parts.tokenizer.eos_token_id
    actor, share = inclined_to(r.parts.actor, r.parts.tokenizer, prompts, stop)
    answer = ask(function, actor, r.parts.tokenizer, list(prompts), config)
    ids, mask, logprobs = answer
    T, P = (
        logprobs.shape[1],
        r.parts.tokenizer(prompts, return_tensors="pt", padding=True).input_ids.shape[1],
    )
    check_form(ids, mask, logprobs, P, config.response_length)
    first = ids[:, -T] == stop
    says = f"None of {rows} responses begins with the stop token, to which the actor gives {share:.0%} there."
    says += " It is a token like the others, from the first step on."
    expect(bool(first.any()), "the stop token cannot come first", says)
    check_answer(answer, actor, prompts, config)
    says = "All rows have stopped, and the last columns are padding in every row. End the loop when no row is"
    says += " running, and give no more columns than were drawn."
    expect(bool(mask[:, -1].any()), "runs on after all have stopped", says)


@torch.no_grad()
def inclined_to(actor: nn.Module, tokenizer, prompts, token: int) -> tuple[nn.Module, float]:
    """A copy of the actor that draws this token first with about one half, and that probability."""
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    given = {
        "attention_mask": batch.attention_mask,
        "position_ids": position_ids(batch.attention_mask.bool()),
    }
    actor, share = copy.deepcopy(actor), 0.0
    towards = actor.lm_head.weight[token]
    while share < 0.4:
        actor.transformer.ln_f.bias += 0.5 * towards / towards.square().sum()
        logits = actor(batch.input_ids, **given).logits[:, -1]
        share = float(logits.softmax(-1)[:, token].mean())
    return actor, share
