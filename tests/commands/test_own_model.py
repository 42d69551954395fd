"""A model of one's own: its folder, a forecast, texts to read, sentence stops, pairs, its own type."""

import re
from unittest.mock import Mock

import pytest
import torch
from conftest import length_reward, strip, tiny_models
from crash_harness import SMALL
from transformers import AutoModelForCausalLM, OPTConfig

from helpers import __main__ as command
from helpers import sampling
from helpers.checkpoints import load_checkpoint
from helpers.commands import direct, train, weights
from helpers.config import RLHFConfig
from helpers.models import load_actor, stop_at_sentence_ends, stop_tokens
from helpers.rewards import score_texts
from helpers.sampling import sample_responses
from helpers.scale import forecast
from helpers.scale.export import own_dtype, save_policy
from helpers.scale.held_out import HeldOut
from helpers.scale.memory import CPU, estimate_memory, free_bytes
from helpers.state import start_run
from helpers.steps import iterate
from helpers.tools.files import write_jsonl
from helpers.tools.noise import below_0

CONFIG = RLHFConfig(device="cpu", iterations=2, batch_size=4, response_length=4)
PROMPTS = ["we saw this film", "the soup", "i read"]
BF16 = torch.bfloat16


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- weights ---------------------------------------------------------------------------------------


def test_a_package_s_gguf_becomes_a_folder_that_the_loop_takes(folder, monkeypatch, capsys):
    (folder / "my_weights").mkdir()
    (folder / "my_weights" / "__init__.py").write_text("raise RuntimeError('it is run')")
    (folder / "my_weights" / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(folder))
    models, read = tiny_models(), []
    packed = [weight.detach().clone() for weight in models.actor.parameters()]
    both = models.actor, models.tokenizer
    monkeypatch.setattr(weights, "load_gguf", lambda path, *_: read.append(path) or both)
    assert command.main(["weights", "--source", "my-weights", "--save", "mine"]) == 0
    assert read == [folder / "my_weights" / "model.gguf"]
    assert "in bfloat16; responses end at </s>; no chat template" in capsys.readouterr().out
    for weight, was in zip(load_actor("./mine", "cpu").parameters(), packed, strict=True):
        assert torch.equal(weight, was.to(BF16).float())
    config = RLHFConfig(actor="./mine", device="cpu", batch_size=4)
    assert iterate(start_run(config, None, length_reward))
    assert command.main(["weights", "--source", "my-weights", "--save", "mine"]) == 2
    assert "mine is there already" in capsys.readouterr().err
    (folder / "my_weights" / "other.gguf").write_bytes(b"GGUF")
    assert command.main(["weights", "--source", "my_weights", "--save", "two"]) == 2
    assert "holds several" in capsys.readouterr().err and not (folder / "two").exists()


def test_a_folder_keeps_its_own_type_and_so_does_what_is_exported_of_it(folder, capsys):
    models = tiny_models()
    models.actor.to(BF16).save_pretrained("own")
    models.tokenizer.save_pretrained("own")
    assert command.main(["weights", "--source", "./own", "--save", "again"]) == 0
    assert "in bfloat16" in capsys.readouterr().out
    flags = ["--actor", "./again", "--export", "policy", "--save", "run"]
    assert command.main(["train", *SMALL, *flags]) == 0
    exported = AutoModelForCausalLM.from_pretrained("policy", dtype="auto")
    trained = load_checkpoint("run").models.actor
    assert (exported.dtype, trained.dtype) == (BF16, torch.float32)
    for one, other in zip(exported.parameters(), trained.parameters(), strict=True):
        assert torch.equal(one, other.to(BF16))
    assert own_dtype(load_actor("data/sft", "cpu")) == torch.float32
    whole = AutoModelForCausalLM.from_pretrained(save_policy(load_checkpoint("run"), "whole"))
    assert whole.dtype == torch.float32


# --- before it starts ------------------------------------------------------------------------------


