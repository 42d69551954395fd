"""Models: any causal LM of transformers, loaded from folders, without dropout; padding changes nothing."""

import copy
import io
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import PAIRS, tiny_models
from huggingface_hub import constants as hub_constants
from strategies import seeded, small_lm
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model, T5Config, T5Model
from transformers.utils import logging as transformers_logging

from helpers import state as states
from helpers.config import RLHFConfig
from helpers.models import (
    allow_tf32,
    load_actor,
    make_critic,
    quiet_loading,
    stop_tokens,
    without_dropout,
)
from helpers.reward_model import (
    HEAD_FILE,
    RewardModel,
    fit_reward_model,
    fresh_reward_model,
    is_causal,
    join,
    load_reward_model,
    normalize,
    pair_accuracy,
)
from helpers.rollouts import forward_logprobs
from helpers.sampling import generate
from helpers.state import start_run
from helpers.steps import iterate
from helpers.tools.files import FileProblem
from helpers.world.small_models import make_encoder


def test_a_hub_name_without_a_network_is_one_sentence():
    with pytest.raises(FileProblem, match="hub name 'gpt2'") as problem:
        load_actor("gpt2", "cpu")
    assert "\n" not in str(problem.value)


def test_dropout_of_a_saved_model_is_switched_off(tmp_path):
    model = small_lm("gpt2")
    assert model.config.resid_pdrop > 0
    model.save_pretrained(tmp_path)
    actor = load_actor(str(tmp_path), "cpu").train()
    ids = torch.arange(6).unsqueeze(0)
    with torch.no_grad():
        assert torch.equal(actor(ids).logits, actor(ids).logits)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gpt_neox"])
def test_any_causal_language_model_writes_and_agrees_with_itself(tmp_path, kind):
    small_lm(kind).save_pretrained(tmp_path)
    actor = load_actor(str(tmp_path), "cpu")
    queries = torch.tensor([[7, 8, 9], [0, 0, 5]])
    mask = torch.tensor([[True, True, True], [False, False, True]])
    response, counted, logprobs = generate(actor, queries, mask, 6, 1, 0, 1.0, seeded())
    with torch.no_grad():
        again = forward_logprobs(actor, queries, mask, response, counted)
    assert torch.allclose(again, logprobs, atol=1e-4)
    values = make_critic(load_actor(str(tmp_path), "cpu"))(queries, mask)
    assert values.shape == (2, 3) and not values.any()  # the head starts at 0


def test_loading_is_quiet_and_leaves_the_loggers_as_they_were():
    """No level is changed: this takes logging's lock, which a Ctrl-C could leave locked."""
    root, heard = logging.getLogger("transformers"), io.StringIO()
    root.addHandler(handler := logging.StreamHandler(heard))
    log, level = transformers_logging.get_logger("transformers.anything"), root.level
    with quiet_loading():
        assert root.level == level and not transformers_logging.is_progress_bar_enabled()
        log.warning("a report")
        log.error("a problem")
    assert root.level == level and transformers_logging.is_progress_bar_enabled()
    log.warning("a word")
    with pytest.raises(KeyboardInterrupt), quiet_loading():
        raise KeyboardInterrupt
    log.warning("and another")
    root.removeHandler(handler)
    assert heard.getvalue().split("\n") == ["a problem", "a word", "and another", ""]


@pytest.mark.parametrize(
    "precision, wanted", [("no", "highest"), ("tf32", "high"), ("bf16", "high")]
)
def test_a_gpu_has_tf32_where_a_run_asks_for_less_than_float32(monkeypatch, precision, wanted):
    """Factors of 11 bits would move first ratios by more than the 1e-4 that float32 keeps."""
    chosen = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", chosen.append)
    config = RLHFConfig(device="cpu", normalize_scores=False, mixed_precision=precision)
    start_run(config, tiny_models())
    assert chosen == []
    on_gpu = partial(allow_tf32, torch.device("cuda"))
    monkeypatch.setattr(states, "allow_tf32", lambda device, allowed: on_gpu(allowed))
    start_run(config, tiny_models())
    assert chosen == [wanted]


