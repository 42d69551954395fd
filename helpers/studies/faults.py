"""Faults of RLHF, each a wrong step or setting: `with fault.in_effect()` plants it. For lesson 09."""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import torch

from helpers import ppo, steps
from helpers.config import RLHFConfig
from helpers.gae import compute_gae
from helpers.rollouts import RolloutBatch, forward_logprobs, forward_values
from helpers.sampling import Responses
from helpers.state import RLHFState
from helpers.whitening import masked_mean, whiten_advantages

RIGHT = {  # the right functions, kept before anything is planted
    name: getattr(steps, name)
    for name in ("generate_responses", "score_responses", "total_rewards", "update", "draw_prompts")
}
_right_policy_loss = ppo.policy_loss


@torch.no_grad()
def whiten_before_returns(state: RLHFState, responses: Responses, rewards, skipped=None):
    """Returns computed from whitened advantages: no longer in reward units."""
    config, mask = state.config, responses.response_mask
    values = responses.in_parts(lambda *tokens: forward_values(state.models.critic, *tokens))
    advantages, _ = compute_gae(rewards, values, config.gamma, config.lam, mask)
    advantages = whiten_advantages(advantages, mask)
    return values, advantages, torch.where(mask, advantages + values, 0.0)


def reverse_kl(state: RLHFState, responses: Responses, scores, ref_logprobs):
    """+β·KL instead of −β·KL: distance from the reference is rewarded."""
    swapped = replace(responses, logprobs=ref_logprobs)
    return RIGHT["total_rewards"](state, swapped, scores, responses.logprobs)


def mask_stop_token(state: RLHFState, prompts: list[str]) -> Responses:
    """The stop token is treated as padding: it counts nowhere."""
    responses = RIGHT["generate_responses"](state, prompts)
    stop = responses.response_tensors == state.models.tokenizer.eos_token_id
    mask = responses.response_mask & ~stop
    mask[:, 0] |= ~mask.any(dim=1)  # a response of the stop token alone keeps it
    logprobs = torch.where(mask, responses.logprobs, 0.0)
    return replace(responses, response_mask=mask, logprobs=logprobs)


def score_on_pad(state: RLHFState, responses: Responses, scores, ref_logprobs):
    """The score at the last position of the tensor: padding, unless the response has no EOS."""
    rewards = RIGHT["total_rewards"](state, responses, torch.zeros_like(scores), ref_logprobs)
    rewards[:, -1] += scores
    return torch.where(responses.response_mask, rewards, 0.0)


def reference_as_old(state: RLHFState, rollout: RolloutBatch) -> dict:
    """The ratio uses the reference's log-probs instead of the rollout's."""
    return RIGHT["update"](state, replace(rollout, logprobs=rollout.ref_logprobs))


def leave_dropout_on(state: RLHFState, share: float = 0.1) -> list[str]:
    """Dropout of this share in the actor, while sampling and while training."""
    actor = state.models.actor.train()
    for module in actor.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share
    return RIGHT["draw_prompts"](state)


def sample_cooler(state: RLHFState, prompts: list[str], temperature: float = 0.7) -> Responses:
    """Sample at this temperature, but compute log-probs at 1."""
    cooler = replace(state, config=replace(state.config, temperature=temperature))
    return RIGHT["generate_responses"](cooler, prompts)


def sample_top_k(state: RLHFState, prompts: list[str], k: int = 10) -> Responses:
    """Sample from the k likeliest tokens, but compute the trainer's log-probs over all tokens."""
    keep = lambda _, __, x: x.masked_fill(x < x.topk(k).values[..., -1:], -torch.inf)  # noqa: E731
    hook = state.models.actor.lm_head.register_forward_hook(keep)
    responses = RIGHT["generate_responses"](state, prompts)
    hook.remove()
    return responses


