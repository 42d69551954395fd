"""What the tests share: strategies for padded batches, and tiny real models with a rollout of theirs."""

import copy
import dataclasses
from functools import partial

import torch
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, GPT2Model

from helpers.config import RLHFConfig
from helpers.gae import compute_gae
from helpers.kl import shape_rewards
from helpers.models import ValueNetwork
from helpers.ppo import ppo_update_step
from helpers.rollouts import RolloutBatch, forward_logprobs, forward_values

PAD, EOS, VOCAB = 0, 1, 11
GARBAGE = 1e6


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def close(actual, expected, atol=1e-6, rtol=1e-6):
    """Equal up to rounding; dtype is not part of the question."""
    expected = torch.as_tensor(expected)
    torch.testing.assert_close(actual, expected, atol=atol, rtol=rtol, check_dtype=False)


def prefix_mask(lengths, width):
    """[B, T], True for the first lengths[b] positions of row b."""
    return torch.arange(width)[None, :] < torch.as_tensor(lengths)[:, None]


def garbage_outside(x, mask, filler=GARBAGE):
    return torch.where(mask, x, torch.full_like(x, filler))


@st.composite
def padded_batches(draw, tensors=2, allow_empty_rows=True, min_counted=1):
    """(x_1 .. x_n, mask): float64 [B, T] tensors and a mask that counts a prefix of each row."""
    batch, width = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    shortest = 0 if allow_empty_rows else 1
    rows = st.lists(st.integers(shortest, width), min_size=batch, max_size=batch)
    lengths = draw(rows.filter(lambda lengths: sum(lengths) >= min_counted))
    generator = seeded(draw(st.integers(0, 10_000)))
    scale = draw(st.sampled_from([0.3, 1.0, 5.0]))
    xs = scale * torch.randn(tensors, batch, width, generator=generator, dtype=torch.float64)
    return *xs, prefix_mask(lengths, width)


def operations(compute):
    """What `compute()` returns, and the (name, result) of every operation of torch on the way."""
    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            made.append((str(function), result))
            return result

    with Watch():
        return compute(), made


def largest_made(given, compute):
    """What `compute()` returns, and how many numbers the largest tensor has that is no view of `given`."""
    result, made = operations(compute)
    tensors = [x for _, x in made if isinstance(x, torch.Tensor)]
    own = given.untyped_storage().data_ptr()
    return result, max(x.numel() for x in tensors if x.untyped_storage().data_ptr() != own)


# --- tiny real models -----------------------------------------------------------------------------


def gpt2_config(vocab=VOCAB, width=16):
    return GPT2Config(
        vocab_size=vocab, n_positions=32, n_embd=width, n_layer=1, n_head=2, initializer_range=0.3,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=EOS, pad_token_id=PAD,
    )  # fmt: skip


def tiny_policy(seed=0, vocab=VOCAB, width=16):
    torch.manual_seed(seed)
    return GPT2LMHeadModel(gpt2_config(vocab, width)).eval()


def fix_logits(policy, logits):
    """This GPT-2's next-token logits are exactly these, whatever it has read."""
    with torch.no_grad():
        policy.transformer.ln_f.weight.zero_()
        policy.transformer.ln_f.bias.zero_()
        policy.transformer.ln_f.bias[0] = 1.0  # the last hidden state: always the first unit vector
        policy.lm_head.weight[:, 0] = torch.as_tensor(logits, dtype=torch.float32)
    return policy


def fixed_policy(logits):
    return fix_logits(tiny_policy(vocab=len(logits)), logits)


def tiny_value_network(vocab=VOCAB, random_head=True):
    torch.manual_seed(1)
    value_network = ValueNetwork(GPT2Model(gpt2_config(vocab))).eval()
    if random_head:  # a head of zeros would hide everything that reaches it
        for parameter in value_network.value_head.parameters():
            torch.nn.init.normal_(parameter, 0.0, 0.3)
    return value_network


