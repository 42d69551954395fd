"""The clinic: each fault does what it says and nothing else; what is flagged; what was recorded."""

import pickle
import re
from statistics import fmean, stdev

import pytest
import torch
from conftest import SMALL, length_reward, tiny_models, watched
from strategies import close

from helpers import ppo, steps
from helpers.config import RLHFConfig
from helpers.gae import compute_gae
from helpers.kl import kl_estimate, shape_rewards
from helpers.lessons.debugging.cases import PAIRS, PLANTED, REPAIRED_IN_CODE, VARIANTS
from helpers.lessons.debugging.checks import MISSED, as_found, right, trainable
from helpers.lessons.debugging.diagnose import column, diagnose, late
from helpers.lessons.debugging.differences import tell_apart
from helpers.lessons.debugging.figures import verdict_figure
from helpers.lessons.debugging.measures import MEASURES
from helpers.lessons.debugging.study import (
    ClinicOptions,
    load_clinic,
    rerun,
    steps_from,
    train_repaired,
)
from helpers.state import load_models, start_run
from helpers.studies.faults import FAULTS, Fault


def watched_iterations(name, prompts, count=2, models=None, length=6):
    """The state after `count` iterations with a fault, by name or as it is, and what was observed in each."""
    config = RLHFConfig(**SMALL | {"iterations": 4, "response_length": length}, device="cpu")
    fault = name if isinstance(name, Fault) else PLANTED.get(name, Fault("healthy"))
    config = fault.config(config)
    state = start_run(config, models or tiny_models(), prompts=prompts)
    with fault.in_effect():
        return state, [watched(state)[1] for _ in range(count)]


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_fault_is_there_while_it_is_planted_and_gone_afterwards(name):
    fault = PLANTED[name]
    places = {name: ppo if name == "policy_loss" else steps for name in fault.wrong}
    before = {name: getattr(module, name) for name, module in places.items()}
    with pytest.raises(InterruptedError), fault.in_effect():
        assert all(getattr(places[name], name) is new for name, new in fault.wrong.items())
        raise InterruptedError
    assert all(getattr(places[name], name) is function for name, function in before.items())
    config = RLHFConfig()
    planted = bool(before), fault.config(config) != config  # a wrong step, or a wrong setting
    assert any(planted) and (not all(planted) or len(fault.name.split("_and_")) == 2)


def test_a_reference_that_moves_hides_the_sign_of_the_penalty(prompts):
    _, alone = watched_iterations("reference_moves", prompts, 3)
    _, both = watched_iterations("reference_moves_and_kl_sign", prompts, 3)
    for one, other in zip(alone, both, strict=True):
        close(one["rewards"], other["rewards"], atol=1e-5)


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_faulty_run_still_runs_and_a_wrong_sampler_breaks_the_first_ratio(name, prompts):
    state, seen = watched_iterations(name, prompts, 1)
    assert len(state.history) == 1 and torch.isfinite(seen[0]["rollout"].advantages).all()
    error, wrong = state.history[0]["first_ratio_error"], ("dropout_on", "temperature")
    assert error > 1e-3 if name == "top_k" or name.startswith(wrong) else error < 1e-4


def test_whitening_first_gives_returns_of_whitened_advantages(prompts):
    _, (seen, *_) = watched_iterations("whitening_first", prompts, 1)
    rollout = seen["rollout"]
    raw, _ = compute_gae(seen["rewards"], rollout.values, 1.0, 0.95, rollout.response_mask)
    counted = rollout.response_mask
    close(rollout.returns[counted], (rollout.advantages + rollout.values)[counted], atol=1e-5)
    # values start at 0
    assert float(rollout.returns[counted].std()) == pytest.approx(1.0, abs=1e-4)
    assert float(raw[counted].std()) != pytest.approx(1.0, abs=0.01)


