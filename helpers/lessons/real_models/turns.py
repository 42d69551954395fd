"""A conversation with a tool, so small that all can be enumerated. For lesson 12.

The policy says a word, a tool answers `rain` or `sun`, the policy decides for a word: reward 1 if that is
the weather. Asked for the `radio` the tool is right more often than after any other word.
"""

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

WORDS = ("go", "radio", "rain", "sun")  # ids 0 to 3; every conversation begins with `go`
# probability that the tool is right, by the policy's first word
RIGHT = torch.tensor([0.6, 0.9, 0.6, 0.6])
WEATHER = torch.tensor([0.7, 0.3])  # rain, sun


def tiny_policy(seed: int) -> nn.Module:
    """A GPT-2 of one layer for these four words, with random weights."""
    torch.manual_seed(seed)
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.2}
    shape = {"vocab_size": len(WORDS), "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 4}
    ends = {"bos_token_id": None, "eos_token_id": None}
    return GPT2LMHeadModel(GPT2Config(**shape, **ends, **still)).eval()


def every_conversation() -> tuple[Tensor, Tensor, Tensor]:
    """All conversations after `go`: words [32, 3], P(the tool's word), the mean reward [32]."""
    responses = torch.cartesian_prod(torch.arange(4), torch.tensor([2, 3]), torch.arange(4))
    right = RIGHT[responses[:, :1]]  # (32, 1)
    # (32, 2) by weather: does the tool name it?
    says_so = responses[:, 1:2] == torch.tensor([2, 3])
    both = WEATHER * torch.where(says_so, right, 1 - right)  # P(weather, the tool's word)
    tool = both.sum(1)
    weather = torch.cat([torch.zeros(32, 2), both / tool[:, None]], dim=1)  # by word
    return responses, tool, weather.gather(1, responses[:, 2:])[:, 0]
