"""An observer that prints the seven steps of one iteration with their shapes and values."""

from collections.abc import Callable

import torch

from helpers.config import RLHFConfig
from helpers.kl import kl_estimate
from helpers.ppo import policy_loss
from helpers.prompts import last_message
from helpers.reward_model import RewardModel
from helpers.rollouts import forward_logprobs
from helpers.state import Models
from helpers.whitening import masked_mean

SHOWN = 6  # numbers printed per tensor


def numbers(row: torch.Tensor) -> str:
    """The first few numbers of a tensor, with three decimals."""
    # + 0.0 turns −0 into 0
    head = "  ".join(f"{round(value, 3) + 0.0:+.3f}" for value in row.flatten()[:SHOWN].tolist())
    return head + ("  …" if row.numel() > SHOWN else "")


class Trace:
    """Print each step of `iterate`: pass as its `observe`. It changes nothing."""

    def __init__(self, models: Models, config: RLHFConfig, show: Callable[[str], None] = print):
        self.models, self.config, self.show = models, config, show

    def __call__(self, step: int, **tensors) -> None:
        getattr(self, f"step_{step}")(**tensors)

    def line(self, label: str, value: object) -> None:
        self.show(f"      {label:<24}{value}")

    def tensor(self, label: str, x: torch.Tensor, row: torch.Tensor | None = None) -> None:
        """A tensor's shape, and the first numbers of its first row or of another."""
        row = x[0] if row is None else row
        self.line(label, f"{tuple(x.shape)}  {numbers(row)}")

    def step_1(self, prompts: list[str]) -> None:
        self.show(f"(1) {len(prompts)} prompts, padded on the left")
        self.line("first prompt", repr(last_message(prompts[0])[:60]))

    def step_2(self, responses) -> None:
        self.line("query_tensors", tuple(responses.query_tensors.shape))
        self.show("(2) The actor samples responses")
        written = tuple(responses.response_tensors.shape)
        self.line("response_tensors", written)
        self.line("actor logits", (*written, self.models.actor.config.get_text_config().vocab_size))
        self.tensor("old log-probs", responses.logprobs)
        text = responses.texts[0]
        shown = text[max(0, len(text) - len(text.completion) - 45) :]  # of a long prompt the end
        self.line("first text", repr(shown[:90]))

    def step_3(self, responses, scores) -> None:
        who = "model" if isinstance(self.models.reward, RewardModel) else "function"
        self.show(f"(3) The reward {who} scores each text (prompt + response)")
        self.tensor("scores", scores, scores)
        self.line("mean score", f"{float(scores.mean()):+.3f}")

    def step_4(self, responses, ref_logprobs) -> None:
        kl = kl_estimate(responses.logprobs, ref_logprobs)
        self.show("(4) The frozen reference reads the same tokens")
        self.tensor("reference log-probs", ref_logprobs)
        self.tensor("per-token KL (k1)", kl)
        self.line("mean KL per response", f"{float(kl.sum(dim=1).mean()):+.6f} nats")

    def step_5(self, rewards, mask) -> None:
        what = "−β·KL on every token, plus the score on the last"
        if self.config.kl_placement == "loss":
            what = "the score on the last token; the KL is in the loss"
        self.show(f"(5) Rewards: {what}")
        last = int(mask[0].sum())
        ends = f"first response ends {numbers(rewards[0, last - 3 : last])}"
        self.line("rewards", f"{tuple(rewards.shape)}  {ends}")

    def step_6(self, values, advantages, returns, mask) -> None:
        method = self.config.method
        if method == "ppo":
            self.show("(6) Values, GAE returns, advantages")
            self.tensor("values", values)
        else:
            self.show(f"(6) Returns, and advantages without a critic ({method})")
        self.tensor("returns", returns)
        whitened = self.config.whiten_advantages and method != "grpo"
        self.tensor("advantages, whitened" if whitened else "advantages", advantages)

    @torch.no_grad()
    def step_7(self, rollout, metrics: dict) -> None:
        self.show("(7) PPO update")
        mask, clip = rollout.response_mask, self.config.cliprange
        heat = {"temperature": self.config.temperature}
        logprobs = forward_logprobs(self.models.actor, *rollout.tokens(), **heat)
        ratio = policy_loss(logprobs, rollout.logprobs, rollout.advantages, mask)[1]["ratio"]
        self.line("ratio, first minibatch", f"1 to within {metrics['first_ratio_error']:.1e}")
        clipped = ratio.clamp(1 - clip, 1 + clip)
        for label, x in (("ratio, after the update", ratio), ("clipped ratio", clipped)):
            self.line(label, f"{numbers(x[0])}  mean {masked_mean(x, mask):.3f}")
        self.line("actor loss", f"{metrics['policy_loss']:+.4f}")
        if "value_loss" in metrics:
            self.line("critic loss", f"{metrics['value_loss']:.4f}")
        self.show(f"update complete: {len(rollout)} responses, {int(mask.sum())} tokens")
        self.summary(rollout, metrics)

    def summary(self, rollout, metrics: dict) -> None:
        """Total reward of the step, a mean over its responses, and the score and β·KL it consists of."""
        kl = kl_estimate(rollout.logprobs, rollout.ref_logprobs) * rollout.response_mask
        kl, score = kl.sum(dim=1).mean(), rollout.scores.mean()
        paid = metrics["kl_coef"] * kl
        made_of = f" = score {score:+.3f}"
        if self.config.whiten_rewards:
            made_of = ", whitened"
        elif self.config.kl_placement == "reward":
            made_of += f" − β·KL {paid:+.3f}"
        self.line("KL per response", f"{kl:+.3f} nats, β·KL {paid:+.3f}")
        self.line("reward per response", f"{rollout.rewards.sum(dim=1).mean():+.3f}{made_of}")
