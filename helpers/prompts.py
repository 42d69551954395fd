"""Prompts of a run: texts, rows with other columns, or conversations; preference rows; all become texts.

A conversation is a list of messages, `[{"role": "user", "content": "..."}]`. The tokenizer's chat
template turns it into one text that ends where the model's answer begins. Its messages reach the
reward as a column named `messages`, beside the row's other columns.
"""

import json
from collections import Counter
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from helpers.tools.files import read_jsonl
from helpers.tools.validate import require

RESERVED = {"prompts", "completions"}  # a reward's own arguments
MESSAGES = "messages"  # the column of a conversation
Messages = list[dict[str, str]]


class Prompt(str):
    """A prompt's text, and beside it the other columns of its row, for a reward that wants them."""

    def __new__(cls, text: str, columns: dict | None = None):
        prompt = super().__new__(cls, text)
        prompt.columns = columns or {}
        return prompt


def read_prompts(path: Path) -> list[dict]:
    """Prompts from a JSON Lines file: a row each, with a text or messages under `prompt`.

    FileProblem: missing, damaged, a row without `prompt`. ValueError: no row, a row with other columns.
    """
    rows = read_jsonl(path, ("prompt",))
    require(len(rows) > 0, "prompts", f"no row in {path}", "at least one")
    _require_same_columns(rows, [f"line {number} of {path}" for number in range(1, len(rows) + 1)])
    return rows


def _require_same_columns(rows: list[dict], places: list[str]) -> None:
    """Require the columns of most rows in each; the first that has others is named by its place."""
    names = [sorted(set(row) - {"prompt"}) for row in rows]
    usual = Counter(map(tuple, names)).most_common(1)[0][0]
    others = [(n, place) for n, place in zip(names, places, strict=True) if tuple(n) != usual]
    got = "columns {} in {}".format(*others[0]) if others else ""
    require(not others, "prompts", got, f"{list(usual)} beside the prompt, as in most rows")


def as_prompts(
    rows: list[str | dict | Messages], tokenizer: PreTrainedTokenizerBase | None = None
) -> list[str]:
    """Prompts as texts; those of rows carry the row's other columns. Anything else is left as it is.

    Conversations need the `tokenizer`, for its chat template. ValueError: a row without a text or
    messages under `prompt`, other columns than most rows', a column that JSON (a checkpoint) cannot
    hold, a conversation without a template.
    """
    plain = not isinstance(rows, (list, tuple)) or not any(
        isinstance(r, (dict, list)) for r in rows
    )
    if plain:
        return rows
    prompts = [_as_prompt(row, tokenizer) for row in rows]
    places = [f"the row {prompt[:30] + ' …'!r}" for prompt in prompts]
    _require_same_columns([prompt.columns for prompt in prompts], places)
    return prompts


def _as_prompt(row: str | dict | Messages, tokenizer: PreTrainedTokenizerBase | None) -> Prompt:
    """One row as a prompt."""
    given = row.get("prompt") if isinstance(row, dict) else row
    wants = "rows with a text or messages under 'prompt'"
    talk = isinstance(given, list) and all(isinstance(message, dict) for message in given)
    require(isinstance(given, str) or talk, "prompts", repr(row)[:60], wants)
    row = row if isinstance(row, dict) else {}
    columns = {name: value for name, value in row.items() if name != "prompt"}
    for name, value in columns.items():
        fits = isinstance(name, str) and name not in RESERVED and _survives_json(value)
        got = f"{name!r}: {repr(value)[:60]}"
        wants = "texts, numbers, lists and dicts, under names other than prompts and completions"
        require(fits, "columns of prompts", got, wants)
    if isinstance(given, str):
        return Prompt(given, columns)
    require(MESSAGES not in columns, "columns of prompts", repr(MESSAGES), "another name")
    require(tokenizer is not None, "prompts", "messages", "a tokenizer, for its chat template")
    return Prompt(chat_text(tokenizer, given), columns | {MESSAGES: given})


