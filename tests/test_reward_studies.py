"""The studies of lesson 07: what is trained on what, what a patch is, what was recorded."""

from statistics import fmean

import pytest
import torch
from conftest import tiny_models

from helpers import patching, reviews
from helpers.config import RLHFConfig
from helpers.histories import kind_of
from helpers.overoptimization import turning_point
from helpers.patching import Round, gather_pairs, hacked_pairs, load_patching
from helpers.reward_studies import (
    BASE,
    FACTORS,
    FOLDER,
    HELD,
    RECIPES,
    job_fields,
    load_reward_studies,
    recipe,
    require_same_price,
    reward_study,
)
from helpers.state import start_run
from helpers.storage import read_jsonl, write_jsonl
from helpers.sweep_results import load_sweep

ROWS = [{"prompt": "the soup", "chosen": "was warm.", "rejected": "was cold."}]


def test_every_kind_differs_from_the_base_in_one_thing_and_stands_in_one_factor():
    named = [kind for values in FACTORS.values() for kind in values]
    assert sorted(set(named)) == sorted(RECIPES) and RECIPES[BASE] == {}
    assert all(BASE in values for values in FACTORS.values())
    for kind, changes in RECIPES.items():
        assert kind == BASE or set(changes) in (
            {"pairs"},
            {"temperature"},
            {"layers", "width"},
            {"members", "combine"},
        )


def test_the_study_gives_each_run_its_own_reward_and_no_leash():
    study = reward_study([BASE, "noise_3"], [0, 2])
    assert list(study) == ["base_seed_0", "noise_3_seed_0", "base_seed_2", "noise_3_seed_2"]
    assert {config.kl_coef for config in study.values()} == {0.0}
    assert recipe("noise_3_seed_2").temperature == 3.0 and recipe("noise_3_seed_2").seed == 2
    assert job_fields("base_seed_0")["reward"] == recipe("base_seed_0")


def test_hacked_pairs_lay_the_policy_beside_the_reference(prompts):
    config = RLHFConfig(batch_size=4, response_length=6)
    models = tiny_models()
    with torch.no_grad():  # another policy than the reference
        models.actor.get_output_embeddings().weight.mul_(3.0)
    state = start_run(config, models, prompts=prompts)
    rows = hacked_pairs(state, 12, seed=1)
    assert rows == hacked_pairs(state, 12, seed=1) != hacked_pairs(state, 12, seed=2)
    assert len(rows) == 12 and {row["prompt"] for row in rows} == set(prompts)
    assert all(row["chosen"] != row["rejected"] for row in rows)


def test_a_round_learns_from_the_rounds_before_it_and_not_from_later_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(
        patching, "labelled_pairs", lambda count, temperature, seed: [{"n": "base"}]
    )
    for number in (0, 1, 2):
        write_jsonl(tmp_path / f"round_{number}_seed_7.jsonl", [{"n": number}])
    found = gather_pairs(Round(2, 7, 40, tmp_path))
    assert [row["n"] for row in found] == ["base", 0, 1]


def test_the_shipped_studies_are_whole():
    study = load_reward_studies()
    assert set(study.histories) == set(reward_study(list(RECIPES), [0, 1, 2]))
    assert study.facts["command"].startswith("python -m helpers.reward_studies")
    patches = load_patching()
    names = {f"round_{number}_seed_{seed}" for number in (0, 1, 2) for seed in (0, 1, 2)}
    assert set(patches.histories) == names
    rows = read_jsonl(patching.FOLDER / "round_0_seed_0.jsonl", ("prompt", "chosen", "rejected"))
    assert len(rows) > 400


def test_runs_at_another_beta_do_not_join_a_study(tmp_path):
    require_same_price(tmp_path, 0.5)  # an empty folder takes any
    require_same_price(FOLDER, 0.0)
    require_same_price(HELD, 0.03)
    with pytest.raises(
        ValueError, match="--kl-coef: got 0.1 for reward_studies, whose runs have 0"
    ):
        require_same_price(FOLDER, 0.1)


def turns(kind):
    histories = load_reward_studies().histories
    return [turning_point(h) for name, h in histories.items() if kind_of(name) == kind]


def test_without_a_leash_gold_falls_from_its_peak_while_the_proxy_is_highest():
    spread = float(load_sweep().reference["gold"].std())
    for turn in turns(BASE):
        assert turn.lost > spread and turn.last_proxy > turn.proxy


def test_more_pairs_soften_the_fall_and_leave_the_peak_where_it_was():
    few, many = turns(BASE), turns("pairs_12000")
    assert min(turn.last_gold for turn in many) > max(turn.last_gold for turn in few)
    assert abs(fmean(t.gold for t in many) - fmean(t.gold for t in few)) < 0.2


def test_the_labeller_prefers_the_better_of_two_far_apart():
    rows = [{"prompt": "the soup", "chosen": "was was was was", "rejected": "was warm and lovely."}]
    gaps = [reviews.gold_score(f"the soup {rows[0][side]}") for side in ("chosen", "rejected")]
    assert gaps[0] < gaps[1] - 2
    with pytest.raises(ValueError):
        hacked_pairs(None, 0, 0)
