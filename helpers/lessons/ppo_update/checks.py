"""Exercises of lesson 04: the value loss and the whole update; those on the policy are in `policy`."""

import torch
from torch import Tensor, nn

from helpers.kit.exercise import floats, noise, prefix_mask, sizes
from helpers.kit.judge import exercise
from helpers.kit.updates import cases, cause_update, edges, observe_update
from helpers.lessons.ppo_update.policy import (  # noqa: F401 (the lesson takes all from here)
    check_clip_fraction,
    check_entropy,
    check_policy_loss,
    check_ratio,
    check_reinforce_loss,
)
from helpers.rollouts import RolloutBatch

SHORT = (
    floats([1.0, 0.0, 2.0, 5.0]),
    floats([0.4, 0.7, 2.1, 1.0]),
    floats([1.6, -2.0, 2.5, -3.0]),
    prefix_mask(4, 3),
    0.2,
)
VALUES = (noise(4, 3, 5), noise(5, 3, 5), noise(6, 3, 5), prefix_mask(5, 2, 5, 4), 0.3)

check_value_loss = exercise(
    """\
def value_loss(values, old_values, returns, mask, cliprange_value):
    near = torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
    larger = torch.maximum((values - returns).square(), (near - returns).square())
    return 0.5 * larger[mask].mean()
""",
    "½·mean max((V − R)², (clip(V, V_old ± ε) − R)²) over counted tokens (Huang et al. 2024)",
    [SHORT, VALUES],
    """\
clip without max: You used only the clipped value; take the larger of the two squares.
- larger[mask]
+ (near - returns).square()[mask]
clipped in proportion to the old value: You clipped V to V_old·(1 ± ε), as a ratio; the range is V_old ± ε.
- old_values - cliprange_value, old_values + cliprange_value
+ old_values - cliprange_value * old_values.abs(), old_values + cliprange_value * old_values.abs()
the change alone: You clipped the change V − V_old, and forgot to add V_old again.
- torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
+ torch.clamp(values - old_values, -cliprange_value, cliprange_value)
absolute errors: You took absolute errors; the loss squares them.
- (values - returns).square(), (near - returns).square()
+ (values - returns).abs(), (near - returns).abs()
larger of two means: You took the larger of two means; take the larger square of each token, then the mean.
- larger[mask].mean()
+ torch.maximum((values - returns)[mask].square().mean(), (near - returns)[mask].square().mean())
""",
    gradient=("values",),
    further=sizes(VALUES),
)


class Critic(nn.Module):
    """The recorded critic as the lesson's value network: [B, L] ids, mask and positions → [B, L]."""

    def __init__(self, trunk: nn.Module):
        super().__init__()
        self.trunk = trunk

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Tensor:
        """Values after each token."""
        given = {"attention_mask": attention_mask, "position_ids": position_ids}
        return self.trunk(input_ids, **given).logits[..., 0]


def as_update(function):
    """`ppo_update_step` as an update that `kit.updates` observes."""

    def update(actor, critic, optimizer, rollout: tuple, config):
        ids, mask, logprobs, values, advantages, returns = rollout
        T, unused = logprobs.shape[1], torch.zeros_like(logprobs)
        tokens = ids[:, :-T], mask[:, :-T], ids[:, -T:], mask[:, -T:]
        per_token = logprobs, unused, values, unused, advantages, returns
        batch = RolloutBatch(*tokens, *per_token, unused[:, 0])
        return function(actor, Critic(critic), batch, optimizer, config)

    return update


check_ppo_update_step = exercise(
    """\
from helpers.rollouts import forward_logprobs, forward_values


def ppo_update_step(policy, value_network, rollout, optimizer, config):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for _ in range(config.num_ppo_epochs):
        for rows in torch.randperm(len(rollout)).split(config.minibatch_size):
            batch = rollout.rows(rows)
            mask = batch.response_mask
            tokens = batch.query_tensors, batch.query_mask, batch.response_tensors, mask
            logprobs = forward_logprobs(policy, *tokens, temperature=config.temperature)
            values = forward_values(value_network, *tokens)
            actor = policy_loss(logprobs, batch.logprobs, batch.advantages, mask, config.cliprange)
            critic = value_loss(values, batch.values, batch.returns, mask, config.cliprange_value)
            optimizer.zero_grad()
            (actor + config.vf_coef * critic).backward()
            torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
            optimizer.step()
""",
    "policy loss + vf_coef · value loss; old gradients away, new ones, their norm clipped, one step",
    cases,
    """\
a ratio of 1: Your gradient is that of a ratio of 1: the old log-probs are the rollout's, not new ones.
- policy_loss(logprobs, batch.logprobs
+ policy_loss(logprobs, logprobs.detach()
returns rebuilt: You rebuilt the returns as advantages + values; but the advantages are whitened by now.
- batch.returns
+ batch.advantages + batch.values
whitened again: The advantages are whitened already, over the whole rollout: take them as they are.
- batch.advantages
+ (batch.advantages - batch.advantages[mask].mean()) / batch.advantages[mask].std()
clipped one model at a time: Take one norm over both models, and clip that.
- clip_grad_norm_(parameters, config.max_grad_norm)
+ clip_grad_norm_(policy.parameters(), config.max_grad_norm)
+             torch.nn.utils.clip_grad_norm_(value_network.parameters(), config.max_grad_norm)
""",
    results=("gradients of policy and value network",),
    observe=lambda function, *probe: observe_update(as_update(function), *probe),
    cause=lambda function, *probe: cause_update(as_update(function), *probe),
    further=edges,
    uses={"policy_loss": check_policy_loss.exercise, "value_loss": check_value_loss.exercise},
    seconds=30.0,
    advice="Compare the line that it comes from with the text, factor by factor.",
)
