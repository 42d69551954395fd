"""Any run in the drift explorer, whatever its tokenizer; and the GPU benchmark, tried on a CPU."""

import pytest
import torch
from conftest import tiny_models
from transformers import PreTrainedTokenizerFast

from benchmarks import cuda
from benchmarks.common import in_own_process
from helpers.config import RLHFConfig
from helpers.page.explorer import DriftExplorer
from helpers.sampling import plain_tokens
from helpers.scale.random_models import word_tokenizer
from helpers.state import start_run
from helpers.studies.beta_sweep import lone_sweep, vocabulary_words
from helpers.studies.drift import Drift
from helpers.studies.runs import WATCHED_PROMPTS, Run, record_run

CONFIG = RLHFConfig(device="cpu", iterations=2, batch_size=6, response_length=6, kl_coef=0.3)


@pytest.fixture(scope="module")
def lone():
    state = start_run(CONFIG, tiny_models(), prompts=list(WATCHED_PROMPTS))
    run = Run(CONFIG)
    list(record_run(state, run))
    return lone_sweep(run, state, per_prompt=40), run, state


def test_a_run_is_measured_beside_its_reference(lone):
    sweep, run, state = lone
    assert sweep.reference["scores"].shape == (len(WATCHED_PROMPTS), 40)
    assert sweep.reference["first_tokens"].shape == (len(WATCHED_PROMPTS), 40)
    assert run.final["responses"] == 10 * len(WATCHED_PROMPTS)
    assert abs(float(sweep.reference["scores"].mean())) < 0.5  # normalised on the reference


def test_the_explorer_shows_it(lone):
    sweep, run, state = lone
    words = vocabulary_words(state)
    assert len(words) == Drift(sweep).vocabulary_size
    explorer = DriftExplorer(sweep, words)
    explorer.iteration.value = 1
    assert explorer.values["iteration"] == 1
    assert explorer.values["kl"] == pytest.approx(run.history[1]["kl"])
    assert explorer.values["gold"] is None  # not measured, so not shown
    (page,) = explorer.facts["runs"][0]
    assert page["gold"] == [None] * 3 and explorer.facts["rounds"] == []
    assert explorer.plain().startswith("<iframe")


def test_an_empty_run_and_other_prompts_are_refused(lone):
    _, run, state = lone
    with pytest.raises(ValueError, match="run: got no iteration"):
        lone_sweep(Run(CONFIG), state)
    other = start_run(CONFIG, state.models, prompts=["the soup"])
    with pytest.raises(ValueError, match="prompts: got none of them"):
        lone_sweep(run, other)


def test_subword_tokens_are_shown_as_text():
    tokenizer = word_tokenizer()
    assert plain_tokens(tokenizer, [3, 7]) == ["t3", "t7"]
    ids = {"Ġfilm": 0, "▁film": 1, "Ċ": 2, "film": 3}
    inner = tokenizer.backend_tokenizer.from_str(
        '{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":'
        f'{str(ids).replace(chr(39), chr(34))},"unk_token":"film"}}}}'
    )
    shown = plain_tokens(PreTrainedTokenizerFast(tokenizer_object=inner), [0, 1, 2, 3])
    assert shown == [" film", " film", "⏎", "film"]


@pytest.mark.nightly
def test_the_gpu_benchmark_runs_on_a_cpu_too(capsys):
    small = RLHFConfig(device="cpu", batch_size=4, minibatch_size=4, response_length=4)
    found = in_own_process(cuda.measure, cuda.embedded, small, "full", torch.float32, 0)
    assert found["ratio_error"] <= 1e-4 and abs(found["kl"]) <= 1e-4
    assert found["seconds"]["iteration"] > found["seconds"]["update"] > 0
    assert found["tokens_per_second"] > 0
    assert 0 < found["estimated_MiB"] < found["peak_MiB"]  # of so small a model most is not tensors
    cuda.show("tiny", found)
    assert "tokens/s" in capsys.readouterr().out
