"""The same models, prompts and settings in TRL's PPOTrainer. trl 1.12.0 and datasets are optional extras.

`python -m helpers.trl_bridge --out FILE` trains both side by side and writes their curves.
"""

import argparse
import contextlib
import copy
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from helpers.command import exit_status
from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.models import ValueNetwork, quiet_loading
from helpers.reward_model import pair_texts
from helpers.state import Models, load_models, start_run
from helpers.storage import write_json
from helpers.trl_formulae import VERSION, require_trl
from helpers.validate import require

TABLE = (  # ours, TRL's argument, what differs
    ("kl_coef", "kl_coef", "the same; TRL's default is 0.05"),
    ("kl_placement", "–", "always in the reward"),
    ("(k1)", "kl_estimator", "k1, or k3 in the reward"),
    ("gamma, lam", "gamma, lam", "the same"),
    ("cliprange, cliprange_value", "cliprange, cliprange_value", "the same"),
    ("vf_coef", "vf_coef", "the same"),
    ("entropy_coef", "–", "no entropy bonus"),
    ("num_ppo_epochs", "num_ppo_epochs", "the same"),
    ("batch_size", "per_device_train_batch_size × gradient_accumulation_steps", "times processes"),
    ("minibatch_size", "num_mini_batches", "how many, not how large"),
    ("micro_batch_size", "per_device_train_batch_size", "means of means over micro-batches"),
    ("learning_rate", "learning_rate", "one for actor and critic; linear to 0"),
    ("adam_eps", "adam_epsilon", "TRL's default is 1e-8"),
    ("max_grad_norm", "max_grad_norm", "read by nobody: no clipping"),
    ("whiten_advantages", "–", "always, over one process's part"),
    ("whiten_rewards", "whiten_rewards", "the same idea; one position more counts"),
    ("temperature", "temperature", "TRL's default is 0.7"),
    ("response_length", "response_length", "TRL's default is 53"),
    ("missing_eos_penalty", "missing_eos_penalty", "the same; needs stop_token"),
    ("(EOS always stops)", "stop_token", "None unless 'eos' is asked for"),
    ("kl_target", "–", "no adaptive β"),
    ("iterations", "total_episodes", "iterations × batch_size"),
    ("normalize_scores", "–", "scores are taken as they come"),
)


def settings_table() -> str:
    """TABLE as a table of Markdown."""
    rows = [("this course", "TRL", "what differs"), ("---",) * 3, *TABLE]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class RewardForTRL(nn.Module):
    """Any scorer of whole texts, in the form that TRL's `get_reward` reads: backbone, then `score`."""

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
        return hidden  # [B, L, 1]: the score stands at every position, so TRL's choice is ours


class CriticForTRL(nn.Module):
    """Our value network under the names TRL looks for; the same parameters, not a copy."""

    base_model_prefix = "trunk"

    def __init__(self, critic: ValueNetwork):
        super().__init__()
        self.trunk, self.score = critic.trunk, critic.value_head


def trl_config(config: RLHFConfig, folder: str, **changes):
    """Our settings as TRL's, with `changes` by its own names; ValueError for those it lacks."""
    require_trl()
    from trl.experimental.ppo import PPOConfig

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
    return PPOConfig(**(settings | same | quiet | plain | changes))


def make_trainer(config: RLHFConfig, models: Models, prompts: list[str], folder: str, **changes):
    """TRL's PPOTrainer on our four models; actor and critic are trained in place."""
    args = trl_config(config, folder, **changes)  # says first what is missing
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
    """Train with PPOTrainer; a record an iteration, under our names what means the same."""
    quiet = (quiet_loading(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for manager in quiet:
            stack.enter_context(manager)
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, about TRL's calls
        trainer = make_trainer(config, models, prompts, folder)
        trainer.train()
    log = [entry for entry in trainer.state.log_history if "objective/kl" in entry]
    names = {"score": "objective/scores", "kl": "objective/kl", "value_loss": "loss/value_avg"}
    return [
        {"iteration": i} | {ours: float(entry[theirs]) for ours, theirs in names.items()}
        for i, entry in enumerate(log, start=1)
    ]


def reward_rows(pairs: list[dict]) -> list[dict]:
    """Our `{prompt, chosen, rejected}` rows as whole texts, for TRL's RewardTrainer.

    It joins a prompt and a response without a blank between them, so they are joined here.
    """
    texts = zip(*pair_texts(pairs), strict=True)
    return [{"chosen": chosen, "rejected": rejected} for chosen, rejected in texts]


def side_by_side(seeds: list[int], iterations: int) -> Iterator[dict]:
    """Both trainers from the same models and settings; yields all records so far after each seed.

    Keys: `ours` and `trl` (a list of records for each seed), `seconds` of CPU time, `seeds` done.
    """
    found: dict = {"iterations": iterations, "seeds": [], "ours": [], "trl": [], "seconds": []}
    for seed in seeds:
        # TRL clips no gradient, so ours clips none here
        config = RLHFConfig(
            seed=seed, iterations=iterations, max_grad_norm=1e6, micro_batch_size=64
        )
        models = load_models(config)
        theirs, prompts = copy.deepcopy(models), start_run(config, models).prompts
        started = time.process_time()
        ours = list(train_rlhf_loop(config, models, prompts=prompts))
        between = time.process_time()
        records = {"ours": ours, "trl": train_with_trl(config, theirs, prompts)}
        ended = time.process_time()
        for name, rows in records.items():
            kept = ("iteration", "score", "kl", "value_loss")
            found[name].append([{k: round(row[k], 4) for k in kept} for row in rows])
        found["seconds"].append({"ours": round(between - started), "trl": round(ended - between)})
        found["seeds"].append(seed)
        yield found


def main(arguments: list[str] | None = None) -> int:
    """The command; → its exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.trl_bridge", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=20)
    given = parser.parse_args(arguments)

    def run() -> None:
        require_trl()
        command = f"python -m helpers.trl_bridge --iterations {given.iterations} --out FILE"
        for found in side_by_side(given.seeds, given.iterations):
            write_json(given.out, {"command": command, "version": VERSION} | found)

    return exit_status(run, "Stopped; nothing was written.")


if __name__ == "__main__":
    sys.exit(main())
