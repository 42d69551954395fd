"""Exercises of lesson 01: masks, positions, log-probs of tokens, KL estimates, and a sampler with a cache."""

import torch
from torch import Tensor

from helpers.kit.exercise import Seen, counted_only, expect, floats, masks, noise, sizes
from helpers.kit.judge import checker, exercise
from helpers.kit.logprobs import FORWARD_LOGPROBS
from helpers.kit.model_calls import Call, check_attention, check_call
from helpers.kit.samplers import LOOK, observe_sampler
from helpers.kit.samplers import cases as sampled
from helpers.rollouts import position_ids

check_forward_logprobs = checker(FORWARD_LOGPROBS)

TEXTS = torch.tensor([[5, 2, 0, 2, 0], [2, 5, 0, 0, 5], [0, 4, 3, 4, 2]]), 2

check_response_mask = exercise(
    """\
def response_mask(response_tensors, eos_token_id):
    is_eos = (response_tensors == eos_token_id).long()
    before = is_eos.cumsum(dim=1) - is_eos
    return before == 0
""",
    "True up to and including the first EOS; all True without one",
    [
        (torch.tensor([[5, 1, 0, 0], [4, 6, 3, 7]]), 1),
        TEXTS,
        (torch.tensor([[6, 4, 3, 0, 0, 0], [3, 3, 5, 5, 0, 0]]), 3),  # all end before the limit
    ],
    """\
EOS excluded: You left out the EOS. It is an action too: if it is masked, the model never learns to stop.
-  - is_eos
+
the EOS alone left out: You mark every token that is no EOS. The first EOS counts; what follows it does not.
- is_eos.cumsum(dim=1) - is_eos
+ is_eos
row without EOS left out: In a row without EOS (cut at the length limit) all positions count.
- before == 0
+ (before == 0) & is_eos.any(1, True)
row without EOS, argmax is 0: In a row without EOS argmax is 0, so you count its first token alone; all count.
- before == 0
+ torch.arange(is_eos.shape[1]) <= is_eos.argmax(1, True)
""",
    further=[
        ("the EOS has id 0", (torch.tensor([[5, 0, 3, 0], [4, 6, 3, 7], [0, 0, 0, 0]]), 0)),
        *sizes(TEXTS),
    ],
)


def observe_positions(function, mask: Tensor) -> Seen:
    """Positions of what counts; on padding any that an embedding has will do."""
    found = function(mask)
    if isinstance(found, Tensor) and found.shape == mask.shape:
        says = (
            "Padding has a negative position (cumsum − 1 is −1 on the left): no embedding has it."
        )
        expect(bool((found >= 0).all()), "negative on padding", says)
    return {"positions": counted_only(found, mask)}


check_position_ids = exercise(
    """\
def position_ids(mask):
    mask = mask.long()
    return mask.cumsum(dim=1) - mask
""",
    "cumsum(mask) − mask along the row: padding takes no position",
    [(masks("0011", "1111"),), (masks("00011", "11111", "01111"),), (masks("000111", "001111"),)],
    """\
padding counted: You numbered the columns; the first token after padding has position 0 too.
- mask.cumsum(dim=1) - mask
+ torch.arange(mask.shape[1]).expand(mask.shape)
one shift for all rows: You shift all rows by the padding of one of them; each row has its own.
- mask.cumsum(dim=1) - mask
+ (torch.arange(mask.shape[1]) - (1 - mask[0]).sum()).clamp(0).expand(mask.shape)
""",
    results=("positions",),
    observe=observe_positions,
    further=[
        ("padding follows the text, too", (masks("001110", "111000", "011111"),)),
        ("there is one row", (masks("0111"),)),
    ],
)

PAIR = floats([-1.0, -2.0, -0.5]), floats([-1.5, -0.8, -0.5])
PAIRS = -noise(3, 2, 4).abs(), -noise(4, 2, 4).abs()
ESTIMATORS = ("k1", "k2", "k3")


def each(words: str, pair: tuple) -> list[tuple[str, tuple]]:
    """An edge for every estimator."""
    return [(words, (*pair, name)) for name in ESTIMATORS]


