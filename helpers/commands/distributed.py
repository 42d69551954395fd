"""`python -m helpers distributed`: the run of `train` in several processes.

They are started on this machine, or by `torchrun --nproc-per-node 2 -m helpers distributed …` or
`accelerate launch --num_processes 2 -m helpers distributed …`. Models, reward, prompts and LoRA are
named as for `train`.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from helpers.checkpoints import require_unused, saved_config
from helpers.commands.inputs import STOPPED, Inputs, keep_inputs, kept_inputs
from helpers.config import RLHFConfig
from helpers.scale.distributed import LAUNCHED, join_group, launch, train_together, work_in_group
from helpers.scale.held_out import HeldOut
from helpers.state import RLHFState
from helpers.tools.files import require_free
from helpers.tools.flags import command, setting
from helpers.tools.validate import require, require_count

DEFAULTS = {"iterations": 3, "device": "cpu"}  # a short look, on any machine


@dataclass(kw_only=True)
class DistributedOptions(Inputs):
    """Train in several processes: on this machine, or in those a launcher started."""

    processes: int = setting(2, "how many on this machine, unless a launcher started them")
    save: Path | None = setting(None, "folder for checkpoints and history")
    resume: Path | None = setting(None, "go on with the run in this folder")
    force: bool = setting(False, "go on even after an update that wrecked the policy")


def begin(options: DistributedOptions, config: RLHFConfig) -> tuple[RLHFState, HeldOut | None]:
    """The run at its beginning, or where it stopped, and its held-out prompts; each process calls this.

    Without a folder nothing is measured along the way, and so no prompt is held out.
    """
    folder = options.resume or options.save
    if folder is None:
        return replace(options, eval_share=0.0).begin(config), None
    inputs = kept_inputs(options, folder)
    # before the models, where the processes wait for each other: the first one writes rows after that
    held_out = inputs.held_out(folder, config.seed)
    if options.resume is None:
        return inputs.begin(config), held_out
    return inputs.go_on(folder, config), held_out


@command("helpers distributed", DistributedOptions, RLHFConfig, stopped=STOPPED, **DEFAULTS)
def main(options: DistributedOptions, settings: dict) -> None:
    """Join the launcher's group, or start the processes here."""
    precision = {"mixed_precision": os.environ.get("ACCELERATE_MIXED_PRECISION", "no")}
    config = RLHFConfig(**DEFAULTS | precision | settings)
    if options.resume is not None:
        config = replace(saved_config(options.resume), **settings)
    folder, count = options.resume or options.save, options.processes
    launched = all(name in os.environ for name in LAUNCHED)
    if not launched:
        require_count("processes", count, low=2)
        divides = config.batch_size % count == 0
        require(divides, "batch_size", config.batch_size, f"a multiple of {count} processes")
    if folder is not None and not (launched and os.environ["RANK"] != "0"):
        require_free(folder)  # here, and not in a process that it would end
        if options.resume is None:
            require_unused(folder)
            keep_inputs(options, folder)
    work = partial(begin, options, config), folder, options.force
    if not launched:
        return launch(train_together, count, *work, device=config.device)
    join_group(config.device)
    return work_in_group(train_together, *work)
