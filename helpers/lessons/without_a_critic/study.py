"""Runs without a critic: methods and group sizes, an answer that is checked, a sampler that lags behind.

Four parts. `methods`: PPO, REINFORCE, RLOO at several K, and GRPO on the course's reward model, each with
the same number of responses. `task`: GRPO on reviews that a program checks, with pass@k along training.
`stale`: RLOO whose responses were sampled by the actor of some iterations ago. `dense`: PPO, RLOO and
REINFORCE on gold itself, paid at the end of a response or sentence by sentence.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from helpers import steps
from helpers.groups import pass_at_k
from helpers.kl import last_counted
from helpers.loop import run_iterations
from helpers.off_policy import truncated_importance_weights
from helpers.rewards import score_texts
from helpers.sampling import Responses
from helpers.state import RLHFState, start_run
from helpers.steps import total_rewards
from helpers.studies.faults import Fault
from helpers.studies.measure import measure
from helpers.studies.runs import Run, train_measured
from helpers.studies.study import Job, StudyOptions, loader
from helpers.tools.flags import setting
from helpers.tools.pool import advance
from helpers.world.gold import gold_scores
from helpers.world.task import hasty_reward, task_reward, task_rows

EVALUATED = 20  # fresh responses to each prompt, for J(π)
ANSWERS = 8  # to each request of the task, for pass@k
KS = (1, 2, 4, 8)
TASK_EVERY = 5  # iterations between two measurements of pass@k
LAG, CAP = 8, 2.0  # iterations that the stale sampler is behind; of its weights

METHODS = {"ppo": {}, "reinforce": {"method": "reinforce"}}
METHODS |= {f"rloo_{k}": {"method": "rloo", "responses_per_prompt": k} for k in (2, 4, 8, 16)}
METHODS["grpo"] = {"method": "grpo", "responses_per_prompt": 4, "loss_aggregation": "response"}
TASK = {
    "method": "grpo",
    "responses_per_prompt": 8,
    "loss_aggregation": "response",
    "kl_coef": 0.03,
    "normalize_scores": False,
}
TASKS = {
    "task": {},
    "task_fixed": {"loss_aggregation": "fixed"},
    "task_skip": {"skip_equal_groups": True},
    "task_free": {"kl_coef": 0.0},
    "task_higher": {"kl_coef": 0.0, "cliprange_high": 0.28},
    "task_hasty": {"kl_coef": 0.0},  # by the hurried checker
}
STALE = {"stale_ignored": None, "stale_weighted": CAP}  # kind → cap of the weights
DENSE = {
    f"{when}_{name}": METHODS[name]
    for when, names in (("end", ("ppo", "rloo_4", "reinforce")), ("dense", ("ppo", "reinforce")))
    for name in names
}
PARTS = {
    "methods": METHODS,
    "task": {kind: TASK | changes for kind, changes in TASKS.items()},
    "stale": dict.fromkeys(STALE, METHODS["rloo_4"]),
    "dense": DENSE,
}


# --- a sampler that lags behind -------------------------------------------------------------------


class StaleSampler:
    """Stands in for steps 2 and 6: the actor of `lag` iterations ago samples, the present one learns.

    The log-probs of a rollout are the trainer's, recomputed; with a `cap` the advantages are multiplied
    by truncated importance weights. The first `lag` iterations sample from the first actor.
    """

    def __init__(self, lag: int = LAG, cap: float | None = CAP):
        self.actors, self.cap = deque(maxlen=lag + 1), cap
        self.generate_responses = steps.generate_responses
        self.estimate_advantages = steps.estimate_advantages

    @torch.no_grad()
    def sample(self, state: RLHFState, prompts: list[str]) -> Responses:
        """Step 2, by an older actor."""
        self.actors.append(deepcopy(state.models.actor))
        older = replace(state, models=replace(state.models, actor=self.actors[0]))
        responses = self.generate_responses(older, prompts)
        self.sampler_logprobs = responses.logprobs
        responses.logprobs = steps.full_logprobs(state.models.actor, state, responses)
        return responses

    def estimate(self, state: RLHFState, responses: Responses, *of_steps: Tensor) -> tuple:
        """Step 6, the advantages times the weights."""
        values, advantages, returns = self.estimate_advantages(state, responses, *of_steps)
        if self.cap is not None:
            logprobs = responses.logprobs, self.sampler_logprobs
            mask, cap = responses.response_mask, self.cap
            advantages = advantages * truncated_importance_weights(*logprobs, mask, cap)
        return values, advantages, returns

    def in_effect(self) -> AbstractContextManager:
        """A context in which `iterate` uses this sampler."""
        planted = {"generate_responses": self.sample, "estimate_advantages": self.estimate}
        return Fault("stale", wrong=planted).in_effect()


# --- a reward sentence by sentence -----------------------------------------------------------------


def pay_by_sentence(state: RLHFState, responses: Responses, *of_step_5: Tensor) -> Tensor:
    """Step 5 with the score paid out: the end of each sentence gets what it changed. Sums stay the same."""
    rewards, tokenizer = total_rewards(state, responses, *of_step_5), state.models.tokenizer
    mask, ids = responses.response_mask, responses.response_tensors
    ends = torch.isin(ids, torch.tensor(tokenizer.convert_tokens_to_ids([".", "!"]))) & mask
    for row, last in enumerate(last_counted(mask).tolist()):
        places = [t for t in ends[row].nonzero().flatten().tolist() if t < last]
        begun = [tokenizer.decode(ids[row, : t + 1]) for t in places]
        texts = [f"{responses.texts[row].prompt} {text}" for text in begun]
        scores = state.normalize(score_texts(gold_scores, texts)) if texts else []
        paid = 0.0
        for t, score in zip(places, scores, strict=True):
            rewards[row, t] += score - paid
            rewards[row, last] -= score - paid
            paid = score
    return rewards


# --- runs -----------------------------------------------------------------------------------------


def solved(state: RLHFState, count: int = ANSWERS) -> dict[str, float]:
    """pass@k of the actor on `count` fresh answers to each request, by the task's own checker.

    `passed` is the share by the reward that is trained on, if that is another.
    """
    evaluated, texts = steps.evaluate(state.models.actor, state, count * len(state.prompts))
    correct = score_texts(task_reward, texts).bool().view(count, -1).T  # (P, count)
    found = {f"pass@{k}": float(pass_at_k(correct, k).mean()) for k in KS if k <= count}
    return found | {"passed": float(evaluated["score"].mean()), "kl": float(evaluated["kl"].mean())}


def train_on_task(job: Job, folder: Path, answers: int = ANSWERS) -> Run:
    """A run on the task, with pass@k along it."""
    reward = hasty_reward if job.kind == "task_hasty" else task_reward
    state = start_run(job.config, reward=reward, prompts=task_rows())
    measure = partial(solved, count=answers)
    return train_measured(state, measure, TASK_EVERY, first=measure(state))


def train_on_scores(job: Job, folder: Path) -> Run:
    """A run on the reward model, or on gold; its last policy is measured."""
    state = start_run(job.config, reward=gold_scores if job.kind in DENSE else None)
    paid = {"total_rewards": pay_by_sentence} if job.kind.startswith("dense") else {}
    stale = job.kind in STALE
    change = StaleSampler(cap=STALE[job.kind]) if stale else Fault(job.kind, wrong=paid)
    with change.in_effect():
        for _ in run_iterations(state, steps.iterate):
            advance(1)
    final, _ = measure(state, state.models.actor, EVALUATED)
    return Run(job.config, state.history, final=final)


# --- the study ------------------------------------------------------------------------------------


class WithoutACriticOptions(StudyOptions, name="without_a_critic", iterations=20):
    """Without a critic: PPO, REINFORCE, RLOO, GRPO; a task with checked answers; a stale sampler."""

    SETTINGS = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    parts: list[str] = setting(list(PARTS), "which of the four parts", choices=list(PARTS))

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """The kinds of each part."""
        for part in self.parts:
            for kind, changes in PARTS[part].items():
                train = train_on_task if kind in TASKS else train_on_scores
                yield Job(kind, self.config(seed, **changes), train)


load_without_a_critic = loader("without_a_critic")
