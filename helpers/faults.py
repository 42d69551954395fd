"""Fifteen real ways to break RLHF. Each changes one step of the loop, or one setting, and nothing else.

The clinic (lesson 08) trains with a fault planted: `with fault.planted(): …` puts the wrong function
in the place of the right one and takes it out again. Use nowhere else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from helpers import ppo, steps, wrong_steps
from helpers.config import RLHFConfig
from helpers.validate import require_choice


@dataclass(frozen=True)
class Fault:
    """One mistake: where it sits, the sign it is to be known by, and why that sign."""

    name: str
    title: str  # as a person would say it
    statistic: str  # of `helpers.diagnose.STATISTICS`, fixed before any run
    sign: str  # which curve gives it away, and why
    wrong: dict[str, Callable] = field(default_factory=dict)  # names in helpers.steps, replaced
    wrong_in_ppo: dict[str, Callable] = field(
        default_factory=dict
    )  # names in helpers.ppo, replaced
    settings: dict = field(default_factory=dict)  # settings that are the mistake

    def config(self, config: RLHFConfig) -> RLHFConfig:
        """The healthy settings with the mistake in them."""
        return replace(config, **self.settings)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """While this lasts, every run of this process has the fault."""
        places = [(steps, self.wrong), (ppo, self.wrong_in_ppo)]
        before = [(module, name, getattr(module, name)) for module, new in places for name in new]
        try:
            for module, new in places:
                for name, function in new.items():
                    setattr(module, name, function)
            yield
        finally:
            for module, name, function in before:
                setattr(module, name, function)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "whitening_first",
            "Advantages are whitened before the returns are formed",
            "value_loss",
            "The value loss stays high: the critic is sent after targets of variance 1, "
            "not after reward still to come.",
            {"estimate_advantages": wrong_steps.whiten_before_returns},
        ),
        Fault(
            "kl_sign",
            "The KL penalty has the wrong sign",
            "kl",
            "KL climbs without end, far beyond what the score gains: drifting is paid for.",
            {"total_rewards": wrong_steps.reverse_kl},
        ),
        Fault(
            "stop_masked",
            "The stop token is masked out, as if it were padding",
            "ended",
            "The share of responses that ended is 0, though the texts end: the stop token counts "
            "nowhere, and whether to stop is learnt by nobody.",
            {"write_responses": wrong_steps.mask_stop_token},
        ),
        Fault(
            "score_on_pad",
            "The score is put on a pad",
            "score",
            "Score and KL hardly rise: only responses that never stop are paid for their score.",
            {"total_rewards": wrong_steps.score_on_pad},
        ),
        Fault(
            "wrong_old_logprobs",
            "The ratio is taken against the reference's log-probs",
            "first_ratio_error",
            "The ratio is not 1 on the first minibatch, from the second iteration on.",
            {"update": wrong_steps.reference_as_old},
        ),
        Fault(
            "dropout_on",
            "Dropout is on",
            "first_ratio_error",
            "The ratio is not 1 on the first minibatch, at the very first iteration already, "
            "and KL is above 0 before anything was learnt.",
            {"draw_prompts": wrong_steps.leave_dropout_on},
        ),
        Fault(
            "temperature",
            "Sampled at one temperature, log-probs at another",
            "first_ratio_error",
            "The ratio is not 1 on the first minibatch, and entropy falls from the start.",
            {"write_responses": wrong_steps.sample_cooler},
        ),
        Fault(
            "reference_moves",
            "The reference is not frozen",
            "kl",
            "KL stays at 0 although the score rises: the reference comes along.",
            {"update": wrong_steps.follow_with_reference},
        ),
        Fault(
            "raw_scores",
            "The reward is not normalised",
            "value_loss",
            "Score and value loss are tens and hundreds; beside such a score β weighs nothing.",
            {"score_responses": wrong_steps.raw_scores},
        ),
        Fault(
            "learning_rate",
            "The learning rate is ten times too high",
            "approx_kl",
            "approx_kl and clip fraction leap: each update throws the policy far from its rollout.",
            settings={"learning_rate": 1e-2, "critic_learning_rate": 1e-2},
        ),
        Fault(
            "value_targets",
            "The critic is trained on rewards, not on returns",
            "explained_variance",
            "The explained variance looks too good: the reward of a token is almost always 0, which "
            "is easy to predict. Real returns are not.",
            {"update": wrong_steps.fit_values_to_rewards},
        ),
        Fault(
            "no_kl",
            "There is no KL penalty",
            "kl",
            "KL climbs as long as you look; the score climbs with it.",
            settings={"kl_coef": 0.0},
        ),
        Fault(
            "beta_100x",
            "β is a hundred times too large",
            "score",
            "Nothing moves: KL stays near 0 and the score where it was.",
            settings={"kl_coef": 10.0},
        ),
        Fault(
            "padding_counted",
            "Padding counts",
            "kl",
            "KL is far below 0, which no mean over the policy's own samples can be: nobody drew the pads.",
            {"write_responses": wrong_steps.count_padding},
        ),
        Fault(
            "clip_max",
            "max in the place of min in the clipped objective",
            "approx_kl",
            "approx_kl is about twice a healthy run's, and yet the clip fraction looks like any other.",
            wrong_in_ppo={"policy_loss": wrong_steps.take_larger},
        ),
    )
}


def find_fault(name: str) -> Fault:
    """The fault of that name; ValueError lists those there are."""
    require_choice("fault", name, tuple(FAULTS))
    return FAULTS[name]