def test_the_reversed_kl_pays_for_what_it_should_cost(prompts):
    state, seen = watched_iterations("kl_sign", prompts)
    rollout, mask = seen[1]["rollout"], seen[1]["rollout"].response_mask
    tensors = rollout.scores, rollout.logprobs, rollout.ref_logprobs, mask
    right = shape_rewards(*tensors, state.config.kl_coef)
    penalty = state.config.kl_coef * kl_estimate(rollout.logprobs, rollout.ref_logprobs)
    close(rollout.rewards, torch.where(mask, right + 2 * penalty, 0.0), atol=1e-5)


def test_a_score_on_a_pad_reaches_only_responses_that_never_stopped(prompts):
    models = load_models(RLHFConfig(device="cpu"), length_reward)  # one that knows how to stop
    _, (seen, *_) = watched_iterations("score_on_pad", prompts, 1, models, 14)
    rollout = seen["rollout"]
    full = rollout.response_mask.all(dim=1)
    paid = rollout.rewards.sum(dim=1)
    assert full.any() and not full.all()
    close(paid[full], rollout.scores[full], atol=1e-4)  # the reference's own samples: KL is 0
    close(paid[~full], torch.zeros_like(paid[~full]), atol=1e-4)


def test_a_moving_reference_and_a_wrong_ratio_both_measure_no_kl(prompts):
    healthy, _ = watched_iterations("healthy", prompts, 3)
    assert healthy.history[-1]["kl"] != pytest.approx(0.0, abs=1e-4)
    for name in ("reference_moves", "wrong_old_logprobs"):
        state, _ = watched_iterations(name, prompts, 3)
        assert state.history[-1]["kl"] == pytest.approx(0.0, abs=1e-4)
    assert state.history[0]["first_ratio_error"] < 1e-4 < state.history[-1]["first_ratio_error"]


def test_top_k_shows_in_the_ratio_unless_the_sampler_gives_log_probs_of_all_tokens(prompts):
    for name in ("top_k", "top_k_raw"):
        _, (seen, *_) = watched_iterations(name, prompts, 1)
        # probability of what is kept
        kept = (seen["ref_logprobs"] - seen["rollout"].logprobs).exp()
        assert float(kept.max()) < 1 + 1e-4 and (float(kept.min()) < 0.999) == (name == "top_k")


def test_counted_padding_makes_every_response_as_long_as_the_longest(prompts):
    state, (seen, *_) = watched_iterations("padding_counted", prompts, 1)
    assert seen["rollout"].response_mask.all()
    assert state.history[0]["response_length"] == SMALL["response_length"]


def test_a_masked_stop_token_takes_no_part_in_the_update(prompts):
    models = load_models(RLHFConfig(device="cpu"), length_reward)  # one that knows how to stop
    _, (seen, *_) = watched_iterations("stop_masked", prompts, 1, models, 14)
    mask, tokens = seen["rollout"].response_mask, seen["rollout"].response_tensors
    stop = models.tokenizer.eos_token_id
    assert (tokens == stop).any() and not (mask & (tokens == stop))[:, 1:].any()


def test_raw_scores_are_ten_times_the_others_and_twenty_more(prompts):
    kinds = "healthy", "raw_scores"
    healthy, raw = (watched_iterations(kind, prompts, 1)[1][0] for kind in kinds)
    close(raw["scores"], 10 * healthy["scores"] + 20, atol=1e-4)


def test_the_larger_of_two_gains_is_never_the_smaller():
    ratio = torch.tensor([[0.5, 1.0, 2.0]])
    mask = torch.ones_like(ratio, dtype=torch.bool)
    for sign in (1.0, -1.0):
        tensors = ratio.log(), torch.zeros_like(ratio), sign * torch.ones_like(ratio), mask
        wrong = FAULTS["clip_max"].wrong["policy_loss"](*tensors)[0]
        assert wrong < ppo.policy_loss(*tensors)[0]


