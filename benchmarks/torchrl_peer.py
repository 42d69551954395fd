"""One PPO iteration built from torchrl's parts (torchrl 0.14.1), on the benchmark's work.

torchrl has no PPO trainer for language models and its losses for them take no critic, so this is built
from its documentation. Its parts: `TransformersWrapper` (responses, log-probs), `HFRewardModelWrapper`
(scores), `ProbabilisticActor` over `LLMMaskedCategorical` (log-probs), `ValueOperator` (values), `GAE`,
`ClipPPOLoss` with its own normalisation of advantages, `TensorDictReplayBuffer` (minibatches).

Glue of ours: which positions are computed, rewards (`KLComputation` refuses dense ones), `done`, next
values, the loop with gradient clipping and Adam. And two repairs: the wrapper leaves the log-prob of a
response's first token at 0, so a forward of the prompts puts it in; asked for log-probs alone it hands
GPT-2 the mask as a cache, so the reference is a `ProbabilisticActor`, as the policy is in the loss.
"""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.modules import LLMMaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.modules.llm import TransformersWrapper
from torchrl.modules.llm.trl_interop import HFRewardModelWrapper
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE
from transformers import GPT2ForSequenceClassification, GPT2LMHeadModel

from benchmarks.common import Span, timed
from benchmarks.models import (
    LEARNING_RATE,
    Size,
    gpt2_config,
    make_actor,
    make_tokenizer,
    prompt_ids,
)
from helpers.config import RLHFConfig

CONFIG = RLHFConfig()  # β, γ, λ, ε and the rest as in ours
TOKENS, MASK = ("tokens", "full"), ("masks", "all_attention_mask")  # the wrapper's names
RESPONSE, LOGPROBS = ("tokens", "response"), ("log_probs", "response")


class OnResponse(nn.Module):
    """Logits [b, T, V] or values [b, T, 1] at the position before each response token, and mask [b, T]."""

    def __init__(self, trunk: nn.Module, head: nn.Module, length: int):
        super().__init__()
        self.trunk, self.head, self.length = trunk, head, length

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        inputs = {"input_ids": ids[:, :-1], "attention_mask": mask[:, :-1]}
        hidden = self.trunk(**inputs, use_cache=False).last_hidden_state
        return self.head(hidden[:, -self.length :]), mask[:, -self.length :]


def make_writer(policy: GPT2LMHeadModel, size: Size) -> TransformersWrapper:
    """Sampler over the whole vocabulary: token ids → token ids and log-probs."""
    # transformers' default top_k is 50, and the wrapper refuses 0
    policy.generation_config.update(do_sample=True, top_k=0, max_new_tokens=size.response)
    plain = {"input_mode": "tokens", "pad_output": True, "return_log_probs": True}
    return TransformersWrapper(policy, tokenizer=make_tokenizer(size), **plain)


def make_torchrl_actor(model: GPT2LMHeadModel, size: Size) -> ProbabilisticActor:
    """Distribution of each response token, used for log-probs only."""
    module = OnResponse(model.transformer, model.lm_head, size.response)
    logits = TensorDictModule(module, [TOKENS, MASK], ["logits", "mask"])
    kind = {"distribution_class": LLMMaskedCategorical}
    return ProbabilisticActor(logits, ["logits", "mask"], [RESPONSE], **kind)


def make_loss(actor: ProbabilisticActor, critic: ValueOperator) -> ClipPPOLoss:
    """Clipped losses of policy and values, with our coefficients and like ours without an entropy bonus."""
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=CONFIG.cliprange,
        clip_value=CONFIG.cliprange_value,
        loss_critic_type="l2",
        critic_coeff=CONFIG.vf_coef / 2,
        entropy_bonus=False,
        normalize_advantage=True,
        normalize_advantage_exclude_dims=(-1,),  # of size 1: else it warns about several dimensions
        functional=False,  # no target networks, so no weights to swap in and out
    )
    loss.set_keys(action=RESPONSE, sample_log_prob=LOGPROBS)
    return loss


class TorchRLPeer:
    """The trainer; `iterate` runs one iteration. `trunks`: the four transformers by role, for counting."""

    def __init__(self, size: Size, minibatch: int, fused: bool = False):
        policy, reference = (make_actor(size, fused=fused) for _ in range(2))
        config = gpt2_config(size, fused, num_labels=1)
        critic, judge = (GPT2ForSequenceClassification(config).eval() for _ in range(2))
        models = {"policy": policy, "critic": critic, "reference": reference, "reward": judge}
        self.models = models  # of transformers
        self.trunks = {role: model.transformer for role, model in models.items()}
        self.writer = make_writer(policy, size)
        self.reference = make_torchrl_actor(reference, size)
        self.judge = HFRewardModelWrapper(judge)
        values = OnResponse(critic.transformer, critic.score, size.response)
        self.critic = ValueOperator(values, [TOKENS, MASK], ["state_value", "_"])
        discounts = {"gamma": CONFIG.gamma, "lmbda": CONFIG.lam}
        self.gae = GAE(**discounts, value_network=None, vectorized=True, time_dim=1)
        self.loss = make_loss(make_torchrl_actor(policy, size), self.critic)
        shuffled = {"sampler": SamplerWithoutReplacement(), "batch_size": minibatch}
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(size.batch), **shuffled)
        settings = {"lr": LEARNING_RATE, "eps": CONFIG.adam_eps, "fused": True}
        self.optimizer = torch.optim.Adam(self.loss.parameters(), **settings)
        self.prompts = prompt_ids(size, size.batch)

    @torch.inference_mode()
    def rollout(self) -> TensorDict:
        """Tokens, masks, log-probs of the batch, the first token's put in; batch size [B]."""
        written = self.writer(TensorDict({"tokens": {"prompt": self.prompts}}, len(self.prompts)))
        # every access stacks the rows again, so only one
        data = {key: written[key] for key in (TOKENS, MASK, RESPONSE, LOGPROBS)}
        logits = self.models["policy"](self.prompts, use_cache=False, logits_to_keep=1).logits
        first = logits[:, 0].log_softmax(dim=-1)
        data[LOGPROBS][:, :1] = first.gather(1, data[RESPONSE][:, :1])
        return TensorDict(data, written.batch_size)

    @torch.inference_mode()
    def score(self, data: TensorDict) -> None:
        """Add scores, values, reference log-probs, rewards, advantages and returns to `data`."""
        self.critic(self.judge(data))
        ref_logprobs = self.reference.get_dist(data.copy()).log_prob(data[RESPONSE])
        rewards = -CONFIG.kl_coef * (data[LOGPROBS] - ref_logprobs).unsqueeze(-1)  # (B, T, 1)
        rewards[:, -1, 0] += data["reward"]
        done = torch.zeros_like(rewards, dtype=torch.bool)
        done[:, -1] = True
        values = data["state_value"]
        after = {"reward": rewards, "done": done, "terminated": done}
        after["state_value"] = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
        self.gae(data.set("next", TensorDict(after, data.batch_size)))

    def update(self, data: TensorDict) -> None:
        """Four epochs of shuffled minibatches, with one gradient norm over both networks."""
        self.buffer.extend(data.exclude("next", "reward"))
        for _ in range(CONFIG.num_ppo_epochs):
            for batch in self.buffer:
                losses = self.loss(batch)
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(self.loss.parameters(), CONFIG.max_grad_norm)
                self.optimizer.step()
                self.optimizer.zero_grad()

    def iterate(self) -> dict[str, Span]:
        """One iteration; returns the times of rollout, scoring and update."""
        return timed(self.rollout, self.score, self.update)