GPT2 = GPT2Config(vocab_size=600, n_positions=64, n_embd=32, n_layer=1, n_head=2)  # has dropout
TRUNKS = {
    "encoder": lambda tokenizer: make_encoder(tokenizer, 1, 32),
    "gpt2": lambda tokenizer: GPT2Model(without_dropout(copy.deepcopy(GPT2))),
    "llama": lambda tokenizer: small_lm("llama", vocab_size=600).base_model,
}


def tiny_reward_model(kind: str = "encoder") -> RewardModel:
    tokenizer = tiny_models().tokenizer
    torch.manual_seed(0)
    return RewardModel(TRUNKS[kind](tokenizer), tokenizer).eval()


@pytest.mark.parametrize("kind", TRUNKS)
def test_a_score_is_read_where_the_whole_text_is_seen(kind):
    """Every word of a text changes its score; it is the head's of the one state that sees them all."""
    model, text = tiny_reward_model(kind), "the soup was good and cold"
    changed = [text.replace(word, "poor") for word in text.split()]
    scores = model.score_texts([text, *changed])
    assert len(set(scores.tolist())) == 7
    ids = torch.tensor([model.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        states = model.encoder(input_ids=ids).last_hidden_state[0]
        read = states[0 if kind == "encoder" else -1]
        assert scores[0].item() == pytest.approx(model.head(read).item(), abs=1e-5)


def test_dropout_makes_no_encoder_of_a_decoder():
    trunk = GPT2Model(GPT2).train()
    assert is_causal(trunk) and trunk.training


@pytest.mark.parametrize(
    "trunk",
    [
        GPT2LMHeadModel(GPT2),
        T5Model(T5Config(vocab_size=600, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)),
        GPT2Model(GPT2).apply(lambda part: [p.data.zero_() for p in part.parameters()]),
    ],
    ids=["logits", "encoder and decoder", "zeros"],
)
def test_a_model_that_gives_no_states_is_refused(trunk):
    with pytest.raises(ValueError, match="^encoder: got .*last_hidden_state") as said:
        RewardModel(trunk, tiny_models().tokenizer)
    assert "\n" not in str(said.value)


ONE_SCORE = "^reward model: got one score for all texts, wants"


def test_a_fit_to_texts_that_are_cut_before_they_differ_says_so():
    """Both texts of a pair are then the same tokens: the loss would stay at ln 2."""
    model, long = tiny_reward_model(), "the soup was cold. " * 20
    pairs = [{"prompt": long, "chosen": "good.", "rejected": text} for text in ("bad.", "poor.")]
    with pytest.raises(ValueError, match=ONE_SCORE):
        fit_reward_model(model, pairs, epochs=1, batch_size=1)
    with pytest.raises(ValueError, match=ONE_SCORE):
        normalize(model, [long + "good.", long + "bad."])


@pytest.mark.parametrize("kind", TRUNKS)
def test_padding_changes_no_score(kind):
    model = tiny_reward_model(kind)
    short, long = "the soup was good.", "the soup was good and we would recommend it to friends."
    alone, together = model.score_texts([short]), model.score_texts([short, long])
    assert torch.allclose(alone[0], together[0], atol=1e-5)
    encoded = model.encode([short, long])
    garbage = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, 9)
    with torch.no_grad():
        scores = model(garbage, encoded["attention_mask"])
    assert torch.allclose(scores, together, atol=1e-5)


@pytest.mark.parametrize("kind", TRUNKS)
def test_it_fits_pairs_and_survives_a_round_trip(tmp_path, kind):
    model, losses = tiny_reward_model(kind), []
    fit = {"epochs": 60, "batch_size": 8, "learning_rate": 3e-3}
    fit_reward_model(model, PAIRS, **fit, on_step=lambda step, steps, loss: losses.append(loss))
    assert losses[-1] < 0.1 < losses[0]
    assert pair_accuracy(lambda texts: torch.zeros(len(texts)), PAIRS) == 0.5  # a tie counts half
    assert pair_accuracy(model.score_texts, PAIRS) == 1.0
    texts = [join(pair["prompt"], pair["chosen"]) for pair in PAIRS] + ["the soup was bad."]
    scores = normalize(model, texts).score_texts(texts)
    assert abs(float(scores.mean())) < 1e-5 and abs(float(scores.std()) - 1) < 1e-4
    model.save(tmp_path / "mine")
    assert torch.equal(load_reward_model(str(tmp_path / "mine"), "cpu").score_texts(texts), scores)


@pytest.fixture
def headless(tmp_path) -> Path:
    """A folder with an encoder and its tokenizer, but no trained reward head."""
    tokenizer = tiny_models().tokenizer
    make_encoder(tokenizer, 1, 32).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_an_encoder_of_a_folder_gets_a_fresh_head_where_one_is_asked_for(headless):
    model, again = (fresh_reward_model(str(headless), "cpu", seed=3) for _ in range(2))
    other = fresh_reward_model(str(headless), "cpu", seed=4)
    assert not model.is_normalized and not model.head.bias.any()
    assert torch.equal(model.head.weight, again.head.weight)
    assert not torch.equal(model.head.weight, other.head.weight)


def test_an_encoder_without_a_trained_head_or_with_a_damaged_one_is_no_reward_model(headless):
    """Its scores would be those of random weights: a policy was trained on them, and success reported."""
    with pytest.raises(ValueError, match=f"reward_model: got '{headless}', .*{HEAD_FILE}") as said:
        load_reward_model(str(headless))
    assert "wants one saved by RewardModel.save" in str(said.value) and "\n" not in str(said.value)
    fitted = headless / "fitted"
    fresh_reward_model(str(headless), "cpu").save(fitted)
    load_reward_model(str(fitted), "cpu")
    (fitted / HEAD_FILE).write_bytes(b"not weights")
    with pytest.raises(FileProblem, match=HEAD_FILE):
        load_reward_model(str(fitted), "cpu")


def test_a_hub_s_reward_model_keeps_its_head(headless, monkeypatch):
    """A head is looked for beside a model of the hub too, not in folders only."""
    model = fresh_reward_model(str(headless), "cpu")
    for name in ("mine", "bare"):  # as the hub's cache on disk has them
        cached = headless / "hub" / f"models--someone--{name}"
        model.save(cached / "snapshots" / "abc")
        (cached / "refs").mkdir()
        (cached / "refs" / "main").write_text("abc")
    (cached / "snapshots" / "abc" / HEAD_FILE).unlink()
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(headless / "hub"))
    found = load_reward_model("someone/mine", "cpu")
    assert torch.equal(found.head.weight, model.head.weight)
    with pytest.raises(ValueError, match="reward_model: got 'someone/bare'"):
        load_reward_model("someone/bare", "cpu")


def test_stop_tokens_are_the_tokenizer_s_and_the_generation_config_s():
    models = tiny_models()
    actor, eos = models.actor, models.tokenizer.eos_token_id
    for known, stops in ((None, [eos]), (eos, [eos]), ([5, eos, 6], [eos, 5, 6]), (5, [eos, 5])):
        actor.generation_config.eos_token_id = known
        assert stop_tokens(actor, models.tokenizer) == stops
    assert stop_tokens(torch.nn.Linear(1, 1), models.tokenizer) == [eos]


def test_a_turn_s_end_stops_a_response_and_counts_as_ended():
    models = tiny_models()
    models.actor.generation_config.eos_token_id = list(range(len(models.tokenizer)))  # any token
    config = RLHFConfig(device="cpu", batch_size=4, response_length=6, missing_eos_penalty=9.0)
    state = start_run(replace(config, normalize_scores=False), models, prompts=["the soup"])
    record = iterate(state)
    assert record["response_length"] == record["ended"] == 1.0