def test_a_flag_is_raised_outside_the_range_and_for_nan():
    healthy = load_clinic().run("healthy").history
    assert diagnose(healthy) == []
    wrong = [record | {"first_ratio_error": 0.5} for record in healthy]
    assert [flag.name for flag in diagnose(wrong)] == ["ratio not 1 at the first step"]
    wrong = [record | {"value_loss": float("nan")} for record in healthy]
    assert [flag.name for flag in diagnose(wrong)] == ["value loss out of range"]


def test_the_study_plants_what_it_names():
    study = {job.name: job for job in ClinicOptions(seeds=[0, 3]).plan()}
    assert study["healthy_seed_3"].config.kl_coef == 0.1
    assert study["no_kl_seed_0"].config.kl_coef == 0.0
    planted = {name: job.train.keywords["within"].__self__ for name, job in study.items()}
    assert planted["kl_sign_seed_0"] == FAULTS["kl_sign"]
    assert planted["healthy_0.3_seed_0"].wrong == {}
    assert study["healthy_0.3_seed_0"].config.kl_coef == 0.3
    whole = {job.name for job in study.values() if job.whole and job.config.seed != 0}
    assert whole == {"healthy_seed_3"}
    assert planted["dropout_on_mild_seed_3"] == PLANTED["dropout_on_mild"]
    assert pickle.loads(pickle.dumps(study["raw_scores_and_beta_100x_seed_0"])).config.kl_coef == 10


def test_the_picture_of_a_repair_marks_the_metrics_with_a_flag():
    clinic = load_clinic()
    healthy = clinic.histories("healthy", range(6))
    for kind in ("healthy", *PAIRS[REPAIRED_IN_CODE].name.split("_and_")):
        (run,) = clinic.histories(kind, (0,))
        flags = diagnose(run)
        titles = [axes.get_title("left") for axes in verdict_figure(healthy, run, flags).axes]
        marked = {title.removeprefix("✗ ") for title in titles if title.startswith("✗ ")}
        assert marked == {flag.metric for flag in flags} and bool(marked) == (kind != "healthy")


READ = {"first_ratio_error": "largest", "approx_kl": "full run"}  # the others: last third
SHOWN_BY = {  # metric, fixed before any run
    "value_loss": ("whitening_first", "raw_scores"),
    "kl": ("kl_sign", "reference_moves", "no_kl", "padding_counted"),
    "ended": ("stop_masked",),
    "score": ("score_on_pad", "beta_100x"),
    "first_ratio_error": ("wrong_old_logprobs", "dropout_on", "temperature", "top_k"),
    "approx_kl": ("learning_rate", "clip_max"),
    "explained_variance": ("value_targets",),
}
STATISTICS = {fault: metric for metric, faults in SHOWN_BY.items() for fault in faults}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_shows_in_the_statistic_fixed_for_it(name):
    """The nearest faulty run is 3 standard deviations of the healthy runs from their mean."""
    clinic, metric = load_clinic(), STATISTICS[name]
    measure = MEASURES[READ.get(metric, "last third")].of
    statistic = lambda history: measure(column(history, metric))  # noqa: E731
    healthy, broken = (list(map(statistic, clinic.histories(kind))) for kind in ("healthy", name))
    apart = min(abs(value - fmean(healthy)) for value in broken)
    assert apart >= 3 * max(stdev(healthy), 1e-9)


@pytest.mark.parametrize("seeds", [(0, 1, 2), (3, 4, 5)])
def test_no_healthy_run_is_flagged_and_most_faults_are(seeds):
    clinic = load_clinic()
    healthy = clinic.healthy(seeds)
    assert len(healthy) >= 10 and not any(diagnose(history) for history in healthy.values())
    found = [n for n in FAULTS if all(diagnose(h) for h in clinic.histories(n, seeds))]
    assert len(found) == len(FAULTS) - 1
    kinds = [*FAULTS, *VARIANTS]
    missed = {n for n in kinds if not all(map(diagnose, clinic.histories(n, seeds)))}
    assert missed == set(MISSED)


