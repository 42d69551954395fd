"""A real model that gets better: SmolLM2-135M-Instruct on tasks whose answer a program checks.

LoRA, answers of a few tokens, a reward of 0 or 1 as it is: nothing is normalised, so that the optimum
at each β is known prompt by prompt. For each task the reference is measured; RLOO is trained at four β,
at the first for longer and from above, too; GRPO, SFT on the right ones among as many samples, and RLOO
on a checker with a hole are trained beside it. `candidates` measures tasks before any training.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from helpers.config import RLHFConfig
from helpers.groups import equal_groups
from helpers.lessons.real_models.demonstrations import DemonstrationStep
from helpers.lessons.real_models.task_measure import (
    GREEDY,
    answer_probs,
    answers,
    curve_row,
    interval,
    kl_of_each,
    ordinary_loss,
    solved,
)
from helpers.lessons.real_models.tasks import (
    CHAT_MODEL,
    TASKS,
    answer_reward,
    as_copies,
    load_line_model,
    loose_reward,
    reworded,
    task_rows,
)
from helpers.rewards import score_texts
from helpers.scale.lora import base_dtype, lora_models
from helpers.state import RLHFState, start_run
from helpers.steps import iterate
from helpers.studies.runs import Run, as_columns, as_history, train_measured
from helpers.studies.study import Job, Study, StudyOptions, begin, loader
from helpers.tools.pool import advance

CHOSEN = ("swap", "last_letter")  # solved sometimes, and seldom by greedy decoding
BETAS = (0.25, 0.1, 0.0, 0.5)  # in the order of their runs
LONGER = 3  # times the iterations, at the first β
HEAD_START = 20  # iterations at β = 0.1, of a run that comes to its own optimum from above
RANK = 8
GROUP = 8  # answers to a prompt: in a rollout, and wherever samples are taken
PROMPTS = {"trained": 100, "held_out": 200}
SHOTS = (2, 4, 8, 16)  # in the reference's prompts, to see what more of them would do
SAMPLED = 100  # of the held-out prompts: samples only check the probabilities
SETTINGS = {
    "actor": CHAT_MODEL,
    "reward_model": "",  # a program instead
    "method": "rloo",
    "responses_per_prompt": GROUP,
    "batch_size": 32,
    "minibatch_size": 32,
    "response_length": 8,
    "num_ppo_epochs": 1,
    "checkpoint_every": 10,  # and a measurement
    "learning_rate": 5e-4,  # of LoRA's matrices
    "critic_learning_rate": 5e-4,
    "normalize_scores": False,
    "whiten_advantages": False,
}
# the paper's, and TRL's: k3 in the loss
GRPO = {"method": "grpo", "kl_placement": "loss", "kl_loss": "k3", "loss_aggregation": "response"}


class RealTaskOptions(StudyOptions, name="real_task", iterations=40, jobs=1):
    """SmolLM2-135M-Instruct with LoRA on tasks that a program checks: RLOO at four β, GRPO, SFT."""

    SETTINGS = SETTINGS

    def ways(self) -> dict[str, tuple[dict, Callable]]:
        """What is done with a task, in the order of its worth: how the config differs, what trains."""
        first, beta = f"beta_{BETAS[0]:g}", {"kl_coef": BETAS[0]}
        above, longer = HEAD_START + self.iterations, LONGER * self.iterations
        return {f"beta_{x:g}": ({"kl_coef": x}, run_task) for x in BETAS} | {
            "reference": ({"iterations": 1}, measure_reference),
            "sft": ({}, partial(run_task, step=DemonstrationStep(true=False))),
            "sft_true": ({}, partial(run_task, step=DemonstrationStep(true=True))),
            "grpo": (GRPO, run_task),
            "loose": ({"kl_coef": 0.0}, partial(run_task, reward=loose_reward)),
            f"{first}_from_above": (
                beta | {"iterations": above},
                partial(run_task, step=from_above),
            ),
            f"{first}_longer": (beta | {"iterations": longer}, run_task),
        }

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """All that is done with each task; before the first seed's, every task is tried."""
        if seed == min(self.seeds):
            yield Job("candidates", self.config(0, iterations=1), measure_candidates)
        for task in CHOSEN:
            for way, (changes, train) in self.ways().items():
                yield Job(f"{task}_{way}", self.config(seed, **changes), partial(train, task))


# --- a run ----------------------------------------------------------------------------------------


def load_task(config: RLHFConfig, task: str, reward: Callable = answer_reward) -> dict:
    """Models with a fresh adapter, prompts and measures: what a run on this task begins with."""
    actor, tokenizer = load_line_model()
    how = {"rank": RANK, "seed": config.seed, "base": base_dtype(actor.device.type)}
    models = lora_models(actor, tokenizer, reward, **how)
    # whether the rewards of a response's group are all equal: such a group teaches nothing
    equal = {"equal_groups": lambda texts: equal_groups(score_texts(reward, texts), GROUP).float()}
    return {"models": models, "prompts": task_rows(task, PROMPTS["trained"]), "measures": equal}


def held_out_rows(task: str, shots: int | None = None) -> list[dict]:
    """The questions that every policy is measured on."""
    return task_rows(task, PROMPTS["held_out"], held_out=True, shots=shots)


def right_probs(state: RLHFState, rows: list[dict]) -> Tensor:
    """Probability of the right answer to each of these rows' prompts: [P]."""
    return answer_probs(state.models.actor, state.models.tokenizer, rows)


