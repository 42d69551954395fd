"""Models and one rollout for checks of functions that are given models, from a seed.

Responses of several lengths, an actor that has moved away from the reference, a critic that is not 0, and
garbage on padding. Settings are away from the defaults, so that one that is not used shows.
"""

import copy
import json
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from helpers import sampling
from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.kit.places import sample_whole
from helpers.models import quiet_loading
from helpers.one_page import score_texts
from helpers.rollouts import forward_logprobs, position_ids

SETTINGS = {
    "gamma": 0.97, "lam": 0.8, "temperature": 0.8, "response_length": 18, "kl_coef": 0.3,
    "cliprange": 0.15, "cliprange_value": 0.3, "vf_coef": 0.3, "minibatch_size": 6, "max_grad_norm": 1e6,
}  # fmt: skip


def load_parts(data: Path) -> SimpleNamespace:
    """Everything a trainer is given: four models, the tokenizer and the prompts."""
    tokenizer = AutoTokenizer.from_pretrained(data / "sft")
    actor = AutoModelForCausalLM.from_pretrained(data / "sft")
    reference, critic = copy.deepcopy(actor), copy.deepcopy(actor)
    critic.lm_head = nn.Linear(actor.config.n_embd, 1)  # the reward to come, one number a token
    nn.init.zeros_(critic.lm_head.weight), nn.init.zeros_(critic.lm_head.bias)
    encoder = AutoModel.from_pretrained(data / "reward")
    head = load_file(data / "reward" / "reward_head.safetensors")
    reward = partial(score_texts, encoder, head, tokenizer)  # list of B texts → [B]
    prompts = [json.loads(line)["prompt"] for line in (data / "prompts.jsonl").open()]
    parts = {"actor": actor, "critic": critic, "reference": reference, "reward": reward}
    return SimpleNamespace(**parts, tokenizer=tokenizer, prompts=prompts)


def trainer_parts() -> SimpleNamespace:
    """`load_parts` of the course's `data/`, without progress bars."""
    with quiet_loading():
        return load_parts(DATA)


def trainer_config(**changes) -> RLHFConfig:
    """The settings of lesson 06: small enough to train in seconds."""
    sizes = {"iterations": 20, "batch_size": 32, "minibatch_size": 16, "response_length": 16}
    rates = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    return RLHFConfig(**{"num_ppo_epochs": 2, "device": "cpu"} | sizes | rates | changes)


# one response to each prompt: ids and mask [B, P + T], log-probs [B, T]
sample_responses = sample_whole(sampling.sample_responses)


def either_deviation(x: object, counted: Tensor) -> object:
    """Whitened numbers, the same whichever standard deviation they were divided by, that of n or n − 1."""
    n = int(counted.sum())
    fits = isinstance(x, Tensor) and x.shape == counted.shape and n > 1
    size = float(x[counted].std()) if fits else 1.0
    return x / size if 0 <= size - 1 < (n / (n - 1)) ** 0.5 - 1 + 1e-4 else x


def _first_layer(model: nn.Module) -> nn.Module:
    """A copy with one layer, whose gradients are quick to compute."""
    copied = copy.deepcopy(model)
    copied.transformer.h = copied.transformer.h[:1]
    return copied


@cache
@torch.no_grad()
def recorded() -> SimpleNamespace:
    """Models, settings and six responses, from the shortest to one that was cut at the limit.

    `rollout` is what an update of `shallow` is given: `(ids, mask, logprobs, values, advantages, returns)`.
    Its models have moved on since, so ratios are not 1 and clips bite.
    """
    parts, generator = trainer_parts(), torch.Generator().manual_seed(6)
    for model in (parts.actor, parts.critic):
        for parameter in model.parameters():
            if parameter.dim() == 2:  # as after a little training
                parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.1  # seen in train mode alone
    nn.init.normal_(parts.critic.lm_head.weight, std=0.1, generator=generator)
    config = trainer_config(**SETTINGS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        drawn = sample_responses(parts.actor, parts.tokenizer, parts.prompts[:48], config)
    T = drawn[2].shape[1]
    by_length = drawn[1][:, -T:].sum(1).argsort(stable=True)
    ids, mask, _ = (x[by_length[torch.linspace(0, len(x) - 1, 6).long()]] for x in drawn)
    counted = mask[:, -T:]
    shallow = SimpleNamespace(actor=_first_layer(parts.actor), critic=_first_layer(parts.critic))
    tokens = ids[:, :-T], mask[:, :-T], ids[:, -T:], counted
    logprobs = forward_logprobs(shallow.actor, *tokens, temperature=config.temperature)
    output = shallow.critic(ids, attention_mask=mask, position_ids=position_ids(mask))
    values = torch.where(counted, output.logits[:, -T - 1 : -1, 0], 0.0)  # 0 on padding
    noise = torch.randn(5, *counted.shape, generator=generator)
    old = (
        torch.where(counted, logprobs + 0.3 * noise[0], logprobs - 0.1),
        torch.where(counted, values + 0.4 * noise[1], 2.0),
        torch.where(counted, 1.3 * noise[2] + 0.4, 3.0),  # whitening them again shows
        torch.where(counted, values + noise[3], 6.0),
    )
    return SimpleNamespace(
        parts=parts, shallow=shallow, config=config, length=T, ids=ids, mask=mask, counted=counted,
        rewards=torch.where(counted, noise[4], 0.0), rollout=(ids, mask, *old),
    )  # fmt: skip
