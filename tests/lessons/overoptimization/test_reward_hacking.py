"""The studies of lesson 08: what is trained on what, what a patch is, what was recorded."""

from statistics import fmean

import pytest
import torch
from conftest import tiny_models

from helpers.config import RLHFConfig
from helpers.data import DATA
from helpers.lessons.overoptimization import distilling, patching
from helpers.lessons.overoptimization.patching import (
    PAIRS_FILE,
    gather_pairs,
    hacked_pairs,
    round_job,
)
from helpers.lessons.overoptimization.study import (
    BASE,
    FACTORS,
    FOLDER,
    RECIPES,
    load_reward_studies,
    name_of,
    recipe,
    require_same_price,
    reward_study,
)
from helpers.lessons.overoptimization.turning import turning_point
from helpers.sampling import sample_batches
from helpers.state import start_run
from helpers.studies.beta_sweep import load_sweep
from helpers.studies.study import load_study
from helpers.tools.files import read_jsonl, write_jsonl

ROWS = [{"prompt": "the soup", "chosen": "was warm.", "rejected": "was cold."}]


def test_every_kind_differs_from_the_base_in_one_thing_and_stands_in_one_factor():
    named = [kind for values in FACTORS.values() for kind in values]
    assert sorted(set(named)) == sorted(RECIPES) and RECIPES[BASE] == {}
    assert [factor for factor, values in FACTORS.items() if BASE not in values] == ["labeller"]
    assert len({name_of(kind) for kind in RECIPES}) == len(RECIPES)
    assert name_of("pairs_300") == "pairs: 300" and name_of(BASE) == "base: 1,000 pairs"
    for kind, changes in RECIPES.items():
        assert kind == BASE or set(changes) in (
            {"pairs"},
            {"temperature"},
            {"layers", "width"},
            {"members", "combine"},
            {"pairs", "flattery"},  # beside the honest labels of as many pairs
        )


def test_the_study_gives_each_run_its_own_reward_and_no_leash():
    study = reward_study([BASE, "noise_3"], [0, 2])
    names = ["base_seed_0", "noise_3_seed_0", "base_seed_2", "noise_3_seed_2"]
    assert [job.name for job in study] == names
    assert {job.config.kl_coef for job in study} == {0.0}
    assert recipe("noise_3", 2).temperature == 3.0 and recipe("noise_3", 2).seed == 2
    assert [job.reward for job in study] == [recipe(j.kind, j.config.seed) for j in study]


def test_hacked_pairs_lay_the_policy_beside_the_reference(prompts):
    config = RLHFConfig(batch_size=4, response_length=6, normalize_scores=False)
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
    for seed, place in ((0, tmp_path / "out"), (7, tmp_path)):  # a full run, and another
        jobs = [round_job(seed, 40, number) for number in (0, 1, 2)]
        for number, job in enumerate(jobs):
            write_jsonl(place / job.name / PAIRS_FILE, [{"n": number}])
        found = gather_pairs(2, jobs[2], tmp_path, tmp_path / "out")
        assert [row["n"] for row in found] == ["base", 0, 1]


def test_the_shipped_studies_are_whole():
    study, jobs = load_reward_studies(), reward_study(list(RECIPES), [0, 1, 2])
    assert [(run.kind, run.config) for run in study.runs] == [(j.kind, j.config) for j in jobs]
    assert [bool(run.snapshots) for run in study.runs] == [job.whole for job in jobs]
    patches = load_study(DATA / "patching")
    names = {(f"round_{number}", seed) for number in (0, 1, 2) for seed in (0, 1, 2)}
    assert {(run.kind, run.config.seed) for run in patches.runs} == names
    pairs = DATA / "patching" / patches.run("round_0").label / PAIRS_FILE
    rows = read_jsonl(pairs, ("prompt", "chosen", "rejected"))
    assert len(rows) > 400


def test_runs_at_another_beta_do_not_join_a_study(tmp_path):
    require_same_price(tmp_path, 0.5)  # an empty folder takes any
    require_same_price(FOLDER, 0.0)
    require_same_price(FOLDER.with_name("reward_hacking_beta_0.03"), 0.03)
    with pytest.raises(
        ValueError, match="--kl-coef: got 0.1 for reward_hacking, whose runs have 0"
    ):
        require_same_price(FOLDER, 0.1)


def turns(kind):
    return [turning_point(run.history) for run in load_reward_studies().of_kind(kind)]


def test_without_a_leash_gold_falls_from_its_peak_while_the_proxy_is_highest():
    spread = float(load_sweep().reference["gold"].std())
    for turn in turns("pairs_12000"):
        assert turn.lost > spread and turn.last_proxy > turn.proxy
    assert all(turn.lost > 0.5 and turn.last_proxy > turn.proxy for turn in turns(BASE))


def test_more_pairs_carry_a_run_further_and_leave_the_peak_where_it_was():
    """As many iterations at β = 0: the better reward model lures the policy further, and it ends lower."""
    few, many = (load_reward_studies().of_kind(kind) for kind in (BASE, "pairs_12000"))
    ends = [[run.history[-1] for run in runs] for runs in (few, many)]
    assert min(r["kl"] for r in ends[1]) > max(r["kl"] for r in ends[0])
    assert max(r["gold"] for r in ends[1]) < min(r["gold"] for r in ends[0])
    peaks = [fmean(turning_point(run.history).gold for run in runs) for runs in (few, many)]
    assert abs(peaks[1] - peaks[0]) < 0.2


def test_what_is_kept_is_the_best_of_each_prompts_samples(prompts):
    config = RLHFConfig(batch_size=4, response_length=6, normalize_scores=False, device="cpu")
    one, other = (start_run(config, tiny_models(), prompts=prompts) for _ in range(2))
    kept = distilling.keep_best_texts(one, n=3, count=6 * len(prompts))
    what = other.models.actor, other.models.tokenizer, prompts, 6 * len(prompts), config
    drawn = sample_batches(*what, other.generators["samples"], batch_size=3 * len(prompts))
    best = [other.score(some.texts).view(3, -1).amax(dim=0) for some in drawn]
    decode = one.models.tokenizer.decode
    texts = [decode(torch.cat(pair), skip_special_tokens=True) for pair in kept]
    assert torch.allclose(one.score(texts), torch.cat(best), atol=1e-5)


def test_the_recorded_distillations_stand_in_the_order_that_the_lesson_says():
    study, sweep = distilling.load_distilling(), load_sweep()
    value = {k: [run.final["value"] for run in study.of_kind(k)] for k in distilling.KINDS}
    assert {len(values) for values in value.values()} == {3}
    ppo = [sweep.run(distilling.KL_COEF, seed).final["value"] for seed in (0, 1, 2)]
    assert max(value["best_of_10"]) < min(value["optimal"]) and max(value["optimal"]) < min(ppo)
