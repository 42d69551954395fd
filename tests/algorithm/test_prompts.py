"""Prompts as texts, rows and conversations; several rewards as one."""

import copy
from dataclasses import replace

import pytest
import torch
from conftest import length_reward, tiny_models
from hypothesis import given
from hypothesis import strategies as st

from helpers.data import as_pairs
from helpers.loop import train_rlhf_loop
from helpers.models import load_tokenizer
from helpers.prompts import Prompt, as_prompts, as_rows, chat_text, read_prompts
from helpers.reward_model import join
from helpers.rewards import RewardSum, score_texts
from helpers.sampling import SampledText, encode_prompts
from helpers.state import start_run
from helpers.tools.files import FileProblem, write_jsonl

TALK = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "the soup"}]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m['role'] }} {{ m['content'] }} . {% endfor %}"
    "{% if add_generation_prompt %}it{% endif %}"
)


@pytest.fixture(scope="module")
def chatty():
    """The course's tokenizer, which adds a BOS itself, with a template that writes one too."""
    tokenizer = copy.deepcopy(load_tokenizer("data/sft"))
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def test_a_conversation_becomes_the_template_s_text_and_keeps_its_messages(chatty):
    (prompt,) = as_prompts([{"prompt": TALK, "solution": "hot"}], chatty)
    assert prompt == "system be brief . user the soup . it"
    assert prompt.columns == {"solution": "hot", "messages": TALK}
    assert as_prompts([TALK], chatty)[0].columns == {"messages": TALK}  # a bare conversation
    again = as_prompts(as_rows([prompt]), None)  # as a checkpoint has it
    assert again == [prompt] and again[0].columns == prompt.columns


def test_the_model_reads_one_bos_whoever_writes_it(chatty):
    ids, mask = encode_prompts(chatty, as_prompts([TALK], chatty))
    assert int((ids[mask] == chatty.bos_token_id).sum()) == 1
    silent = copy.deepcopy(chatty)
    silent._tokenizer.post_processor = None  # adds none: then the template's has to stay
    assert silent("a")["input_ids"][0] != silent.bos_token_id
    assert chat_text(silent, TALK).startswith(silent.bos_token)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "messages: got \\[\\], wants dicts"),
        (["hello"], "prompts: got .* wants rows with a text or messages"),
        ([{"role": 1, "content": "a"}], "messages: got .* wants dicts"),
        ([*TALK, {"role": "assistant", "content": "a"}], "messages: got an assistant's at the end"),
    ],
)
def test_other_conversations_are_refused(chatty, messages, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        as_prompts([{"prompt": messages}], chatty)


def test_a_row_with_other_columns_than_most_is_named(tmp_path):
    rows = [{"prompt": text, "want": "a"} for text in ("one", "two", "three")]
    rows.insert(0, {"prompt": "a mistyped row, the first", "wnat": "a"})
    wants = "wants ['want'] beside the prompt, as in most rows."
    with pytest.raises(ValueError) as found:
        as_prompts(rows)
    place = "the row 'a mistyped row, the first …'"
    assert str(found.value) == f"prompts: got columns ['wnat'] in {place}, {wants}"
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, rows[::-1])
    with pytest.raises(ValueError) as found:
        read_prompts(path)
    assert str(found.value) == f"prompts: got columns ['wnat'] in line 4 of {path}, {wants}"


def test_a_conversation_needs_a_template_and_its_own_column(chatty):
    with pytest.raises(ValueError, match="tokenizer: got no chat template"):
        as_prompts([TALK], load_tokenizer("data/sft"))
    with pytest.raises(ValueError, match="prompts: got messages, wants a tokenizer"):
        as_prompts([TALK])
    with pytest.raises(ValueError, match="columns of prompts: got 'messages'"):
        as_prompts([{"prompt": TALK, "messages": "mine"}], chatty)


def test_a_reward_gets_the_messages_and_the_completion_without_the_template(config, chatty):
    seen = []

    def reward(prompts, completions, messages, solution):
        seen.extend(zip(prompts, completions, messages, solution, strict=True))
        return [float(len(c)) for c in completions]

    models = replace(tiny_models(reward=reward), tokenizer=chatty)
    state = start_run(config, models, prompts=[{"prompt": TALK, "solution": "hot"}])
    list(train_rlhf_loop(state=state))
    assert seen and all(row[2:] == (TALK, "hot") for row in seen)
    assert all(p == "system be brief . user the soup . it" and p not in c for p, c, *_ in seen)


