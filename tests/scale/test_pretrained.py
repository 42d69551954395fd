"""Which models a run takes, pairs from files, texts between tokenizers, classifiers as rewards."""

import copy
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import torch
from conftest import length_reward, tiny_models
from transformers import AutoModelForCausalLM

from helpers.checkpoints import save_checkpoint
from helpers.config import RLHFConfig
from helpers.data import check_pairs, load_pairs
from helpers.models import encode_texts, fingerprint, load_actor, trainable
from helpers.reward_model import load_reward_model
from helpers.scale import pretrained
from helpers.scale.export import merge_adapter, save_policy
from helpers.scale.held_out import BEST, HeldOut
from helpers.scale.lora import lora_models
from helpers.scale.pretrained import choose_actor, load_gguf, make_models
from helpers.state import start_run
from helpers.steps import iterate
from helpers.tools.files import ROOT, FileProblem, write_jsonl
from helpers.world import reviews
from helpers.world.small_models import make_encoder, make_tokenizer

SMALL = RLHFConfig(device="cpu", batch_size=8, response_length=8, normalize_scores=False)
PAIR = {"prompt": "the soup", "chosen": "was good.", "rejected": "was bad."}


# --- which models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("device, reason", [("auto", "No GPU"), ("cpu", "No hub can be reached")])
def test_without_a_gpu_or_a_hub_one_line_says_what_stands_in(monkeypatch, device, reason):
    monkeypatch.setattr(pretrained, "resolve_device", lambda device: torch.device("cpu"))
    actor, words = choose_actor("HuggingFaceTB/SmolLM2-135M", device)  # the tests are offline
    assert actor == "data/sft" and words.startswith(reason)
    assert choose_actor("data/sft", device) == ("data/sft", "data/sft.")  # a folder is always taken


def test_what_is_no_model_is_no_fallback(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "config.json").write_text('{"model_type": "gpt')
    for actor, says in {
        "./mine": "No folder './mine'",
        str(tmp_path / "empty"): f"from folder {tmp_path}/empty: Unrecognized model",
        str(tmp_path): f"from folder {tmp_path}",
        "smol LM!": "from hub name",
        "a/b/c": "from hub name",
    }.items():
        with pytest.raises(FileProblem, match=says) as problem:
            choose_actor(actor, "cpu")
        assert "\n" not in str(problem.value) and "offline" not in str(problem.value)


class Hub(BaseHTTPRequestHandler):
    """A hub on this machine that has no model of any name, and some that are gated."""

    def do_HEAD(self):
        gated = "gated" in self.path
        self.send_response(403 if gated else 404)
        self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *arguments):
        pass


ASK = """
from helpers.scale.pretrained import choose_actor
for name in ("some/misspelt", "some/gated"):
    try:
        print(choose_actor(name, "cpu"))
    except ValueError as problem:
        print(type(problem).__name__, problem)
"""


@pytest.mark.slow
def test_a_name_the_hub_refuses_is_no_fallback(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        online = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": address, "HF_HOME": str(tmp_path)}
        ask = {"cwd": ROOT, "timeout": 300, "env": os.environ | online}
        done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, **ask)
        server.shutdown()
    misspelt, gated = done.stdout.splitlines()
    assert misspelt.startswith("FileProblem Could not load AutoConfig from hub name")
    assert "gated" in gated and gated.startswith("FileProblem Could not load AutoConfig")


def test_a_gguf_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FileProblem, match="wants a GGUF file"):
        load_gguf(tmp_path / "model.gguf")


class Packed:
    """In place of transformers' loader: a tiny model as it comes from a GGUF file of some folder."""

    from_config = AutoModelForCausalLM.from_config

    @staticmethod
    def from_pretrained(folder, gguf_file, dtype):
        packed = copy.deepcopy(tiny_models().actor)
        packed.config._name_or_path = str(folder)
        packed.config.quantization_config = {"quant_method": "gguf"}
        return packed


def unpacked(folder, monkeypatch):
    """Actor and tokenizer of a GGUF file in this folder."""
    tokenizer = tiny_models().tokenizer
    loader = SimpleNamespace(from_pretrained=lambda folder, gguf_file: tokenizer)
    monkeypatch.setattr(pretrained, "AutoModelForCausalLM", Packed)
    monkeypatch.setattr(pretrained, "AutoTokenizer", loader)
    (folder / "model.gguf").write_bytes(b"GGUF")
    return load_gguf(folder / "model.gguf", "cpu")


def adapted(actor, tokenizer):
    """A LoRA run of one iteration."""
    models = lora_models(actor, tokenizer, length_reward, rank=2)
    state = start_run(replace(SMALL, learning_rate=0.1), models, prompts=["a b"])
    iterate(state)
    return state


