"""The large exercise of notebook 01: a sampler with a key–value cache.

What it returns is judged as in notebook 06 (`trainer_sampling`). The calls of the actor are recorded too:
when the log-probs are wrong, they show which of a call's inputs was wrong first; when all is right, they
show whether the cache has saved anything.
"""

from collections.abc import Callable

import torch

from helpers.checks.judging.model_calls import Call, recorded_calls
from helpers.checks.trainer.course_steps import trainer_config
from helpers.checks.trainer.inputs import Seen, Wrong, ask, expect, recorded
from helpers.checks.trainer.sampling import observe_sampling
from helpers.rollouts import position_ids


def observe_cached(function: Callable) -> Seen:
    """Form, masks, log-probs and draws as in notebook 06; then the calls."""
    answers, calls = [], []

    def kept(actor, tokenizer, prompts, config):
        with recorded_calls(actor) as made:
            try:
                answers.append(function(actor, tokenizer, prompts, config))
            finally:
                calls[:] = made
        return answers[-1]

    try:
        observe_sampling(kept)
    except (NotImplementedError, AttributeError, NameError, TypeError):
        raise
    except Exception as error:
        if "log-prob" in str(error).lower() or not isinstance(error, Wrong):
            name_wrong_call(calls)
        raise
    computed, once = sum(c.ids.shape[1] for c in calls), answers[0][0].shape[1]
    expect(any(call.cached for call in calls), "no cache", NO_CACHE.format(computed, once))
    says = (
        f"All is right, but the actor computes {computed} positions where {once} are enough. Is a"
    )
    says += " call given tokens that the cache holds already, or a text read once more?"
    expect(computed <= once, "positions computed twice", says)
    same_prompt(function)
    return {}


COPIES = 8


def same_prompt(function: Callable) -> None:
    """Copies of one prompt, twice: rows and calls draw for themselves."""
    r = recorded()
    config = trainer_config(temperature=1.0, response_length=16)
    prompts, drawn = [r.parts.prompts[0]] * COPIES, []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            ids, _, logprobs = ask(function, r.parts.actor, r.parts.tokenizer, prompts, config)
            drawn.append(ids[:, -logprobs.shape[1] :])
    first, second = drawn
    says = f"{COPIES} copies of a prompt all get the same response: draw for each row by itself."
    expect(bool((first != first[:1]).any()), "one draw for all rows", says, *first[:2].tolist())
    says = "Two calls draw the same, whatever torch's random state: do not seed, in the loop or before."
    expect(first.shape != second.shape or not torch.equal(first, second), "seeded", says)


NO_CACHE = (
    "All is right, but without a cache: the actor computes {} positions where {} are enough. Make one"
    " DynamicCache before the loop, pass it as past_key_values, and give only the new tokens."
)


def name_wrong_call(calls: list[Call]) -> None:
    """Raise `Wrong` with the first input of a call that cannot be right, if there is one."""
    later = [call for call in calls[1:] if call.cached]
    says = "The cache is empty at each call: make one before the loop, and pass the same one each time."
    expect(not (later and all(c.past == 0 for c in later)), "a new cache each time", says)
    for call in later:
        n, seen = call.ids.shape[1], call.past
        if seen == 0:  # the prompt's
            continue
        says = f"The cache holds {seen} tokens already, and you give the actor {n} more. Give it only the"
        says += " token that was drawn last."
        expect(n == 1, "more than the new token", says)
        whole = seen + n
        says = f"With a cache the attention_mask is that of all {whole} tokens, those in the cache and the"
        width = 0 if call.mask is None else call.mask.shape[-1]
        says += f" new one; you gave {'none' if call.mask is None else f'{width} columns'}."
        expect(width == whole, "not the whole mask", says)
        name_wrong_position(call)


def name_wrong_position(call: Call) -> None:
    """Raise `Wrong` if the new token does not stand at the place that the mask gives it."""
    mask = call.mask.bool()
    says = "Give the new token its own position_ids: without them it gets the number of its column, and left"
    says += " padding counts."
    expect(call.positions is not None, "no position for the new token", says)
    right = position_ids(mask)[:, -1:]
    given = call.positions[:, -1:].expand_as(right)
    running = mask[:, -1:]
    here = given[running], right[running]
    if torch.equal(*here):
        return
    row = int((given != right)[:, 0].logical_and(running[:, 0]).nonzero()[0])
    says = f"The new token stands at position {int(given[row])}; by your mask there are"
    says += f" {int(right[row])} counted tokens before it, so that is its position (the first token has 0)."
    raise Wrong("the position of the new token", says, given[row].tolist(), right[row].tolist())
