"""TRL's formulas as TRL has them: lines of the installed PPOTrainer, executed on our tensors."""

import inspect
import textwrap
from functools import cache
from types import SimpleNamespace

import torch
from torch import Tensor

from benchmarks.trl_ppo import require_trl
from helpers.config import RLHFConfig
from helpers.tools.validate import require


@cache
def trainer_lines(first: str, last: str) -> str:
    """Lines of `PPOTrainer.train`, from the line that starts with `first` to the line with `last`."""
    from trl.experimental.ppo import PPOTrainer

    lines = inspect.getsource(PPOTrainer.train).splitlines()
    begins = [i for i, line in enumerate(lines) if line.strip().startswith(first)]
    require(len(begins) == 1, "first", f"{len(begins)} lines with {first!r}", "exactly one")
    ends = [i for i, x in enumerate(lines) if i >= begins[0] and x.strip().startswith(last)]
    require(bool(ends), "last", f"no line with {last!r} after it", "one")
    return textwrap.dedent("\n".join(lines[begins[0] : ends[0] + 1]))


def run_lines(first: str, last: str, **names) -> dict:
    """Execute these lines with the given variables; returns all variables afterwards."""
    require_trl()
    from trl.experimental.ppo import ppo_trainer

    space = {name: value for name, value in vars(ppo_trainer).items() if callable(value)}
    space |= {"torch": torch, "INVALID_LOGPROB": ppo_trainer.INVALID_LOGPROB} | names
    exec(compile(trainer_lines(first, last), "PPOTrainer.train", "exec"), space)
    return space


def arguments(config: RLHFConfig) -> SimpleNamespace:
    """The fields of TRL's config that its formulas read."""
    shared = ("cliprange", "cliprange_value", "vf_coef")
    return SimpleNamespace(**{name: getattr(config, name) for name in shared})


def trl_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    config: RLHFConfig,
) -> tuple[Tensor, Tensor]:
    """TRL's policy loss and value loss of one minibatch, all [B, T]; the mask as ours, True = counts."""
    every = torch.arange(len(mask))
    given = {"new_logprobs": logprobs, "mb_logprobs": old_logprobs, "mb_advantage": advantages}
    given |= {"vpred": values, "mb_values": old_values, "mb_return": returns}
    given |= {"padding_mask": ~mask, "padding_mask_p1": ~mask, "micro_batch_inds": every}
    last = "loss = pg_loss + args.vf_coef * vf_loss"
    space = run_lines("vpredclipped = torch.clamp", last, **given, args=arguments(config))
    return space["pg_loss"], space["vf_loss"]
