"""Rewards in both forms: what each is called with, columns from prompt to reward, raw scores."""

import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest
import torch
from conftest import PROMPTS, length_reward, strip, tiny_models, trained
from hypothesis import given
from hypothesis import strategies as st

from helpers.config import DirectConfig
from helpers.direct import train_direct
from helpers.loop import train_rlhf_loop
from helpers.prompts import Prompt, as_prompts, as_rows
from helpers.reward_model import RewardModel, join
from helpers.rewards import score_texts, takes_completions
from helpers.sampling import SampledText
from helpers.state import start_run
from helpers.steps import draw_prompts, evaluate, generate_responses, iterate
from helpers.tools import parallel
from helpers.world.small_models import make_encoder

ROWS = [{"prompt": p, "solution": p[::-1], "level": i} for i, p in enumerate(PROMPTS)]


class Recorder:
    """A reward that keeps what it was called with: the length reward of each completion."""

    def __init__(self):
        self.calls = []

    def __call__(self, prompts, completions, solution, level):
        for prompt, its_solution, its_level in zip(prompts, solution, level, strict=True):
            assert its_solution == prompt[::-1] and PROMPTS[its_level] == prompt
        self.calls.append((prompts, completions))
        return length_reward([join(*pair) for pair in zip(prompts, completions, strict=True)])


def start(config, reward, prompts=ROWS, **changes):
    return start_run(replace(config, **changes), tiny_models(reward=reward), prompts=prompts)


def in_trl_s_way(completions, **kwargs):
    return [float(len(c)) for c in completions]


COMPLETIONS = [in_trl_s_way, partial(in_trl_s_way, weight=2), Recorder()]
TEXTS = [length_reward, lambda texts: 0, lambda answers: 0, len, print]


def test_a_function_that_names_completions_is_given_them_and_any_other_whole_texts():
    assert all(map(takes_completions, COMPLETIONS)) and not any(map(takes_completions, TEXTS))
    tokenizer = tiny_models().tokenizer
    assert not takes_completions(RewardModel(make_encoder(tokenizer, 1, 32), tokenizer))


def test_a_reward_gets_the_columns_it_names_and_all_with_two_stars():
    texts = [SampledText("a b", Prompt("a", {"x": 1, "y": [2]}), "b")]
    seen = {}

    def some(completions, y):
        seen["some"] = (completions, y)
        return [0.0]

    def everything(completions, **columns):
        seen["all"] = columns
        return [0.0]

    score_texts(some, texts), score_texts(everything, texts)
    assert seen == {"some": (["b"], [[2]]), "all": {"prompts": ["a"], "x": [1], "y": [[2]]}}


def test_a_column_that_no_prompt_has_is_named(config):
    state = start(config, lambda completions, goal: [0.0] * len(completions))
    says = r"columns \['prompt', 'level', 'solution'\], wants a column 'goal'"
    with pytest.raises(ValueError, match=says):
        iterate(state)


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32)
VALUES = st.recursive(
    st.none() | st.booleans() | st.text() | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.fixed_dictionaries({"prompt": st.text(), "a": VALUES, "b": VALUES}), min_size=1))
def test_rows_survive_being_prompts(rows):
    prompts = as_prompts(rows)
    assert prompts == [row["prompt"] for row in rows] and as_rows(prompts) == rows
    for again in (copy.deepcopy(prompts), pickle.loads(pickle.dumps(prompts))):
        assert as_rows(again) == rows


def test_texts_stay_the_texts_they_are():
    assert as_prompts(PROMPTS) is PROMPTS and as_rows(PROMPTS) == PROMPTS
    assert as_rows(as_prompts([{"prompt": "a"}, "b"])) == ["a", "b"]


