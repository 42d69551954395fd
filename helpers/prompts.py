"""Prompts of a run: texts, rows with other columns, or conversations; all become texts.

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
    listed = isinstance(rows, (list, tuple))
    if not listed or not any(isinstance(row, (dict, list)) for row in rows):
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


def last_message(prompt: str) -> str:
    """A prompt as a reader wants it: of a conversation the last message alone, else its text."""
    messages = getattr(prompt, "columns", {}).get(MESSAGES)
    return messages[-1]["content"] if messages else str(prompt)


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
    parts = [part for part in messages if isinstance(part, dict)]
    roles = [part.get("role") for part in parts if isinstance(part.get("content"), str)]
    whole = len(roles) == len(messages) > 0 and all(isinstance(role, str) for role in roles)
    require(whole, "messages", repr(messages)[:60], "dicts with texts under 'role' and 'content'")
    require(roles[-1] != "assistant", "messages", "an assistant's at the end", "a user's there")


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Messages) -> str:
    """The conversation in the tokenizer's chat template, up to where the answer begins.

    A BOS that the template writes is left out where the tokenizer adds one itself, or the model would
    read it twice. ValueError: messages in another form, no chat template.
    """
    require_messages(messages)
    wants = "prompts as texts, or a chat model's tokenizer"
    require(bool(tokenizer.chat_template), "tokenizer", "no chat template", wants)
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    bos = tokenizer.bos_token
    adds_bos = bos is not None and tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    return text.removeprefix(bos) if adds_bos else text