def test_as_many_responses_are_forecast_as_are_sampled(folder, monkeypatch, capsys):
    generate = Mock(wraps=sampling.generate)
    monkeypatch.setattr(sampling, "generate", generate)
    write_jsonl(folder / "rows.jsonl", [{"prompt": f"the {w} was"} for w in "abcdefghijklm"])
    (folder / "lengths.py").write_text("def reward(texts): return [len(t) for t in texts]")
    own = "--reward lengths.py:reward --prompts rows.jsonl --eval-every 1 --save run"
    assert command.main(["train", *SMALL, *own.split()]) == 0
    said = re.search(r"About .*", capsys.readouterr().out)[0]
    counts = [int(n) for n in re.findall(r"\((\d+) responses\)", said)]
    assert counts == [8, 8 + 8 + 3 * 8] and "(2 of 4)" in said
    sampled = sum(len(call.args[1]) for call in generate.call_args_list)
    assert sampled == min(forecast.PROBE, 32) + sum(counts) + 2 * 4


def test_a_forecast_is_the_sum_of_its_parts_and_leaves_the_run_as_it_is(monkeypatch):
    state = start_run(CONFIG, tiny_models(), prompts=PROMPTS)
    sample, learn = forecast.seconds_a_response(state)
    assert sample > 0 and learn > 0
    assert all(weight.grad is None for weight in state.models.actor.parameters())
    record, alone = iterate(state), iterate(start_run(CONFIG, tiny_models(), prompts=PROMPTS))
    assert strip([record]) == strip([alone])
    ticks = [0.0]
    monkeypatch.setattr(forecast, "clock", lambda device: ticks[0])
    slow = lambda texts: ticks.__setitem__(0, 99.0) or [0.0] * len(texts)  # noqa: E731
    untimed = start_run(CONFIG, tiny_models(reward=slow), prompts=PROMPTS)
    ticks[0] = 0.0  # the normaliser has called it
    assert forecast.seconds_a_response(untimed) == (0.0, 0.0) and ticks == [99.0]
    monkeypatch.setattr(forecast, "seconds_a_response", lambda state: (2.0, 40.0))
    assert forecast.forecast(state, 0, 30) == (  # one iteration of four is left
        "About 3.8 min, and what the reward takes: measurements (30 responses) 60 s,"
        " iterations (1 of 4) 2.8 min."
    )


def test_what_cannot_fit_is_refused_before_anything_is_written(folder, monkeypatch, capsys):
    assert 0 < free_bytes(CPU) < 2**50
    monkeypatch.setattr(train, "free_bytes", lambda device: 1e6)
    flags = ["train", *SMALL, "--save", "run"]
    assert command.main(flags) == 2
    problem = capsys.readouterr().err
    assert "error: memory: got " in problem and "--micro-batch-size" in problem
    assert not (folder / "run").exists()
    assert command.main([*flags, "--force"]) == 0


