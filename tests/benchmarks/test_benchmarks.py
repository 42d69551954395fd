"""The benchmarks run at their smallest, count their work right and measure what they say."""

import nbformat
import pytest
import torch

from benchmarks import course, ppo_vs_trl
from benchmarks.common import TokenCounter
from benchmarks.models import Size, make_actor, make_llama, make_run
from helpers.scale.memory import smollm2
from helpers.steps import iterate

SMALL = Size(layers=1, width=32, heads=2, vocabulary=32, prompt=4, response=5, batch=8)


def expected(per_row: int) -> dict[str, int]:
    """Backward positions of one iteration: 4 epochs, so many positions a row, both networks."""
    return {"policy": 4 * SMALL.batch * per_row, "critic": 4 * SMALL.batch * per_row}


def every_phase_takes_time(facts: dict) -> None:
    for row in facts["contestants"].values():
        assert min(row[f"{phase}_s"] for phase in ppo_vs_trl.PHASES) > 0 and row["total_cpu_s"] > 0


def test_every_response_has_full_length_and_ours_computes_no_position_in_vain():
    state = make_run(SMALL, minibatch=4)
    counter = TokenCounter(ppo_vs_trl.our_models(state))
    record = iterate(state)
    counted = counter.read()
    assert record["response_length"] == SMALL.response and record["ended"] == 0
    # the last response token chooses nothing, so no forward of the update reaches it
    assert counted["backward"] == expected(SMALL.prompt + SMALL.response - 1)
    assert counted["forward"]["reference"] == SMALL.batch * (SMALL.prompt + SMALL.response - 1)


def test_the_race_runs_and_counts_everyone(recwarn):
    pytest.importorskip("trl.experimental.ppo", reason="no TRL here that has a PPOTrainer")
    pytest.importorskip("datasets", reason="benchmarks/requirements.txt is not installed")
    facts = ppo_vs_trl.summarize(ppo_vs_trl.ppo_race(4, SMALL, rounds=1), SMALL)
    assert facts["tokens"]["TRL"]["backward"] == expected(SMALL.prompt + SMALL.response)
    assert set(facts["ratios"]) == {"TRL", "TRL without gc", *ppo_vs_trl.FLOORS}
    assert set(facts["tokens"]) == {"ours", "TRL"}
    del facts["contestants"]["TRL without gc"]  # of which the total alone is known
    every_phase_takes_time(facts)


def tiny_llama():
    """SmolLM2's shape, tiny, with the tokens of `SMALL`."""
    config = smollm2(width=48, inner=128, layers=2, heads=3, groups=1)
    config.vocab_size = SMALL.vocabulary
    return make_llama(config)


POLICIES = {"gpt2": lambda: make_actor(SMALL, fused=True), "llama": tiny_llama}


@pytest.mark.parametrize("name", POLICIES)
def test_in_grpo_too_every_response_has_full_length(name):
    state = ppo_vs_trl.make_grpo_run(POLICIES[name](), SMALL, iterations=2)
    models = {"policy": state.models.actor, "reference": state.models.reference}
    counter = TokenCounter(models)
    records = [iterate(state) for _ in range(2)]
    assert all(one["response_length"] == SMALL.response and one["ended"] == 0 for one in records)
    # one pass, and no critic
    per_row = SMALL.prompt + SMALL.response - 1
    assert counter.read()["backward"] == {"policy": 2 * SMALL.batch * per_row}
    with torch.no_grad():
        logits = state.models.actor(torch.arange(SMALL.vocabulary - 2).unsqueeze(0)).logits
    assert float((logits[..., -2:].amax(-1) - logits[..., :-2].amax(-1)).max()) < -40


@pytest.mark.parametrize("name", POLICIES)
def test_grpo_s_race_gives_both_the_same_tokens(name):
    pytest.importorskip("trl", reason="benchmarks/requirements.txt is not installed")
    pytest.importorskip("datasets", reason="benchmarks/requirements.txt is not installed")
    found = ppo_vs_trl.grpo_race(POLICIES[name], SMALL, rounds=1)
    facts = ppo_vs_trl.summarize(found, SMALL)
    row = SMALL.batch * (SMALL.prompt + SMALL.response)
    theirs, ours = (facts["tokens"][who] for who in ("TRL", "ours"))
    assert theirs["backward"] == {"policy": row}
    assert theirs["forward"] == {"policy": 2 * row - SMALL.batch, "reference": row}
    assert ours["backward"] == {"policy": row - SMALL.batch}
    assert ours["forward"] == {"policy": 2 * (row - SMALL.batch), "reference": row - SMALL.batch}
    assert set(facts["ratios"]) == {"TRL"}
    every_phase_takes_time(facts)


def test_a_notebook_is_measured(tmp_path):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell("import time\ntime.sleep(0.3)")]
    nbformat.write(notebook, tmp_path / "tiny.ipynb")
    found = course.run_notebook(tmp_path / "tiny.ipynb")
    assert found["seconds"] > 0.3 and found["peak_MiB"] > 10
