"""Wrong versions of steps of the loop, for the clinic (lesson 08). Nothing else may import this."""

from dataclasses import replace

import torch
from torch import nn

from helpers import ppo, steps
from helpers.gae import compute_gae
from helpers.rollouts import RolloutBatch, forward_logprobs, forward_values
from helpers.state import RLHFState
from helpers.whitening import masked_mean, whiten_advantages
from helpers.writing import Written

RIGHT = {  # the right functions, kept before anything is planted
    name: getattr(steps, name)
    for name in ("write_responses", "score_responses", "total_rewards", "update", "draw_prompts")
}


@torch.no_grad()
def whiten_before_returns(state: RLHFState, written: Written, rewards):
    """Returns made of whitened advantages: no longer in reward units."""
    config, mask = state.config, written.response_mask
    values = written.in_parts(lambda *tokens: forward_values(state.models.critic, *tokens))
    advantages, _ = compute_gae(rewards, values, config.gamma, config.lam, mask)
    advantages = whiten_advantages(advantages, mask)
    return values, advantages, torch.where(mask, advantages + values, 0.0)


def reverse_kl(state: RLHFState, written: Written, scores, ref_logprobs):
    """+β·KL where −β·KL belongs: drifting is paid for."""
    swapped = replace(written, logprobs=ref_logprobs)
    return RIGHT["total_rewards"](state, swapped, scores, written.logprobs)


def mask_stop_token(state: RLHFState, prompts: list[str]) -> Written:
    """Pad and stop token are taken for the same: the stop token counts nowhere."""
    written = RIGHT["write_responses"](state, prompts)
    mask = written.response_mask & (written.response_tensors != state.models.tokenizer.eos_token_id)
    mask[:, 0] |= ~mask.any(dim=1)  # a response of the stop token alone keeps it
    written.response_mask = mask
    written.logprobs = torch.where(mask, written.logprobs, 0.0)
    return written


def score_on_pad(state: RLHFState, written: Written, scores, ref_logprobs):
    """The score at the last position of the tensor: a pad, unless the response never stopped."""
    rewards = RIGHT["total_rewards"](state, written, torch.zeros_like(scores), ref_logprobs)
    last = torch.zeros_like(rewards)
    last[:, -1] = scores
    return torch.where(written.response_mask, rewards + last, 0.0)


def reference_as_old(state: RLHFState, rollout: RolloutBatch) -> dict:
    """The ratio is taken against the reference's log-probs, not the rollout's."""
    return RIGHT["update"](state, replace(rollout, logprobs=rollout.ref_logprobs))


def leave_dropout_on(state: RLHFState) -> list[str]:
    """Ten per cent of the actor's activations are dropped, while it writes and while it learns."""
    actor = state.models.actor.train()
    for module in actor.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    return RIGHT["draw_prompts"](state)


def sample_cooler(state: RLHFState, prompts: list[str]) -> Written:
    """Sampled at temperature 0.7; log-probs later at 1."""
    config = state.config
    state.config = replace(config, temperature=0.7)
    try:
        return RIGHT["write_responses"](state, prompts)
    finally:
        state.config = config


def follow_with_reference(state: RLHFState, rollout: RolloutBatch) -> dict:
    """The "frozen" reference is the actor itself: it moves along."""
    metrics = RIGHT["update"](state, rollout)
    state.models.reference.load_state_dict(state.models.actor.state_dict())
    return metrics


def raw_scores(state: RLHFState, written: Written):
    """Scores as a reward model may give them that nobody normalised: mean 20, scale 10."""
    return 10.0 * RIGHT["score_responses"](state, written) + 20.0


def fit_values_to_rewards(state: RLHFState, rollout: RolloutBatch) -> dict:
    """The critic learns each token's reward, not what is still to come."""
    return RIGHT["update"](state, replace(rollout, returns=rollout.rewards))


def count_padding(state: RLHFState, prompts: list[str]) -> Written:
    """Every position counts, padding too: in log-probs, rewards, whitening and losses."""
    written = RIGHT["write_responses"](state, prompts)
    written.response_mask = torch.ones_like(written.response_mask)
    with torch.no_grad():
        policy, temperature = state.models.actor, state.config.temperature
        written.logprobs = forward_logprobs(policy, *written.tokens(), temperature)
    return written


def take_larger(logprobs, old_logprobs, advantages, mask, cliprange=0.2):
    """max where the clipped objective has min: the clip holds back nothing that hurts."""
    loss, stats = _right_policy_loss(logprobs, old_logprobs, advantages, mask, cliprange)
    ratio = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    clipped = ratio.clamp(1.0 - cliprange, 1.0 + cliprange)
    gain = torch.maximum(ratio * advantages, clipped * advantages)
    return -masked_mean(gain, mask), stats


_right_policy_loss = ppo.policy_loss