def small_lm(kind="llama", **more):
    """A causal language model of this architecture with random weights."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = AutoConfig.for_model(kind, **sizes | more)
    return AutoModelForCausalLM.from_config(config).eval()


def left_pad(prompts):
    """Lists of token ids -> query_tensors, query_mask [B, P]."""
    width = max(map(len, prompts))
    tokens = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    return tokens, prefix_mask([len(prompt) for prompt in prompts], width).flip(1)


def right_pad(responses):
    """Lists of token ids -> response_tensors, response_mask [B, T]."""
    width = max(map(len, responses))
    tokens = torch.tensor([response + [PAD] * (width - len(response)) for response in responses])
    return tokens, prefix_mask([len(response) for response in responses], width)


PROMPTS = [[4], [5, 6, 7], [3, 8, 9, 2], [2, 2], [10, 4, 6], [7]]
# rows 1 and 4 are truncated
RESPONSES = [[3, EOS], [9, 8, 7, 6, 5], [EOS], [4, 4, EOS], [2, 10, 3, 9], [6, EOS]]
TOKENS = (*left_pad(PROMPTS), *right_pad(RESPONSES))


def ppo_config(**overrides):
    if overrides.get("method") in ("rloo", "grpo"):
        overrides = {"responses_per_prompt": 2} | overrides
    return RLHFConfig(**{"learning_rate": 1e-2, "critic_learning_rate": 1e-2, **overrides})


GRPO = {"method": "grpo", "responses_per_prompt": 4, "loss_aggregation": "response"}
METHODS = {  # without a critic
    "rloo": {"method": "rloo", "responses_per_prompt": 4},
    "grpo": GRPO,
    "dr_grpo": GRPO | {"scale_by_std": False, "loss_aggregation": "fixed"},
    "gspo": GRPO | {"ratio_level": "sequence", "cliprange": 0.05, "cliprange_high": 0.07},
    "reinforce": {"method": "reinforce"},
    "grpo, k3 in the loss": {
        "method": "grpo", "responses_per_prompt": 2, "kl_placement": "loss", "kl_loss": "k3",
        "kl_ratio": True, "skip_equal_groups": True,
    },
}  # fmt: skip


@dataclasses.dataclass
class World:
    policy: torch.nn.Module
    reference: torch.nn.Module
    value_network: torch.nn.Module
    rollout: object  # RolloutBatch

    def parameters(self):
        return [*self.policy.parameters(), *self.value_network.parameters()]


def rollout_of(
    policy, reference, value_network, queries, query_mask, responses, mask, scores, kl_coef=0.1
):
    """A complete RolloutBatch of these responses; every padded float is 0."""
    inputs = (queries, query_mask, responses, mask)
    with torch.no_grad():
        logprobs, ref_logprobs = (forward_logprobs(m, *inputs) for m in (policy, reference))
        values = forward_values(value_network, *inputs)
    rewards = shape_rewards(scores, logprobs, ref_logprobs, mask, kl_coef)
    advantages, returns = compute_gae(rewards, values, gamma=1.0, lam=0.95, mask=mask)
    per_token = (logprobs, ref_logprobs, values, rewards, advantages, returns)
    return RolloutBatch(*inputs, *per_token, scores)


def tiny_world(scores=None):
    networks = tiny_policy(0), tiny_policy(5), tiny_value_network()
    if scores is None:
        scores = torch.randn(len(PROMPTS), generator=seeded(2))
    return World(*networks, rollout_of(*networks, *TOKENS, scores))


def trained(world, rollout=None, optimizer="adam", learning_rate=1e-2, critic=True, **overrides):
    """Metrics and networks after one `ppo_update_step` on copies of the world's networks."""
    networks = [copy.deepcopy(world.policy), copy.deepcopy(world.value_network) if critic else None]
    parameters = [p for network in networks if network is not None for p in network.parameters()]
    make = partial(torch.optim.Adam, eps=1e-5) if optimizer == "adam" else torch.optim.SGD
    metrics = ppo_update_step(
        *networks, world.rollout if rollout is None else rollout, make(parameters, lr=learning_rate),
        ppo_config(**overrides), seeded(3),
    )  # fmt: skip
    return metrics, *networks


def updated(*arguments, **more):
    """The same with flat weights in place of the networks."""
    metrics, *networks = trained(*arguments, **more)
    return metrics, *(None if network is None else flat(network) for network in networks)


def flat(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
