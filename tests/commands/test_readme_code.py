"""The Python of README.md and of the commands' README runs as it stands, on the course's small models."""

import json
import re
from unittest.mock import patch

import pytest
from transformers import AutoModelForCausalLM

from helpers.config import DirectConfig, RLHFConfig
from helpers.reward_model import load_reward_model
from helpers.tools.files import ROOT

SMALL = {"batch_size": 4, "response_length": 4, "normalizer_samples": 8, "iterations": 2}
HERE = {  # in place of what a hub has
    "HuggingFaceTB/SmolLM2-135M-Instruct": "data/sft",
    "HuggingFaceTB/SmolLM2-135M": "data/sft",
    "distilbert-base-uncased": "data/reward",
}


def small(config_class: type):
    """Context in which such configs have the sizes of a test, whatever the page says."""
    plain, sizes = config_class.__init__, SMALL | {"device": "cpu"}
    return patch.object(
        config_class, "__init__", lambda self, **given: plain(self, **given | sizes)
    )


def run_examples(page: str) -> int:
    """Run a page's Python, one example after the other; → how many."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    shown = {}
    with small(RLHFConfig), small(DirectConfig):
        for number, example in enumerate(examples):
            for name, stand_in in HERE.items():
                example = example.replace(name, stand_in)
            exec(compile(example, f"example {number} of {page}", "exec"), shown)
    return len(examples)


def pair(number: int) -> dict:
    chosen, rejected = ("it was good.", "it was bad.")[:: 1 if number % 3 else -1]
    return {"prompt": f"we saw film {number}", "chosen": chosen, "rejected": rejected}


@pytest.mark.slow
def test_the_first_page_s_example_keeps_the_policy_that_it_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples("README.md") == 1
    AutoModelForCausalLM.from_pretrained("my_policy")


@pytest.mark.slow
def test_the_commands_examples_train_on_rewards_and_pairs_of_one_s_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "".join(json.dumps(pair(number)) + "\n" for number in range(30))
    (tmp_path / "pairs.jsonl").write_text(lines)
    assert run_examples("helpers/commands/README.md") == 3
    AutoModelForCausalLM.from_pretrained("my_policy")
    load_reward_model("my_reward", "cpu")
