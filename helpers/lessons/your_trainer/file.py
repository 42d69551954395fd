"""Save a trainer that somebody wrote as one file which runs alone."""

from collections.abc import Callable
from pathlib import Path

from helpers import one_page
from helpers.data import DATA, work_folder
from helpers.kit.my_rlhf import FILE, read, save
from helpers.kit.own import own_helpers, source_of
from helpers.kit.recorded import load_parts, trainer_config
from helpers.lessons.your_trainer.checks import NAMES, as_functions, own_ones

SETTINGS = (
    "seed", "iterations", "batch_size", "response_length", "temperature", "kl_coef", "gamma", "lam",
    "cliprange", "cliprange_value", "vf_coef", "num_ppo_epochs", "minibatch_size", "learning_rate",
    "adam_eps", "max_grad_norm",
)  # fmt: skip
HEAD = '''"""RLHF in eight functions, written in lesson 06. It needs the course's data and nothing else of it.

    python {file} [ITERATIONS] [METHOD]
"""

import copy
import json
import math
import random
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

DATA = Path({data!r})
config = SimpleNamespace(
{settings}
)
'''


def trainer_source(functions: dict[str, Callable], config) -> str:
    """The text of a program made of these eight functions."""
    values = "\n".join(f"    {name}={getattr(config, name)!r}," for name in SETTINGS)
    head = HEAD.format(file=FILE, data=str(DATA), settings=values)
    given = [source_of(one_page.score_texts), source_of(load_parts)]
    own = [source_of(function) for function in own_helpers(functions)]
    own += [source_of(functions[name]) for name in NAMES]
    return "\n\n\n".join([head.rstrip(), *given, *own])


def save_trainer(functions: object, config=None, path: Path | None = None) -> Path | None:
    """Save somebody's eight functions as `my_course/my_rlhf.py`; None: not saved, and why.

    `functions` are those that `check_trainer` hands back. Methods of lessons 10 and 11 stay in the file.
    """
    own, path = own_ones(as_functions(functions)), path or work_folder() / FILE
    missing = [name for name in NAMES if name not in own]
    if missing:
        print(f"Not saved: the course's own stand in for {', '.join(missing)}.")
        return None
    _, methods = read(path)
    problem = save(path, trainer_source(own, config or trainer_config()), methods, "ppo")
    if problem is not None:
        print(f"Not saved, since it does not run alone. {problem}")
        return None
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    count = sum(bool(line) and not line.startswith("#") for line in lines)
    print(f"Saved as {path.name}, {count} lines of code. Run it: python {path}")
    return path
