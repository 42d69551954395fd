"""Write the logs of tests/commands/logs: short runs of TRL's trainers, healthy and with one fault each.

`python tests/commands/make_logs.py FOLDER SEED [KIND …]`: with trl 1.12.0 for ppo, a later one for others.
"""

import json
import sys
from pathlib import Path

from benchmarks.trl_trainers import make_trainer
from helpers.config import DirectConfig, RLHFConfig
from helpers.data import load_pairs, load_rows
from helpers.scale.trl_groups import trl_at_work
from helpers.state import load_models
from helpers.studies.runs import significant

SHARED = {"iterations": 18, "device": "cpu", "learning_rate": 1e-3}
GROUPS = SHARED | {"responses_per_prompt": 4, "num_ppo_epochs": 1}
GRPO = GROUPS | {"method": "grpo", "kl_placement": "loss", "kl_loss": "k3", "kl_coef": 0.04}
RLOO = GROUPS | {"method": "rloo", "kl_coef": 0.1}
PPO = SHARED | {"critic_learning_rate": 1e-3, "kl_coef": 0.1}
FAST = {"learning_rate": 1e-2}


def equal_rewards(trainer) -> None:
    """The reward is the same for every response."""
    trainer.reward_funcs = [lambda completions, **columns: [1.0] * len(completions)]


def never_ends(trainer) -> None:
    """The stop token is one that is never sampled: a wrong id, as of another tokenizer."""
    wrong = trainer.processing_class.unk_token_id
    trainer.eos_token_ids, trainer.generation_config.eos_token_id = [wrong], [wrong]


def pad_is_eos(trainer) -> None:
    """Padding and EOS are one token, as where `tokenizer.pad_token = tokenizer.eos_token`."""
    tokenizer = trainer.processing_class
    tokenizer.pad_token = tokenizer.eos_token
    trainer.policy_model.generation_config.pad_token_id = tokenizer.eos_token_id


KINDS: dict[str, tuple] = {  # name: (settings, what is done to the trainer, if anything)
    "grpo": (GRPO,),
    "grpo_rate": (GRPO | FAST,),
    "grpo_constant": (GRPO, equal_rewards),
    "grpo_no_eos": (GRPO, never_ends),
    "grpo_beta_0": (GRPO | {"kl_coef": 0.0},),
    "rloo": (RLOO,),
    "dpo": ({"iterations": 18, "device": "cpu"},),
    "ppo": (PPO,),
    "ppo_rate": (PPO | FAST | {"critic_learning_rate": 1e-2},),
    "ppo_beta_0": (PPO | {"kl_coef": 0.0},),
    "ppo_pad": (PPO, pad_is_eos),
}


def write_log(kind: str, seed: int, path: Path) -> None:
    """Train one kind and write its `trainer_state.json`, floats rounded to four digits."""
    settings, *plants = KINDS[kind]
    config = (DirectConfig if kind == "dpo" else RLHFConfig)(**settings, seed=seed)
    models = load_models(config)
    rows = [row["prompt"] for row in load_rows("prompts.jsonl")]
    if kind == "dpo":
        rows = load_pairs("data/pairs_train.jsonl")
    with trl_at_work(models) as folder:
        trainer = make_trainer(config, models, rows, folder)
        for plant in plants:
            plant(trainer)
        trainer.train()
    state = trainer.state.__dict__ | {"log_history": significant(trainer.state.log_history, 4)}
    del state["stateful_callbacks"]
    path.write_text(json.dumps(state, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    folder, seed, *kinds = sys.argv[1:]
    for kind in kinds or KINDS:
        write_log(kind, int(seed), Path(folder) / f"{kind}.json")
        print(kind, flush=True)
