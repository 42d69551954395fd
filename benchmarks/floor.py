"""The floor: only the forwards, backwards and cached decoding that one PPO iteration needs."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, GPT2LMHeadModel

from benchmarks.common import Span, now, phases
from benchmarks.models import Size, prompt_ids


class PlainGPT2(nn.Module):
    """GPT-2 in plain PyTorch, with the weights of a transformers model and a key–value cache."""

    def __init__(self, model: GPT2LMHeadModel):
        super().__init__()
        trunk, self.heads = model.transformer, model.config.n_head
        self.tokens, self.places, self.norm = trunk.wte, trunk.wpe, trunk.ln_f
        self.layers = trunk.h

    def _attend(self, layer: nn.Module, x: Tensor, past: list | None) -> Tensor:
        b, length, width = x.shape
        joint = F.linear(x, layer.attn.c_attn.weight.T, layer.attn.c_attn.bias)
        q, k, v = (t.view(b, length, self.heads, -1).transpose(1, 2) for t in joint.split(width, 2))
        if past is not None:
            if past:
                k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
            past[:] = [k, v]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        mixed = mixed.transpose(1, 2).reshape(b, length, width)
        return F.linear(mixed, layer.attn.c_proj.weight.T, layer.attn.c_proj.bias)

    def forward(self, ids: Tensor, pasts: list[list] | None = None, start: int = 0) -> Tensor:
        """Hidden states [B, L, d] after the last norm; `pasts` has one cache per layer."""
        x = self.tokens(ids) + self.places.weight[start : start + ids.shape[1]]
        for number, layer in enumerate(self.layers):
            x = x + self._attend(layer, layer.ln_1(x), None if pasts is None else pasts[number])
            inner = F.linear(layer.ln_2(x), layer.mlp.c_fc.weight.T, layer.mlp.c_fc.bias)
            inner = F.gelu(inner, approximate="tanh")
            x = x + F.linear(inner, layer.mlp.c_proj.weight.T, layer.mlp.c_proj.bias)
        return self.norm(x)


class Floor:
    """The necessary work of one iteration for an actor and a critic, transformers' or plain PyTorch."""

    def __init__(self, size: Size, minibatch: int, actor: GPT2LMHeadModel, critic, plain: bool):
        self.size, self.minibatch = size, minibatch
        self.plain = [PlainGPT2(actor), PlainGPT2(critic)] if plain else None
        self.actor, self.critic = actor, critic
        self.head = nn.Linear(size.width, 1)
        parameters = {*actor.parameters(), *critic.parameters(), *self.head.parameters()}
        self.optimizer = torch.optim.Adam(parameters, lr=1e-6, fused=True)
        self.prompts = prompt_ids(size, size.batch)

    def hidden(self, which: int, ids: Tensor) -> Tensor:
        """Last hidden states of the actor (0) or the critic (1)."""
        if self.plain:
            return self.plain[which](ids)
        trunk = (self.actor, self.critic)[which].transformer
        return trunk(input_ids=ids, use_cache=False).last_hidden_state

    @torch.inference_mode()
    def rollout(self) -> Tensor:
        """Cached decoding of the whole batch: [B, P + T]."""
        ids, step = self.prompts, self._step()
        rows = [ids]
        for _ in range(self.size.response):
            ids = torch.multinomial(step(ids).softmax(dim=-1), 1)
            rows.append(ids)
        return torch.cat(rows, dim=1)

    def _step(self) -> Callable[[Tensor], Tensor]:
        """Ids of the next positions → logits [B, V] of the last one; keeps a key–value cache."""
        if not self.plain:
            cache = DynamicCache(config=self.actor.config)
            return lambda ids: self.actor(
                input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1
            ).logits[:, -1]
        pasts, done = [[] for _ in self.plain[0].layers], [0]

        def step(ids: Tensor) -> Tensor:
            hidden = self.plain[0](ids, pasts, done[0])[:, -1]
            done[0] += ids.shape[1]
            return hidden @ self.actor.lm_head.weight.T

        return step

    @torch.inference_mode()
    def scoring(self, ids: Tensor) -> None:
        """Three forwards: reference log-probs, values, scores (all of the actor's size)."""
        self._logprobs(ids)
        self.head(self.hidden(1, ids))
        self.head(self.hidden(1, ids))

    def _logprobs(self, ids: Tensor) -> Tensor:
        hidden = self.hidden(0, ids[:, :-1])[:, self.size.prompt - 1 :]
        logits = hidden @ self.actor.lm_head.weight.T
        return -F.cross_entropy(logits.flatten(0, 1), ids[:, self.size.prompt :].flatten())

    def update(self, ids: Tensor) -> None:
        """Four epochs: forward and backward of both networks on every minibatch, and Adam."""
        ids = ids.clone()  # autograd cannot use an inference tensor
        for _ in range(4):
            for rows in torch.randperm(len(ids)).split(self.minibatch):
                values = self.head(self.hidden(1, ids[rows, :-1])[:, self.size.prompt - 1 :])
                loss = self._logprobs(ids[rows]) + values.square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    def iterate(self) -> dict[str, Span]:
        """One iteration; returns the times of rollout, scoring and update."""
        began = now()
        ids = self.rollout()
        written = now()
        self.scoring(ids)
        scored = now()
        self.update(ids)
        return phases(began, written, scored, now())
