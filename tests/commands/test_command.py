"""The one command: its sub-commands, what it refuses, what a wrecked policy does to a run."""

import csv

import pytest
import torch
from conftest import tiny_models
from crash_harness import SMALL, loop_flags

from helpers import __main__ as command
from helpers import steps
from helpers.checkpoints import list_checkpoints, saved_config
from helpers.commands.results import print_comparison
from helpers.config import RLHFConfig
from helpers.models import load_tokenizer, make_critic, make_reference
from helpers.reward_model import RewardModel
from helpers.scale.guard import HIGHEST_KL
from helpers.state import Models, resolve_rates, start_run
from helpers.world import reviews
from helpers.world.small_models import make_encoder, make_policy, make_tokenizer


# ---- sub-commands ----
@pytest.mark.parametrize("flags", [[], ["--help"], ["-h"]])
def test_help_has_a_line_a_sub_command(capsys, flags):
    assert command.main(flags) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, (_, what) in command.COMMANDS.items():
        assert [line for line in lines if line.split()[:1] == [name] and what in line]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tarin"], "COMMAND: got 'tarin', wants one of train, trace"),
        (["study", "klinic"], "NAME: got 'klinic', wants one of"),
        (["train", "--beta=1", "--epochs=2"], "mean --kl-coef and --num-ppo-epochs?)"),
        (["direct", "--epoch", "2"], "(did you mean --epochs?)"),
        (["train", "--gamma", "2"], "gamma: got 2.0, wants"),
        (["train", "--response-length", "500"], "prompts: got"),
        (["train", "--actor", "data/nowhere"], "data/nowhere"),
        (["train", "--device", "abacus"], "device: got"),
        (["train", "--resume", "nowhere"], "No checkpoint"),
        (["train", "--normalizer-samples", "1"], "normalizer_samples: got 1"),
        (["train", "--evaluation-samples", "0"], "evaluation_samples: got 0"),
        (["distributed", "--processes", "1"], "processes: got 1"),
        (["data", "--seed", "-1"], "seed: got -1"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_status_2(capsys, arguments, says):
    assert command.main(arguments) == 2
    problem = capsys.readouterr().err.strip()
    assert problem.startswith("error: ") and says in problem and "\n" not in problem


# ---- learning rates ----
def test_rates_left_out_are_resolved_by_the_actor_and_given_ones_stay(prompts):
    course = start_run(RLHFConfig(), tiny_models(), prompts=prompts).config
    assert (course.learning_rate, course.critic_learning_rate) == (1e-3, 1e-3)
    tokenizer = make_tokenizer([*reviews.VOCABULARY, "perplexity"])  # the course's words, and one
    actor = make_policy(tokenizer, layers=1, width=32).eval()
    models = Models(actor, make_critic(actor), len, make_reference(actor), tokenizer)
    given = RLHFConfig(critic_learning_rate=3e-4, normalize_scores=False)
    state = start_run(given, models, prompts=prompts)
    assert (state.config.learning_rate, state.config.critic_learning_rate) == (1e-5, 3e-4)
    assert [group["lr"] for group in state.optimizer.param_groups] == [1e-5, 3e-4]
    assert resolve_rates(RLHFConfig()).learning_rate == 1e-3  # of data/sft, by its folder
    actor.add_module("lora_A", torch.nn.Linear(1, 1))  # as peft names its matrices
    assert resolve_rates(given, models).learning_rate == 3e-4
    assert resolve_rates(RLHFConfig(), tiny_models()).learning_rate == 1e-3


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Flags of a tiny model with a tokenizer of its own, and of a reward model not normalised."""
    folder = tmp_path_factory.mktemp("pretrained")
    torch.manual_seed(0)
    tokenizer = make_tokenizer(["the", "film", "soup", "hotel", "was", "and"])
    make_policy(tokenizer, layers=1, width=32).save_pretrained(folder / "actor")
    tokenizer.save_pretrained(folder / "actor")
    words = load_tokenizer("data/reward")
    RewardModel(make_encoder(words, 1, 32), words).save(folder / "reward")
    return ["--actor", str(folder / "actor"), "--reward-model", str(folder / "reward")]


def test_another_model_learns_gently_with_bars_and_no_gold_score(pretrained, tmp_path, capsys):
    flags = [*pretrained, *SMALL, "--save", str(tmp_path)]
    assert command.main(["train", *flags]) == 0
    config = saved_config(tmp_path)
    assert (config.learning_rate, config.critic_learning_rate) == (1e-5, 1e-5)
    assert config.normalizer_samples == 8
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["learning_rate"]) == 1e-5 and "gold" not in rows[0]
    shown = capsys.readouterr()
    bars = ("normaliser: 100%", "before: 100%", "iterations: 100%", "after: 100%")
    places = [shown.err.index(bar) for bar in bars]
    assert places == sorted(places) and "2/2" in shown.err
    assert "of 8 fresh responses" in shown.out


# ---- a wrecked policy ----
@pytest.mark.parametrize("epochs", ["4", "1"])
def test_an_absurd_update_stops_the_command_and_is_not_saved(pretrained, tmp_path, capsys, epochs):
    """Of a single step too: what it logs was measured before that step, and nothing had moved by then."""
    flags = [*pretrained, *SMALL, "--learning-rate", "3", "--checkpoint-every", "1"]
    flags += ["--normalize-scores", "false", "--save", str(tmp_path), "--num-ppo-epochs", epochs]
    assert command.main(["train", *flags]) == 2
    problem = capsys.readouterr().err.strip().splitlines()[-1]
    assert problem.startswith("error: approx_kl: got ") and "--force" in problem
    assert "nats per token in update 1, wants at most 5" in problem
    assert "--learning-rate below 3" in problem
    assert not list_checkpoints(tmp_path) and not (tmp_path / "metrics.csv").exists()
    assert command.main(["train", *flags, "--force"]) == 0
    assert len(list_checkpoints(tmp_path)) == 2
    with (tmp_path / "metrics.csv").open() as file:
        assert (float(next(csv.DictReader(file))["approx_kl"]) > HIGHEST_KL) == (epochs == "4")


def test_what_was_saved_before_an_absurd_update_stays(pretrained, tmp_path, capsys, monkeypatch):
    update, updates = steps.ppo_update_step, []

    def wrecked_at_the_second(*arguments, **more):
        updates.append(1)
        return update(*arguments, **more) | ({"approx_kl": 5.1} if len(updates) == 2 else {})

    monkeypatch.setattr(steps, "ppo_update_step", wrecked_at_the_second)
    flags = [*pretrained, *SMALL, "--checkpoint-every", "1", "--normalize-scores", "false"]
    assert command.main(["train", *flags, "--save", str(tmp_path)]) == 2
    assert "5.1 nats per token in update 2, wants at most 5" in capsys.readouterr().err
    assert [path.name for path in list_checkpoints(tmp_path)] == ["iteration_00001"]
    with (tmp_path / "metrics.csv").open() as file:  # written along the run
        assert [row["iteration"] for row in csv.DictReader(file)] == ["1"]
    assert command.main(["train", "--resume", str(tmp_path), "--evaluation-samples", "8"]) == 0
    assert list_checkpoints(tmp_path)[-1].name == "iteration_00002"


# ---- trace ----
def test_trace_shows_the_seven_steps_and_saves_nothing(world, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RLHF_COURSE_WORK", str(tmp_path))
    assert command.main(["trace", *map(str, loop_flags(world, 2))]) == 0
    printed = capsys.readouterr().out
    places = [printed.index(f"({step})") for step in range(1, 8)]
    assert places == sorted(places) and "update complete" in printed
    assert not list(tmp_path.rglob("*"))


def compared(capsys, before, after) -> list[str]:
    print_comparison({"score": before}, {"score": after})
    return capsys.readouterr().out.splitlines()[-1].split()


def test_a_change_has_its_error_and_one_of_chance_is_called_so(capsys):
    torch.manual_seed(0)
    before = torch.randn(400)
    after = before + torch.randn(400)
    assert "noise" not in compared(capsys, before, after + 0.3)
    assert "noise" in compared(capsys, before[:8], after[:8] + 0.3)  # the same change, of eight
    words = compared(capsys, before, before + 0.25)  # pairs that all moved alike leave no doubt
    assert words[3:6] == ["+0.250", "±", "0.000"] and "noise" not in words
