"""A reward, prompts and LoRA of one's own, as flags of `train`; and a run of them resumed."""

import csv
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from crash_harness import SMALL

from helpers import __main__ as command
from helpers.checkpoints import load_checkpoint, newest_checkpoint
from helpers.commands import train
from helpers.commands.distributed import DistributedOptions, begin
from helpers.commands.inputs import INPUTS, Inputs, keep_inputs, kept_inputs, load_function
from helpers.commands.study import STUDIES
from helpers.config import RLHFConfig
from helpers.models import load_tokenizer
from helpers.reward_model import load_reward_model
from helpers.scale.export import FACTS
from helpers.scale.held_out import BEST, ROWS
from helpers.tools.files import ROOT, write_jsonl

REWARDS = """
from pathlib import Path
def brevity(completions, **columns):
    return [-float(len(c)) for c in completions]

def hits(completions, solution):
    return [float(s in c) for c, s in zip(completions, solution)]

def never(texts):
    raise RuntimeError("this reward fails")

def away(texts):
    if Path("down").exists():
        raise ConnectionError("the judge is down")
    return [float(len(t)) for t in texts]

def stray(completions, solutoin):
    return [0.0 for c in completions]

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with rewards and prompts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    asked = {"rows": ("i saw this film", "it was"), "held_out": ("i saw this book", "the waiters")}
    for name, prompts in asked.items():
        write_jsonl(tmp_path / f"{name}.jsonl", [{"prompt": p, "solution": "the"} for p in prompts])
    return tmp_path


def sentence(capsys) -> str:
    problem = capsys.readouterr().err.strip().splitlines()[-1]
    assert problem.startswith("error: ")
    return problem


OWN = ["--reward", "my_rewards.py:brevity", "my_rewards.py:hits", "--reward-weights", "0.1", "2"]
OWN += ["--prompts", "rows.jsonl", "--eval-prompts", "held_out.jsonl"]


def test_a_run_of_one_s_own_is_trained_and_goes_on_as_it_was_started(folder, capsys):
    """With the same rewards and the same measurement before training; the export is made anew."""
    assert command.main(["train", *SMALL, *OWN, "--save", "run", "--export", "policy"]) == 0
    table = capsys.readouterr().out
    assert "Measuring 8 responses before training and as many after" in table
    assert "the waiters" in table.split("before and after")[1]  # measured on the held-out ones
    with (folder / "run" / "metrics.csv").open() as file:
        record = next(csv.DictReader(file))
    parts = 0.1 * float(record["reward_brevity"]) + 2 * float(record["reward_hits"])
    assert float(record["raw_score"]) == pytest.approx(parts, abs=1e-3)
    saved = json.loads((folder / "run" / INPUTS).read_text())
    assert saved["reward"][0] == f"{folder / 'my_rewards.py'}:brevity"
    longer = ["train", "--resume", "run", "--iterations"]
    assert command.main([*longer, "3"]) == 0
    shown = capsys.readouterr().out
    (first, again) = (text.split("before and after")[1].split() for text in (table, shown))
    assert first[first.index("before") :][:3] == again[again.index("before") :][:3]
    numbers = [text[text.index("\nscore ") :].split()[1] for text in (table, shown)]
    assert numbers[0] == numbers[1]  # the mean before training
    assert json.loads((folder / "policy" / FACTS).read_text())["iterations"] == 3
    others = ["--evaluation-samples", "6", "--export", "other"]
    assert command.main([*longer, "4", *others]) == 0
    printed = capsys.readouterr().out
    assert "Measuring 6 responses" in printed and "Policy exported to other" in printed
    assert command.main([*longer, "5", "--reward", "my_rewards.py:brevity"]) == 2
    assert "--reward: got" in sentence(capsys)


@pytest.mark.parametrize("name", ["train", "trace"])
def test_a_reward_model_without_a_head_is_refused_before_anything_is_written(folder, capsys, name):
    config, tokenizer = RLHFConfig(), load_tokenizer("data/sft")
    load_reward_model(config.reward_model, "cpu").encoder.save_pretrained("encoder")
    tokenizer.save_pretrained("encoder")
    before = sorted(folder.rglob("*"))
    assert command.main([name, "--reward-model", "encoder", "--device", "cpu"]) == 2
    assert sentence(capsys).startswith("error: reward_model: got 'encoder', a model without ")
    assert sorted(folder.rglob("*")) == before


def test_a_tenth_of_own_prompts_is_held_out_and_the_best_policy_on_them_kept(folder, capsys):
    rows = [{"prompt": f"{p} was"} for p in "it film room soup book hotel music view staff".split()]
    rows += [{"prompt": f"the {row['prompt']}"} for row in rows[1:5]]
    write_jsonl(folder / "rows.jsonl", rows)
    own = ["--prompts", "rows.jsonl", "--eval-every", "1", "--save", "run"]
    assert command.main(["train", *SMALL, *own]) == 0
    printed = capsys.readouterr().out
    saved = json.loads((folder / "run" / ROWS).read_text())
    assert [row["iteration"] for row in saved["rows"]] == [0, 1, 2]
    best = max(saved["rows"], key=lambda row: row["value"])
    assert "not trained on" in printed and "kept in run/best" in printed
    opening = "Trained on 12 prompts; 1 held out, to measure on: few"
    assert opening in printed and "--eval-prompts FILE" in printed
    assert printed.index(opening) < printed.index("(1) 4 prompts")
    trained = json.loads((folder / "run" / BEST / FACTS).read_text())
    assert trained["iterations"] == best["iteration"]
    state = load_checkpoint(folder / "run")
    assert len(state.prompts) == 12 and len(saved["prompts"]) == 1
    assert not set(state.prompts) & set(saved["prompts"])
    more = ["--resume", "run", "--iterations", "3", "--evaluation-samples", "8"]
    assert command.main(["train", *more]) == 0
    again = json.loads((folder / "run" / ROWS).read_text())
    assert again["prompts"] == saved["prompts"] and again["rows"][:3] == saved["rows"]
    assert again["rows"][-1]["iteration"] == 3


TWELVE = [{"prompt": f"the {w} was", "word": "the"} for w in "abcdefghijkl"]
COLUMNS = """
def hits(completions, word):
    return [float(w in c) for w, c in zip(word, completions)]
