"""Held-out prompts: parted from the others, measured along a run, the best policy on them kept."""

import pytest
import torch
from conftest import SMALL, length_reward, moved, tiny_models
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint, load_actor, load_tokenizer
from helpers.scale.held_out import BEST, HeldOut, split_prompts
from helpers.scale.lora import lora_models
from helpers.state import start_run

CONFIG = RLHFConfig(device="cpu", iterations=4, learning_rate=3e-2, kl_coef=0.2, **SMALL)
PROMPTS, OTHERS = ["we saw this film", "the soup"], ["i read", "it was"]


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 5))
def test_a_split_keeps_every_prompt_once_and_its_order(count, share, seed):
    rows = [str(i) for i in range(count)]
    kept, held = split_prompts(rows, share, seed)
    assert sorted(kept + held) == sorted(rows) and kept and held
    assert kept == sorted(kept, key=int) and held == sorted(held, key=int)
    assert abs(len(held) - share * count) <= 1
    assert (kept, held) == split_prompts(rows, share, seed)


def test_rows_of_one_prompt_stay_together():
    rows = [{"prompt": p, "level": k} for k in range(3) for p in "abcd"]
    kept, held = split_prompts(rows, 0.5, 0)
    assert len(kept) == len(held) == 6
    assert not {row["prompt"] for row in kept} & {row["prompt"] for row in held}


def run(folder):
    state = start_run(CONFIG, tiny_models(), prompts=PROMPTS)
    held_out = HeldOut(OTHERS, folder, 1, samples=16)
    seen = {0: fingerprint(state.models.actor)}
    for record in held_out.watch(state, train_rlhf_loop(state=state)):
        seen[record["iteration"]] = fingerprint(state.models.actor)
    return held_out, seen


def test_the_best_policy_is_the_one_that_was_best_when_it_was_measured(tmp_path):
    held_out, seen = run(tmp_path)
    assert [row["iteration"] for row in held_out.rows] == [0, 1, 2, 3, 4]
    for row in held_out.rows:
        assert row["value"] == pytest.approx(row["score"] - 0.2 * row["kl"])
    best = max(held_out.rows, key=lambda row: row["value"])
    assert held_out.best == best
    kept = AutoModelForCausalLM.from_pretrained(tmp_path / BEST)
    assert fingerprint(kept) == seen[best["iteration"]]
    assert f"iteration {best['iteration']}" in held_out.report() or best["iteration"] == 0


def test_a_policy_that_only_gets_worse_is_not_kept(tmp_path):
    state = start_run(CONFIG, tiny_models(reward=lambda texts: [0.0] * len(texts)), prompts=PROMPTS)
    held_out = HeldOut(OTHERS, tmp_path, 1, samples=16)
    first = fingerprint(state.models.actor)
    held_out.measure(state)  # KL 0: the value is 0, and every later one is below it
    moved(state.models.actor, 0.1)
    state.iteration = 1
    held_out.measure(state)
    assert held_out.rows[1]["kl"] > 0 and held_out.best["iteration"] == 0
    assert fingerprint(AutoModelForCausalLM.from_pretrained(tmp_path / BEST)) == first
    assert "no policy is better than the one before training" in held_out.report()


def test_a_gain_has_its_error_and_one_of_chance_is_called_so(tmp_path, models, monkeypatch):
    state = start_run(CONFIG, models, prompts=PROMPTS)
    before = torch.randn(16, generator=torch.Generator().manual_seed(0))
    moved = 0.2 * torch.randn(16, generator=torch.Generator().manual_seed(1))
    moved -= moved.mean()
    scores = iter([before, before + moved + 0.05, before + moved + 0.5])

    def written(*_, batch_size):
        assert batch_size == CONFIG.batch_size
        return {"score": next(scores), "kl": torch.zeros(16)}, []

    monkeypatch.setattr("helpers.scale.held_out.evaluate", written)
    HeldOut(OTHERS, tmp_path, 1, samples=16).measure(state)
    state.iteration = 1
    held_out = HeldOut(OTHERS, tmp_path, 1, samples=16)  # the run goes on: from the file
    held_out.measure(state)
    row = held_out.rows[-1]
    assert row["gain"] == pytest.approx(0.05, abs=1e-5)
    assert row["gain_error"] == pytest.approx(float(moved.std()) / 4, abs=1e-5)
    assert "± 0.0" in held_out.report() and "within the noise" in held_out.report()
    assert "Value is score − β·KL" in held_out.report()
    state.iteration = 2
    held_out.measure(state)
    assert "iteration 2 is best" in held_out.report()
    assert "within the noise" not in held_out.report()


def test_measuring_changes_nothing_of_the_training(tmp_path):
    _, seen = run(tmp_path)
    alone = start_run(CONFIG, tiny_models(), prompts=PROMPTS)
    for _ in train_rlhf_loop(state=alone):
        assert fingerprint(alone.models.actor) == seen[alone.iteration]


def test_of_a_lora_run_the_adapter_alone_is_kept(tmp_path):
    pytest.importorskip("peft")
    actor, tokenizer = load_actor("data/sft", "cpu"), load_tokenizer("data/sft")
    models = lora_models(actor, tokenizer, length_reward, rank=2, last=1)
    state = start_run(CONFIG, models, prompts=PROMPTS)
    held_out = HeldOut(OTHERS, tmp_path, 1, samples=8)
    held_out.measure(state)
    assert (tmp_path / BEST / "adapter_config.json").exists()
    sizes = [file.stat().st_size for file in (tmp_path / BEST).glob("*.safetensors")]
    assert 0 < sum(sizes) < 100_000  # the whole model has 2.6 MB
