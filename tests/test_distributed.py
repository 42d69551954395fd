"""Two real processes (gloo, on the CPU) make the step that one makes, and each of two old bugs does not.

One spawn serves the whole file: a worker process does its part of every case and rank 0 writes it down.
"""

import copy
import dataclasses
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from conftest import length_reward, tiny_models

from helpers import steps
from helpers.config import RLHFConfig
from helpers.distributed import ManyProcesses, in_step, launch, main, start_distributed_run
from helpers.kl import kl_estimate
from helpers.loop import train_rlhf_loop
from helpers.processes import ALONE, OneProcess
from helpers.state import start_run
from helpers.steps import draw_prompts, iterate, write_responses
from helpers.storage import ROOT
from helpers.whitening import whiten_advantages
from helpers.writing import Written

PROMPTS = ["we saw this film", "the soup", "my brother and i stayed at this hotel last", "i read"]
BASE = {"iterations": 4, "batch_size": 12, "response_length": 16, "minibatch_size": 5}
CASES = {  # minibatches of 5 of 12 rows: uneven over two processes, the last one of 2 rows
    "plain": {},
    "micro-batches": {"micro_batch_size": 2},
    "rewards whitened": {"whiten_rewards": True, "micro_batch_size": 3},
    "KL in the loss": {"kl_placement": "loss", "kl_loss": "full", "entropy_coef": 0.01},
    "one row a minibatch": {"minibatch_size": 1, "num_ppo_epochs": 1},
    "beta adapts": {"kl_target": 0.1},
}


def begin(processes: OneProcess, changes: dict, **given):
    """A run of tiny models whose actor has left its reference, so that there is some KL."""
    models = tiny_models()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in models.actor.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    config = RLHFConfig(**(BASE | changes), normalize_scores=False)
    given = {"models": models, "prompts": PROMPTS} | given
    if processes is ALONE:
        return start_run(config, **given)
    return start_distributed_run(config, processes, **given)


def part_of(written: Written, processes: OneProcess) -> Written:
    """This process's rows of a recorded rollout, cut to their own longest response."""
    rows = processes.mine(list(range(len(written.texts))))
    length = int(written.response_mask[rows].sum(dim=1).max())
    picked = {f.name: getattr(written, f.name) for f in dataclasses.fields(written)}
    for name in ("response_tensors", "response_mask", "logprobs"):
        picked[name] = picked[name][rows, :length]
    for name in ("query_tensors", "query_mask"):
        picked[name] = picked[name][rows]
    return Written(**picked | {"texts": [written.texts[i] for i in rows]})


def recorded() -> Written:
    """One global rollout; the first rows are made long and the others short, as the worst case."""
    state = begin(ALONE, {})
    written = write_responses(state, draw_prompts(state))
    lengths = written.response_mask.sum(dim=1)
    order = lengths.argsort(descending=True).tolist()
    assert lengths.max() > 2 * lengths.min()
    picked = {f.name: getattr(written, f.name) for f in dataclasses.fields(written)}
    tensors = {name: x[order] for name, x in picked.items() if isinstance(x, torch.Tensor)}
    return Written(**picked | tensors | {"texts": [written.texts[i] for i in order]})


def one_iteration(processes: OneProcess, changes: dict, written: Written) -> dict:
    """Steps 3 to 7 on the recorded rollout: trained weights, and the record."""
    state, seen = begin(processes, changes), {}
    original, steps.write_responses = (
        steps.write_responses,
        lambda state, prompts: part_of(written, processes),
    )
    try:
        record = iterate(state, lambda step, **tensors: seen.update({step: tensors}))
    finally:
        steps.write_responses = original
    trained = [p.detach() for g in state.optimizer.param_groups for p in g["params"]]
    weights = torch.cat([p.flatten() for p in trained])
    return {"weights": weights, "record": record, "advantages": seen[6]["advantages"]}


class Averaging(ManyProcesses):
    """The bug: mean over this process's own tokens, then the mean over processes."""

    def sum_gradients(self, parameters):
        super().sum_gradients(parameters)
        for parameter in parameters:
            parameter.grad /= self.count

    def minibatches(self, rollout, size, generator):
        for batch in super().minibatches(rollout, size, generator):
            self.own = batch.response_mask.sum()
            yield batch

    def add(self, x):
        return x.sum() if x.dtype == torch.bool else super().add(x)


def whiten_alone(advantages, mask, add):
    """The other bug: statistics of this process's own part."""
    return whiten_advantages(advantages, mask)


def every_case(processes: ManyProcesses, written: Written, folder: Path) -> None:
    """What the two processes do, and rank 0 writes down."""
    torch.set_num_threads(1)
    found = {name: one_iteration(processes, c, written) for name, c in CASES.items()}
    found["averaging"] = one_iteration(Averaging(), {}, written)
    right, steps.whiten_advantages = steps.whiten_advantages, whiten_alone
    found["whitening alone"] = one_iteration(processes, {}, written)
    steps.whiten_advantages = right
    found["loop"] = whole_loop(processes, folder)
    torch.save(found, folder / f"rank_{processes.rank}.pt")


def whole_loop(processes: ManyProcesses, folder: Path) -> dict:
    """Two iterations from prompts to update, each process writing for itself."""
    texts = []
    state = begin(processes, {"iterations": 2}, measures={"letters": lambda t: [len(x) for x in t]})

    def keep(step, **tensors):
        texts.extend(tensors["written"].texts if step == 2 else [])

    save_dir = folder / "run" if processes.rank == 0 else None
    records = list(train_rlhf_loop(state=state, observe=keep, save_dir=save_dir))
    stop = state.models.tokenizer.eos_token_id
    return {"texts": texts, "records": records, "in_step": in_step(state), "stop": stop}