def test_an_architecture_that_cannot_be_counted_is_trained_all_the_same(folder, capsys):
    tokenizer = tiny_models().tokenizer
    shape = {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = OPTConfig(vocab_size=len(tokenizer), word_embed_proj_dim=32, **shape)
    AutoModelForCausalLM.from_config(config).save_pretrained("opt")
    tokenizer.save_pretrained("opt")
    assert command.main(["train", *SMALL, "--actor", "./opt", "--save", "run"]) == 0
    printed = capsys.readouterr().out
    assert "Memory: not estimated" in printed and "About " in printed


def test_an_adapter_of_the_last_blocks_keeps_less():
    def peak(last):
        return estimate_memory("gpt2", length_reward, CONFIG, 8, "lora", last=last)

    kept = [peak(last).total(kind="activations") for last in (None, 12, 6)]
    assert kept[0] == kept[1] == pytest.approx(2 * kept[2], rel=1e-6)


# --- texts -----------------------------------------------------------------------------------------


def test_a_measurement_keeps_its_texts_and_calls_a_kl_below_0_an_error(tmp_path):
    state = start_run(CONFIG, tiny_models(), prompts=PROMPTS)
    held_out = HeldOut(["it was", "the room"], tmp_path, samples=6)
    held_out.measure(state)
    rows = held_out.texts(0)
    assert [row["prompt"] for row in rows] == 3 * ["it was", "the room"]
    for name in ("score", "kl", "value"):
        mean = sum(row[name] for row in rows) / 6
        assert mean == pytest.approx(held_out.rows[0][name], abs=1e-5)
    whole = [f"{row['prompt']} {row['completion']}".strip() for row in rows]
    scores = state.normalize(score_texts(state.models.reward, whole))
    assert scores.tolist() == pytest.approx([row["score"] for row in rows], abs=1e-5)
    assert below_0([0.0, -1e-5, 0.3]) == below_0([]) == ""
    assert "error of its estimate" in below_0([0.3, -0.2])
    held_out.rows[0]["kl"] = -0.2
    assert held_out.report().endswith(below_0([-0.2]))


@pytest.mark.parametrize("changes", [{"num_ppo_epochs": 1}, {"minibatch_size": 3}])
def test_an_update_takes_as_many_gradient_steps_as_the_config_says(changes):
    state = start_run(RLHFConfig(**CONFIG.as_dict() | changes), tiny_models(), prompts=PROMPTS)
    iterate(state)
    steps = {int(moments["step"]) for moments in state.optimizer.state.values()}
    assert steps == {state.config.gradient_steps}


# --- sentence stops --------------------------------------------------------------------------------


def test_a_response_ends_at_the_first_end_of_a_sentence():
    models = tiny_models()
    stop_at_sentence_ends(models.actor, models.tokenizer)
    ends = {i for t, i in models.tokenizer.get_vocab().items() if t.strip() in (".", "!", "?")}
    assert ends and set(stop_tokens(models.actor, models.tokenizer)) >= ends
    config = RLHFConfig(response_length=24)
    generator = torch.Generator().manual_seed(0)
    responses = sample_responses(models.actor, models.tokenizer, 20 * PROMPTS, config, generator)
    rows = zip(responses.response_tensors.tolist(), responses.response_mask.tolist(), strict=True)
    counted = [[t for t, c in zip(*row, strict=True) if c] for row in rows]
    assert not any(ends & set(row[:-1]) for row in counted)
    assert any(row[-1] in ends for row in counted)


@pytest.mark.parametrize("lora", [[], ["--lora", "2"]])
def test_sentence_stops_are_the_reference_s_too_and_a_resumed_run_s(folder, lora):
    if lora:
        pytest.importorskip("peft")
    flags = [*SMALL, *lora, "--sentence-stops", "--save", "run", "--export", "policy"]
    assert command.main(["train", *flags]) == 0
    assert command.main(["train", "--resume", "run", "--iterations", "3"]) == 0
    options = train.kept_inputs(train.TrainOptions(resume=folder / "run"), folder / "run")
    models = options.go_on(folder / "run", train.saved_config("run")).models
    stops = stop_tokens(models.actor, models.tokenizer)
    assert len(stops) > 1 and stop_tokens(models.reference, models.tokenizer) == stops
    exported = AutoModelForCausalLM.from_pretrained("policy").generation_config
    assert exported.eos_token_id == stops


# --- pairs -----------------------------------------------------------------------------------------


def test_pairs_held_out_are_not_trained_on_and_are_measured(folder, monkeypatch, capsys):
    rows = [
        {"prompt": f"the {word}", "chosen": "was good .", "rejected": f"was {bad} ."}
        for word in ("film", "soup", "room", "book", "hotel", "music")
        for bad in ("bad", "slow")
    ]
    write_jsonl(folder / "pairs.jsonl", rows)
    train_direct = Mock(wraps=direct.train_direct)
    monkeypatch.setattr(direct, "train_direct", train_direct)
    flags = ["--pairs", "pairs.jsonl", "--batch-size", "4", "--epochs", "8", "--eval-share", "0.34"]
    flags += ["--learning-rate", "1e-2", "--device", "cpu", "--export", "policy"]
    assert command.main(["direct", *flags, "--save", "run"]) == 0
    assert "score" not in load_checkpoint("run", reward=direct.unscored).history[0]
    printed = capsys.readouterr().out
    given = train_direct.call_args.kwargs["pairs"]
    trained = {row["prompt"] for row in given}
    assert len(given) == 2 * len(trained) == 8 and "8 pairs to train on; 4 held out" in printed
    accuracy = float(re.search(r"4 pairs held out: .*accuracy ([\d.]+)", printed)[1])
    assert accuracy > 0.5
    AutoModelForCausalLM.from_pretrained("policy")
