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
    shared = ("kl_coef", "gamma", "lam", "cliprange", "cliprange_value", "vf_coef")
    same = {name: getattr(config, name) for name in (*shared, "whiten_rewards")}
    return SimpleNamespace(**same, kl_estimator="k1")


def trl_advantages(
    scores: Tensor,
    logprobs: Tensor,
    ref_logprobs: Tensor,
    values: Tensor,
    mask: Tensor,
    config: RLHFConfig,
) -> dict:
    """TRL's masks, rewards, advantages (whitened) and returns: [B], [B, T] … → dict of [B, T].

    `values` needs a value at every position, also one after a response's end: TRL reads it there.
    Keys: `padding_mask`, `padding_mask_p1` (True = padding, as TRL has it), `rewards`, `advantages`,
    `returns`, `values`.
    """
    given = {"logprobs": logprobs.clone(), "ref_logprobs": ref_logprobs.clone()}
    given |= {
        "values": values.clone(),
        "scores": scores,
        "responses": torch.zeros_like(mask.long()),
    }
    given |= {"sequence_lengths": mask.sum(dim=1) - 1, "args": arguments(config)}
    last = "advantages = torch.masked_fill(advantages, padding_mask, 0)"
    space = run_lines("response_idxs = torch.arange", last, **given, empty_cache=lambda: None)
    wanted = ("padding_mask", "padding_mask_p1", "rewards", "advantages", "returns", "values")
    return {name: space[name] for name in wanted}


def trl_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    value_mask: Tensor,
    config: RLHFConfig,
) -> tuple[Tensor, Tensor]:
    """TRL's policy loss and value loss of one minibatch, all [B, T]; masks as ours, True = counts."""
    every = torch.arange(len(mask))
    given = {"new_logprobs": logprobs, "mb_logprobs": old_logprobs, "mb_advantage": advantages}
    given |= {"vpred": values, "mb_values": old_values, "mb_return": returns}
    given |= {"padding_mask": ~mask, "padding_mask_p1": ~value_mask, "micro_batch_inds": every}
    last = "loss = pg_loss + args.vf_coef * vf_loss"
    space = run_lines("vpredclipped = torch.clamp", last, **given, args=arguments(config))
    return space["pg_loss"], space["vf_loss"]
