"""Extreme numbers: each run is correct, or is refused in one sentence; no weight is ever NaN."""

import math

import pytest
import torch
from conftest import tiny_models
from strategies import EOS, PAD, fix_logits, fixed_policy, flat, tiny_policy, tiny_value_network

from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint
from helpers.rollouts import forward_logprobs, forward_values
from helpers.sampling import generate
from helpers.state import start_run
from helpers.steps import iterate

SMALL = {"iterations": 2, "batch_size": 4, "response_length": 5, "normalize_scores": False}
PROMPTS = ["the soup", "i read"]


def sound(models) -> bool:
    """All weights are finite."""
    return all(bool(flat(model).isfinite().all()) for model in (models.actor, models.critic))


def train(models, prompts=PROMPTS, **changes) -> list[dict]:
    config = RLHFConfig(**(SMALL | {"device": "cpu"} | changes))
    return list(train_rlhf_loop(config, models, prompts=prompts))


# --- scores from a user's function ----------------------------------------------------------------

REFUSED = {
    "NaN": lambda texts: [math.nan] * len(texts),
    "one inf": lambda texts: [1.0] * (len(texts) - 1) + [math.inf],
    "nothing": lambda texts: None,
    "words": lambda texts: ["good"] * len(texts),
    "ragged": lambda texts: [[1.0], [1.0, 2.0]],
    "a dict": lambda texts: dict.fromkeys(texts, 1.0),
    "a generator": lambda texts: (1.0 for _ in texts),
    "complex": lambda texts: torch.zeros(len(texts), dtype=torch.complex64),
    "a column": lambda texts: torch.zeros(len(texts), 1),
    "too few": lambda texts: [1.0],
    "beyond float32": lambda texts: [1e300] * len(texts),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_scores_that_are_no_numbers_are_refused_by_name(kind):
    models = tiny_models(reward=REFUSED[kind])
    before = fingerprint(models.actor)
    with pytest.raises(ValueError, match="^scores of the reward function: got"):
        train(models)
    assert fingerprint(models.actor) == before


@pytest.mark.parametrize("size", [1e18, 1e25, 1e38])
def test_scores_too_large_to_square_never_reach_the_weights(size):
    models = tiny_models(reward=lambda texts: [size * k for k in range(len(texts))])
    try:
        train(models)
    except ValueError as problem:
        assert "NaN or infinite" in str(problem) or "norm" in str(problem)
    assert sound(models)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, -3.3, 1e-30, 1e10])
def test_equal_scores_normalise_to_zero_whatever_their_rounding(value):
    models = tiny_models(reward=lambda texts: [value] * len(texts))
    config = RLHFConfig(**SMALL | {"normalize_scores": True, "batch_size": 64, "device": "cpu"})
    state = start_run(config, models, prompts=PROMPTS)
    assert state.score_std == 1.0
    record = iterate(state)
    assert record["score"] == pytest.approx(0.0, abs=1e-6 * max(1.0, abs(value)))
    assert sound(models)


# --- shapes of a batch ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 1},
        {"response_length": 1},
        {"batch_size": 1, "response_length": 1},
        {"batch_size": 1, "response_length": 1, "whiten_rewards": True},
        {"kl_coef": 0.0},
        {"kl_coef": 1e6},
        {"kl_coef": 1e6, "kl_placement": "loss"},
        {"gamma": 0.0, "lam": 0.0},
        {"cliprange": 1e-9, "cliprange_value": 1e-9},
    ],
    ids=str,
)
def test_the_smallest_batches_and_the_ends_of_beta_train(changes):
    models = tiny_models()
    history = train(models, **changes)
    assert sound(models) and len(history) == 2
    assert all(math.isfinite(value) for record in history for value in record.values())
    assert all(record["first_ratio_error"] < 1e-4 for record in history)


@pytest.mark.parametrize("always", [True, False])
def test_all_responses_end_at_once_or_none_ever_ends(always):
    models = tiny_models()
    logits = torch.zeros(len(models.tokenizer))
    logits[models.tokenizer.eos_token_id] = 60.0 if always else -60.0
    for policy in (models.actor, models.reference):
        fix_logits(policy, logits)
    (record, *_) = train(models, missing_eos_penalty=1.0)
    assert record["ended"] == float(always)
    assert record["response_length"] == (1.0 if always else 5.0)
    assert sound(models)


@pytest.mark.parametrize("rate", [1e10, 1e38])
@pytest.mark.parametrize("which", ["learning_rate", "critic_learning_rate"])
def test_a_training_that_blows_up_says_so(which, rate):
    with pytest.raises(ValueError, match="NaN or infinite|a finite norm"):
        train(tiny_models(), iterations=3, **{which: rate})


# --- prompts and ids ------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", [[], (), "the soup", [1], [None], [["the"]], 3], ids=repr)
def test_prompts_that_are_no_texts_are_refused(prompts):
    with pytest.raises(ValueError, match="^prompts: got"):
        train(tiny_models(), prompts)


def test_an_empty_prompt_is_right_where_a_text_has_a_beginning_and_refused_where_not():
    train(tiny_models(), ["", "the soup"])
    models = tiny_models()
    models.tokenizer.backend_tokenizer.post_processor = None  # as GPT-2's, which adds no BOS
    with pytest.raises(ValueError, match="^prompts: got one without tokens"):
        train(models, ["", "the soup"])


IDS = torch.tensor([[2, 3]])
ALL = torch.ones_like(IDS, dtype=torch.bool)
BAD_IDS = {"too high": IDS + 100, "negative": IDS - 3, "floats": IDS.float()}


def test_a_policy_that_blew_up_is_told_while_it_writes():
    policy = tiny_policy()
    policy.lm_head.weight.data.fill_(math.nan)
    with pytest.raises(ValueError, match="logits / temperature: got NaN"):
        generate(policy, IDS, ALL, 3, EOS, PAD)


@pytest.mark.parametrize("kind", BAD_IDS)
def test_ids_out_of_range_are_refused_by_name(kind):
    bad, policy, critic = BAD_IDS[kind], tiny_policy(), tiny_value_network()
    for name, call in (
        ("query", lambda: generate(policy, bad, ALL, 3, EOS, PAD)),
        ("query", lambda: forward_logprobs(policy, bad, ALL, IDS, ALL)),
        ("query", lambda: forward_values(critic, bad, ALL, IDS, ALL)),
        ("response", lambda: forward_logprobs(policy, IDS, ALL, bad, ALL)),
        ("response", lambda: forward_values(critic, IDS, ALL, bad, ALL)),
    ):
        with pytest.raises(ValueError, match=f"^{name}_tensors: got"):
            call()


def test_more_than_the_context_is_refused_and_exactly_the_context_is_not():
    policy = fixed_policy([0.0, -1e9, 0.0, 0.0])  # never ends; its context is 32
    ids, counts = IDS[:, :1].repeat(1, 10), ALL[:, :1].repeat(1, 10)
    assert generate(policy, ids, counts, 23, EOS, PAD)[0].shape == (1, 23)
    with pytest.raises(ValueError, match="query_tensors: got 10 tokens and 24 of response"):
        generate(policy, ids, counts, 24, EOS, PAD)
    with pytest.raises(ValueError, match="query_tensors"):
        forward_logprobs(policy, IDS.repeat(1, 20), ALL.repeat(1, 20), IDS, ALL)