def follow_with_reference(state: RLHFState, rollout: RolloutBatch) -> dict:
    """The "frozen" reference is the actor itself, so it is trained too."""
    metrics = RIGHT["update"](state, rollout)
    state.models.reference.load_state_dict(state.models.actor.state_dict())
    return metrics


def raw_scores(state: RLHFState, responses: Responses):
    """Scores of a reward model without normalisation: mean 20, scale 10."""
    return 10.0 * RIGHT["score_responses"](state, responses) + 20.0


def fit_values_to_rewards(state: RLHFState, rollout: RolloutBatch) -> dict:
    """The critic is trained on each token's reward, not on the return."""
    return RIGHT["update"](state, replace(rollout, returns=rollout.rewards))


def count_padding(state: RLHFState, prompts: list[str]) -> Responses:
    """Padding counts too: in log-probs, rewards, whitening and losses."""
    responses = RIGHT["generate_responses"](state, prompts)
    responses.response_mask = torch.ones_like(responses.response_mask)
    with torch.no_grad():
        policy, temperature = state.models.actor, state.config.temperature
        responses.logprobs = forward_logprobs(policy, *responses.tokens(), temperature=temperature)
    return responses


def take_larger(logprobs, old_logprobs, advantages, mask, cliprange=0.2):
    """max instead of min in the clipped objective: the clip does not stop harmful updates."""
    loss, stats = _right_policy_loss(logprobs, old_logprobs, advantages, mask, cliprange)
    ratio = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    clipped = ratio.clamp(1.0 - cliprange, 1.0 + cliprange)
    gain = torch.maximum(ratio * advantages, clipped * advantages)
    return -masked_mean(gain, mask), stats


@dataclass(frozen=True)
class Fault:
    """One fault: where it is planted, and what shows it."""

    name: str
    title: str = ""  # as a person would say it
    sign: str = ""  # which curve gives it away, and why
    wrong: dict[str, Callable] = field(default_factory=dict)  # names of helpers.steps or .ppo
    settings: dict = field(default_factory=dict)  # settings that are the mistake

    def config(self, config: RLHFConfig) -> RLHFConfig:
        """The healthy settings with the fault in them."""
        return replace(config, **self.settings)

    @contextmanager
    def in_effect(self) -> Iterator[None]:
        """While this lasts, every run of this process has the fault."""
        with ExitStack() as planted:
            for name, function in self.wrong.items():
                module = steps if hasattr(steps, name) else ppo
                planted.enter_context(patch.object(module, name, function))
            yield


PLANTED = {  # how each is planted; what it is called, and what shows it, is in `faults.toml`
    "whitening_first": {"wrong": {"estimate_advantages": whiten_before_returns}},
    "kl_sign": {"wrong": {"total_rewards": reverse_kl}},
    "stop_masked": {"wrong": {"generate_responses": mask_stop_token}},
    "score_on_pad": {"wrong": {"total_rewards": score_on_pad}},
    "wrong_old_logprobs": {"wrong": {"update": reference_as_old}},
    "dropout_on": {"wrong": {"draw_prompts": leave_dropout_on}},
    "temperature": {"wrong": {"generate_responses": sample_cooler}},
    "top_k": {"wrong": {"generate_responses": sample_top_k}},
    "reference_moves": {"wrong": {"update": follow_with_reference}},
    "raw_scores": {"wrong": {"score_responses": raw_scores}},
    "learning_rate": {"settings": {"learning_rate": 0.01, "critic_learning_rate": 0.01}},
    "value_targets": {"wrong": {"update": fit_values_to_rewards}},
    "no_kl": {"settings": {"kl_coef": 0.0}},
    "beta_100x": {"settings": {"kl_coef": 10.0}},
    "padding_counted": {"wrong": {"generate_responses": count_padding}},
    "clip_max": {"wrong": {"policy_loss": take_larger}},
}
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FAULTS = {name: Fault(name, **_WORDS[name], **how) for name, how in PLANTED.items()}
