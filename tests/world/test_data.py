"""The shipped world holds what the data card says: files, models, and how good they are."""

import json
import shutil

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from helpers.config import RLHFConfig
from helpers.data import DATA, load_rows, verify
from helpers.models import count_parameters, load_actor, load_tokenizer
from helpers.reward_model import load_reward_model, pair_accuracy
from helpers.sampling import sample_texts
from helpers.studies.study import STUDY
from helpers.tools.files import FileProblem
from helpers.world import reviews
from helpers.world.labelling import best_accuracy
from helpers.world.small_models import perplexity

RECORDED = {path.parent.name for path in DATA.glob(f"*/{STUDY}")}  # folders of studies


@pytest.fixture(scope="module")
def samples() -> list[str]:
    """1,000 reviews of the SFT model at temperature 1, long enough to end by themselves."""
    actor, tokenizer = load_actor("data/sft", "cpu"), load_tokenizer("data/sft")
    prompts = [row["prompt"] for row in load_rows("prompts.jsonl")]
    config, generator = RLHFConfig(response_length=48), torch.Generator().manual_seed(11)
    return sample_texts(actor, tokenizer, prompts, 1000, config, generator, batch_size=250)


def test_manifest_holds_every_file_and_nothing_is_altered():
    verify(DATA)
    manifest = json.loads((DATA / "manifest.json").read_text())
    assert {"seed", "command", "versions", "figures"} <= set(manifest)
    sizes = {name: entry["bytes"] for name, entry in manifest["files"].items()}
    assert sum(sizes.values()) < 60e6
    made = sum(size for name, size in sizes.items() if name.split("/")[0] not in RECORDED)
    assert made < 15e6  # what `make data` makes; recorded runs come on top


def test_corpus_is_large_and_grammatical():
    lines = (DATA / "corpus.txt").read_text().splitlines()
    assert len(lines) >= 20_000
    assert all(reviews.is_sentence(line) for line in lines[:2000])


@pytest.mark.slow
def test_sft_samples_are_sentences_and_mostly_new(samples):
    grammatical = sum(map(reviews.is_sentence, samples)) / len(samples)
    corpus = set((DATA / "corpus.txt").read_text().splitlines())
    new = sum(text not in corpus for text in samples) / len(samples)
    assert grammatical >= 0.95 and new >= 0.5


@pytest.mark.slow
def test_sft_perplexity_is_close_to_the_grammar_s_own():
    held_out = (DATA / "held_out.txt").read_text().splitlines()[:400]
    actor, tokenizer = load_actor("data/sft", "cpu"), load_tokenizer("data/sft")
    assert perplexity(actor, tokenizer, held_out) <= 1.10 * reviews.perplexity(held_out)


@pytest.mark.slow
def test_reward_model_closes_most_of_the_gap_to_the_best_possible():
    pairs = load_rows("pairs_test.jsonl", ("prompt", "chosen", "rejected"))
    best = best_accuracy(pairs)
    assert best == pytest.approx(0.837, abs=0.005)  # a perfect judge is right five times in six
    found = pair_accuracy(load_reward_model("data/reward", "cpu").score_texts, pairs)
    assert (found - 0.5) / (best - 0.5) >= 0.8


@pytest.mark.slow
def test_reward_model_is_normalised_on_reference_samples(samples):
    scores = load_reward_model("data/reward", "cpu").score_texts(samples)
    assert abs(float(scores.mean())) < 0.15 and 0.8 < float(scores.std()) < 1.2


def test_folders_load_in_the_ecosystem_s_own_way():
    actor = AutoModelForCausalLM.from_pretrained(DATA / "sft")
    encoder = AutoModel.from_pretrained(DATA / "reward")
    tokenizer = AutoTokenizer.from_pretrained(DATA / "sft")
    assert 5e5 <= count_parameters(actor) <= 2e6
    assert encoder.config.vocab_size == len(tokenizer)
    ids = tokenizer("The soup was great.")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the soup was great."
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_no_pickle_is_shipped():
    endings = {path.suffix for path in DATA.rglob("*") if path.is_file()}
    assert endings <= {".txt", ".jsonl", ".json", ".safetensors", ".md"}


@pytest.mark.parametrize("damage", ["gone", "cut", "altered"])
def test_a_damaged_file_is_named_in_one_sentence(tmp_path, monkeypatch, damage):
    shutil.copytree(DATA / "sft", tmp_path / "sft")
    manifest = json.loads((DATA / "manifest.json").read_text())
    kept = {name: e for name, e in manifest["files"].items() if name.startswith("sft/")}
    (tmp_path / "manifest.json").write_text(json.dumps({"files": kept}))
    file = tmp_path / "sft" / "model.safetensors"
    contents = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(contents[:100] if damage == "cut" else contents[:-1] + b"!")
    monkeypatch.setattr("helpers.data.DATA", tmp_path)
    with pytest.raises(FileProblem, match="sft/model.safetensors"):
        load_actor(str(tmp_path / "sft"), "cpu")
