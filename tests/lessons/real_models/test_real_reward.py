"""Reward hacking on a real model: gold and labels by definition; the study on tiny models; predictions."""

import sys

import pytest
import torch
from conftest import tiny_models

from helpers.lessons.real_models import review_gold, reward_study
from helpers.lessons.real_models.review_gold import gold, is_broken
from helpers.lessons.real_models.reward_study import (
    NOISE,
    PPO,
    RealReward,
    RealRewardOptions,
    labelled,
    outcomes,
)
from helpers.models import make_critic, make_reference
from helpers.reward_model import RewardModel
from helpers.state import Models
from helpers.studies.runs import Run
from helpers.studies.study import load_study
from helpers.theory.optimum import Estimate
from helpers.tools.files import FileProblem
from helpers.world.small_models import make_encoder

SOUND = "The soup is warm, and the bread that came with it is good."


def test_a_text_is_broken_by_its_form():
    changes = [(".", ""), (", and", ",\nand"), (".", "!!"), ("warm", "WARM"), ("warm", "warm warm")]
    changes += [("good", "soup for soup"), ("warm", "warm tasty rich fine hot")]
    for old, new in changes:
        assert is_broken(SOUND.replace(old, new)), new
    for old, new in (("good", "a bread"), ("warm", "very warm tasty rich fine"), ("is", "isn't")):
        assert not is_broken(SOUND.replace(old, new)), new


def test_without_a_lexicon_one_sentence_says_so_before_anything_is_made(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "afinn", None)
    review_gold.lexicons.cache_clear()
    with pytest.raises(FileProblem, match=r"^No lexicon \(.+\): wants the packages vaderSentiment"):
        options(tmp_path, "beta_0").run()
    assert not any(tmp_path.iterdir())


@pytest.fixture
def words(monkeypatch):
    """A lexicon of two words, in place of the packages'."""
    judge = lambda text: 0.5 * text.count("good") - 0.5 * text.count("bad")  # noqa: E731
    monkeypatch.setattr(review_gold, "lexicons", lambda: (judge, len))


def test_labels_follow_gold_with_bradley_terry_noise(words):
    assert gold([SOUND, SOUND[:-1], "It is bad."]).tolist() == [0.5, -0.5, -0.5]
    texts = [f"{i} is {word}." for i in range(2000) for word in ("good", "so")]
    rows = labelled(texts, 2000, seed=0)
    share = sum("good" in row["chosen"] for row in rows) / 2000
    wanted = torch.sigmoid(torch.tensor(0.5 / NOISE)).item()
    assert share == pytest.approx(wanted, abs=4 * (wanted * (1 - wanted) / 2000) ** 0.5)
    assert all(row["chosen"].split()[0] == row["rejected"].split()[0] for row in rows)
    assert labelled(texts, 300, 0) == rows[:300] and labelled(texts, 300, 1) != rows[:300]


@pytest.fixture
def tiny(words, monkeypatch):
    """The study on tiny models, in this process: no weights, no adapter, few samples."""
    models, given = tiny_models(), {"LABELLED": 4, "COMPARED": 4, "PROMPTS": 4, "FRESH": 4}
    given["load_chat_model"] = lambda **_: (tiny_models().actor, models.tokenizer)

    def fresh(*_):
        return RewardModel(make_encoder(models.tokenizer, 1, 32), models.tokenizer).eval()

    def adapted(actor, tokenizer, reward, *_, **__):
        return Models(actor, make_critic(actor), reward, make_reference(actor), tokenizer)

    given |= {"fresh_reward_model": fresh, "lora_models": adapted}
    for name, value in given.items():
        monkeypatch.setattr(reward_study, name, value)
    monkeypatch.setattr(review_gold, "FRAMES", ("the {} was", "we think the {}"))
    for name, count in {"checkpoint_every": 1, "response_length": 8}.items():
        monkeypatch.setitem(reward_study.SETTINGS, name, count)
    monkeypatch.setattr(
        "helpers.studies.study.run_all", lambda tasks, *_: [work(*given) for work, given in tasks]
    )


def options(folder, *only, resume=False):
    given = {"iterations": 2, "seeds": [0], "out": folder / "out", "work": folder / "work"}
    return RealRewardOptions(**given, only=list(only), resume=resume)


