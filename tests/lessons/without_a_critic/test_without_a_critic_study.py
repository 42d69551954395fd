"""Lesson 10's study: the sampler that lags behind, pass@k along a run, what is planned and what is kept."""

import json
from dataclasses import replace

import pytest
import torch
from conftest import SMALL, tiny_models, watched
from strategies import close

from helpers import steps
from helpers.config import RLHFConfig
from helpers.lessons.without_a_critic.study import (
    TASKS,
    StaleSampler,
    load_without_a_critic,
    pay_by_sentence,
    solved,
    train_on_task,
)
from helpers.models import fingerprint
from helpers.state import load_models, start_run
from helpers.steps import draw_prompts, generate_responses, iterate
from helpers.studies.study import Job, as_entry
from helpers.world.gold import gold_scores
from helpers.world.task import hasty_reward, task_reward, task_rows

SETTINGS = SMALL | {"iterations": 3, "method": "rloo", "responses_per_prompt": 4}


def started(prompts, **changes):
    models = replace(tiny_models(), critic=None)
    return start_run(RLHFConfig(**SETTINGS | changes), models, prompts=prompts)


def test_a_sampler_without_lag_is_the_loop_itself(prompts):
    plain, stale = started(prompts), started(prompts)
    sampler = StaleSampler(lag=0)
    for _ in range(plain.config.iterations):
        iterate(plain)
        with sampler.in_effect():
            iterate(stale)
    assert stale.history[-1]["score"] == pytest.approx(plain.history[-1]["score"], abs=1e-4)
    iterate(stale)  # the patches are gone
    assert len(sampler.actors) == 1


def test_an_older_actor_writes_and_the_present_one_learns(prompts):
    """The rollout's log-probs are the trainer's, so the first ratio is 1; the sampler's are another's."""
    state, sampler = started(prompts, learning_rate=3e-2), StaleSampler(lag=2, cap=None)
    first = fingerprint(state.models.actor)
    with sampler.in_effect():
        *_, rollout = (watched(state)[1]["rollout"] for _ in range(3))
    assert [fingerprint(actor) for actor in sampler.actors][0] == first
    assert all(record["first_ratio_error"] < 1e-4 for record in state.history)
    gap = (rollout.logprobs - sampler.sampler_logprobs)[rollout.response_mask]
    assert gap.abs().max() > 0.01


@pytest.mark.parametrize("cap", [None, 1.2])
def test_the_weights_multiply_the_advantages(prompts, cap):
    state, sampler = started(prompts), StaleSampler(lag=1, cap=cap)
    responses = generate_responses(state, draw_prompts(state))
    sampler.sampler_logprobs = responses.logprobs - 0.1
    sampler.estimate_advantages = lambda *_: (None, torch.ones_like(responses.logprobs), None)
    _, advantages, _ = sampler.estimate(state, responses, None)
    advantages, weight = advantages[responses.response_mask], 1.0 if cap is None else 1.10517
    close(advantages, torch.full_like(advantages, weight))


def test_a_sentence_is_paid_at_its_end_what_it_has_changed():
    config = RLHFConfig(device="cpu", batch_size=16, minibatch_size=16)
    state = start_run(config, reward=gold_scores)
    responses = steps.generate_responses(state, draw_prompts(state))
    given = steps.score_responses(state, responses), steps.reference_logprobs(state, responses)
    at_the_end, paid = (f(state, responses, *given) for f in (steps.total_rewards, pay_by_sentence))
    close(paid.sum(1), at_the_end.sum(1))
    sooner, ended = paid - at_the_end, steps.stopped(state, responses).tolist()
    for row, text in enumerate(responses.texts):
        ends = [k for k, sign in enumerate(text.completion) if sign in ".!"]
        if not ended[row]:  # cut off: the last token is paid as before
            ends = [k for k in ends if k < len(text.completion) - 1]
        begun = [f"{text.prompt} {text.completion[: k + 1]}" for k in ends]
        got = sooner[row][:-1].cumsum(0)
        for score in state.normalize(torch.tensor(gold_scores(begun))) if begun else []:
            assert (got - score).abs().min() < 1e-4


@pytest.mark.slow
def test_pass_at_k_is_measured_by_the_task_s_own_checker(tmp_path):
    """The hurried checker passes whatever the strict one passes; the curve has a point at each end."""
    rloo = {"method": "rloo", "responses_per_prompt": 2}
    config = RLHFConfig(device="cpu", iterations=1, normalize_scores=False, **rloo)
    models, rows = load_models(config), task_rows()
    hasty = start_run(config, replace(models, reward=hasty_reward), prompts=rows)
    strict = start_run(config, replace(models, reward=task_reward), prompts=rows)
    a, b = solved(hasty, 2), solved(strict, 2)
    assert a["pass@1"] == b["pass@1"] == pytest.approx(b["passed"]) and a["passed"] >= b["passed"]
    assert a["pass@1"] <= a["pass@2"] <= 1.0 and "pass@4" not in a
    job = Job("task", replace(hasty.config, responses_per_prompt=8, method="grpo"))
    run = train_on_task(job, tmp_path, answers=2)
    assert run.final["curve"]["iteration"] == [0, 1] and len(run.column("kl")) == 1
    json.dumps(as_entry(run))


def test_the_shipped_runs_of_the_task_have_a_curve():
    study = load_without_a_critic()
    assert all(("curve" in run.final) == (run.kind in TASKS) for run in study.runs)
    close(torch.tensor(study.run("task").final["curve"]["kl"][0]), torch.tensor(0.0), 1e-4)
