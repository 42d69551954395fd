"""Supervised fine-tuning (SFT): the policy learns demonstrations; what comes out is the reference."""

from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def sft_loss(
    policy: nn.Module, input_ids: Tensor, attention_mask: Tensor, completion_mask: Tensor
) -> Tensor:
    """Mean of −log π(token | tokens before it) over the completions' tokens: nats per token.

    Ids and masks [B, L], padded right → scalar. `completion_mask` is True at the tokens to learn, EOS
    included: the prompt is read and not learned. The first position has nothing before it and is
    never learned. Ouyang et al. 2022, section 3.5; in TRL, `completion_only_loss`.
    """
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask.long()}
    logits = policy(**inputs, use_cache=False).logits[:, :-1]  # before each token: (B, L − 1, V)
    targets = input_ids.masked_fill(~completion_mask, -100)[:, 1:]  # cross_entropy ignores −100
    return cross_entropy(logits.float().flatten(0, 1), targets.flatten())