"""


def test_distributed_without_a_folder_trains_on_every_prompt(folder):
    write_jsonl(folder / "rows.jsonl", TWELVE)
    options = DistributedOptions(prompts=folder / "rows.jsonl")
    state, held_out = begin(options, RLHFConfig(device="cpu", normalize_scores=False))
    assert len(state.prompts) == 12 and held_out is None


@pytest.mark.parametrize("kind", [train.TrainOptions, DistributedOptions])
@pytest.mark.parametrize(("asked", "taken"), [(None, 64), (8, 8), (500, 64)])
def test_held_out_prompts_are_measured_on_no_more_responses_than_asked(folder, kind, asked, taken):
    given = {"eval_prompts": folder / "held_out.jsonl", "evaluation_samples": asked}
    keep_inputs(kind(**given), folder / "run")
    for options in (kind(**given), kept_inputs(kind(), folder / "run")):
        assert options.held_out(folder / "run", 0).samples == taken


def test_a_run_that_goes_on_is_measured_on_as_many_responses_as_before(folder):
    (folder / "run").mkdir()
    kept = {"prompts": ["it was"], "rows": [], "first": [0.0] * 5}
    (folder / "run" / ROWS).write_text(json.dumps(kept))
    options = DistributedOptions(evaluation_samples=8)
    assert options.held_out(folder / "run", 0).samples == 5


@pytest.mark.parametrize("go_on", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_distributed_takes_an_own_reward_holds_prompts_out_and_keeps_the_best(folder, capfd, go_on):
    """Two processes; the rows of both are those of the first, and what is resumed is measured on."""
    write_jsonl(folder / "rows.jsonl", TWELVE)
    (folder / "mine.py").write_text(COLUMNS)
    given = "--iterations 2 --batch-size 4 --response-length 4 --eval-every 1".split()
    given += ["--normalizer-samples", "8", "--reward", "mine.py:hits"]
    given += ["--prompts", "rows.jsonl", "--eval-share", "0.25", "--evaluation-samples", "6"]
    assert command.main(["distributed", *given, "--save", "run"]) == 0
    printed = capfd.readouterr().out
    assert "On 3 prompts not trained on" in printed and "same in all processes: True" in printed
    found = json.loads((folder / "run" / ROWS).read_text())
    state = json.loads((newest_checkpoint(folder / "run") / "state.json").read_text())
    assert len(state["prompts"]) == 9 and all(row["word"] == "the" for row in state["prompts"])
    assert [row["iteration"] for row in found["rows"]] == [0, 1, 2] and len(found["prompts"]) == 3
    assert len(found["first"]) == 6
    assert found["rows"][0]["kl"] == pytest.approx(0.0, abs=1e-4)
    best = max(found["rows"], key=lambda row: (row["value"], -row["iteration"]))
    trained = json.loads((folder / "run" / BEST / FACTS).read_text())
    assert trained["iterations"] == best["iteration"]
    if go_on:
        assert command.main(["distributed", "--resume", "run", "--iterations", "3"]) == 0
        again = json.loads((folder / "run" / ROWS).read_text())
        assert again["rows"][:3] == found["rows"] and again["rows"][-1]["iteration"] == 3


def test_inputs_left_by_a_run_that_was_stopped_early_are_replaced(folder):
    keep_inputs(Inputs(reward=["my_rewards.py:brevity"]), folder / "run")
    keep_inputs(Inputs(), folder / "run")
    assert kept_inputs(train.TrainOptions(), folder / "run").reward == []  # it has more flags


def test_prompts_that_are_trained_on_cannot_be_held_out_too(folder, capsys):
    own = ["--prompts", "rows.jsonl", "--eval-prompts", "rows.jsonl", "--save", "run"]
    assert command.main(["train", *SMALL, *own]) == 2
    assert "eval_prompts: got 2 of 2 that are trained on too" in sentence(capsys)
    assert not (folder / "run").exists()


def test_a_column_that_no_row_has_is_named_before_models_are_loaded(folder, capsys, monkeypatch):
    monkeypatch.setattr(Inputs, "own_models", lambda *_: pytest.fail("models were loaded"))
    for more in ([], ["my_rewards.py:brevity"]):
        own = ["--reward", "my_rewards.py:stray", *more, "--prompts", "rows.jsonl"]
        assert command.main(["train", *SMALL, *own]) == 2
        assert "wants a column 'solutoin', which the reward function names" in sentence(capsys)


def test_of_few_prompts_none_is_held_out_and_a_reward_may_fail_on_the_way(folder, capsys):
    given = [*SMALL, "--reward", "my_rewards.py:away", "--prompts", "rows.jsonl", "--save", "run"]
    assert command.main(["train", *given]) == 0
    assert "No prompt is held out: measured on the 2 trained on; --eval" in capsys.readouterr().out
    assert not (folder / "run" / ROWS).exists()
    Path("down").touch()
    with pytest.raises(RuntimeError, match="away raised Conn"):
        command.main(["train", "--resume", "run", "--iterations", "3"])
    Path("down").unlink()
    assert command.main(["train", "--resume", "run", "--iterations", "3"]) == 0


PAGE = (ROOT / "helpers/commands/README.md").read_text("utf-8")


def test_every_flag_for_one_s_own_model_is_explained_and_named_on_the_page():
    for field in fields(Inputs):
        flag = f"--{field.name.replace('_', '-')}"
        assert len(field.metadata["help"]) > 15 and re.search(rf"{flag}(?![\w-])", PAGE), flag


def test_the_page_names_no_flag_that_is_not_there(capsys):
    """And every sub-command and study explains itself."""
    known = {"--nproc-per-node", "--num_processes", "--no-deps", "--private"}  # of other tools
    for words in (*command.COMMANDS, *(f"study {name}" for name in STUDIES)):
        try:
            status = command.main([*words.split(), "--help"])
        except SystemExit as ended:
            status = ended.code
        printed = capsys.readouterr().out
        assert status == 0 and f"usage: python -m helpers {words}" in printed
        known |= set(re.findall(r"--[a-z][\w-]*", printed))
    assert set(re.findall(r"--[a-z][\w-]*", PAGE)) <= known


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--reward", "brevity"], "--reward: got 'brevity', wants FILE.py:NAME or MODULE:NAME"),
        (["--reward", "none.py:brevity"], "--reward: could not load none.py (FileNotFoundError"),
        (["--reward", "my_rewards.py:none"], "wants a function 'none'"),
        (["--reward", "my_rewards.py:number"], "wants a function 'number'"),
        (["--reward-weights", "1"], "reward_weights: got 1 of them, wants 0"),
        (["--reward", "my_rewards.py:hits"], "prompts: got rows with columns ['prompt'], wants"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--eval-share", "1"], "eval_share: got 1.0"),
        (["--eval-every", "0"], "eval_every: got 0"),
        (["--lora", "0"], "lora: got 0"),
        (["--lora-last", "2"], "lora_last: got 2, wants --lora too"),
    ],
)
def test_what_is_wrong_is_one_sentence(folder, capsys, flags, says):
    assert command.main(["train", *SMALL, *flags, "--save", "run"]) == 2
    assert says in sentence(capsys)
    assert not (folder / "run" / "checkpoints").exists()


def test_a_module_in_the_working_directory_is_found(folder, monkeypatch):
    monkeypatch.syspath_prepend("")  # as `python -m helpers` has it
    assert load_function("my_rewards:brevity")(completions=["ab"]) == [-2.0]
