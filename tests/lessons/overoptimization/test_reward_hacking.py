"""The studies of lesson 08: what is trained on what, what was recorded."""

from statistics import fmean

import torch
from conftest import tiny_models

from helpers.config import RLHFConfig
from helpers.lessons.overoptimization import distilling
from helpers.lessons.overoptimization.study import (
    BASE,
    FACTORS,
    RECIPES,
    RewardHackingOptions,
    load_reward_studies,
    name_of,
    recipe,
)
from helpers.lessons.overoptimization.turning import turning_point
from helpers.sampling import sample_batches
from helpers.state import start_run
from helpers.studies.beta_sweep import load_sweep


def test_every_kind_differs_from_the_base_in_one_thing_and_stands_in_one_factor():
    named = [kind for values in FACTORS.values() for kind in values]
    assert sorted(set(named)) == sorted(RECIPES) and RECIPES[BASE] == {}
    assert [name for name, kinds in FACTORS.items() if BASE not in kinds] == ["labeller"]
    assert len({name_of(kind) for kind in RECIPES}) == len(RECIPES)
    assert name_of("pairs_300") == "pairs: 300" and name_of(BASE) == "base: 1,000 pairs"
    one_thing = [{"pairs"}, {"temperature"}, {"layers", "width"}, {"members", "combine"}]
    one_thing += [{"pairs", "flattery"}]  # beside the honest labels of as many pairs
    for kind, changes in RECIPES.items():
        assert kind == BASE or set(changes) in one_thing, kind


def test_the_study_gives_each_run_its_own_reward_and_no_leash():
    study = RewardHackingOptions(only=[BASE, "noise_3"], seeds=[0, 2]).plan()
    names = ["base_seed_0", "noise_3_seed_0", "base_seed_2", "noise_3_seed_2"]
    assert [job.name for job in study] == names
    assert {job.config.kl_coef for job in study} == {0.0}
    assert recipe("noise_3", 2).temperature == 3.0 and recipe("noise_3", 2).seed == 2
    rewards = [job.train.keywords["reward"] for job in study]
    assert rewards == [recipe(job.kind, job.config.seed) for job in study]


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
