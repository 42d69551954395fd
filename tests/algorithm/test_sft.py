"""The SFT loss: completions are learned, prompts are read, padding is neither."""

import pytest
import torch
from conftest import tiny_models

from helpers.rollouts import forward_logprobs
from helpers.sft import sft_loss

MODELS = tiny_models()
LENGTHS = ((3, 7), (5, 6), (2, 4))  # tokens of the prompt, tokens of prompt and completion
IDS = torch.randint(4, 99, (3, 8), generator=torch.Generator().manual_seed(0))
PLACE = torch.arange(8)
COUNTS = torch.stack([PLACE < whole for _, whole in LENGTHS])
COMPLETION = torch.stack([(PLACE >= prompt) & (PLACE < whole) for prompt, whole in LENGTHS])


def test_it_is_the_mean_log_prob_of_the_completions_tokens():
    """Each text alone, without padding, in the rollout's own terms."""
    nats = []
    for ids, (prompt, whole) in zip(IDS, LENGTHS, strict=True):
        query, response = ids[None, :prompt], ids[None, prompt:whole]
        masks = (torch.ones_like(query).bool(), torch.ones_like(response).bool())
        nats += forward_logprobs(MODELS.actor, query, masks[0], response, masks[1])[0].tolist()
    loss = sft_loss(MODELS.actor, IDS, COUNTS, COMPLETION)
    assert loss.item() == pytest.approx(-sum(nats) / 7, abs=1e-5)


def test_over_whole_texts_it_is_the_loss_of_transformers():
    inputs = {"input_ids": IDS, "attention_mask": COUNTS.long()}
    theirs = MODELS.actor(**inputs, labels=IDS.masked_fill(~COUNTS, -100)).loss
    torch.testing.assert_close(sft_loss(MODELS.actor, IDS, COUNTS, COUNTS), theirs)