def final_eval(state: RLHFState, task: str) -> dict:
    """What is measured of a policy once: probabilities, samples, ten random texts, ordinary text.

    `copied`: probability of the question itself as the answer; `reworded`: pass@1 where prompts have
    colons for arrows.
    """
    rows, models = held_out_rows(task), state.models
    asked = {"trained": task_rows(task, PROMPTS["trained"]), "held_out": rows}
    batches = list(answers(models.actor, state, rows[:SAMPLED], GROUP))
    (one,) = answers(models.actor, state, rows[:10], 1, seed=state.config.seed)
    return {
        "probs": {kind: right_probs(state, some).tolist() for kind, some in asked.items()},
        "copied": float(right_probs(state, as_copies(rows)).mean()),
        "reworded": interval(right_probs(state, reworded(rows))),
        "right": solved(batches, state, GROUP)["right"].sum(dim=1).int().tolist(),
        "sampled": {"kl": fmean(float(x) for batch in batches for x in kl_of_each(state, batch))},
        "texts": [text.prompt.rpartition("\n")[2] + text.completion for text in one.texts],
        "ordinary_loss": ordinary_loss(models.actor, models.tokenizer),
    }


def run_task(
    task: str,
    job: Job,
    folder: Path,
    reward: Callable = answer_reward,
    step: Callable[[RLHFState], dict] = iterate,
) -> Run:
    """A run on a task, measured on held-out questions."""
    state = begin(job, folder, **load_task(job.config, task, reward))
    measure = lambda state: curve_row(right_probs(state, held_out_rows(task)))  # noqa: E731
    run = train_measured(state, measure, job.config.checkpoint_every, step, folder)
    run.final |= final_eval(state, task)
    return run


def from_above(state: RLHFState) -> dict:
    """An iteration of a run whose β is 0.1 for the first ones, and then the config's."""
    state.kl_coef = 0.1 if state.iteration < HEAD_START else state.config.kl_coef
    return iterate(state)


# --- before any training --------------------------------------------------------------------------


def measure_reference(task: str, job: Job, folder: Path) -> Run:
    """A task's reference: its right answers' probabilities, and many samples."""
    state = start_run(job.config, **load_task(job.config, task))
    final = final_eval(state, task)
    row = {"iteration": 0} | curve_row(torch.tensor(final["probs"]["held_out"]))
    probs = {shots: right_probs(state, held_out_rows(task, shots)) for shots in SHOTS}
    final["shots"] = {str(shots): curve_row(found) for shots, found in probs.items()}
    advance(job.config.iterations)
    return Run(job.config, final=final | {"curve": as_columns([row])})


def measure_candidates(job: Job, folder: Path) -> Run:
    """Every task on 40 held-out prompts: greedy decoding, T 0.7 and 1; right, ended, one of 8 right."""
    state, table = start_run(job.config, **load_task(job.config, CHOSEN[0])), {}
    how = {"greedy": (GREEDY, 1), "T_0.7": (0.7, GROUP), "T_1": (1.0, GROUP)}
    for task in TASKS:
        rows, table[task] = task_rows(task, 40, held_out=True), {}
        for name, (temperature, copies) in how.items():
            batches = answers(state.models.actor, state, rows, copies, temperature=temperature)
            found = solved(batches, state, copies)
            table[task][name] = float(found["right"].mean())
            table[task][f"{name}_ended"] = float(found["ended"].mean())
            table[task][f"{name}_any"] = float(found["right"].amax(dim=1).mean())
    advance(job.config.iterations)
    return Run(job.config, final={"tasks": table})


# --- the study ------------------------------------------------------------------------------------


class RealTask(Study):
    """The recorded runs on tasks that a program checks."""

    def rows(self, task: str, kind: str) -> list[list[dict]]:
        """pass@1 and pass@8 on held-out prompts along the runs of a kind, the reference's first."""
        before = as_history(self.run(f"{task}_reference").final["curve"])
        return [before + as_history(r.final["curve"]) for r in self.of_kind(f"{task}_{kind}")]

    def probs(self, task: str, kind: str, prompts: str = "held_out") -> Tensor:
        """Probabilities of the right answers after the runs of a kind, on every seed: [S, P]."""
        runs = self.of_kind(f"{task}_{kind}")
        return torch.tensor([run.final["probs"][prompts] for run in runs], dtype=torch.float64)

    def summary(self, task: str, kind: str) -> dict[str, float]:
        """Means over the seeds of a kind of what its runs have recorded (`recorded`), and how many."""
        rows = [recorded(run) for run in self.of_kind(f"{task}_{kind}")]
        return {name: fmean(row[name] for row in rows) for name in rows[0]} | {"seeds": len(rows)}


def recorded(run: Run) -> dict[str, float]:
    """NLL of ordinary text, CPU-minutes; where they are known: entropy, KL, pass@1 of a rewording."""
    final = run.final
    found = {"loss": final["ordinary_loss"], "minutes": final.get("cpu_seconds", 0.0) / 60}
    if run.history and "entropy" in run.history[-1]:
        found["entropy"] = last_ten(run, "entropy")
    if "reworded" in final:  # TRL's runs have none
        found |= {"kl": final["sampled"]["kl"], "reworded": final["reworded"]["mean"]}
    return found


def last_ten(run: Run, name: str) -> float:
    """A metric's mean over the last ten iterations."""
    return fmean(row[name] for row in run.history[-10:])


load_real_task = loader("real_task", RealTask)
