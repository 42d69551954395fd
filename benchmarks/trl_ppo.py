"""Train the same models with TRL's PPOTrainer, to compare. Needs the extras trl 1.12.0 and datasets."""

import contextlib
import io
import os
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from helpers.config import RLHFConfig
from helpers.models import ValueNetwork
from helpers.scale.trl_groups import trl_at_work, trl_version
from helpers.state import Models, resolve_rates, start_run
from helpers.tools.validate import require

VERSION = "1.12.0"  # the last with a PPOTrainer


def trl_is_here() -> bool:
    """Whether trl is installed in the version that has the PPOTrainer; later ones have none."""
    return trl_version() == VERSION


class RewardForTRL(nn.Module):
    """Any reward function of texts, with the interface of TRL's `get_reward`: backbone, then `score`."""

    base_model_prefix = "backbone"

    def __init__(self, score: Callable[[list[str]], Tensor], tokenizer: PreTrainedTokenizerBase):
        super().__init__()
        self.score_texts, self.tokenizer = score, tokenizer

    def backbone(self, input_ids: Tensor, attention_mask: Tensor, **ignored) -> SimpleNamespace:
        rows = [ids[m].tolist() for ids, m in zip(input_ids, attention_mask.bool(), strict=True)]
        texts = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        scores = self.score_texts(texts).to(input_ids.device).view(-1, 1, 1)
        return SimpleNamespace(hidden_states=(scores.expand(-1, input_ids.shape[1], 1),))

    def score(self, hidden: Tensor) -> Tensor:
        return hidden  # [B, L, 1]: at every position, so it is right wherever TRL reads it


class CriticForTRL(nn.Module):
    """Our value network with TRL's attribute names; the same parameters, not a copy."""

    base_model_prefix = "trunk"

    def __init__(self, critic: ValueNetwork):
        super().__init__()
        self.trunk, self.score = critic.trunk, critic.value_head


def trl_config(config: RLHFConfig, folder: str, **own: object):
    """Our config as TRL's, with settings of its own. ValueError: no such trl, or a setting it does not have.

    Its traps: bf16 and gradient checkpointing default to on; a minibatch smaller than the batch
    wants `num_mini_batches`, not `gradient_accumulation_steps`; a response ends at a sampled pad.
    """
    require(trl_is_here(), "trl", trl_version(), f"`pip install trl=={VERSION}`")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # else it warns at every import
    from trl.experimental.ppo import PPOConfig

    config = resolve_rates(config)
    size, rates = config.batch_size, {config.learning_rate, config.critic_learning_rate}
    require(size % config.minibatch_size == 0, "minibatch_size", config.minibatch_size, "a divisor")
    require(len(rates) == 1, "critic_learning_rate", config.critic_learning_rate, "the actor's")
    for name, wants in (("kl_placement", "reward"), ("entropy_coef", 0.0), ("kl_target", None)):
        require(getattr(config, name) == wants, name, getattr(config, name), f"{wants} for TRL")
    shared = ("kl_coef", "gamma", "lam", "cliprange", "cliprange_value", "vf_coef", "seed")
    shared += ("num_ppo_epochs", "learning_rate", "whiten_rewards", "temperature")
    same = {name: getattr(config, name) for name in (*shared, "response_length")}
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1}
    plain = {"bf16": False, "gradient_checkpointing": False, "optim": "adamw_torch"}
    settings = {
        "output_dir": folder,
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": 1,
        "num_mini_batches": size // config.minibatch_size,
        "local_rollout_forward_batch_size": size,
        "total_episodes": config.iterations * size,
        "adam_epsilon": config.adam_eps,
        "missing_eos_penalty": config.missing_eos_penalty or None,
        "stop_token": "eos",
        "num_sample_generations": 0,
        "use_cpu": not torch.cuda.is_available(),
    }
    return PPOConfig(**settings | same | quiet | plain | own)


def make_trainer(config: RLHFConfig, models: Models, prompts: list[str], folder: str):
    """TRL's PPOTrainer on our four models; actor and critic are trained in place."""
    args = trl_config(config, folder)  # first: it says what is missing
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl.experimental.ppo import PPOTrainer

    state = start_run(config, models, prompts=prompts)  # for its normalised scores
    trainer = PPOTrainer(
        args=args,
        processing_class=models.tokenizer,
        model=models.actor,
        ref_model=models.reference,
        reward_model=RewardForTRL(state.score, models.tokenizer),
        value_model=CriticForTRL(models.critic),
        train_dataset=Dataset.from_dict({"input_ids": models.tokenizer(prompts)["input_ids"]}),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def train_with_trl(config: RLHFConfig, models: Models, prompts: list[str]) -> list[dict]:
    """Train with PPOTrainer; returns one record per iteration, with our names of the metrics."""
    with trl_at_work(models) as folder, contextlib.redirect_stdout(io.StringIO()):
        trainer = make_trainer(config, models, prompts, folder)
        trainer.train()
    log = [entry for entry in trainer.state.log_history if "objective/kl" in entry]
    names = {"score": "objective/scores", "kl": "objective/kl", "value_loss": "loss/value_avg"}
    return [
        {"iteration": i} | {ours: float(entry[theirs]) for ours, theirs in names.items()}
        for i, entry in enumerate(log, start=1)
    ]