check_kl_estimate = exercise(
    """\
def kl_estimate(logprobs, ref_logprobs, estimator):
    d = logprobs - ref_logprobs
    if estimator == "k1":
        return d
    if estimator == "k2":
        return 0.5 * d.square()
    return torch.exp(-d) - 1 + d
""",
    "with d = logprobs − ref_logprobs: k1 = d, k2 = d²/2, k3 = exp(−d) − 1 + d (Schulman 2020)",
    [(*pair, name) for name in ESTIMATORS for pair in (PAIR, PAIRS)],
    """\
absolute value: Keep the sign: k1 can be negative for a token, and |k1| is biased.
-         return d
-
+         return d.abs()
+
the other ratio: The exponential in k3 is of −d: π_ref/π, not π/π_ref.
- torch.exp(-d)
+ torch.exp(d)
probabilities, not logarithms: Subtract the log-probs themselves, without exp.
- logprobs - ref_logprobs
+ logprobs.exp() - ref_logprobs.exp()
""",
    gradient=("logprobs",),
    further=[
        *each(
            "differences are large: take d itself",
            (floats([-1.0, -84.0, -22.0]), floats([-200.0, -4.0, -1.0])),
        ),
        *each(
            "tokens are rare: exp of the difference, not of each",
            (floats([-120.0, -0.5]), floats([-118.0, -0.7])),
        ),
        *each("there is one row [T] by itself", (PAIRS[0][0], PAIRS[1][0])),
        *sizes((*PAIRS, "k3")),
    ],  # fmt: skip
)


def with_cache(calls: list[Call], mask: Tensor) -> None:
    """Wrong: a call that is not given the new token alone, the whole mask, and the token's position."""
    check_call(calls[0], mask[:, : calls[0].ids.shape[1]], "the actor")
    later = [call for call in calls[1:] if call.cached]
    says = "The cache is empty at each call: make one before the loop, and pass the same one each time."
    expect(not later or any(call.past for call in later), "a new cache each time", says)
    for call in later:
        n, whole = call.ids.shape[1], call.past + call.ids.shape[1]
        if not call.past:
            continue
        says = f"The cache holds {call.past} tokens already, and you give the actor {n} more: give it the"
        expect(n == 1, "more than the new token", f"{says} token that was drawn last.")
        width = 0 if call.mask is None else call.mask.shape[-1]
        says = f"With a cache the attention_mask is that of all {whole} tokens; yours has {width} columns."
        expect(width == whole, "not the whole mask", says)
        check_attention(call.mask, mask[:, :whole], "the actor")
        right, running = position_ids(mask[:, :whole])[:, -1], mask[:, whole - 1]
        says = "Give the new token its own position_ids: by itself it gets the number of its column, in which"
        expect(
            call.positions is not None, "no position for the new token", f"{says} padding counts."
        )
        given = call.positions[:, -1].expand_as(right)
        says = "The new token's position is the number of counted tokens before it."
        expect(torch.equal(given[running], right[running]), "the position of the new token", says,
               given[running].tolist(), right[running].tolist())  # fmt: skip


def observe_cached(function, words: str, actor, prompts: list[str], config) -> Seen:
    """Judge one rollout; then whether the cache has saved anything."""
    calls = observe_sampler(function, actor, prompts, config, with_cache)
    if len(set(prompts)) == 1:  # sampled twice
        return {}
    computed = sum(call.ids.shape[1] for call in calls)
    once = calls[0].ids.shape[1] + len(calls) - 1
    enough = f"the actor computes {computed} positions where {once} are enough"
    says = f"All is right, but without a cache: {enough}. Make one DynamicCache before the loop, pass it as"
    expect(any(call.cached for call in calls), "no cache",
           f"{says} past_key_values, and give only the new tokens.")  # fmt: skip
    says = f"All is right, but {enough}. Is a call given tokens that the cache holds already?"
    expect(computed <= once, "positions computed twice", says)
    return {}


check_sample_with_cache = exercise(
    """\
@torch.no_grad()
def sample_with_cache(actor, tokenizer, prompts, config):
    from transformers import DynamicCache

    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    ids, mask = batch.input_ids, batch.attention_mask.bool()
    cache = DynamicCache(config=actor.config)
    new, positions = ids, mask.cumsum(1) - mask.long()
    running, drawn = torch.ones(len(ids), 1, dtype=torch.bool), []
    while running.any() and len(drawn) < config.response_length:
        inputs = {"attention_mask": mask, "position_ids": positions}
        output = actor(new, **inputs, past_key_values=cache, use_cache=True)
        logprobs = (output.logits[:, -1] / config.temperature).log_softmax(-1)
        token = torch.multinomial(logprobs.exp(), 1)
        drawn.append(logprobs.gather(1, token))
        new = torch.where(running, token, tokenizer.pad_token_id)
        ids, mask = torch.cat([ids, new], 1), torch.cat([mask, running], 1)
        running = running & (new != tokenizer.eos_token_id)
        positions = positions[:, -1:] + 1
    return ids, mask, torch.cat(drawn, 1)
""",
    f"{LOOK}; one forward for the prompt, then one for each new token",
    sampled,
    observe=observe_cached,
    seconds=60.0,
)