def test_a_gguf_file_s_folder_is_no_base_that_an_adapter_could_name(tmp_path, monkeypatch):
    """The folder has no config.json: peft would fail there, so the policy is kept with LoRA merged."""
    actor, tokenizer = unpacked(tmp_path, monkeypatch)
    assert actor.name_or_path == "" and fingerprint(actor) == fingerprint(tiny_models().actor)
    pytest.importorskip("peft", reason="peft, an optional extra, is not installed")
    state = adapted(actor, tokenizer)
    with pytest.raises(ValueError, match="^adapter_only: got a base model without a name"):
        save_policy(state, tmp_path / "adapter", adapter_only=True)
    HeldOut(["a b"], tmp_path / "run", samples=4).measure(state)
    for folder in (save_policy(state, tmp_path / "policy"), tmp_path / "run" / BEST):
        loaded = AutoModelForCausalLM.from_pretrained(folder)
        assert fingerprint(loaded) == fingerprint(merge_adapter(state.models.actor))
        assert "base_model" not in (folder / "README.md").read_text()
    saved = save_checkpoint(state, tmp_path / "run") / "actor" / "adapter_config.json"
    assert not json.loads(saved.read_text())["base_model_name_or_path"]


# --- the four models ------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [torch.float32, torch.float16, torch.bfloat16])
def test_a_run_trains_in_float32_whatever_is_frozen(frozen):
    plain = tiny_models()
    models = make_models(plain.actor, plain.tokenizer, length_reward, frozen=frozen)
    assert {p.dtype for p in trainable(models.actor) + trainable(models.critic)} == {torch.float32}
    assert not trainable(models.reference) and models.reference.dtype == frozen
    state = start_run(SMALL, models)
    record = iterate(state)
    assert record["first_ratio_error"] <= 1e-4
    assert abs(record["kl"]) <= {torch.float32: 1e-4, torch.float16: 1e-2}.get(frozen, 0.1)


def test_names_are_loaded():
    models = make_models("data/sft", "data/sft", "data/reward", device="cpu")
    assert fingerprint(models.actor) == fingerprint(load_actor("data/sft", "cpu"))
    assert fingerprint(models.reference) == fingerprint(models.actor)
    texts = ["the soup was good.", "the soup was bad."]
    expected = load_reward_model("data/reward", "cpu").score_texts(texts)
    torch.testing.assert_close(models.reward.score_texts(texts), expected)
    assert not trainable(models.reward)


# --- pairs ----------------------------------------------------------------------------------------


def test_pairs_come_from_a_local_file(tmp_path):
    file = tmp_path / "pairs.jsonl"
    rows = [PAIR | {"prompt": f"number {i}", "judge": "me"} for i in range(3)]
    write_jsonl(file, rows)
    assert [row["prompt"] for row in load_pairs(str(file), 2)] == ["number 0", "number 1"]
    assert set(load_pairs(str(file))[0]) == {"prompt", "chosen", "rejected"}
    assert len(load_pairs("data/pairs_test.jsonl", 5)) == 5


def test_what_is_no_pair_is_named():
    for row in (
        {"prompt": "a", "chosen": "b"},
        PAIR | {"chosen": ["b"]},
        PAIR | {"rejected": None},
        PAIR | {"chosen": "", "rejected": " "},
    ):
        with pytest.raises(FileProblem, match="mine.jsonl, row 2"):
            check_pairs([PAIR, row], "mine.jsonl")
    with pytest.raises(FileProblem, match="has no pairs"):
        check_pairs([], "mine.jsonl")
    # the policy stopped at once: the shipped pairs have such a row
    assert check_pairs([PAIR | {"chosen": ""}], "mine.jsonl")[0]["chosen"] == ""
    for name in ("train", "test"):
        assert len(load_pairs(f"data/pairs_{name}.jsonl")) >= 2000


# --- reward models --------------------------------------------------------------------------------


def test_long_texts_are_cut_at_what_an_encoder_can_hold():
    tokenizer = make_tokenizer(reviews.VOCABULARY)
    config = make_encoder(tokenizer).config
    ids = encode_texts(tokenizer, ["the soup was good . " * 40, "the"], config)["input_ids"]
    assert ids.shape == (2, config.max_position_embeddings)
    config.max_position_embeddings = 66  # RoBERTa counts two positions that hold no token
    tokenizer.model_max_length = 64
    assert encode_texts(tokenizer, ["the " * 99], config)["input_ids"].shape == (1, 64)
