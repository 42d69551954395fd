"""Arguments that cannot be, all over the course: one sentence names each, what it got and what it wants."""

import math
from pathlib import Path

import pytest
import torch
from conftest import length_reward, tiny_models

from helpers.config import DirectConfig, config_from_dict
from helpers.data import as_pairs
from helpers.direct import train_direct
from helpers.groups import pass_at_k
from helpers.kit.predict import predict_choice, predict_value
from helpers.kl import kl_estimate
from helpers.lessons.debugging.cases import together
from helpers.lessons.debugging.diagnose import diagnose
from helpers.lessons.debugging.study import ClinicOptions
from helpers.lessons.kl_beta.gaussian import train_gaussian
from helpers.lessons.ppo_update.surrogate import moved, random_world
from helpers.lessons.without_a_critic.two_rewards import tilted
from helpers.lessons.your_trainer.band import make_band
from helpers.models import gradient_checkpointing
from helpers.reward_model import pair_texts
from helpers.rewards import RewardSum, score_texts
from helpers.scale.held_out import HeldOut, split_prompts
from helpers.scale.lora import add_lora
from helpers.scale.pretrained import half_precision, make_models
from helpers.studies.beta_sweep import BetaSweepOptions
from helpers.theory.optimum import Estimate, efficiency, gibbs_value, kl_divergence, optimal_value
from helpers.world.labelling import labelled_pairs
from helpers.world.private_rules import labeller_with

ONE, HALF, RIGHT = torch.ones(1), torch.full((2,), 0.5), torch.ones(2, 5).bool()
WORLD, HERE = random_world(0), Path(".")
CHAT, LINEAR = [{"role": "user", "content": "x"}], torch.nn.Linear(1, 1)
MODELS, ONLINE = tiny_models(), DirectConfig(online=True, iterations=1)


@pytest.mark.parametrize(
    "name, call",
    [
        ("kl_coef", lambda: DirectConfig(kl_coef=0.0)),
        ("loss", lambda: DirectConfig(loss="kto")),
        ("iterations", lambda: DirectConfig(online=True)),
        ("epochs", lambda: DirectConfig(epochs=0)),
        ("config", lambda: config_from_dict({"pairs": "", "gamma": 1.0})),
        ("estimator", lambda: kl_estimate(ONE, ONE, "k4")),
        ("k", lambda: pass_at_k(RIGHT, 0)),
        ("k", lambda: pass_at_k(RIGHT, 6)),
        ("gradient_checkpointing", lambda: gradient_checkpointing(LINEAR).__enter__()),
        ("rewards", lambda: RewardSum([])),
        ("weights", lambda: RewardSum([len], [1.0, 2.0])),
        ("weights", lambda: RewardSum([len], [math.nan])),
        ("weights", lambda: RewardSum([len], ["much"])),
        ("texts", lambda: score_texts(lambda completions: [0.0], ["the soup was good."])),
        ("pairs", lambda: pair_texts([{"prompt": CHAT, "chosen": "a", "rejected": "b"}])),
        ("pairs", lambda: as_pairs([{"chosen": "a b", "rejected": "c d"}])),
        ("chosen, rejected", lambda: as_pairs([{"prompt": "x", "chosen": CHAT, "rejected": CHAT}])),
        ("pairs", lambda: as_pairs([{"prompt": CHAT, "chosen": "y", "rejected": "z"}])),
        ("distance", lambda: moved(WORLD.reference, -1.0)),
        ("distance", lambda: moved(WORLD.reference, 1e9)),
        ("rule", lambda: labeller_with("none")),
        ("count", lambda: labelled_pairs(0, 0.5, seed=0)),
        ("count", lambda: labelled_pairs(2.5, 0.5, seed=0)),
        ("temperature", lambda: labelled_pairs(10, 0.0, seed=0)),
        ("flattery", lambda: labelled_pairs(10, 0.7, 0, math.nan)),
        ("kl", lambda: tilted(torch.randn(2, 40), torch.ones(2), 9.0)),
        ("scores", lambda: train_gaussian(0.0, lambda y: y / 0)),
        ("ref_probs", lambda: gibbs_value(torch.tensor([1.5, -0.5]), torch.zeros(2), 1.0)),
        ("rewards", lambda: gibbs_value(HALF, torch.zeros(3), 1.0)),
        ("rewards", lambda: gibbs_value(HALF, torch.tensor([0.0, math.inf]), 1.0)),
        ("other", lambda: kl_divergence(HALF, torch.full((4,), 0.25))),
        ("probs", lambda: kl_divergence(torch.ones(2), HALF)),
        ("kl_coef", lambda: gibbs_value(HALF, torch.zeros(2), 0.0)),
        ("kl_coef", lambda: optimal_value(torch.zeros(2, 8), -1.0)),
        ("optimum", lambda: efficiency(*[Estimate(1.0, 0.1)] * 3)),
        ("runs", lambda: make_band([{"score": [0.0], "kl": [0.0]}] * 2)),
        ("history", lambda: diagnose([])),
        ("model", lambda: half_precision(MODELS.actor, torch.float16)),
        ("pairs", lambda: next(train_direct(ONLINE, MODELS, pairs=[]))),
        ("choices", lambda: predict_choice("?", {"a": "", "b": ""}, "")),
        ("truth", lambda: predict_value("?", 11.0, 0.0, 10.0, 0.5, 0.5, "")),
        ("--iterations", lambda: BetaSweepOptions(iterations=0)),
        ("--jobs", lambda: ClinicOptions(jobs=0)),
        ("faults", lambda: together("value_targets", "reference_moves", "")),
        ("rank", lambda: add_lora(MODELS.actor, rank=0)),
        ("last", lambda: add_lora(MODELS.actor, last=0)),
        ("base", lambda: add_lora(MODELS.actor, base=torch.float16)),
        ("actor", lambda: add_lora("data/sft")),
        ("method", lambda: make_models(MODELS.actor, MODELS.tokenizer, length_reward, "qlora")),
        ("actor", lambda: make_models(3, MODELS.tokenizer, length_reward)),
        ("prompts", lambda: split_prompts(["a", "a"])),
        ("share", lambda: split_prompts(["a", "b"], 0.0)),
        ("share", lambda: split_prompts(["a", "b"], 1.0)),
        ("prompts", lambda: HeldOut([], HERE)),
        ("every", lambda: HeldOut(["a"], HERE, 0)),
        ("samples", lambda: HeldOut(["a"], HERE, 1, 1)),
    ],
)
def test_it_is_refused_by_name(name, call):
    with pytest.raises(ValueError, match=f"^{name}: got .*wants ") as said:
        call()
    assert "\n" not in str(said.value)
