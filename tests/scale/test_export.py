"""An exported policy is an ordinary model folder: plain transformers loads it and writes the same."""

import json
from dataclasses import replace

import pytest
import torch
from conftest import length_reward, tiny_lora, tiny_models
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from helpers.checkpoints import save_checkpoint
from helpers.commands.train import train
from helpers.config import RLHFConfig
from helpers.models import fingerprint, load_actor
from helpers.rewards import RewardSum
from helpers.scale.export import CARD, FACTS, merge_adapter, save_policy
from helpers.scale.held_out import BEST, ROWS, HeldOut
from helpers.state import start_run
from helpers.steps import iterate
from helpers.tools.files import FileProblem, read_json

SMALL = {"batch_size": 8, "minibatch_size": 4, "response_length": 6, "normalizer_samples": 16}
CONFIG = RLHFConfig(device="cpu", iterations=2, learning_rate=1e-2, seed=7, **SMALL)
PROMPTS = ["we saw this film", "the soup", "i read"]


@pytest.fixture
def state():
    state = start_run(CONFIG, tiny_models(), prompts=PROMPTS)
    iterate(state)
    return state


@torch.no_grad()
def greedy(model, tokenizer, length: int = 10) -> list:
    encoded = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    ids = model.generate(**encoded, do_sample=False, max_new_tokens=length)
    return ids.tolist()


def test_plain_transformers_loads_it_and_writes_the_same_tokens(tmp_path, state):
    folder = save_policy(state, tmp_path / "policy")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert fingerprint(model) == fingerprint(state.models.actor)
    assert greedy(model, tokenizer) == greedy(state.models.actor, state.models.tokenizer)
    assert fingerprint(load_actor(str(folder), "cpu")) == fingerprint(model)
    how = model.generation_config
    assert (how.do_sample, how.top_k, how.max_new_tokens) == (True, 0, 6)
    assert (how.eos_token_id, how.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


def test_how_it_was_trained_is_beside_it_and_the_card_says_where(tmp_path, state):
    folder = save_policy(state, tmp_path / "policy")
    card, facts = (folder / CARD).read_text(), read_json(folder / FACTS)
    assert card.startswith("---\nlibrary_name: transformers\n") and FACTS in card
    assert "base_model" not in card  # a folder, of which the hub knows nothing
    assert RLHFConfig(**facts["config"]) == state.config and facts["last"] == state.history[-1]
    assert facts["reward"] == "length_reward" and facts["lora_rank"] is None
    assert set(facts["files"]) == {path.name for path in folder.iterdir()}


def test_the_parts_of_a_sum_are_named_and_why_a_policy_was_kept(tmp_path):
    def kind(texts):
        return [float("good" in text) for text in texts]

    parts = [kind, length_reward, lambda texts: [0.0] * len(texts)]
    models = tiny_models(reward=RewardSum(parts, [1.0, 0.25, 2]))
    models.actor.name_or_path = "someone/their-model"
    state = start_run(CONFIG, models, prompts=PROMPTS)
    HeldOut(["i read"], tmp_path, samples=4).measure(state)
    facts = read_json(tmp_path / BEST / FACTS)
    assert facts["reward"] == "1 · kind + 0.25 · length_reward + 2 · <lambda>"
    assert facts["held_out"] == read_json(tmp_path / ROWS)["rows"][0]
    assert "base_model: someone/their-model\n" in (tmp_path / BEST / CARD).read_text()


def test_a_model_alone_is_exported_with_its_tokenizer(tmp_path):
    models = tiny_models()
    folder = save_policy(models.actor, tmp_path / "policy", models.tokenizer)
    assert "not recorded" in (folder / CARD).read_text()
    assert greedy(AutoModelForCausalLM.from_pretrained(folder), models.tokenizer)


def test_what_cannot_be_exported_is_one_sentence(tmp_path, state):
    given = {"policy": state, "folder": tmp_path / "policy"}
    for changes, says in (
        *(({"policy": x}, "^policy: got") for x in (3, None, "data/sft", torch.nn.Linear(2, 2))),
        ({"policy": state.models.actor}, "^tokenizer: got None with a model"),
        ({"adapter_only": True}, "^adapter_only: got True without LoRA"),
    ):
        with pytest.raises(ValueError, match=says):
            save_policy(**given | changes)


def test_an_earlier_export_is_replaced_and_nothing_else_ever_is(tmp_path, state):
    folder = save_policy(state, tmp_path / "policy")
    iterate(state)
    save_policy(state, folder)
    assert fingerprint(load_actor(str(folder), "cpu")) == fingerprint(state.models.actor)
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileProblem, match="holds 'notes.txt', which no export wrote"):
        save_policy(state, folder)
    save_checkpoint(state, tmp_path / "run")
    with pytest.raises(FileProblem, match="holds 'checkpoints'"):
        save_policy(state, tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileProblem, match="is a file"):
        save_policy(state, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert save_policy(state, tmp_path / "empty") == tmp_path / "empty"


@pytest.fixture
def adapted():
    state = start_run(replace(CONFIG, learning_rate=0.1), tiny_lora(), prompts=PROMPTS)
    iterate(state), iterate(state)
    return state


def test_lora_is_merged_into_ordinary_weights(tmp_path, adapted):
    actor, tokenizer = adapted.models.actor, adapted.models.tokenizer
    before = fingerprint(actor)
    folder = save_policy(adapted, tmp_path / "policy")
    assert fingerprint(actor) == before  # a copy was merged
    assert read_json(folder / FACTS)["lora_rank"] == 2
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    assert not any("lora" in name for name, _ in model.named_parameters())
    assert fingerprint(model) != fingerprint(adapted.models.reference)
    assert greedy(model, tokenizer) == greedy(actor, tokenizer)
    ids = tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, actor(ids).logits, atol=1e-5, rtol=1e-4)


def test_the_adapter_alone_names_task_and_base(tmp_path, adapted):
    actor, tokenizer = adapted.models.actor, adapted.models.tokenizer
    with pytest.raises(ValueError, match="a base model without a name"):
        save_policy(adapted, tmp_path / "policy", adapter_only=True)
    plain = tiny_models()
    save_policy(plain.actor, tmp_path / "base", plain.tokenizer)
    actor.name_or_path = str(tmp_path / "base")
    folder = save_policy(adapted, tmp_path / "policy", adapter_only=True)
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert settings["task_type"] == "CAUSAL_LM"
    assert settings["base_model_name_or_path"] == str(tmp_path / "base")
    assert not (folder / "model.safetensors").exists()
    from peft import AutoPeftModelForCausalLM

    how = GenerationConfig.from_pretrained(folder)
    assert (how.do_sample, how.top_k, how.max_new_tokens) == (True, 0, 6)
    assert "peft reads the base model's" in (folder / CARD).read_text()
    model = AutoPeftModelForCausalLM.from_pretrained(folder).eval()
    assert greedy(model, tokenizer) == greedy(actor, tokenizer)
    assert greedy(merge_adapter(actor), tokenizer) == greedy(actor, tokenizer)


def test_a_folder_that_holds_something_else_is_refused_before_training(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    assert train(["--export", str(tmp_path), "--save", str(tmp_path / "run")]) == 2
    problem = capsys.readouterr().err.strip()
    assert "thesis.tex" in problem and "\n" not in problem