def _survives_json(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def as_rows(prompts: list[str]) -> list[str | dict]:
    """The inverse of `as_prompts`: a row for a prompt with columns, a text for one without.

    A conversation stays the text that it became, with its messages as a column.
    """
    return [
        {"prompt": str(prompt)} | prompt.columns if getattr(prompt, "columns", {}) else prompt
        for prompt in prompts
    ]


def require_messages(messages: Messages) -> None:
    """Require a conversation that ends with what the model is to answer."""
    roles = [
        message.get("role")
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("content"), str)
    ]
    whole = len(roles) == len(messages) > 0 and all(isinstance(role, str) for role in roles)
    require(whole, "messages", repr(messages)[:60], "dicts with texts under 'role' and 'content'")
    require(roles[-1] != "assistant", "messages", "an assistant's at the end", "a user's there")


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Messages) -> str:
    """The conversation in the tokenizer's chat template, up to where the answer begins.

    A BOS that the template writes is left out where the tokenizer adds one itself, or the model would
    read it twice. ValueError: messages in another form, no chat template.
    """
    require_messages(messages)
    has_one = bool(tokenizer.chat_template)
    require(
        has_one, "tokenizer", "no chat template", "prompts as texts, or a chat model's tokenizer"
    )
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    bos = tokenizer.bos_token
    adds_bos = bos is not None and tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    return text.removeprefix(bos) if adds_bos else text


# --- preference rows ------------------------------------------------------------------------------

SIDES = ("chosen", "rejected")


def as_pairs(
    rows: list[dict], tokenizer: PreTrainedTokenizerBase | None = None, plain: bool = False
) -> list[dict]:
    """Preference rows in any usual form → `{prompt, chosen, rejected}` texts; text rows stay as they are.

    The answers are texts or messages, also after a conversation. Without a `prompt`, it is what both
    begin with. Conversations need the `tokenizer`; with `plain` their prompts are without the template's
    special tokens, as a reward sees texts. ValueError: answers of two kinds, with nothing in common or no
    difference, or that are not one message of the assistant.
    """
    return [_as_pair(row, tokenizer, plain) for row in rows]


def _as_pair(row: dict, tokenizer: PreTrainedTokenizerBase | None, plain: bool) -> dict:
    answers = [row.get(side) for side in SIDES]
    texts = all(isinstance(answer, str) for answer in answers)
    if texts and isinstance(row.get("prompt"), list):
        answers = [[{"role": "assistant", "content": answer}] for answer in answers]
        row = row | dict(zip(SIDES, answers, strict=True))
    if all(isinstance(answer, list) for answer in answers):
        return _as_text_pair(row, tokenizer, plain)
    if "prompt" in row or not texts:  # complete, or to be named as no pair by `data.check_pairs`
        return row
    shared = _shared(*(answer.split(" ") for answer in answers))
    prompt = " ".join(answers[0].split(" ")[:shared])
    endings = [answer[len(prompt) :].lstrip(" ") for answer in answers]
    return row | _parted(prompt, endings)


def _as_text_pair(row: dict, tokenizer: PreTrainedTokenizerBase | None, plain: bool) -> dict:
    """A pair of conversations as texts."""
    answers = [row[side] for side in SIDES]
    asked = row.get("prompt")
    if asked is None:
        shared = _shared(*answers)
        asked, answers = answers[0][:shared], [answer[shared:] for answer in answers]
    for answer in answers:
        one = len(answer) == 1 and isinstance(answer[0], dict)
        alone = one and answer[0].get("role") == "assistant"
        alone = alone and isinstance(answer[0].get("content"), str)
        require(alone, "chosen, rejected", repr(answer)[:60], "one message of the assistant each")
    require(tokenizer is not None, "pairs", "messages", "a tokenizer, for its chat template")
    prompt = asked if isinstance(asked, str) else chat_text(tokenizer, asked)
    if plain:
        prompt = tokenizer.decode(tokenizer(prompt)["input_ids"], skip_special_tokens=True)
    return row | _parted(prompt, [answer[0]["content"] for answer in answers])


def _shared(one: list, other: list) -> int:
    """How many elements both lists begin with."""
    both = zip(one, other, strict=False)
    return next((k for k, (a, b) in enumerate(both) if a != b), min(len(one), len(other)))


def _parted(prompt: str, endings: list[str]) -> dict:
    wants = "two answers that begin alike and end differently, or a prompt"
    got = repr(prompt + " …")[:60] if prompt else "answers with nothing in common"
    require(bool(prompt) and all(endings) and endings[0] != endings[1], "pairs", got, wants)
    return {"prompt": prompt} | dict(zip(SIDES, endings, strict=True))