def test_a_kl_that_is_not_0_at_the_start_is_dropout_temperature_or_top_k():
    """Lesson 09 says so of an assertion that `RULES` lacks."""
    clinic, seeds = load_clinic(), range(6)
    start = lambda history: abs(column(history, "kl")[0])  # noqa: E731
    assert max(map(start, clinic.healthy(seeds).values())) < 1e-6
    for name in (*FAULTS, *VARIANTS):
        shows = [start(history) > 1e-4 for history in clinic.histories(name, seeds)]
        said = name == "top_k" or name.startswith(("dropout_on", "temperature"))
        assert set(shows) == {said}, name


def test_lesson_09_says_how_far_the_kl_runs():
    clinic, seeds = load_clinic(), range(6)
    ends = lambda *which: [late(history, "kl") for history in clinic.histories(*which)]  # noqa: E731
    raw, healthy = ends("raw_scores"), ends("healthy")
    said = ends("no_kl", seeds), ends("kl_sign", seeds), raw
    assert [(round(min(kl)), round(max(kl))) for kl in said] == [(11, 27), (74, 172), (7, 9)]
    assert 1.5 < sum(raw) / sum(healthy) < 2.5  # "about twice"
    reached = [late(history, "kl") for history in clinic.healthy(seeds).values()]
    for mild in (ends("dropout_on_mild", seeds), ends("temperature_mild", seeds)):
        assert min(reached) < min(mild) and max(mild) < max(reached)


@pytest.mark.slow
def test_a_case_runs_again_from_its_name():
    followed = []
    follow = lambda records, total: (followed.append(total) or record for record in records)  # noqa: E731
    again = rerun("kl_sign", iterations=2, follow=follow)
    assert len(again.history) == 2 and again.label == "kl_sign" and followed == [2, 2]
    assert train_repaired(right, iterations=1).snapshots
    with pytest.raises(ValueError, match="case: got 'typo', wants one of"):
        rerun("typo")


def from_one(function) -> Fault:
    """Steps 5 and 6 from one function, as `train_repaired` plants it."""
    return Fault("repaired", wrong=steps_from(function))


@pytest.mark.parametrize(
    ("function", "kind"), [(right, "healthy"), (as_found, PAIRS[REPAIRED_IN_CODE].name)]
)
def test_a_function_for_steps_5_and_6_trains_as_the_planted_faults_do(function, kind, prompts):
    models = [load_models(RLHFConfig(device="cpu"), length_reward) for _ in range(2)]
    _, mine = watched_iterations(from_one(function), prompts, 2, models[0], 14)
    _, planted = watched_iterations(kind, prompts, 2, models[1], 14)
    for one, other in zip(mine, planted, strict=True):
        for name in ("rewards", "advantages", "returns"):
            close(one[name], other[name], atol=1e-4)


def test_what_is_as_it_was_found_is_not_trained():
    assert trainable(right) is right and trainable(as_found) is None is trainable(lambda *_: None)


def test_a_function_that_gives_something_else_is_refused(prompts):
    with pytest.raises(ValueError, match="function: got results None, wants rewards, advantages"):
        watched_iterations(from_one(lambda *given: None), prompts, 1)


def test_what_tells_two_cases_apart():
    clinic = load_clinic()
    runs = {name: clinic.histories(name) for name in ("healthy", *FAULTS)}
    assert tell_apart(runs["healthy"], runs["healthy"]) == ""
    pairs = [(one, other) for one in runs for other in runs if one < other]
    assert [tell_apart(runs[one], runs[other]) for one, other in pairs].count("") <= 3
    told = tell_apart(runs["stop_masked"], runs["healthy"])
    metric, here, low, high = re.fullmatch(
        r"(.+), last third: here \S+ to (\S+), there (\S+) to (\S+)", told
    ).groups()
    assert metric == "ended" and float(here) < 0.1 < 0.9 < float(low) <= float(high)
