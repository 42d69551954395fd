"""Train the same models with TRL's trainers, of its current releases. Needs trl and datasets."""

from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

from benchmarks.trl_ppo import make_trainer as make_ppo_trainer
from helpers.config import DirectConfig, RLHFConfig
from helpers.scale.trl_groups import (
    grpo_settings,
    make_group_trainer,
    require_grpo,
    reward_for_trl,
    run_trainer,
    trl_at_work,
)
from helpers.state import Models, resolve_rates, start_run
from helpers.tools.validate import require

GRPO_ALONE = ("loss_type", "scale_rewards", "importance_sampling_level", "use_bias_correction_kl")


def rloo_settings(config: RLHFConfig, folder: str) -> dict:
    """Our config as arguments of TRL's RLOOConfig. ValueError: a setting that it does not have.

    Its ratio is the product over a response's tokens: on the policy that wrote them its gradient is
    `response_length` times that of ours with loss_aggregation 'fixed'.
    """
    require(config.method == "rloo", "method", repr(config.method), "'rloo'")
    fits = config.kl_placement == "reward" or config.kl_coef == 0.0
    require(fits, "kl_placement", repr(config.kl_placement), "'reward', or kl_coef 0, for TRL")
    same = replace(config, method="grpo", kl_placement="loss", kl_loss="k3")
    shared = grpo_settings(same, folder).items()
    return {name: value for name, value in shared if name not in GRPO_ALONE}


def direct_settings(config: DirectConfig, folder: str) -> dict:
    """Our config as arguments of TRL's DPOConfig. ValueError: a setting that it does not have."""
    config = resolve_rates(config)
    require(not config.online, "online", True, "False: TRL's DPOTrainer learns from a data set")
    require(config.loss == "dpo", "loss", repr(config.loss), "'dpo': TRL's IPO is another one")
    size, part = config.batch_size, config.minibatch_size
    require(size % part == 0, "minibatch_size", part, f"a divisor of batch_size {size}")
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "bf16": False}
    return quiet | {
        "output_dir": folder,
        "seed": config.seed,
        "max_steps": config.iterations * (size // part),
        "logging_steps": size // part,  # once an iteration
        "per_device_train_batch_size": part,
        "beta": config.kl_coef,
        "learning_rate": config.learning_rate,
        "adam_epsilon": config.adam_eps,
        "max_grad_norm": config.max_grad_norm,
        "gradient_checkpointing": config.gradient_checkpointing,
        "use_cpu": config.device == "cpu",
        "lr_scheduler_type": "linear",
        "optim": "adamw_torch",
    }


def make_trainer(
    config: RLHFConfig | DirectConfig, models: Models, rows: list[str] | list[dict], folder: str
):
    """TRL's trainer for the config's method; `rows` are prompts, for DPO {prompt, chosen, rejected}."""
    if config.method == "ppo":
        return make_ppo_trainer(config, models, rows, folder)
    if config.method == "grpo":
        return make_group_trainer(config, models, rows, folder)
    require_grpo()
    import trl
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback

    if config.method == "rloo":
        make, args = trl.RLOOTrainer, trl.RLOOConfig(**rloo_settings(config, folder))
        own = {"reward_funcs": reward_for_trl(start_run(config, models, prompts=rows))}
        rows = [{"prompt": prompt} for prompt in rows]
    else:
        make, args = trl.DPOTrainer, trl.DPOConfig(**direct_settings(config, folder))
        own = {"ref_model": models.reference}
    own |= {"train_dataset": Dataset.from_list(rows), "processing_class": models.tokenizer}
    trainer = make(model=models.actor, args=args, **own)
    trainer.remove_callback(PrinterCallback)
    return trainer


def train_with_trl(
    config: RLHFConfig | DirectConfig,
    models: Models,
    rows: list[str] | list[dict],
    after: Callable[[int], None] = lambda iteration: None,
) -> list[dict]:
    """Train by TRL's trainer for the config's method; `after(iteration)` follows an iteration's updates.

    Returns TRL's log, by its names of the metrics: one row an iteration, and a summary.
    """
    with trl_at_work(models) as folder, redirect_stdout(StringIO()):
        trainer = make_trainer(config, models, rows, folder)
        trainer.add_callback(each_iteration(after, trainer.args.logging_steps))
        # positions, by TRL itself
        given = isinstance(config, DirectConfig) or config.method == "ppo"
        trainer.train() if given else run_trainer(trainer)
    return trainer.state.log_history


def each_iteration(after: Callable[[int], None], updates: int):
    """A TrainerCallback: `after(i)` behind the last of the `updates` gradient steps of iteration i."""
    from transformers import TrainerCallback

    class AfterIteration(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs) -> None:
            if state.global_step % updates == 0:
                after(state.global_step // updates)

    return AfterIteration()
