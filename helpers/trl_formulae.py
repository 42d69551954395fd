"""TRL's own PPO formulae, run on our tensors: the very lines of its trainer, taken from the installed source.

They stand inside one method, `PPOTrainer.train`, so they cannot be called; they are cut out and executed.
Written against trl 1.12.0; an optional extra.
"""

import importlib.util
import inspect
import os
import textwrap
from functools import cache
from types import SimpleNamespace

import torch
from torch import Tensor

from helpers.config import PPOConfig
from helpers.validate import require

VERSION = "1.12.0"  # the last with a PPOTrainer


def trl_is_here() -> bool:
    """Whether trl can be imported."""
    return importlib.util.find_spec("trl") is not None


def require_trl() -> None:
    """ValueError in one sentence where trl is missing or is another version."""
    require(trl_is_here(), "trl", "none", f"`pip install trl=={VERSION}`")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # else it warns at every import
    import trl

    require(trl.__version__ == VERSION, "trl", trl.__version__, VERSION)


@cache
def trainer_lines(first: str, last: str) -> str:
    """Lines of `PPOTrainer.train` from the one that begins with `first` to the one with `last`."""
    from trl.experimental.ppo import PPOTrainer

    lines = inspect.getsource(PPOTrainer.train).splitlines()
    begins = [i for i, line in enumerate(lines) if line.strip().startswith(first)]
    require(len(begins) == 1, "first", f"{len(begins)} lines with {first!r}", "exactly one")
    ends = [i for i, x in enumerate(lines) if i >= begins[0] and x.strip().startswith(last)]
    require(bool(ends), "last", f"no line with {last!r} after it", "one")
    return textwrap.dedent("\n".join(lines[begins[0] : ends[0] + 1]))


def run_lines(first: str, last: str, **names) -> dict:
    """Execute these lines with the names they read; → every name they leave behind."""
    require_trl()
    from trl.experimental.ppo import ppo_trainer

    space = {name: value for name, value in vars(ppo_trainer).items() if callable(value)}
    space |= {"torch": torch, "INVALID_LOGPROB": ppo_trainer.INVALID_LOGPROB} | names
    exec(compile(trainer_lines(first, last), "PPOTrainer.train", "exec"), space)
    return space


def arguments(config: PPOConfig) -> SimpleNamespace:
    """The fields of TRL's config that its formulae read."""
    shared = ("kl_coef", "gamma", "lam", "cliprange", "cliprange_value", "vf_coef")
    same = {name: getattr(config, name) for name in (*shared, "whiten_rewards")}
    return SimpleNamespace(**same, kl_estimator="k1")


def trl_advantages(
    scores: Tensor,
    logprobs: Tensor,
    ref_logprobs: Tensor,
    values: Tensor,
    mask: Tensor,
    config: PPOConfig,
) -> dict:
    """TRL's masks, rewards, advantages (whitened) and returns: [B], [B, T] … → dict of [B, T].

    `values` is wanted at every position, one past the end of a response too: TRL reads it there.
    Keys: `padding_mask`, `padding_mask_p1` (True = padding, TRL's sense), `rewards`, `advantages`,
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
    config: PPOConfig,
) -> tuple[Tensor, Tensor]:
    """TRL's policy loss and value loss of one minibatch, all [B, T]; masks in our sense, True = counts."""
    every = torch.arange(len(mask))
    given = {"new_logprobs": logprobs, "mb_logprobs": old_logprobs, "mb_advantage": advantages}
    given |= {"vpred": values, "mb_values": old_values, "mb_return": returns}
    given |= {"padding_mask": ~mask, "padding_mask_p1": ~value_mask, "micro_batch_inds": every}
    last = "loss = pg_loss + args.vf_coef * vf_loss"
    space = run_lines("vpredclipped = torch.clamp", last, **given, args=arguments(config))
    return space["pg_loss"], space["vf_loss"]
