"""The clip: training with it and without, on rollouts used for 4 gradient steps and for 32.

32 steps also at a third of the learning rate, and with the two wrong losses of lesson 04 that train.
"""

from collections.abc import Iterator
from functools import partial

from helpers import ppo
from helpers.studies.faults import FAULTS, Fault
from helpers.studies.study import Job, StudyOptions, record

FEW = {"num_ppo_epochs": 4, "minibatch_size": 64}
MANY = {"num_ppo_epochs": 8, "minibatch_size": 16}
KINDS = {"steps_4": FEW, "steps_32": MANY, "steps_32_slow": MANY | {"learning_rate": 3e-4}}
NO_CLIP = {"cliprange": 1e6}  # no ratio comes so far
KINDS |= {f"{kind}_no_clip": settings | NO_CLIP for kind, settings in KINDS.items()}
KINDS |= dict.fromkeys(("steps_32_max", "steps_32_no_ratio"), MANY)
_right_policy_loss = ppo.policy_loss


def without_ratio(logprobs, old_logprobs, *rest):
    """The ratio is always 1: the plain policy gradient, without clip or correction."""
    return _right_policy_loss(logprobs, logprobs.detach(), *rest)


NO_RATIO = Fault("no_ratio", wrong={"policy_loss": without_ratio})
PLANTED = {"steps_32_max": FAULTS["clip_max"], "steps_32_no_ratio": NO_RATIO}


class ClipOptions(StudyOptions, name="clip", iterations=10):
    """The clip: with it and without, where a rollout is used for 4 gradient steps and for 32."""

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """The default β and, unless slow, learning rates; the wrong losses are planted."""
        train = partial(record, evaluated=16, checkpoints=False)
        for kind, settings in KINDS.items():
            within = PLANTED.get(kind, Fault(kind)).in_effect
            yield Job(kind, self.config(seed, **settings), partial(train, within=within))
