"""What a learner's function gives to a model: the calls are recorded, and looked at when numbers are wrong.

Whatever a function computes afterwards, it starts from tokens, a mask and positions. If one of these is
wrong, that is the first line that is wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from helpers.kit.exercise import expect
from helpers.kit.running import Wrong
from helpers.rollouts import position_ids


@dataclass
class Call:
    """One call of the actor: the tokens it was given, and what the cache held before."""

    ids: Tensor  # (B, n)
    mask: Tensor | None
    positions: Tensor | None
    past: int  # cached positions
    cached: bool  # whether a cache was passed
    training: bool  # whether dropout was on


@contextmanager
def recorded_calls(actor: nn.Module) -> Iterator[list[Call]]:
    """The calls of the actor while it holds."""
    calls: list[Call] = []

    def note(module, given, named):
        ids = named.get("input_ids", given[0] if given else None)
        cache = named.get("past_key_values")
        past = 0 if cache is None else int(cache.get_seq_length())
        mask, positions = named.get("attention_mask"), named.get("position_ids")
        if ids is not None:
            calls.append(Call(ids, mask, positions, past, cache is not None, module.training))

    hook = actor.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield calls
    finally:
        hook.remove()


def check_call(call: Call, mask: Tensor, whose: str) -> None:
    """Wrong: a call whose mask or positions are not those of the texts' mask, [B, L].

    A call on fewer columns (the last one predicts nothing that is asked for) is compared with as many.
    """
    says = f"You call {whose} in train mode, so its dropout is on: at the first step the ratio is not 1."
    expect(not call.training, "dropout is on", f"{says} Leave it in eval mode.")
    width, whole = call.ids.shape[-1], mask.shape[-1]
    says = f"You gave {whose} {width} of {whole} columns: it has to read each text from its start,"
    says += " prompt and response."
    expect(width >= whole - 1 or call.past > 0, "columns left out", says)
    mask = mask.bool()[:, :width]
    if call.ids.shape != mask.shape:
        return
    check_attention(call.mask, mask, whose)
    check_positions(call.positions, mask, whose)


def check_attention(given: Tensor | None, mask: Tensor, whose: str) -> None:
    """Wrong: the attention mask is left out, or another one."""
    says = f"You gave {whose} no attention_mask: it reads the padding."
    expect(given is not None, "padding is read", says)
    name = "another attention mask"
    says = f"The attention_mask that you gave {whose} is not the mask of these texts"
    expect(given.shape == mask.shape, name, f"{says}: its shape is {tuple(given.shape)}.")
    off = (given.bool() != mask).any(1)
    row = int(off.long().argmax())
    case = given[row].long().tolist(), mask[row].long().tolist()
    expect(not bool(off.any()), name, f"{says}, first in row {row}.", *case)


def check_positions(given: Tensor | None, mask: Tensor, whose: str) -> None:
    """Wrong: positions of counted tokens that are not 0, 1, 2, … along the row."""
    right = position_ids(mask)
    says = f"You gave {whose} no position_ids, so left padding moves the words to positions they"
    says += " were never trained on: cumsum(mask) − mask."
    expect(given is not None, "positions count the padding", says)
    says = f"Your position_ids have shape {tuple(given.shape)}; the ids {tuple(right.shape)}."
    fits = given.dim() > 0 and right.shape == torch.broadcast_shapes(given.shape, right.shape)
    expect(fits, "wrong positions", says)
    given = given.expand_as(right)
    off = (given != right) & mask
    if bool(off.any()):
        row, column = off.nonzero()[0].tolist()
        says = f"Your position_ids are wrong: in row {row} token {int(mask[row, :column].sum())} of the text"
        says += f" stands at {int(given[row, column])}. They count along each row, over the tokens that are"
        says += " there: cumsum(mask) − mask."
        raise Wrong("wrong positions", says, given[row].tolist(), right[row].tolist())
