"""Arbitrary arguments of every public function: a correct result, or an error that names the argument.

`make test` tries a few hundred calls, `make nightly` thousands.
"""

import dataclasses
import math
import os
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import tiny_policy

from helpers.config import RLHFConfig
from helpers.direct import dpo_loss, implicit_reward, ipo_loss
from helpers.gae import compute_gae
from helpers.groups import (
    grpo_advantages,
    mean_of_means,
    mean_over_length,
    pass_at_k,
    rloo_advantages,
    sequence_log_ratio,
)
from helpers.kl import AdaptiveKLController, full_kl, kl_estimate, shape_rewards
from helpers.off_policy import truncated_importance_weights
from helpers.ppo import policy_loss, value_loss
from helpers.reward_model import bradley_terry_loss
from helpers.rollouts import (
    PER_TOKEN,
    RolloutBatch,
    forward_logprobs,
    gather_logprobs,
    position_ids,
    response_mask,
)
from helpers.sampling import generate
from helpers.theory.optimum import gibbs_policy, gibbs_value
from helpers.whitening import masked_mean, masked_var, whiten_advantages

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EXAMPLES = 120 if NIGHTLY else 10
fuzz = partial(settings, deadline=None, database=None, derandomize=not NIGHTLY)
WEIRD = (None, "x", math.nan, math.inf, -1.0, 0, True, [1.0], 10**30, -(10**30), 1e-320, {}, 2.5)
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.complex64)
TOKEN = ("x", "x", "x", "x", "x", "x")
B, T, V = 2, 3, 11


