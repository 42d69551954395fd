"""Train the same models with TRL's PPOTrainer, to compare. Needs the extras trl 1.12.0 and datasets."""

import gc
import os
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import GPT2ForSequenceClassification, PreTrainedTokenizerBase

from benchmarks.common import Span, now, phases
from benchmarks.models import (
    LEARNING_RATE,
    Size,
    gpt2_config,
    make_actor,
    make_tokenizer,
    prompt_ids,
    run_config,
)
from helpers.config import RLHFConfig
from helpers.models import ValueNetwork
from helpers.scale.trl_groups import trl_version
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

    Its traps: bf16 and gradient checkpointing default to on; minibatches want `num_mini_batches`.
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


def ppo_trainer(args, tokenizer, prompts: list[list[int]], *models: nn.Module):
    """TRL's PPOTrainer of these prompts; `models` are actor, reference, reward model and critic."""
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from trl.experimental.ppo import PPOTrainer

    names = ("model", "ref_model", "reward_model", "value_model")
    roles = dict(zip(names, models, strict=True))
    rows = Dataset.from_dict({"input_ids": prompts})
    trainer = PPOTrainer(args=args, processing_class=tokenizer, train_dataset=rows, **roles)
    trainer.remove_callback(PrinterCallback)
    return trainer


def make_trainer(config: RLHFConfig, models: Models, prompts: list[str], folder: str):
    """TRL's PPOTrainer on our four models; actor and critic are trained in place."""
    args = trl_config(config, folder)  # first: it says what is missing
    tokenizer = models.tokenizer
    state = start_run(config, models, prompts=prompts)  # for its normalised scores
    heads = RewardForTRL(state.score, tokenizer), CriticForTRL(models.critic)
    ids = tokenizer(prompts)["input_ids"]
    return ppo_trainer(args, tokenizer, ids, models.actor, models.reference, *heads)


# --- the race of ppo_vs_trl ------------------------------------------------------------------------


def make_peer(size: Size, minibatch: int, iterations: int):
    """A trainer of `iterations` iterations, with its own optimizer and no stop token."""
    settings = {"iterations": iterations, "critic_learning_rate": LEARNING_RATE}
    own = {"use_cpu": True, "stop_token": None, "optim": "adamw_torch_fused"}
    folder = tempfile.mkdtemp(prefix="trl")
    args = trl_config(run_config(size, minibatch, **settings), folder, **own)
    actors = [make_actor(size) for _ in range(2)]
    heads = [GPT2ForSequenceClassification(gpt2_config(size, num_labels=1)) for _ in range(2)]
    return ppo_trainer(args, make_tokenizer(size), prompt_ids(size).tolist(), *actors, *heads)


class Stopwatch:
    """Times of iterations: rollout until the reference runs, scoring until the first gradient; gc inside."""

    def __init__(self, trainer):
        self.iterations: list[dict[str, Span]] = []
        self.collections: list[Span] = []
        trainer.ref_model.register_forward_pre_hook(lambda *_: self._mark("scoring"))
        # GRPOTrainer's policy writes by the same forward
        train = lambda *_: self._mark("update") if torch.is_grad_enabled() else None  # noqa: E731
        trainer.model.register_forward_pre_hook(train)
        self.start()

    def start(self) -> None:
        """An iteration begins."""
        self.began, self.marks, self.gc = now(), {}, 0 * now()

    def _mark(self, phase: str) -> None:
        self.marks.setdefault(phase, now())

    def stop(self) -> None:
        """An iteration ends: save its phases."""
        marks = self.marks["scoring"], self.marks["update"]
        self.iterations.append(phases(self.began, *marks, now()))
        self.collections.append(self.gc)

    def contestants(self) -> dict[str, list[dict[str, Span]]]:
        """The trainer's iterations, and what is left without the collections where it forced some."""
        if not any(gc.any() for gc in self.collections):
            return {"TRL": self.iterations}
        pairs = zip(self.iterations, self.collections, strict=True)
        without = [{"total": one["total"] - gc} for one, gc in pairs]
        return {"TRL": self.iterations, "TRL without gc": without}

    def watching_gc(self):
        """A context in which the trainer's garbage collection is timed."""
        from trl.experimental.ppo import ppo_trainer

        def collect() -> int:
            began = now()
            found = gc.collect()
            self.gc = self.gc + (now() - began)
            return found

        return patch.object(ppo_trainer, "gc", SimpleNamespace(collect=collect))


def train_peer(trainer, watch: Stopwatch) -> None:
    """Run all iterations, without the trainer's printing."""
    with redirect_stdout(StringIO()), watch.watching_gc():
        watch.start()
        trainer.train()
