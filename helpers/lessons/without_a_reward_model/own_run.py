"""The learner's functions in DPO's training loop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from unittest.mock import patch

import torch

from helpers import direct
from helpers.config import DirectConfig
from helpers.kit.own import all_own
from helpers.kit.places import in_place
from helpers.sampling import sample_texts
from helpers.state import start_run


@contextmanager
def own_in_place() -> Iterator[Callable[[], list[str]]]:
    """The learner's functions in `helpers.direct`; `dpo_loss` where labels are hard. → those called."""
    left_out = "sample_with_cache"  # may draw its random numbers in another order
    functions = {name: own for name, own in all_own().items() if name != left_out}
    with in_place(functions) as calls:
        loss = direct.dpo_loss

        def dpo_loss(*given):
            *sides, probabilities = given  # the exercise has none
            return loss(*sides) if bool((probabilities == 1).all()) else loss(*given)

        with patch.dict(direct.LOSSES, dpo=dpo_loss):
            yield lambda: [name for name in functions if calls[name]]


def milestone(config: DirectConfig, pairs: list[dict]) -> None:
    """Train with the learner's functions; the first losses beside the course's own run of this seed."""
    with own_in_place() as called:
        state = start_run(config)
        mine = list(direct.train_direct(state=state, pairs=pairs))
    course = list(islice(direct.train_direct(config, pairs=pairs), 3))
    own = ", ".join(called()) or "none yet, this is the course's own run"
    print("Your own in the training:", own)
    for a, b in zip(mine, course, strict=False):
        apart = "" if abs(a["loss"] - b["loss"]) <= 1e-4 else "   They part here."
        print(f"step {a['iteration']}   loss {a['loss']:.4f}   the course's {b['loss']:.4f}{apart}")
    first, last = ("score {score:+.2f}, KL {kl:.2f} nats".format(**mine[i]) for i in (0, -1))
    print(f"samples: {first} → {last} after {len(mine)} steps")
    generator = torch.Generator().manual_seed(config.seed)
    what = state.models.actor, state.models.tokenizer, state.prompts, 3, config, generator
    print("Three texts of this policy:", *sample_texts(*what), sep="\n")