@st.composite
def tensors(draw, shape: tuple) -> torch.Tensor:
    """Finite float32 numbers of this shape, of the size log-probs and scores have."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    scale = draw(st.sampled_from([0.0, 1e-6, 1.0, 10.0]))
    return scale * torch.randn(shape, generator=generator)


@st.composite
def odd_tensors(draw) -> torch.Tensor:
    """Any small shape, any dtype, NaN and infinities among its numbers."""
    shape = draw(st.lists(st.sampled_from([0, 1, B, T, V]), max_size=4))
    x = draw(tensors(tuple(shape))) * draw(st.sampled_from([1.0, 1e30, math.nan, math.inf]))
    return torch.nan_to_num(x).to(dtype) if (dtype := draw(st.sampled_from(DTYPES))) in (
        torch.int64, torch.bool) else x.to(dtype)  # fmt: skip


def masks() -> st.SearchStrategy:
    """Rows that count a prefix, one token at least."""
    lengths = st.lists(st.integers(1, T), min_size=B, max_size=B)
    return lengths.map(lambda rows: torch.arange(T)[None] < torch.tensor(rows)[:, None])


GOOD = {
    "x": tensors((B, T)),
    "row": tensors((B,)),
    "logits": tensors((B, T, V)),
    "mask": masks(),
    "ids": st.integers(0, 999).map(lambda k: torch.arange(k, k + B * T).view(B, T) % V),
    "probs": tensors((B, T)).map(lambda x: x.softmax(dim=-1)),
    "share": st.floats(0.0, 1.0),
    "positive": st.floats(1e-3, 1e3),
    "coef": st.sampled_from([0.0, 0.1, 1e6]),
    "count": st.integers(1, 5),
    "tries": st.integers(1, T),
    "group": st.just(B),
    "flag": st.booleans(),
    "estimator": st.sampled_from(["k1", "k2", "k3"]),
}


def controller_step(kl_coef, target, horizon, observed_kl, num_samples):
    return AdaptiveKLController(kl_coef, target, horizon).update(observed_kl, num_samples)


def sample(query_tensors, query_mask, response_length, temperature):
    seed = torch.Generator().manual_seed(0)
    call = (response_length, 1, 0, temperature, seed)
    return generate(tiny_policy(), query_tensors, query_mask, *call)


def log_probs(query_tensors, query_mask, response_tensors, response_mask, temperature):
    rollout = (query_tensors, query_mask, response_tensors, response_mask)
    return forward_logprobs(tiny_policy(), *rollout, temperature)


def arguments(names: str, kinds: str) -> dict:
    return dict(zip(names.split(), kinds.split(), strict=True))


LOGS = "logprobs ref_logprobs"
SIDES = "chosen rejected ref_chosen ref_rejected kl_coef"
CALLS = {
    gather_logprobs: arguments("logits tokens", "logits ids"),
    response_mask: arguments("response_tensors eos_token_id", "ids count"),
    position_ids: arguments("mask", "mask"),
    compute_gae: arguments("rewards values gamma lam mask", "x x share share mask"),
    masked_mean: arguments("x mask", "x mask"),
    masked_var: arguments("x mask unbiased", "x mask flag"),
    whiten_advantages: arguments("advantages mask shift_mean", "x mask flag"),
    kl_estimate: arguments(f"{LOGS} estimator", "x x estimator"),
    full_kl: arguments("logits ref_logits", "logits logits"),
    shape_rewards: arguments(f"scores {LOGS} mask kl_coef", "row x x mask coef"),
    controller_step: arguments(
        "kl_coef target horizon observed_kl num_samples", "positive positive positive coef count"
    ),
    policy_loss: arguments(
        "logprobs old_logprobs advantages mask cliprange", "x x x mask positive"
    ),
    value_loss: arguments("values old_values returns mask cliprange_value", "x x x mask positive"),
    bradley_terry_loss: arguments("chosen rejected", "row row"),
    rloo_advantages: arguments("rewards group_size", "row group"),
    grpo_advantages: arguments("rewards group_size scale_by_std", "row group flag"),
    mean_of_means: arguments("x mask", "x mask"),
    mean_over_length: arguments("x mask length", "x mask count"),
    sequence_log_ratio: arguments("logprobs old_logprobs mask", "x x mask"),
    pass_at_k: arguments("correct k", "mask tries"),
    truncated_importance_weights: arguments(
        "logprobs sampler_logprobs mask cap", "x x mask positive"
    ),
    implicit_reward: arguments(f"{LOGS} kl_coef", "row row positive"),
    dpo_loss: arguments(SIDES, "row row row row positive"),
    ipo_loss: arguments(SIDES, "row row row row positive"),
    gibbs_policy: arguments("ref_probs rewards kl_coef", "probs x positive"),
    gibbs_value: arguments("ref_probs rewards kl_coef", "probs x positive"),
    sample: arguments(
        "query_tensors query_mask response_length temperature", "ids mask count positive"
    ),
    log_probs: arguments(
        "query_tensors query_mask response_tensors response_mask temperature",
        "ids mask ids mask positive",
    ),
    RolloutBatch: arguments(
        f"query_tensors query_mask response_tensors response_mask {' '.join(PER_TOKEN)} scores",
        "ids mask ids mask x x x x x x row",
    ),
}


def pieces(result) -> list[torch.Tensor]:
    """Every floating-point tensor in a result."""
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, float):
        return [torch.tensor(result)]
    if dataclasses.is_dataclass(result):
        result = vars(result)
    inside = result.values() if isinstance(result, dict) else result
    return [piece for part in inside for piece in pieces(part)] if isinstance(
        inside, (tuple, list, type({}.values()))) else []  # fmt: skip


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
@fuzz(max_examples=EXAMPLES)
@given(data=st.data())
def test_any_call_is_right_or_refused_by_name(function, data):
    kinds = CALLS[function]
    names = sorted(name for name, kind in kinds.items() if kind != "flag")  # all is true or false
    odd = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True), "odd ones")
    given_ = {name: data.draw(GOOD[kind], name) for name, kind in kinds.items()}
    for name in odd:
        given_[name] = data.draw(st.one_of(st.sampled_from(WEIRD), odd_tensors()), f"odd {name}")
    try:
        result = function(**given_)
    except (ValueError, TypeError) as problem:
        assert odd or function is controller_step, problem  # nothing good is refused
        assert any(name in str(problem) for name in kinds), problem  # and it says what is bad
        return
    if not odd:
        assert all(bool(piece.isfinite().all()) for piece in pieces(result)), result


FIELDS = [field.name for field in dataclasses.fields(RLHFConfig)]


@fuzz(max_examples=20 * EXAMPLES)
@given(st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(WEIRD), min_size=1, max_size=2))
def test_any_setting_is_taken_or_refused_by_name(changes):
    try:
        config = RLHFConfig(**changes)
    except (ValueError, TypeError) as problem:
        assert any(name in str(problem) for name in changes), problem
        return
    for name, value in changes.items():
        default = getattr(RLHFConfig(), name)
        kinds = (int, float) if isinstance(default, float) else type(default)
        assert default is None or isinstance(value, kinds), f"{name} took {value!r}"
        assert not (isinstance(value, float) and not math.isfinite(value)), name
    assert RLHFConfig.from_dict(config.as_dict()) == config
