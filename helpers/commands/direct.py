"""`python -m helpers direct`: DPO or IPO on pairs of one's own, measured on pairs held out."""

from dataclasses import dataclass
from pathlib import Path

from helpers.checkpoints import require_unused
from helpers.commands.inputs import STOPPED, OwnModel
from helpers.config import DirectConfig
from helpers.data import load_pairs
from helpers.direct import counted, evaluate_pairs, train_direct, unscored
from helpers.models import load_tokenizer
from helpers.scale.export import own_dtype, require_exportable, save_policy
from helpers.scale.held_out import SHARE, split_prompts
from helpers.state import start_run
from helpers.tools.flags import command, setting
from helpers.tools.validate import require

SHOWN = ("loss", "accuracy", "margin")


@dataclass(kw_only=True)
class DirectOptions(OwnModel):
    """Learn from preference pairs (DPO, IPO), without a reward model."""

    eval_share: float = setting(SHARE, "share of prompts held out with their pairs; 0 for none")
    save: Path | None = setting(None, "folder for checkpoints")
    export: Path | None = setting(None, "folder for the trained policy")


def line(name: str, found: dict, count: int) -> str:
    """Loss, accuracy with its standard error, and margin, of so many pairs.

    The error is Agresti and Coull's (1998): not 0 where all of a few pairs are right.
    """
    share = (found["accuracy"] * count + 2) / (count + 4)
    error = (share * (1 - share) / (count + 4)) ** 0.5
    loss, accuracy, margin = (f"{key} {found[key]:.3f}" for key in SHOWN)
    return f"{count} pairs {name}: {loss}, {accuracy} ± {error:.3f}, {margin}"


@command("helpers direct", DirectOptions, DirectConfig, stopped=STOPPED)
def main(options: DirectOptions, settings: dict) -> None:
    """Part the pairs, train on most, measure on the others."""
    config = DirectConfig(**{"normalize_scores": False} | settings)
    require(not config.online, "online", "True", "pairs of a file; train_direct in Python takes it")
    if options.export is not None:
        require_exportable(options.export)
    if options.save is not None:
        require_unused(options.save)
    pairs, held_out = load_pairs(config.pairs, tokenizer=load_tokenizer(config.actor)), []
    if options.eval_share:
        pairs, held_out = split_prompts(pairs, options.eval_share, config.seed)
    config, reward = counted(config, pairs), None if "reward_model" in settings else unscored
    models = options.own_models(config, reward)
    prompts = list(dict.fromkeys(pair["prompt"] for pair in pairs))
    state = start_run(config, models, reward, prompts)
    print(
        f"{len(pairs)} pairs to train on; {len(held_out)} held out, with their prompts.", flush=True
    )
    for record in train_direct(state=state, pairs=pairs, save_dir=options.save):
        numbers = "  ".join(f"{name} {record[name]:.3f}" for name in (*SHOWN, "kl"))
        print(f"{record['iteration']}/{state.config.iterations}  {numbers}", flush=True)
    for name, some in {"trained on": pairs, "held out": held_out}.items():
        if some:
            print(line(name, evaluate_pairs(state, some), len(some)))
    print("Before training every margin is 0: the policy is its reference.")
    if options.save is not None:
        print(f"Checkpoints saved in {options.save}")
    if options.export is not None:
        save_policy(state, options.export, dtype=own_dtype(state.models.actor))
        print(f"Policy exported to {options.export}")
