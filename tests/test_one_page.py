"""The one-page program makes the same run as the loop, and a mistake on the page makes another one."""

import ast
import subprocess
import sys
from functools import cache
from itertools import islice

import pytest

from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.tools.files import ROOT

PAGE = ROOT / "helpers" / "one_page.py"
SOURCE = PAGE.read_text("utf-8")
# small, and each setting away from its default or from where it would change nothing (γ = 1)
SMALL = {
    "seed": 3,
    "iterations": 5,
    "batch_size": 8,
    "response_length": 20,
    "temperature": 0.8,
    "kl_coef": 0.5,
    "gamma": 0.97,
    "lam": 0.9,
    "cliprange": 0.1,
    "cliprange_value": 0.1,
    "vf_coef": 0.5,
    "num_ppo_epochs": 2,
    "minibatch_size": 4,
    "learning_rate": 2e-3,
    "adam_eps": 1e-3,
    "max_grad_norm": 0.3,
}
TOLERANCE = 1e-5


def run_page(source: str, settings: dict):
    """The run of a page with this source and these settings: score and KL of each iteration."""
    page = {"__name__": "one_page", "__file__": str(PAGE)}
    exec(compile(source, str(PAGE), "exec"), page)
    assert set(settings) <= set(page), "a setting the page does not have"
    page.update(settings)
    for scores, kl, _ in page["train"]():
        yield float(scores.mean()), float(kl.mean())


def run_loop(settings: dict):
    """The same of `train_rlhf_loop`."""
    rate = {name: settings["learning_rate"] for name in ("critic_learning_rate",) if settings}
    for record in train_rlhf_loop(RLHFConfig(device="cpu", **rate, **settings)):
        yield record["score"], record["kl"]


@cache
def small_run() -> list:
    return list(run_loop(SMALL))


def same(run, expected: list) -> bool:
    """Whether scores and KLs agree; at the first that does not, the rest is not run."""
    pairs = zip(run, expected, strict=False)
    return all(mine == pytest.approx(theirs, rel=0, abs=TOLERANCE) for mine, theirs in pairs)


def test_the_page_makes_the_same_run_as_the_loop():
    assert same(run_page(SOURCE, SMALL), small_run())


@pytest.mark.nightly  # by day with the settings of SMALL
def test_the_first_iterations_at_the_default_settings_are_the_same():
    assert same(run_page(SOURCE, {}), list(islice(run_loop({}), 5)))


def test_the_settings_are_the_loop_s_defaults():
    page = {"__name__": "one_page", "__file__": str(PAGE)}
    exec(compile(SOURCE, str(PAGE), "exec"), page)
    loop = vars(RLHFConfig())
    shared = loop.keys() & page.keys() - {"learning_rate"}
    assert shared == set(SMALL) - {"learning_rate"}
    assert {name: page[name] for name in shared} == {name: loop[name] for name in shared}


MISTAKES = {  # name: (right, wrong)
    "padding attended to": ("model(ids, attention_mask=mask, ", "model(ids, "),
    "the stop token is masked": (
        "torch.cat([mask, running], 1)",
        "torch.cat([mask, running & (new != tokenizer.eos_token_id)], 1)",
    ),
    "score on the last column, pad or not": ("counted.sum(1) - 1] +=", "T - 1] +="),
    "padding counted in the value loss": ("errors[counted].mean()", "errors.mean()"),
    "learning rate not annealed": (" * (1 - iteration / iterations)", ""),
    "gradients not clipped": ("max_grad_norm)", "1e9)"),
}


@pytest.mark.nightly  # as the planted bugs of the other files
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_on_the_page_is_noticed(name):
    right, wrong = MISTAKES[name]
    assert SOURCE.count(right) == 1, f"the page holds {right!r} {SOURCE.count(right)} times"
    assert not same(run_page(SOURCE.replace(right, wrong), SMALL), small_run())


def test_the_page_stands_alone():
    """Only torch, transformers, safetensors and the standard library, on one page."""
    imports = [n for n in ast.walk(ast.parse(SOURCE)) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {alias.name for n in imports if isinstance(n, ast.Import) for alias in n.names}
    names |= {"." * n.level + (n.module or "") for n in imports if isinstance(n, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert others == {"torch", "transformers", "safetensors"}
    assert len(SOURCE.splitlines()) <= 150


@pytest.mark.slow
def test_it_runs_as_a_command_from_anywhere(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PAGE), "1"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, *texts = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    assert first.startswith("iteration   1   score") and len(texts) == 4
