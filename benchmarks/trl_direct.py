"""Train the same models with TRL's DPOTrainer, of its current releases. Needs trl and datasets."""

from collections.abc import Callable

from helpers.config import DirectConfig
from helpers.scale.trl_groups import each_iteration, require_grpo, trl_at_work
from helpers.state import Models, resolve_rates
from helpers.tools.validate import require


def direct_settings(config: DirectConfig, folder: str) -> dict:
    """Our config as arguments of TRL's DPOConfig. ValueError: a setting that it does not have."""
    config = resolve_rates(config)
    require(not config.online, "online", True, "False: TRL's DPOTrainer learns from a data set")
    require(config.loss == "dpo", "loss", repr(config.loss), "'dpo': TRL's IPO is another one")
    size, part = config.batch_size, config.minibatch_size
    require(size % part == 0, "minibatch_size", part, f"a divisor of batch_size {size}")
    return {
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
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }


def train_with_direct(
    config: DirectConfig,
    models: Models,
    pairs: list[dict],
    after: Callable[[int], None] | None = None,
) -> list[dict]:
    """Train with TRL's DPOTrainer on `{prompt, chosen, rejected}` texts; a record per iteration.

    `after(iteration)` is called when an iteration's updates are done.
    """
    require_grpo()
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import DPOConfig, DPOTrainer

    with trl_at_work(models) as folder:
        trainer = DPOTrainer(
            model=models.actor,
            ref_model=models.reference,
            args=DPOConfig(**direct_settings(config, folder)),
            train_dataset=Dataset.from_list(pairs),
            processing_class=models.tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        if after is not None:
            trainer.add_callback(each_iteration(after, trainer.args.logging_steps))
        trainer.train()
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    return [{"iteration": i, "loss": float(x["loss"])} for i, x in enumerate(log, start=1)]
