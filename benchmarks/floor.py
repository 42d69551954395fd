"""The floor: only the forwards, backwards and cached decoding that one PPO iteration needs."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, GPT2LMHeadModel

from benchmarks.common import Span, now, phases
from benchmarks.models import Size, prompt_ids


def hidden_states(model: GPT2LMHeadModel, ids: Tensor) -> Tensor:
    """Last hidden states: [B, L] → [B, L, d]."""
    return model.transformer(input_ids=ids, use_cache=False).last_hidden_state


class Floor:
    """The necessary work of one iteration for an actor and a critic."""

    def __init__(self, size: Size, minibatch: int, actor: GPT2LMHeadModel, critic: GPT2LMHeadModel):
        self.size, self.minibatch = size, minibatch
        self.actor, self.critic = actor, critic
        self.head = nn.Linear(size.width, 1)
        parameters = {*actor.parameters(), *critic.parameters(), *self.head.parameters()}
        self.optimizer = torch.optim.Adam(parameters, lr=1e-6, fused=True)
        self.prompts = prompt_ids(size)

    @torch.inference_mode()
    def rollout(self) -> Tensor:
        """Cached decoding of the whole batch: [B, P + T]."""
        ids, cache = self.prompts, DynamicCache(config=self.actor.config)
        rows = [ids]
        for _ in range(self.size.response):
            more = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
            logits = self.actor(input_ids=ids, **more).logits[:, -1]
            ids = torch.multinomial(logits.softmax(dim=-1), 1)
            rows.append(ids)
        return torch.cat(rows, dim=1)

    @torch.inference_mode()
    def scoring(self, ids: Tensor) -> None:
        """Three forwards: reference log-probs, values, scores (all of the actor's size)."""
        self._logprobs(ids)
        self._values(ids)
        self._values(ids)

    def _values(self, ids: Tensor) -> Tensor:
        return self.head(hidden_states(self.critic, ids))

    def _logprobs(self, ids: Tensor) -> Tensor:
        hidden = hidden_states(self.actor, ids[:, :-1])[:, self.size.prompt - 1 :]
        logits = hidden @ self.actor.lm_head.weight.T
        return -F.cross_entropy(logits.flatten(0, 1), ids[:, self.size.prompt :].flatten())

    def update(self, ids: Tensor) -> None:
        """Four epochs: forward and backward of both networks on every minibatch, and Adam."""
        ids = ids.clone()  # autograd cannot use an inference tensor
        for _ in range(4):
            for rows in torch.randperm(len(ids)).split(self.minibatch):
                values = self._values(ids[rows, :-1])[:, self.size.prompt - 1 :]
                loss = self._logprobs(ids[rows]) + values.square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    def iterate(self) -> dict[str, Span]:
        """One iteration; returns the times of rollout, scoring and update."""
        began, ids = now(), self.rollout()
        written = now()
        self.scoring(ids)
        scored = now()
        self.update(ids)
        return phases(began, written, scored, now())
