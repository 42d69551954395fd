"""Arbitrary arguments where something enters: a correct result, or an error that names the argument."""

import dataclasses
import math
import os
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import tiny_policy
from torch.utils._pytree import tree_leaves

from helpers.config import DirectConfig, RLHFConfig, config_from_dict
from helpers.rollouts import PER_TOKEN, RolloutBatch, Tokens, forward_logprobs
from helpers.sampling import generate
from helpers.theory.optimum import gibbs_policy, gibbs_value

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EXAMPLES = 120 if NIGHTLY else 10
fuzz = partial(settings, deadline=None, database=None, derandomize=not NIGHTLY)
WEIRD = (None, "x", math.nan, math.inf, -1.0, 0, True, [1.0], 10**30, -(10**30), 1e-320, {}, 2.5)
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.complex64)
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
    return x.to(draw(st.sampled_from(DTYPES)))


def masks() -> st.SearchStrategy:
    """Rows that count a prefix, one token at least."""
    lengths = st.lists(st.integers(1, T), min_size=B, max_size=B)
    return lengths.map(lambda rows: torch.arange(T)[None] < torch.tensor(rows)[:, None])


GOOD = {
    "x": tensors((B, T)),
    "row": tensors((B,)),
    "mask": masks(),
    "ids": st.integers(0, 999).map(lambda k: torch.arange(k, k + B * T).view(B, T) % V),
    "probs": tensors((B, T)).map(lambda x: x.softmax(dim=-1)),
    "positive": st.floats(1e-3, 1e3),
}


def sample(query_tensors, query_mask):
    return generate(tiny_policy(), query_tensors, query_mask, 3, 1, 0, 1.0, torch.Generator())


def log_probs(**tokens):
    return forward_logprobs(tiny_policy(), *Tokens(**tokens))


TOKENS = dict(zip(Tokens._fields, ("ids", "mask", "ids", "mask"), strict=True))
TILTED = {"ref_probs": "probs", "rewards": "x", "kl_coef": "positive"}
CALLS = {
    gibbs_policy: TILTED,
    gibbs_value: TILTED,
    sample: {"query_tensors": "ids", "query_mask": "mask"},
    log_probs: TOKENS,
    RolloutBatch: TOKENS | dict.fromkeys(PER_TOKEN, "x") | {"scores": "row"},
}


def pieces(result) -> list[torch.Tensor]:
    """Every floating-point tensor in a result."""
    found = tree_leaves(vars(result) if dataclasses.is_dataclass(result) else result)
    return [x for x in map(torch.as_tensor, found) if x.is_floating_point()]


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
@fuzz(max_examples=EXAMPLES)
@given(data=st.data())
def test_any_call_is_right_or_refused_by_name(function, data):
    kinds = CALLS[function]
    odd = data.draw(st.lists(st.sampled_from(sorted(kinds)), max_size=2, unique=True), "odd ones")
    given_ = {name: data.draw(GOOD[kind], name) for name, kind in kinds.items()}
    for name in odd:
        given_[name] = data.draw(st.one_of(st.sampled_from(WEIRD), odd_tensors()), f"odd {name}")
    try:
        result = function(**given_)
    except (ValueError, TypeError) as problem:
        assert odd, problem  # nothing good is refused
        assert any(name in str(problem) for name in kinds), problem  # and it says what is bad
        return
    if not odd:
        assert all(bool(piece.isfinite().all()) for piece in pieces(result)), result


@pytest.mark.parametrize("kind", [RLHFConfig, DirectConfig])
@fuzz(max_examples=10 * EXAMPLES)
@given(data=st.data())
def test_any_setting_is_taken_or_refused_by_name(kind, data):
    names = st.sampled_from([field.name for field in dataclasses.fields(kind)])
    changes = data.draw(st.dictionaries(names, st.sampled_from(WEIRD), min_size=1, max_size=2))
    try:
        config = kind(**changes)
    except (ValueError, TypeError) as problem:
        assert any(name in str(problem) for name in [*changes, "iterations"]), problem
        return
    for name, value in changes.items():
        default = getattr(kind(), name)
        kinds = (int, float) if isinstance(default, float) else type(default)
        assert default is None or isinstance(value, kinds), f"{name} took {value!r}"
        assert not (isinstance(value, float) and not math.isfinite(value)), name
    assert config_from_dict(config.as_dict()) == config
