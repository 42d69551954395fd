"""Save a trainer that somebody wrote as one file which runs alone, and run the one-page program beside it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch

from helpers import one_page
from helpers.data import DATA, work_folder
from helpers.kit.own import own_helpers, source_of
from helpers.kit.recorded import load_parts, trainer_config, trainer_parts
from helpers.kit.report import CORRECT
from helpers.lessons.your_trainer.band import CURVES
from helpers.lessons.your_trainer.checks import NAMES, as_functions, check_trainer
from helpers.models import quiet_loading
from helpers.tools.files import write_text

FILE = "my_trainer.py"
SETTINGS = (
    "seed", "iterations", "batch_size", "response_length", "temperature", "kl_coef", "gamma", "lam",
    "cliprange", "cliprange_value", "vf_coef", "num_ppo_epochs", "minibatch_size", "learning_rate",
    "adam_eps", "max_grad_norm",
)  # fmt: skip
HEAD = '''"""RLHF in eight functions, written in lesson 06. It needs the course's data and nothing else of it.

    python {file} [ITERATIONS]
"""

import copy
import json
import math
import random
import sys
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
TAIL = """if __name__ == "__main__":
    config.iterations = int(sys.argv[1]) if len(sys.argv) > 1 else config.iterations
    torch.manual_seed(config.seed), random.seed(config.seed), np.random.seed(config.seed)
    for number, (score, kl) in enumerate(train(load_parts(DATA), config), start=1):
        print(f"iteration {number:3d}   score {float(score):6.3f}   KL {float(kl):6.3f}", flush=True)
"""


def trainer_source(functions: dict[str, Callable], config) -> str:
    """The text of a program made of these eight functions."""
    values = "\n".join(f"    {name}={getattr(config, name)!r}," for name in SETTINGS)
    head = HEAD.format(file=FILE, data=str(DATA), settings=values)
    given = [source_of(one_page.score_texts), source_of(load_parts)]
    own = [source_of(function) for function in own_helpers(functions)]
    own += [source_of(functions[name]) for name in NAMES]
    return "\n\n\n".join([head.rstrip(), *given, *own, TAIL])


def try_out(source: str) -> str | None:
    """Run one small iteration of a program; the sentence that says why it does not run, or None."""
    names = {"__name__": "my_trainer"}
    small = {"iterations": 1, "batch_size": 4, "minibatch_size": 4, "response_length": 4}
    try:
        exec(compile(source, FILE, "exec"), names)
        settings = SimpleNamespace(**vars(names["config"]) | small)
        with torch.random.fork_rng(devices=[]):
            list(names["train"](trainer_parts(), settings))
    except NameError as problem:
        says = f"{problem}: a function uses something of the notebook that is no function."
        return f"{says} Move it into the function."
    except Exception as problem:  # noqa: BLE001 (said, not raised: it is a learner's program)
        return f"{type(problem).__name__}: {problem}"
    return None


def save_trainer(functions: object, config=None, path: Path | None = None) -> Path | None:
    """Save a trainer whose eight functions pass as `my_course/my_trainer.py`; None: not saved, and why."""
    report = check_trainer(functions)
    if any(one.status != CORRECT for one in report.reports):
        print(f"Not saved. {report.verdict}")
        return None
    source = trainer_source(as_functions(functions), config or trainer_config())
    problem = try_out(source)
    if problem is not None:
        print(f"Not saved, since it does not run alone. {problem}")
        return None
    path = path or work_folder() / FILE
    write_text(path, source)
    lines = [line.strip() for line in source.splitlines()]
    count = sum(bool(line) and not line.startswith("#") for line in lines)
    print(f"Saved as {path.name}, {count} lines of code. Run it: python {path}")
    return path


def run_page(seed: int = 0, config=None) -> dict:
    """The curves of `one_page.py` at the settings of lesson 06: [iterations] by name."""
    config = config or trainer_config(seed=seed)
    settings = {name: getattr(config, name) for name in SETTINGS} | {"seed": seed}
    with patch.multiple(one_page, **settings), quiet_loading():
        curve = [(float(s.mean()), float(kl.mean())) for s, kl, _ in one_page.train()]
    return dict(zip(CURVES, torch.tensor(curve).T.tolist(), strict=True))