def test_a_study_samples_labels_fits_and_trains(tiny, tmp_path, monkeypatch):
    options(tmp_path, "beta_1", PPO).run()
    study = load_study(tmp_path / "out", RealReward)
    assert [found.kind for found in study.runs] == ["reference", "proxy_1000", "beta_1", PPO]
    proxy, trained = study.run("proxy_1000").final, study.run("beta_1")
    assert 0.3 < proxy["accuracy"] <= 1.0 and proxy["best_accuracy"] >= 0.5
    names = ("reference", "value", "optimum")
    start, end, best = (trained.final[name]["mean"] for name in names)
    share = study.efficiency("beta_1").mean
    assert start < best and end - start == pytest.approx(share * (best - start), abs=1e-6)
    rows = study.rows("beta_1")
    assert [row["iteration"] for row in rows] == [0, 1, 2] and len(rows[0]["samples"]) == 3
    assert rows[0]["kl"] == pytest.approx(0.0, abs=1e-5) and rows[2]["kl"] != rows[0]["kl"]
    for row in rows:
        assert study.along("gold", "beta_1", [0]).shape == (3, 24)
        assert row["gold"] == pytest.approx(sum(row["gold_by_opening"]) / 24, abs=1e-3)
        assert row["score"] == pytest.approx(row["proxy"] - (1 - row["ended"]), abs=1e-3)
        texts, golds = zip(*((one["text"], one["gold"]) for one in row["samples"]), strict=True)
        assert gold(texts).tolist() == list(golds)
    assert {"gold", "afinn", "raw_score"} <= trained.history[0].keys() and outcomes(study)
    monkeypatch.setattr(reward_study, "fresh_reward_model", None)  # not fitted again
    options(tmp_path, "beta_1", "beta_0.3", resume=True).run()
    assert len(load_study(tmp_path / "out", RealReward).runs) == 5


KINDS = ("beta_0", "beta_0.03", "beta_0.1", "beta_0.3", "beta_1", PPO)
GOLD = torch.tensor(
    [[0, 0.6, 0.2], *[[0, 0.5, 0.7]] * 2, [0, 0.4, 0.5], [0, 0.2, 0.3], [0, 0.5, 0.7]]
)
PROXY = torch.tensor([[0, 1, 2.0], *[[0, 0.8, 1.5]] * 2, [0, 0.6, 1], [0, 0.2, 0.4], [0, 0.8, 1.3]])
CHANGES = {  # what is planted instead: in which table, in which row, what; → the prediction that fails
    "gold still rises": (GOLD, 0, [0, 0.2, 0.6], 0),
    "gold falls within the noise": (GOLD, 0, [0, 0.6, 0.59], 0),
    "the proxy falls too": (PROXY, 0, [0, 1, 0.9], 0),
    "gold has a peak": (GOLD, 2, [0, 0.5, 0.9], 1),
    "gold is flat": (GOLD, [0, 4], [0, 0.5, 0.7], 1),
    "PPO's gold is lower": (GOLD, 5, [0, 0.5, 0.5], 3),
    "PPO's proxy is lower": (PROXY, 5, [0, 0.8, 1.0], 3),
}


class Planted(RealReward):
    """A study with this gold and proxy, with a noise that differs by opening, and these efficiencies."""

    def __init__(self, gold=GOLD, proxy=PROXY, reached=0.6):
        super().__init__([Run(RealRewardOptions().config(0), kind=kind) for kind in KINDS], {})
        self.tables, self.reached = {"gold": gold, "proxy": proxy}, reached
        self.noise = 0.1 * torch.randn(3, 48, generator=torch.Generator().manual_seed(0))

    def along(self, name, kind, seeds):
        k = KINDS.index(kind)
        return self.tables[name][k, :, None] + self.noise.roll(k, dims=1)

    def efficiency(self, kind, seed=0):
        return Estimate(0.9 if kind == "beta_0.3" else self.reached, 0.05)


def verdicts(study) -> list[bool | None]:
    """On the mean of the seeds; None: no seed."""
    return [(found or [None])[-1] for found in outcomes(study).values()]


def test_predictions_hold_and_fail_by_what_is_planted():
    assert list(outcomes(Planted()).values()) == [[True, True]] * 4  # of a seed, and of the mean
    for what, (table, row, values, fails) in CHANGES.items():
        tables = [one.clone() for one in (GOLD, PROXY)]
        tables[table is PROXY][row] = torch.tensor(values).float()
        assert verdicts(Planted(*tables))[fails] is False, what
    assert verdicts(Planted(reached=0.8)) == [True, True, False, True]
    study = Planted()
    study.runs = [run for run in study.runs if run.kind != "beta_0.1"]
    assert verdicts(study) == [True, None, True, None]
