"""Decoding-time realignment: change β after training by mixing logits (Liu et al. 2024).

If π ∝ π_ref·exp(r/β) over whole responses, then π_ref^(1−λ)·π^λ is the optimum at β/λ. Mixing the
logits does this for each next token instead of for whole responses: an approximation.
"""

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from helpers.tools.validate import require, require_number, require_positive


def mixing_weight(trained_kl_coef: float, wanted_kl_coef: float) -> float:
    """λ = β_trained/β_wanted. ValueError: a β ≤ 0."""
    require_positive("trained_kl_coef", trained_kl_coef)
    require_positive("wanted_kl_coef", wanted_kl_coef)
    return trained_kl_coef / wanted_kl_coef


def mix_logprobs(logprobs: Tensor, ref_logprobs: Tensor, weight: float) -> Tensor:
    """(1 − λ)·log π_ref + λ·log π, normalised over the last axis: [..., V], [..., V] → [..., V]."""
    require_number("weight", weight, low=0.0, wants="a finite number of at least 0")
    same = logprobs.shape == ref_logprobs.shape
    require(same, "ref_logprobs", tuple(ref_logprobs.shape), f"shape {tuple(logprobs.shape)}")
    return torch.lerp(ref_logprobs, logprobs, weight).log_softmax(dim=-1)


class RealignedPolicy(nn.Module):
    """Two causal language models as one policy: logits (1 − λ)·reference + λ·policy.

    It samples and scores like any policy; it is not meant to be trained.
    """

    def __init__(self, policy: nn.Module, reference: nn.Module, weight: float):
        super().__init__()
        require_number("weight", weight, low=0.0, wants="a finite number of at least 0")
        self.policy, self.reference, self.weight = policy, reference, weight
        self.config = policy.config
        self.ref_cache: DynamicCache | None = None  # the reference's key–value cache

    @property
    def device(self) -> torch.device:
        """Device of the models."""
        return self.policy.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.policy.dtype

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: DynamicCache | None = None,
        use_cache: bool = False,
        logits_to_keep: int = 0,
    ) -> CausalLMOutputWithPast:
        """Mixed logits [B, L, V]; an empty `past_key_values` starts new texts for both models."""
        if past_key_values is not None and past_key_values.get_seq_length() == 0:
            self.ref_cache = DynamicCache(config=self.reference.config)
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "use_cache": use_cache,
            "logits_to_keep": logits_to_keep,
        }
        ref_cache = self.ref_cache if past_key_values is not None else None
        logits = self.policy(**inputs, past_key_values=past_key_values).logits
        ref_logits = self.reference(**inputs, past_key_values=ref_cache).logits
        return CausalLMOutputWithPast(logits=torch.lerp(ref_logits, logits, self.weight))
