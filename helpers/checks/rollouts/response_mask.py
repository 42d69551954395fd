"""Exercise of notebook 01: the mask of a response, up to and including its first EOS."""

import torch

from helpers import rollouts
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.sizes import sizes


def up_to(index, tokens):
    """True up to and including an index per row."""
    return torch.arange(tokens.shape[1])[None, :] <= index[:, None]


def ends(tokens, eos):
    """Number of EOS up to and including each position."""
    return (tokens == eos).long().cumsum(1)


# fmt: off
MASK = Exercise(
    "response_mask", "response_tensors eos_token_id", rollouts.response_mask,
    "True up to and including the first EOS; all True without one (notebook 01)",
    [
        (torch.tensor([[5, 1, 0, 0], [4, 6, 3, 7]]), 1),
        (torch.tensor([[5, 2, 0, 2, 0], [2, 5, 0, 0, 5], [0, 4, 3, 4, 2]]), 2),
        (torch.tensor([[6, 4, 3, 0, 0, 0], [3, 3, 5, 5, 0, 0]]), 3),  # all end before the limit
    ],
    [
        ("EOS excluded", "You left out the EOS. It is an action too: if it is masked, the model"
         " never learns to stop.", lambda x, eos: ends(x, eos) == 0),
        ("everything after EOS counts",
         "Your mask stays True after the first EOS, up to the next one.",
         lambda x, eos: ends(x, eos) <= 1),
        ("everything counts", "All positions are True; those after the first EOS should be False.",
         lambda x, eos: torch.ones_like(x, dtype=torch.bool)),
        ("only the EOS left out", "You mask only the EOS; keep it, and mask what follows it.",
         lambda x, eos: x != eos),
        ("only the EOS counts", "Only the EOS is True; all positions before it should be True too.",
         lambda x, eos: x == eos),
        ("up to the last EOS", "If a row has several EOS, it ends at the first one.",
         lambda x, eos: (x == eos).flip(1).cumsum(1).flip(1).bool()
         | ~(x == eos).any(1, True)),
        ("one too many", "You count one position after the EOS.",
         lambda x, eos: up_to(rollouts.response_mask(x, eos).sum(1), x)),
        ("row without EOS: argmax is 0", "In a row without EOS you count only the first token"
         " (argmax is 0 there); all of them count.",
         lambda x, eos: up_to((x == eos).int().argmax(1), x)),
        ("row without EOS left out", "In a row without EOS (cut at the length limit) all positions"
         " count.",
         lambda x, eos: rollouts.response_mask(x, eos) & (x == eos).any(1, True)),
        ("zeros taken for padding", "You treat token 0 as padding. Padding is what follows the first"
         " EOS, whatever its id.", lambda x, eos: x != 0),
        ("mask upside down", "True and False are exchanged; True means that a position counts.",
         lambda x, eos: ~rollouts.response_mask(x, eos)),
        ("True from the EOS on", "Your mask is True from the first EOS on; it should end there.",
         lambda x, eos: ends(x, eos) > 0),
        ("only the EOS counts", "Only the first EOS is True; all positions before it should be True too.",
         lambda x, eos: (x == eos) & (ends(x, eos) == 1)),
        ("EOS at the start taken for none", "argmax is 0 in two cases: no EOS, or an EOS at the very start."
         " In the second only the first token counts.",
         lambda x, eos: up_to(torch.where((x == eos).int().argmax(1) == 0, x.shape[1] - 1,
                                          (x == eos).int().argmax(1)), x)),
        ("counted from the end", "You count the EOS from the end of the row; look before a position.",
         lambda x, eos: (x == eos).long().flip(1).cumsum(1).flip(1) == 0),
        ("counted from the end", "You count the EOS from the end of the row, so the last one ends it, and a"
         " row without one has none.",
         lambda x, eos: (x == eos).long().flip(1).cumsum(1).flip(1) > 0),
        ("rolled round", "roll brings the last column round to the first: nothing stands before the first"
         " token.", lambda x, eos: ends(x, eos).roll(1, 1) == 0),
        ("rolled round", "roll brings the last column round to the first: nothing stands before the first"
         " token.", lambda x, eos: (x == eos).roll(1, 1).long().cumsum(1) == 0),
        ("only the token before", "You look at the token before alone: once a row has ended, it stays ended.",
         lambda x, eos: ~torch.cat([torch.zeros_like(x[:, :1]).bool(), x[:, :-1] == eos], 1)),
        ("the last token taken for padding", "You take the row's last token for padding; it may be a word.",
         lambda x, eos: x != x[:, -1:]),
        ("the last token taken for padding", "You take the row's last token for padding; it may be a word.",
         lambda x, eos: (x != x[:, -1:]) | (x == eos)),
        ("runs on across rows", "Your count of EOS runs on into the next row; each row starts anew.",
         lambda x, eos: (lambda e: (e.cumsum(0) - e == 0).view_as(x))((x == eos).long().flatten())),
        ("runs on across rows", "Your count of EOS runs on into the next row; each row starts anew.",
         lambda x, eos: ((x == eos).flatten().long().cumsum(0) == 0).view_as(x)),
        ("counted down the batch", "You count EOS along dim=0, the batch; tokens are along dim=1.",
         lambda x, eos: (x == eos).long().cumsum(0) - (x == eos).long() == 0),
        ("counted down the batch", "You count EOS along dim=0, the batch; tokens are along dim=1.",
         lambda x, eos: (x == eos).long().cumsum(0) == 0),
        ("one too few", "Your mask ends before the EOS and leaves out one word more.",
         lambda x, eos: up_to(rollouts.response_mask(x, eos).sum(1) - 3, x)),
        ("two too many", "You count two positions after the EOS.",
         lambda x, eos: up_to(rollouts.response_mask(x, eos).sum(1) + 1, x)),
        ("last position left out", "You leave out the last position of each row, also where no EOS came.",
         lambda x, eos: up_to(rollouts.response_mask(x, eos).sum(1) - 2, x)),
        ("one length for all", "You give all rows the length of the shortest; each has its own.",
         lambda x, eos: up_to((rollouts.response_mask(x, eos).sum(1) - 1).amin().expand(len(x)), x)),
        ("one length for all", "You give all rows the length of the longest; each has its own.",
         lambda x, eos: up_to((rollouts.response_mask(x, eos).sum(1) - 1).amax().expand(len(x)), x)),
        ("EOS excluded, row without EOS left out", "You left out the EOS, which is an action too, and the"
         " rows that have none, in which all counts.",
         lambda x, eos: (ends(x, eos) == 0) & (x == eos).any(1, True)),
        ("EOS and zeros masked", "You mask every EOS and every token 0; the first EOS counts, and what"
         " follows it is padding, whatever its id.", lambda x, eos: (x != eos) & (x != 0)),
        ("zeros taken for padding", "You treat token 0 as padding. Padding is what follows the first"
         " EOS, whatever its id.", lambda x, eos: rollouts.response_mask(x, eos) & (x != 0)),
        ("the first token left out", "The first token counts too.",
         lambda x, eos: rollouts.response_mask(x, eos) & (torch.arange(x.shape[1]) > 0)),
        *[("another id", f"You look for token {k}; the EOS is `eos_token_id`.",
           lambda x, eos, k=k: rollouts.response_mask(x, k)) for k in (0, 1, 2)],
    ],
)
# fmt: on

EOS_IS_0 = (
    "an EOS of id 0",
    "Right for other ids; an EOS may have the id 0. Compare with it, and ask nothing else of a token.",
    (torch.tensor([[5, 0, 3, 0], [4, 6, 3, 7], [0, 0, 0, 0]]), 0),
)
HIGH_IDS = (
    "large ids",
    "Right for small ids, wrong for those of a vocabulary of 50 257 words and more: is something kept in"
    " fewer bits than int64?",
    (torch.tensor([[260, 50256, 4, 0], [4, 65540, 50000, 7]]), 50256),
)
check_response_mask = explained(
    checker(MASK), then=also_on(MASK, EOS_IS_0, HIGH_IDS, *sizes(MASK.probes[1]))
)