@pytest.fixture(scope="module")
def rollout() -> Written:
    return recorded()


@pytest.fixture(scope="module")
def found(tmp_path_factory, rollout) -> list[dict]:
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp("two")
    launch(every_case, 2, rollout, folder)
    ranks = [torch.load(folder / f"rank_{rank}.pt", weights_only=True) for rank in (0, 1)]
    assert (folder / "run" / "checkpoints" / "iteration_00002").is_dir()
    return ranks


@pytest.mark.parametrize("name", CASES)
def test_two_processes_make_the_update_of_one(found, rollout, name):
    alone = one_iteration(ALONE, CASES[name], rollout)
    before = torch.cat([p.flatten() for p in begin(ALONE, CASES[name]).models.actor.parameters()])
    assert (alone["weights"][: len(before)] - before).abs().max() > 1e-3  # it does move
    for rank in (0, 1):
        apart = (found[rank][name]["weights"] - alone["weights"]).abs().max()
        assert apart <= 1e-5, float(apart)


@pytest.mark.parametrize("name", CASES)
def test_the_records_are_those_of_the_whole_batch(found, rollout, name):
    alone = one_iteration(ALONE, CASES[name], rollout)["record"]
    for rank in (0, 1):
        record = found[rank][name]["record"]
        assert record.keys() == alone.keys()
        for key in set(record) - {"seconds", "first_ratio_error"}:
            assert record[key] == pytest.approx(alone[key], abs=2e-5, rel=1e-4), key


def test_advantages_are_whitened_over_all_processes(found, rollout):
    alone = one_iteration(ALONE, {}, rollout)["advantages"]
    parts = [found[rank]["plain"]["advantages"] for rank in (0, 1)]
    both = torch.cat([torch.nn.functional.pad(p, (0, alone.shape[1] - p.shape[1])) for p in parts])
    torch.testing.assert_close(both, alone, atol=1e-5, rtol=1e-5)
    assert (found[0]["whitening alone"]["advantages"] - parts[0]).abs().max() > 1e-3


@pytest.mark.parametrize("bug", ["averaging", "whitening alone"])
def test_guard_a_process_that_minds_its_own_part_makes_another_update(found, rollout, bug):
    """Long responses here, short ones there: neither the mean of two means nor two whitenings is the one."""
    alone = one_iteration(ALONE, {}, rollout)
    assert (found[0][bug]["weights"] - alone["weights"]).abs().max() > 1e-4


def test_both_processes_stay_the_same_and_write_different_responses(found):
    first, second = (rank["loop"] for rank in found)
    assert first["in_step"] and second["in_step"]
    assert set(first["texts"]) != set(second["texts"]) and len(first["texts"]) == 12
    for one, other in zip(first["records"], second["records"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
        assert one["first_ratio_error"] <= 1e-4


def test_measures_and_scores_are_means_over_all_responses(found):
    texts = found[0]["loop"]["texts"][:6] + found[1]["loop"]["texts"][:6]
    record = found[0]["loop"]["records"][0]
    assert record["letters"] == pytest.approx(sum(map(len, texts)) / 12)
    assert record["score"] == pytest.approx(float(length_reward(texts).mean()), abs=1e-5)
    assert record["score_std"] == pytest.approx(float(length_reward(texts).std()), abs=1e-5)


def test_kl_is_the_mean_over_all_responses(found, rollout):
    state = begin(ALONE, {})
    ref_logprobs = steps.reference_logprobs(state, rollout)
    kl = kl_estimate(rollout.logprobs, ref_logprobs).sum(dim=1).mean()
    assert found[1]["plain"]["record"]["kl"] == pytest.approx(float(kl), rel=1e-4)


def test_a_batch_that_does_not_divide_is_refused_at_once(capsys):
    assert main(["--batch-size", "63"]) == 2
    said = capsys.readouterr().err
    assert said == "error: batch_size: got 63, wants a multiple of 2 processes.\n"


@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is an optional extra")
def test_bf16_through_accelerate_starts_at_ratio_one_and_kl_zero(tmp_path):
    command = [sys.executable, "-m", "helpers.distributed", "--mixed-precision", "bf16"]
    command += ["--iterations", "1", "--batch-size", "8", "--save", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    record = json.loads((tmp_path / "history.json").read_text())[0]
    assert "bf16 autocast" in done.stdout and "in all processes: True" in done.stdout
    assert record["first_ratio_error"] < 0.05 and abs(record["kl"]) < 0.05
    assert 1e-4 < record["logprob_gap"] < 0.5


@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is an optional extra")
def test_the_notebook_launcher_starts_two_processes(tmp_path):
    """From a script, as from a cell; a kernel of its own, since it forks."""
    flags = ["--iterations", "1", "--batch-size", "8", "--save", str(tmp_path)]
    script = "from accelerate import notebook_launcher; from helpers.distributed import main; "
    script += f"notebook_launcher(main, ({flags!r},), num_processes=2)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 processes, 4 responses each" in done.stdout
    assert "in all processes: True" in done.stdout


def test_mixed_precision_without_accelerate_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["--mixed-precision", "bf16"]) == 2
    assert "accelerate: got none" in capsys.readouterr().err


def test_alone_nothing_is_added_up():
    x = torch.arange(6.0).view(2, 3)
    assert float(ALONE.add(x)) == 15.0 and ALONE.gather(x) is x and ALONE.mine([1, 2]) == [1, 2]
    assert copy.copy(ALONE.merge({"a": x})) == {"a": x}
