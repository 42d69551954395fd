"""Prompts of a run: texts, rows with other columns, or conversations; all become texts.

A conversation is a list of messages, `[{"role": "user", "content": "..."}]`. The tokenizer's chat
template turns it into one text that ends where the model's answer begins. Its messages reach the
reward as a column named `messages`, beside the row's other columns.
"""

import json
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

    FileProblem: missing, damaged, a row without `prompt`. ValueError: no row.
    """
    rows = read_jsonl(path, ("prompt",))
    require(len(rows) > 0, "prompts", f"no row in {path}", "at least one")
    return rows


def as_prompts(
    rows: list[str | dict | Messages], tokenizer: PreTrainedTokenizerBase | None = None
) -> list[str]:
    """Prompts as texts; those of rows carry the row's other columns. Anything else is left as it is.

    Conversations need the `tokenizer`, for its chat template. ValueError: a row without a text or
    messages under `prompt`, other columns than the first one's, a column that JSON (a checkpoint)
    cannot hold, a conversation without a template.
    """
    plain = not isinstance(rows, (list, tuple)) or not any(
        isinstance(r, (dict, list)) for r in rows
    )
    if plain:
        return rows
    prompts = [_as_prompt(row, tokenizer) for row in rows]
    names = prompts[0].columns.keys()
    other = [sorted(p.columns) for p in prompts if p.columns.keys() != names]
    require(not other, "prompts", f"columns {other[:1]}", f"{sorted(names)} in every row")
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