def test_prompts_are_read_from_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"prompt": "a"}, {"prompt": TALK}])
    assert [row["prompt"] for row in read_prompts(path)] == ["a", TALK]
    path.write_text("")
    with pytest.raises(ValueError, match="prompts: got no row"):
        read_prompts(path)
    path.write_text('{"question": 1}\n')
    with pytest.raises(FileProblem, match="lacks"):
        read_prompts(path)


# --- several rewards ------------------------------------------------------------------------------


def brevity(completions, **columns):
    return [-float(len(c)) for c in completions]


TEXTS = [SampledText(f"a {c}", Prompt("a"), c) for c in ("b", "b c", "b c d")]


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=2))
def test_the_sum_is_linear_in_its_weights(weights):
    total = RewardSum([length_reward, brevity], weights)
    one, other = score_texts(length_reward, TEXTS), score_texts(brevity, TEXTS)
    expected = weights[0] * one + weights[1] * other
    assert torch.allclose(score_texts(total, TEXTS), expected, atol=1e-5)


def test_a_run_records_each_reward_beside_the_sum(config):
    total = RewardSum([length_reward, brevity], [1.0, 0.5])
    models = tiny_models(reward=total)
    (record, *_) = train_rlhf_loop(config, models, prompts=["the soup"], measures=total.measures())
    parts = record["reward_length_reward"] + 0.5 * record["reward_brevity"]
    assert record["score"] == pytest.approx(parts, abs=1e-4)


def test_rewards_of_one_name_are_told_apart():
    total = RewardSum([length_reward, length_reward])
    assert list(total.measures()) == ["reward_length_reward", "reward_length_reward_2"]
    assert total.weights == [1.0, 1.0]


# --- preference rows ------------------------------------------------------------------------------

GOOD, BAD = "warm and fresh", "cold"


def said(role: str, text: str) -> dict:
    return {"role": role, "content": text}


def test_all_forms_of_a_preference_become_the_same_texts(chatty):
    asked = [said("user", "how was the soup")]
    sides = {"chosen": [said("assistant", GOOD)], "rejected": [said("assistant", BAD)]}
    with_prompt = {"prompt": asked} | sides
    without = {side: asked + answer for side, answer in sides.items()}
    as_text = {"prompt": chat_text(chatty, asked), "chosen": GOOD, "rejected": BAD}
    mixed = {"prompt": asked, "chosen": GOOD, "rejected": BAD}
    assert as_pairs([with_prompt, without, as_text, mixed], chatty) == [as_text] * 4
    (plain,) = as_pairs([with_prompt], chatty, plain=True)
    ids = chatty(as_text["prompt"])["input_ids"]
    assert plain["prompt"] == chatty.decode(ids, skip_special_tokens=True)


def test_texts_without_a_prompt_are_parted_where_they_differ():
    row = {"chosen": f"the soup was {GOOD}", "rejected": f"the soup was {BAD}"}
    assert as_pairs([row]) == [{"prompt": "the soup was", "chosen": GOOD, "rejected": BAD}]
    half = {"chosen": "the soups were", "rejected": "the soup was"}  # no word is cut
    assert as_pairs([half]) == [{"prompt": "the", "chosen": "soups were", "rejected": "soup was"}]


LETTERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)


@given(LETTERS, LETTERS)
def test_nothing_of_two_texts_is_lost(one, other):
    chosen, rejected = " ".join(one), " ".join(other)
    row = {"chosen": chosen, "rejected": rejected}
    is_part = one[: len(other)] == other or other[: len(one)] == one
    if one[0] != other[0] or is_part:
        with pytest.raises(ValueError, match="pairs: got"):
            as_pairs([row])
        return
    (pair,) = as_pairs([row])
    for side, text in row.items():
        assert f"{pair['prompt']} {pair[side]}" == text
    assert pair["chosen"].split()[0] != pair["rejected"].split()[0]


def test_rows_of_texts_stay_as_they_are_and_others_are_left_to_the_check():
    rows = [{"prompt": "a", "chosen": "b", "rejected": "c", "judge": "me"}, {"prompt": "a"}]
    assert as_pairs(rows) == rows


def test_a_space_is_not_added_after_a_chat_s_new_line():
    assert join("assistant\n", "fine") == "assistant\nfine" and join("a", "b") == "a b"
