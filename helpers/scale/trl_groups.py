"""Train the same models with the GRPOTrainer of current TRL. Needs trl and datasets."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec

from torch import nn

from helpers.config import RLHFConfig
from helpers.models import quiet_loading
from helpers.reward_model import join
from helpers.state import Models, RLHFState, resolve_rates, start_run
from helpers.tools.validate import require

LOSS_TYPES = {"response": "grpo", "token": "dapo", "fixed": "dr_grpo"}  # by loss_aggregation


def trl_version() -> str:
    """The installed version of trl; "none" where it is not installed."""
    try:
        return metadata.version("trl")
    except metadata.PackageNotFoundError:
        return "none"


def grpo_is_here() -> bool:
    """Whether a trl with a GRPOTrainer, and datasets, are installed."""
    return all(find_spec(name) is not None for name in ("trl", "datasets"))


def require_grpo() -> None:
    """ValueError in one sentence if they are not."""
    require(grpo_is_here(), "trl", trl_version(), "`pip install trl datasets`")


def grpo_settings(config: RLHFConfig, folder: str) -> dict:
    """Our config as arguments of TRL's GRPOConfig. ValueError: a setting that it does not have."""
    require(config.method == "grpo", "method", repr(config.method), "'grpo'")
    in_loss = (config.kl_placement, config.kl_loss) == ("loss", "k3")
    got = f"{config.kl_placement!r}, {config.kl_loss!r}"
    fits = in_loss or config.kl_coef == 0.0
    require(fits, "kl_placement, kl_loss", got, "'loss', 'k3', or kl_coef 0, for TRL")
    config = resolve_rates(config)
    size, part = config.batch_size, config.minibatch_size
    require(size % part == 0, "minibatch_size", part, f"a divisor of batch_size {size}")
    require(config.entropy_coef == 0.0, "entropy_coef", config.entropy_coef, "0 for TRL")
    updates = config.num_ppo_epochs * (size // part)
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    plain = {"bf16": config.mixed_precision == "bf16", "lr_scheduler_type": "linear"}
    return quiet | plain | {
        "output_dir": folder,
        "seed": config.seed,
        "max_steps": config.iterations * updates,
        "logging_steps": updates,  # once an iteration
        "per_device_train_batch_size": part,
        "generation_batch_size": size,
        "num_generations": config.responses_per_prompt,
        "num_iterations": config.num_ppo_epochs,
        "epsilon": config.cliprange,
        "epsilon_high": config.cliprange_high or config.cliprange,
        "beta": config.kl_coef,
        "max_completion_length": config.response_length,
        "temperature": config.temperature,
        "learning_rate": config.learning_rate,
        "adam_epsilon": config.adam_eps,
        "max_grad_norm": config.max_grad_norm,
        "gradient_checkpointing": config.gradient_checkpointing,
        "use_cpu": config.device == "cpu",
        "loss_type": LOSS_TYPES[config.loss_aggregation],
        "scale_rewards": "group" if config.scale_by_std else "none",
        "importance_sampling_level": config.ratio_level,
        "use_bias_correction_kl": config.kl_ratio,
    }  # fmt: skip


def make_group_trainer(config: RLHFConfig, models: Models, prompts: list[str], folder: str):
    """TRL's GRPOTrainer on our actor and reward; the actor is trained in place."""
    require_grpo()
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        model=models.actor,
        reward_funcs=reward_for_trl(start_run(config, models, prompts=prompts)),
        args=GRPOConfig(**grpo_settings(config, folder)),
        train_dataset=Dataset.from_dict({"prompt": list(prompts)}),
        processing_class=models.tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def reward_for_trl(state: RLHFState):
    """Our normalised scores as a reward function of TRL's kind."""

    def score(prompts: list[str], completions: list[str], **columns) -> list[float]:
        texts = [
            join(prompt, text.strip()) for prompt, text in zip(prompts, completions, strict=True)
        ]
        return state.score(texts).tolist()

    return score


def give_positions(model: nn.Module) -> Callable[[], None]:
    """Let a model that is called without position ids count them from its mask; returns the way back.

    TRL gives none, so that behind left padding the log-probs of absolute positions are not those of
    the text that was sampled. With this its trainers are judged by their algorithm.
    """

    def fill(module: nn.Module, args: tuple, kwargs: dict) -> tuple:
        mask, absent = kwargs.get("attention_mask"), kwargs.get("position_ids") is None
        if absent and mask is not None and mask.dim() == 2 and not kwargs.get("past_key_values"):
            kwargs["position_ids"] = (mask.long().cumsum(dim=1) - 1).clamp(min=0)
        return args, kwargs

    return model.register_forward_pre_hook(fill, with_kwargs=True).remove


@contextlib.contextmanager
def trl_at_work(models: Models) -> Iterator[str]:
    """A folder for one training by TRL, without its notices; the actor comes out in eval mode."""
    unwarned = warnings.catch_warnings(action="ignore")  # of transformers, about TRL's calls
    with tempfile.TemporaryDirectory() as folder, quiet_loading(), unwarned:
        yield folder
    models.actor.eval()


def run_trainer(trainer) -> None:
    """Let one of TRL's trainers train, its policy and reference with positions counted from the mask."""
    with contextlib.ExitStack() as stack:
        for model in {trainer.model, getattr(trainer, "ref_model", None)} - {None}:
            stack.callback(give_positions(model))
        trainer.train()


def train_with_groups(config: RLHFConfig, models: Models, prompts: list[str]) -> list[dict]:
    """Train with TRL's GRPOTrainer; one record per iteration, with our metrics' names."""
    with trl_at_work(models) as folder:
        trainer = make_group_trainer(config, models, prompts, folder)
        run_trainer(trainer)
    names = {"score": "reward", "entropy": "entropy", "response_length": "completions/mean_length"}
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    return [
        {"iteration": i} | {ours: float(entry[theirs]) for ours, theirs in names.items()}
        for i, entry in enumerate(log, start=1)
    ]
