"""Supervised fine-tuning (SFT): the policy learns demonstrations; what comes out is the reference."""

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from helpers.tools.validate import require, require_mask


def sft_loss(
    policy: nn.Module, input_ids: Tensor, attention_mask: Tensor, completion_mask: Tensor
) -> Tensor:
    """Mean of −log π(token | tokens before it) over the completions' tokens: nats per token.

    Ids and masks [B, L], padded right → scalar. `completion_mask` is True at the tokens to learn, EOS
    included: the prompt is read and not learned. The first position has nothing before it and is
    never learned. Ouyang et al. 2022, section 3.5; in TRL, `completion_only_loss`.
    ValueError: masks, padding to learn, nothing to learn.
    """
    require_mask("attention_mask", attention_mask, input_ids.shape, every_row=True)
    require_mask("completion_mask", completion_mask, input_ids.shape)
    inside = bool((attention_mask | ~completion_mask).all())
    require(inside, "completion_mask", "True at padding", "tokens that attention_mask counts")
    learns = bool(completion_mask[:, 1:].any())
    require(learns, "completion_mask", "first tokens alone", "a token with one before it")
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask.long()}
    logits = policy(**inputs, use_cache=False).logits[:, :-1]  # before each token: (B, L − 1, V)
    targets = input_ids.masked_fill(~completion_mask, -100)[:, 1:]  # cross_entropy ignores −100
    return cross_entropy(logits.float().flatten(0, 1), targets.flatten())
