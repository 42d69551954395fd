"""The RLHF loop: one record per iteration. As a command it is `python -m helpers train`.

Not included: sharded models and generation engines. Several processes: `python -m helpers distributed`.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from helpers.checkpoints import hold_run, list_checkpoints, load_checkpoint, save_checkpoint
from helpers.config import RLHFConfig
from helpers.prompts import as_prompts, as_rows
from helpers.state import Models, Reward, RLHFState, start_run
from helpers.steps import iterate, no_observer
from helpers.tools.validate import require


def train_rlhf_loop(
    config: RLHFConfig | None = None,
    models: Models | None = None,
    reward: Reward | None = None,
    prompts: list[str | dict] | None = None,
    measures: dict[str, Callable] | None = None,
    save_dir: str | Path | None = None,
    state: RLHFState | None = None,
    observe: Callable = no_observer,
    resume: bool = False,
) -> Iterator[dict]:
    """Run RLHF; yields one record (a dict of floats) per iteration, so `list(...)` collects them all.

    Pass `models` to have the trained actor afterwards, `reward` (a function of texts, or of prompts,
    completions and the columns of prompts that are rows: `helpers.rewards`) to replace the reward
    model, `measures` (name → list of texts → numbers) to record other scores without
    training on them. With `save_dir`, a checkpoint is written every `config.checkpoint_every`
    iterations and at the end; with a `state` from `load_checkpoint`, the run continues there. With
    `resume` the same call begins a run or goes on with the one in `save_dir`, so that a cell may be run
    again after a kernel has died; the records are those still to come. Several processes all call this
    in the same way; the first one writes.
    """
    require(not resume or save_dir is not None, "resume", "True without save_dir", "both")
    if resume and list_checkpoints(save_dir):
        require(state is None, "resume", "True with a state", "one of the two")
        state = load_checkpoint(save_dir, config, models, reward, measures)
        require_same_prompts(state, prompts)
    state = state or start_run(config or RLHFConfig(), models, reward, prompts, measures)
    yield from run_iterations(state, partial(iterate, observe=observe), save_dir)


def require_same_prompts(state: RLHFState, prompts: list[str | dict] | None) -> None:
    """Require that a resumed run is given the prompts it was started with, or none."""
    if prompts is not None:
        same = as_rows(as_prompts(prompts, state.models.tokenizer)) == as_rows(state.prompts)
        require(same, "prompts", "others than the run in save_dir", "the same, or another folder")


def run_iterations(
    state: RLHFState,
    iterate: Callable[[RLHFState], dict],
    save_dir: str | Path | None = None,
    also: Callable[[Path], None] | None = None,
) -> Iterator[dict]:
    """Call `iterate(state)` until the run is done; yields its records and writes its checkpoints.

    `also` is that of `save_checkpoint`.
    """
    last, every = state.config.iterations, state.config.checkpoint_every
    with nullcontext() if save_dir is None else hold_run(save_dir, state.iteration):
        while state.iteration < last:
            # an interrupt within `no_grad` can leave gradients switched off; not beyond this
            with torch.set_grad_enabled(torch.is_grad_enabled()):
                record = iterate(state)
            due = state.iteration % every == 0 or state.iteration == last
            if save_dir is not None and due:
                save_checkpoint(state, save_dir, also)
            yield record
