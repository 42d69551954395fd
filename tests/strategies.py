"""What the tests share: strategies for padded batches, and tiny real models with a rollout of theirs."""

import copy
import dataclasses

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

PAD, EOS, VOCAB = 0, 1, 11
GARBAGE = 1e6
TOKEN_FIELDS = (
    "logprobs",
    "ref_logprobs",
    "values",
    "rewards",
    "advantages",
    "returns",
)  # each [B, T]

quick = settings(deadline=None, max_examples=40)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small are slower on several threads, and very much so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
def padded_batches(draw, tensors=2, max_batch=4, max_width=6, allow_empty_rows=True, min_counted=1):
    """(x_1 .. x_n, mask): float64 [B, T] tensors and a mask that counts a prefix of each row."""
    batch, width = draw(st.integers(1, max_batch)), draw(st.integers(1, max_width))
    shortest = 0 if allow_empty_rows else 1
    lengths = draw(
        st.lists(st.integers(shortest, width), min_size=batch, max_size=batch).filter(
            lambda rows: sum(rows) >= min_counted
        )
    )
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    scale = draw(st.sampled_from([0.3, 1.0, 5.0]))
    xs = [
        scale * torch.randn(batch, width, generator=generator, dtype=torch.float64)
        for _ in range(tensors)
    ]
    return *xs, prefix_mask(lengths, width)


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


def fixed_policy(logits):
    """A GPT-2 whose next-token logits are exactly these, whatever it has read."""
    policy = tiny_policy(vocab=len(logits))
    with torch.no_grad():
        policy.transformer.ln_f.weight.zero_()
        policy.transformer.ln_f.bias.zero_()
        policy.transformer.ln_f.bias[0] = (
            1.0  # the last hidden state is always the first unit vector
        )
        policy.lm_head.weight[:, 0] = torch.as_tensor(logits, dtype=torch.float32)
    return policy


def tiny_value_network(seed=1, vocab=VOCAB, width=16, random_head=True):
    from helpers.models import ValueNetwork

    torch.manual_seed(seed)
    trunk = GPT2Model(gpt2_config(vocab, width))
    value_network = ValueNetwork(trunk).eval()
    if random_head:  # a head of zeros would hide everything that reaches it
        in_trunk = {id(parameter) for parameter in trunk.parameters()}
        with torch.no_grad():
            for parameter in value_network.parameters():
                if id(parameter) not in in_trunk:
                    parameter.normal_(0.0, 0.3)
    return value_network


def left_pad(prompts, width=None):
    """Lists of token ids -> query_tensors, query_mask [B, P]."""
    width = width or max(map(len, prompts))
    tokens = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor(
        [[False] * (width - len(prompt)) + [True] * len(prompt) for prompt in prompts]
    )
    return tokens, mask


def right_pad(responses, width=None):
    """Lists of token ids -> response_tensors, response_mask [B, T]."""
    width = width or max(map(len, responses))
    tokens = torch.tensor([response + [PAD] * (width - len(response)) for response in responses])
    return tokens, prefix_mask([len(response) for response in responses], width)


PROMPTS = [[4], [5, 6, 7], [3, 8, 9, 2], [2, 2], [10, 4, 6], [7]]
RESPONSES = [
    [3, EOS],
    [9, 8, 7, 6, 5],
    [EOS],
    [4, 4, EOS],
    [2, 10, 3, 9],
    [6, EOS],
]  # rows 1 and 4 are truncated


def ppo_config(**overrides):
    from helpers.config import RLHFConfig

    return RLHFConfig(**{"learning_rate": 1e-2, "critic_learning_rate": 1e-2, **overrides})


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
    from helpers.gae import compute_gae
    from helpers.kl import shape_rewards
    from helpers.rollouts import RolloutBatch, forward_logprobs, forward_values

    inputs = (queries, query_mask, responses, mask)
    with torch.no_grad():
        logprobs, ref_logprobs = (
            forward_logprobs(m, *inputs).masked_fill(~mask, 0) for m in (policy, reference)
        )
        values = forward_values(value_network, *inputs).masked_fill(~mask, 0)
    rewards = shape_rewards(scores, logprobs, ref_logprobs, mask, kl_coef)
    advantages, returns = compute_gae(rewards, values, gamma=1.0, lam=0.95, mask=mask)
    return RolloutBatch(
        query_tensors=queries, query_mask=query_mask, response_tensors=responses, response_mask=mask,
        logprobs=logprobs, ref_logprobs=ref_logprobs, values=values, rewards=rewards,
        advantages=advantages, returns=returns, scores=scores,
    )  # fmt: skip


def tiny_world(scores=None, prompts=PROMPTS, responses=RESPONSES):
    policy, reference, value_network = tiny_policy(0), tiny_policy(5), tiny_value_network(1)
    if scores is None:
        scores = torch.randn(len(prompts), generator=torch.Generator().manual_seed(2))
    rollout = rollout_of(
        policy, reference, value_network, *left_pad(prompts), *right_pad(responses), scores
    )
    return World(policy, reference, value_network, rollout)


def updated(world, rollout=None, optimizer="adam", learning_rate=1e-2, seed=3, **overrides):
    """Metrics and flat weights after one ppo_update_step on copies of the world's networks."""
    from helpers.ppo import ppo_update_step

    world = dataclasses.replace(
        world, policy=copy.deepcopy(world.policy), value_network=copy.deepcopy(world.value_network)
    )
    make = {"adam": lambda p: torch.optim.Adam(p, lr=learning_rate, eps=1e-5),
            "sgd": lambda p: torch.optim.SGD(p, lr=learning_rate)}[optimizer]  # fmt: skip
    metrics = ppo_update_step(
        world.policy, world.value_network, world.rollout if rollout is None else rollout,
        make(world.parameters()), ppo_config(**overrides), generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    return metrics, flat(world.policy), flat(world.value_network)


def flat(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