@pytest.mark.parametrize(
    "rows, says",
    [
        ([{"question": "a"}], "^prompts: got {'question': 'a'}, wants rows with a text"),
        ([{"prompt": "a"}, 3], "^prompts: got 3"),
        ([{"prompt": "a", "x": 1}, {"prompt": "b"}], "^prompts: got columns \\[\\]"),
        ([{"prompt": "a", "x": {1}}], "^columns of prompts: got 'x': {1}"),
        ([{"prompt": "a", "x": float("nan")}], "^columns of prompts: got 'x'"),
        ([{"prompt": "a", "completions": "b"}], "^columns of prompts: got 'completions'"),
    ],
)
def test_rows_that_cannot_be_are_refused(config, rows, says):
    with pytest.raises(ValueError, match=says):
        start(config, length_reward, rows)


def test_the_columns_of_a_prompt_reach_the_reward_with_every_response(normalizing):
    """In the normaliser, with several responses a prompt, and in `evaluate`; the recorder compares."""
    reward, grpo = Recorder(), {"method": "grpo", "responses_per_prompt": 4}
    state = start(normalizing, reward, **grpo)
    assert len(reward.calls[0][0]) == 32  # the normaliser's samples
    iterate(state)
    assert reward.calls[1][0][:4] == reward.calls[1][0][:1] * 4
    found, texts = evaluate(state.models.actor, state, count=10)
    assert reward.calls[2][0] == (PROMPTS * 3)[:10] and len(found["score"]) == 10
    for prompts, completions in reward.calls:
        assert not any("<" in completion for completion in completions)
        assert not any(c.startswith(p) for p, c in zip(prompts, completions, strict=True))


def test_a_completion_is_the_text_without_its_prompt(config):
    state = start(config, Recorder())
    for text in generate_responses(state, draw_prompts(state)).texts:
        assert join(text.prompt, text.completion) == text


def test_rows_and_texts_make_the_same_run(normalizing):
    """The columns change no random number, nor does the form of the reward."""

    def run(reward, prompts):
        state = start(normalizing, reward, prompts)
        return strip(train_rlhf_loop(state=state)), trained(state.models)

    assert run(length_reward, PROMPTS) == run(Recorder(), ROWS)


def test_columns_stay_with_their_prompts_in_each_of_several_processes(config, monkeypatch):
    grpo = {"method": "grpo", "responses_per_prompt": 2}
    whole, *states = [start(config, Recorder(), **grpo) for _ in range(3)]
    whole, parts = draw_prompts(whole), []
    monkeypatch.setattr(parallel, "world_size", lambda: 2)
    for number, state in enumerate(states):
        monkeypatch.setattr(parallel, "rank", lambda number=number: number)
        parts += draw_prompts(state)
    assert parts == whole and [p.columns for p in parts] == [p.columns for p in whole]
    assert all(prompt.columns["solution"] == prompt[::-1] for prompt in parts)


def test_pairs_written_online_carry_the_columns():
    small = {"iterations": 2, "batch_size": 4, "response_length": 6, "normalizer_samples": 8}
    config, reward = DirectConfig(online=True, **small), Recorder()
    history = list(train_direct(config, tiny_models(reward=reward), prompts=ROWS))
    assert [len(call[0]) for call in reward.calls] == [8, 8, 8] and "raw_score" in history[0]


def test_the_raw_score_is_recorded_where_the_loop_changes_it(config, normalizing):
    state = start(normalizing, length_reward)
    record = iterate(state)
    raw = record["score"] * state.score_std + state.score_mean
    assert record["raw_score"] == pytest.approx(raw, abs=1e-5)
    assert "raw_score" not in iterate(start(config, length_reward))
    found, texts = evaluate(state.models.actor, state, count=8)
    assert torch.equal(found["raw_score"], length_reward(texts))
    assert torch.equal(found["score"], state.score(texts))


def test_the_raw_score_knows_no_penalty(config):
    state = start(config, lambda texts: [1.0] * len(texts), missing_eos_penalty=5.0)
    record = iterate(state)
    assert record["raw_score"] == 1.0 and record["score"] < 1.0
