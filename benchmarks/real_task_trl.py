"""`python -m benchmarks.real_task_trl`: TRL's GRPOTrainer on a task of `helpers study real_task`.

Weights, adapter, prompts, reward, tokens, β and learning rate are the study's; `trl_ours` has its other
settings too (the paper's loss, Adam's ε), `trl_defaults` TRL's where GRPOConfig names one. The runs join the
study's folder. Needs trl and datasets beside what `make test-pretrained` installs.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import command
from benchmarks.trl_trainers import each_iteration
from helpers.data import DATA
from helpers.lessons.real_models import task_study as study
from helpers.lessons.real_models.tasks import answer_reward, load_line_model, task_rows
from helpers.models import make_reference
from helpers.scale.lora import base_dtype, convert_base, linear_layers
from helpers.scale.trl_groups import grpo_settings, require_grpo, trl_at_work, trl_version
from helpers.state import Models, start_run
from helpers.studies.runs import Run, as_columns
from helpers.studies.study import as_entry, keep_runs, read_study, run_name
from helpers.tools.flags import setting

TRLS_OWN = {"loss_type", "scale_rewards", "importance_sampling_level", "use_bias_correction_kl"}
TRLS_OWN |= {"epsilon", "epsilon_high", "num_iterations", "adam_epsilon", "max_grad_norm"}
NAMES = {
    "score": "reward",
    "kl": "kl",
    "entropy": "entropy",
    "response_length": "completions/mean_length",
    "cut_off": "completions/clipped_ratio",
    "equal_groups": "frac_reward_zero_std",
    "grad_norm": "grad_norm",
    "seconds": "step_time",
}


@dataclass
class Plan:
    """Which runs."""

    task: str = setting(study.CHOSEN[0], "of the study", choices=list(study.CHOSEN))
    kinds: list[str] = setting(["trl_ours", "trl_defaults"], "whose settings")
    seeds: list[int] = setting([0, 1, 2], "seeds")
    iterations: int = setting(40, "iterations of each run")
    out: Path = setting(DATA / "real_task", "folder of the study")


def train(plan: Plan, kind: str, seed: int) -> dict:
    """Train one run by TRL; → its entry in `study.json`."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    config = study.RealTaskOptions(iterations=plan.iterations).config(seed, **study.GRPO)
    actor, tokenizer = load_line_model()
    convert_base(actor, base_dtype(actor.device.type))
    layers = {"target_modules": linear_layers(actor), "task_type": "CAUSAL_LM"}
    adapter = LoraConfig(r=study.RANK, lora_alpha=2 * study.RANK, lora_dropout=0.0, **layers)
    rows = task_rows(plan.task, study.PROMPTS["trained"])
    curve, began = [], time.process_time()

    def reward(completions: list[str], solution: list[str], **others: object) -> list[float]:
        return answer_reward(completions, solution)

    def after(iteration: int) -> None:
        if iteration % config.checkpoint_every == 0:
            probs = study.right_probs(state, study.held_out_rows(plan.task))
            curve.append({"iteration": iteration} | study.curve_row(probs))

    reference = make_reference(actor)  # a copy: transformers cannot switch off an adapter of TRL's
    models = Models(actor, None, answer_reward, reference, tokenizer)
    with trl_at_work(models) as folder:
        settings = grpo_settings(config, folder)
        if kind == "trl_defaults":
            settings = {name: value for name, value in settings.items() if name not in TRLS_OWN}
        data = {"args": GRPOConfig(**settings), "train_dataset": Dataset.from_list(rows)}
        data |= {"processing_class": tokenizer, "peft_config": adapter}
        trainer = GRPOTrainer(model=actor, reward_funcs=reward, **data)
        state = start_run(config, models, prompts=rows)  # to measure the actor, which TRL trains
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(each_iteration(after, 1))
        trainer.train()
    final = {"cpu_seconds": time.process_time() - began, "curve": as_columns(curve)}
    final |= {"base": str(base_dtype(actor.device.type)), "trl": trl_version()}
    final |= study.final_eval(state, plan.task)
    log = (row for row in trainer.state.log_history if "reward" in row)
    history = [{ours: row.get(name, 0.0) for ours, name in NAMES.items()} for row in log]
    return as_entry(Run(config, history, final=final, kind=f"{plan.task}_{kind}"))


def run(plan: Plan) -> None:
    """Train what is asked, one run after another; each is kept when it is done."""
    require_grpo()
    made = read_study(plan.out, ("command", "versions", "threads"))  # by the study's own command
    facts = {name: made[name] for name in ("command", "versions", "threads")}
    for seed in plan.seeds:
        for kind in plan.kinds:
            name = run_name(f"{plan.task}_{kind}", seed)
            keep_runs(plan.out, {name: train(plan, kind, seed)}, facts)


if __name__ == "__main__":
    command("real_task_trl", "TRL's GRPOTrainer on a checked task.", Plan, run)
