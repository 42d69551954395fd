"""The Python of README.md, commands/README.md and docs/from_trl_ppo.md runs as it stands, on small models."""

import json
import re
from pathlib import Path
from unittest.mock import patch

import pytest
from conftest import tiny_models
from transformers import AutoModelForCausalLM

from benchmarks.trl_ppo import trl_is_here
from helpers.config import DirectConfig, RLHFConfig
from helpers.reward_model import load_reward_model
from helpers.scale.export import FACTS, save_policy
from helpers.scale.held_out import BEST
from helpers.tools.files import ROOT

SMALL = {"batch_size": 4, "minibatch_size": 4, "response_length": 4, "normalizer_samples": 8}
SMALL |= {"iterations": 2, "device": "cpu"}
HERE = {  # in place of what a hub has
    "HuggingFaceTB/SmolLM2-135M-Instruct": "./chat_model",
    "HuggingFaceTB/SmolLM2-135M": str(ROOT / "data/sft"),
    "distilbert-base-uncased": "data/reward",
    "you/your-reward-model": str(ROOT / "data/reward"),
}
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}{% if add_generation_prompt %}it{% endif %}"


def small(config_class: type):
    """Context in which such configs have the sizes of a test, whatever the page says."""
    plain = config_class.__init__

    def made(self, **given) -> None:
        plain(self, **given | SMALL)

    return patch.object(config_class, "__init__", made)


NEEDS = {"peft": "make_models|from peft", "trl": "from trl|benchmarks.trl"}


def run_examples(page: str, needs: str = "") -> int:
    """Run those of a page's examples that need this package, or neither, each with own names; → how many."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    wanted = [[name for name, marks in NEEDS.items() if re.search(marks, e)] for e in examples]
    each, here = zip(examples, wanted, strict=True), [needs] if needs else []
    chosen = [example for example, names in each if names == here]
    with small(RLHFConfig), small(DirectConfig):
        for number, example in enumerate(chosen):
            for name, stand_in in HERE.items():
                example = example.replace(name, stand_in)
            exec(compile(example, f"example {number} of {page}", "exec"), {"__name__": "example"})
    return len(chosen)


def pair(number: int) -> dict:
    """A pair in the form of a conversation."""
    chosen, rejected = ("was good.", "was bad.")[:: 1 if number % 3 else -1]
    asked = [{"role": "user", "content": f"we saw film {number}"}]
    sides = {"chosen": chosen, "rejected": rejected}
    return {"prompt": asked} | {
        side: [{"role": "assistant", "content": text}] for side, text in sides.items()
    }


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with what the commands' page takes for granted: rows, pairs, a chat model."""
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": f"we saw film {number}", "solution": "the"} for number in range(5)]
    for name, lines in (("rows", rows), ("pairs", [pair(number) for number in range(30)])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    models = tiny_models()
    models.tokenizer.chat_template = TEMPLATE
    save_policy(models.actor, tmp_path / "chat_model", models.tokenizer)
    return tmp_path


COMMANDS, TRL_PAGE = "helpers/commands/README.md", "docs/from_trl_ppo.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "needs", "count", "policy"),
    [
        ("README.md", "", 1, "my_policy"),
        (COMMANDS, "", 8, "my_policy"),
        (COMMANDS, "peft", 3, "my_merged_policy"),
        (TRL_PAGE, "", 4, "my_policy"),
    ],
)
def test_the_examples_of_a_page_keep_what_they_train(folder, capsys, page, needs, count, policy):
    if needs:
        pytest.importorskip(needs)
    assert run_examples(page, needs) == count
    AutoModelForCausalLM.from_pretrained(policy)
    if needs:
        assert (folder / "my_adapter" / "adapter_config.json").exists()
    elif page == COMMANDS:
        load_reward_model("my_reward", "cpu")
        assert (folder / "my_run" / BEST / FACTS).exists()
        assert "glibc" in capsys.readouterr().out  # the printed estimate says what comes on top


@pytest.mark.slow
@pytest.mark.skipif(not trl_is_here(), reason="trl 1.12.0 is an optional extra")
def test_and_those_beside_trl_s_trainers(folder, capsys):
    pytest.importorskip("datasets")
    assert run_examples(TRL_PAGE, "trl") == 2
    assert "TRL score" in capsys.readouterr().out
